//! Images in folders, one for each class: PNG and JPEG files, resized to one size.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use image::imageops::FilterType;
use image::{DynamicImage, ImageReader, Limits};
use tributary_client::examples::{ExamplesError, MemoryExamples, Targets};
use tributary_protocol::text::visible;

use crate::error::{CliError, Failure};
use crate::table::LabelMap;

/// Largest width and height of a file, in pixels. A small file may claim to be huge.
const SIDE_MAX: u32 = 20_000;
/// Most bytes of one decoded file.
const DECODED_MAX: u64 = 512 << 20;

/// Why a folder of images cannot be read.
#[derive(Debug, thiserror::Error)]
enum FolderError {
    #[error("{}: there is no folder of a class in it", .0.display())]
    NoClasses(PathBuf),
    #[error("{}: there is no .png, .jpg or .jpeg file in it", .0.display())]
    NoImages(PathBuf),
    #[error("{}: {label:?} is not among the labels {known}", folder.display())]
    UnknownLabel { folder: PathBuf, label: String, known: LabelMap },
    #[error("{}: {problem}", file.display())]
    Image { file: PathBuf, problem: String },
    #[error(transparent)]
    Examples(#[from] ExamplesError),
}

impl Failure for FolderError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoClasses(_) => "each class has a folder in it: animals/cat/1.png, animals/dog/1.jpg",
            Self::UnknownLabel { .. } => {
                "--label-map names all labels, in the same order at all clients: --label-map cat,dog"
            }
            _ => return None,
        };
        Some(hint.into())
    }
}

/// Reads all images into memory, 4 bytes a value. An input has the shape `[channels, height, width]` and values from 0
/// to 1; `size` is height and width. A gray input has one channel instead of red, green and blue. The labels are the
/// names of the folders in alphabetical order, unless they are given.
pub(crate) fn read(
    folder: &Path,
    size: [u32; 2],
    is_gray: bool,
    labels: Option<LabelMap>,
) -> Result<(MemoryExamples, LabelMap), CliError> {
    let classes = entries(folder, Path::is_dir)?;
    if classes.is_empty() {
        return Err(FolderError::NoClasses(folder.to_owned()).into());
    }
    let names: Vec<String> = classes.iter().map(|class| name(class)).collect();
    let labels = labels.unwrap_or_else(|| LabelMap::in_order(&names));
    let (mut inputs, mut targets) = (Vec::new(), Vec::new());
    for (class, name) in classes.iter().zip(names) {
        let unknown =
            || FolderError::UnknownLabel { folder: folder.to_owned(), label: name.clone(), known: labels.clone() };
        let number = labels.class(&name).ok_or_else(unknown)?;
        for file in entries(class, is_image)? {
            let image = decoded(&file).map_err(|problem| FolderError::Image { file: file.clone(), problem })?;
            push(&image, size, is_gray, &mut inputs);
            targets.push(number);
        }
    }
    if targets.is_empty() {
        return Err(FolderError::NoImages(folder.to_owned()).into());
    }
    let shape = vec![if is_gray { 1 } else { 3 }, size[0] as usize, size[1] as usize];
    let examples = MemoryExamples::new(shape, inputs, Targets::Classes(targets)).map_err(FolderError::from)?;
    Ok((examples, labels))
}

/// What lies in a folder, in the order of its names, so that every run has the same order of examples. Hidden files and
/// folders are left out.
fn entries(folder: &Path, is_wanted: impl Fn(&Path) -> bool) -> Result<BTreeSet<PathBuf>, CliError> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).map_err(CliError::file("read", folder))? {
        let path = entry.map_err(CliError::file("read", folder))?.path();
        if is_wanted(&path) && !name(&path).starts_with('.') {
            found.insert(path);
        }
    }
    Ok(found)
}

fn name(path: &Path) -> String {
    visible(&path.file_name().unwrap_or_default().to_string_lossy())
}

fn is_image(path: &Path) -> bool {
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    path.is_file() && matches!(extension.as_deref(), Some("png" | "jpg" | "jpeg"))
}

fn decoded(file: &Path) -> Result<DynamicImage, String> {
    let mut reader = ImageReader::open(file).map_err(|error| error.to_string())?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(SIDE_MAX);
    limits.max_image_height = Some(SIDE_MAX);
    limits.max_alloc = Some(DECODED_MAX);
    reader.limits(limits);
    // The name may lie about the format.
    let reader = reader.with_guessed_format().map_err(|error| error.to_string())?;
    reader.decode().map_err(|error| error.to_string())
}

/// Adds the values of an image, channel by channel.
fn push(image: &DynamicImage, [height, width]: [u32; 2], is_gray: bool, inputs: &mut Vec<f32>) {
    let fits = (image.height(), image.width()) == (height, width);
    let resized = (!fits).then(|| image.resize_exact(width, height, FilterType::Triangle));
    let image = resized.as_ref().unwrap_or(image);
    if is_gray {
        inputs.extend(image.to_luma8().pixels().map(|pixel| value(pixel.0[0])));
        return;
    }
    let pixels = image.to_rgb8();
    for channel in 0..3 {
        inputs.extend(pixels.pixels().map(|pixel| value(pixel.0[channel])));
    }
}

fn value(level: u8) -> f32 {
    f32::from(level) / 255.0
}

#[cfg(test)]
mod tests {
    use image::{Rgb, RgbImage};
    use tributary_client::examples::Examples;

    use super::*;

    const SIZE: [u32; 2] = [1, 2];

    fn save(folder: &Path, file: &str, pixels: [[u8; 3]; 2]) {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        RgbImage::from_fn(2, 1, |x, _| Rgb(pixels[x as usize])).save(path).unwrap();
    }

    #[test]
    fn folders_are_classes_and_channels_come_one_after_the_other() {
        let folder = tempfile::tempdir().unwrap();
        save(folder.path(), "dog/b.png", [[255, 0, 51], [0, 255, 0]]);
        save(folder.path(), "dog/a.PNG", [[0, 0, 0], [0, 0, 0]]);
        save(folder.path(), "cat/1.jpeg", [[255, 255, 255], [255, 255, 255]]);
        fs::write(folder.path().join("dog/notes.txt"), "not an image").unwrap();
        fs::create_dir(folder.path().join(".cache")).unwrap();
        let (examples, labels) = read(folder.path(), SIZE, false, None).unwrap();
        assert_eq!((labels.to_string(), examples.input_shape()), ("cat = 0, dog = 1".to_owned(), &[3, 1, 2][..]));
        let batch = examples.batch(&[0, 1, 2]).unwrap();
        assert_eq!(batch.targets, Targets::Classes(vec![0, 1, 1]));
        let expected = [[1.0; 6], [0.0; 6], [1.0, 0.0, 0.0, 1.0, 0.2, 0.0]].concat();
        assert_eq!(batch.inputs, expected);
    }

    #[test]
    fn images_are_resized_and_may_be_gray() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one/1.png");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        RgbImage::from_pixel(9, 5, Rgb([51, 51, 51])).save(path).unwrap();
        let (examples, _) = read(folder.path(), [2, 3], true, None).unwrap();
        assert_eq!(examples.input_shape(), [1, 2, 3]);
        assert_eq!(examples.batch(&[0]).unwrap().inputs, [0.2; 6]);
    }

    #[test]
    fn mistakes_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |labels| read(folder.path(), SIZE, false, labels).expect_err("must be refused").to_string();
        assert!(refused(None).ends_with("there is no folder of a class in it"));
        fs::create_dir(folder.path().join("dog")).unwrap();
        assert!(refused(None).ends_with("there is no .png, .jpg or .jpeg file in it"));
        assert!(refused(Some(LabelMap::new(vec!["cat".into()]))).ends_with("\"dog\" is not among the labels cat = 0"));
        let path = folder.path().join("dog/1.png");
        save(folder.path(), "dog/1.png", [[1; 3]; 2]);
        let whole = fs::read(&path).unwrap();
        for bytes in [&whole[..whole.len() / 2], b"GIF89a", b""] {
            fs::write(&path, bytes).unwrap();
            assert!(refused(None).contains("dog/1.png: "), "{}", refused(None));
        }
    }
}
