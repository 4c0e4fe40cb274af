//! MNIST from its four IDX files, gzipped or not; missing ones are downloaded. Every byte is checked against the original
//! distribution, so that an accuracy means what it says.

mod download;

use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use reqwest::Url;
use tributary_client::examples::{IdxError, IdxShape, MemoryExamples, read_idx_examples};
use tributary_protocol::hash::Sha256Hash;

use super::data::DemoData;

/// Where the files are downloaded from unless the user names another place.
pub(crate) const DOWNLOAD_URL: &str = "https://ossci-datasets.s3.amazonaws.com/mnist/";

/// A file of the data set.
#[derive(Clone, Debug)]
pub(crate) struct MnistFile {
    /// Its name without `.gz`.
    pub(crate) name: &'static str,
    /// Its size unpacked.
    pub(crate) bytes: u64,
    /// Its hash unpacked: gzip files of the same content differ by their tools.
    pub(crate) sha256: Sha256Hash,
}

/// The files: images and labels to train on, images and labels to test with.
pub(crate) type MnistFiles = [MnistFile; 4];

/// The original distribution (LeCun, Cortes and Burges). The hashes were computed from files whose MD5 are the published
/// 6bbc9ace898e44ae57da46a324031adb (training images) and 2646ac647ad5339dbf082846283269ea (test images).
pub(crate) fn original_files() -> MnistFiles {
    let file =
        |name, bytes, sha256: &str| MnistFile { name, bytes, sha256: sha256.parse().expect("64 hexadecimal digits") };
    [
        file("train-images-idx3-ubyte", 47_040_016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
        file("train-labels-idx1-ubyte", 60_008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
        file("t10k-images-idx3-ubyte", 7_840_016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
        file("t10k-labels-idx1-ubyte", 10_008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
    ]
}

/// Why MNIST cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MnistError {
    /// The folder is not there and cannot be made.
    #[error("cannot make the folder {}: {source}", path.display())]
    Folder {
        /// Which folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file cannot be read or written, or is no gzip file.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the operating system or the unpacking said.
        source: io::Error,
    },
    /// A file is not the one that it should be.
    #[error("{} is not MNIST's {name}: its unpacked content has the SHA-256 {got} instead of {expected}", path.display())]
    WrongContent {
        /// Which file.
        path: PathBuf,
        /// What it should be.
        name: &'static str,
        /// The original's.
        expected: Sha256Hash,
        /// Of what is there.
        got: Sha256Hash,
    },
    /// A file is missing and cannot be downloaded.
    #[error("cannot download {url}: {cause}")]
    Download {
        /// From where.
        url: String,
        /// What the network or the server said.
        cause: String,
    },
    /// The content is right, but no IDX file.
    #[error("MNIST {0}")]
    Idx(#[from] IdxError),
}

impl MnistError {
    /// What the person at the terminal can do next.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Folder { .. } => "name a folder with --data-dir; only its last part is made when it is missing",
            Self::File { .. } => "--data-dir must be readable, and writable where files are missing",
            Self::WrongContent { .. } => "delete the file, and the next run downloads it again",
            Self::Download { .. } => "put the four files into --data-dir yourself, or name a mirror with --mnist-url",
            Self::Idx(_) => "this is not the original distribution",
        }
    }
}

/// Loads training and test examples from `folder`, after downloading from `base_url` (a folder, too) what is missing.
/// `note` is told of each download.
///
/// # Errors
/// [`MnistError`] names the folder, file or URL.
pub(crate) async fn load(
    folder: &Path,
    base_url: &Url,
    files: &MnistFiles,
    shape: IdxShape,
    note: impl Fn(&str),
) -> Result<DemoData, MnistError> {
    let mut paths = Vec::new();
    for file in files {
        let path = match find(folder, file) {
            Some(path) => path,
            None => download::download(folder, base_url, file, &note).await?,
        };
        paths.push(path);
    }
    let examples = |images: usize, labels: usize| -> Result<MemoryExamples, MnistError> {
        let images = read_checked(&paths[images], &files[images])?;
        let labels = read_checked(&paths[labels], &files[labels])?;
        Ok(read_idx_examples(&images[..], &labels[..], shape)?)
    };
    Ok(DemoData { train: examples(0, 1)?, test: examples(2, 3)? })
}

fn find(folder: &Path, file: &MnistFile) -> Option<PathBuf> {
    [folder.join(file.name), gzipped_path(folder, file)].into_iter().find(|path| path.is_file())
}

fn gzipped_path(folder: &Path, file: &MnistFile) -> PathBuf {
    folder.join(format!("{}.gz", file.name))
}

/// The unpacked content, when it is the original's. Never holds more than its size.
fn read_checked(path: &Path, file: &MnistFile) -> Result<Vec<u8>, MnistError> {
    let failed = |source| MnistError::File { path: path.to_owned(), source };
    let content = unpack(path, file.bytes + 1).map_err(failed)?;
    let got = Sha256Hash::of(&content);
    if got == file.sha256 {
        return Ok(content);
    }
    Err(MnistError::WrongContent { path: path.to_owned(), name: file.name, expected: file.sha256, got })
}

/// The first bytes of a file, unpacked if it begins like a gzip file.
fn unpack(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
    let mut content = Vec::new();
    let mut reader = BufReader::new(std::fs::File::open(path)?);
    if io::BufRead::fill_buf(&mut reader)?.starts_with(&GZIP_MAGIC) {
        MultiGzDecoder::new(reader).take(bytes_max).read_to_end(&mut content)?;
    } else {
        reader.take(bytes_max).read_to_end(&mut content)?;
    }
    Ok(content)
}

#[cfg(test)]
mod tests;
