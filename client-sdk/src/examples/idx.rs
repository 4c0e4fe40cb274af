//! IDX files, the format of MNIST: arrays of bytes after their dimensions, plain or gzipped.
//!
//! Format: <http://yann.lecun.com/exdb/mnist/>. Two zero bytes, the type of the values, the number of dimensions, each
//! dimension as a big-endian u32, then the values row by row. Lengths are not trusted: memory grows with what was read.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use super::contract::{ExamplesError, Targets};
use super::memory::MemoryExamples;

/// Largest number of values in a file, which have one byte each: 1 GiB.
pub const IDX_BYTES_MAX: u64 = 1 << 30;
/// The type code of unsigned bytes, the only type that is read.
const UNSIGNED_BYTE: u8 = 0x08;
/// Largest number of dimensions.
const DIMENSIONS_MAX: u8 = 4;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The content of an IDX file of unsigned bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idx {
    /// Length of each dimension, 1 to 4 of them.
    pub dimensions: Vec<usize>,
    /// The values row by row; as many as the product of the dimensions.
    pub bytes: Vec<u8>,
}

/// The input shape that images get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdxShape {
    /// `[1, height, width]`, for convolutions.
    Image,
    /// `[height * width]`, for linear layers.
    Flat,
}

/// Why a file cannot be read as IDX.
#[derive(Debug, thiserror::Error)]
pub enum IdxError {
    /// Reading or decompressing failed.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// The file does not begin with two zero bytes.
    #[error("is not an IDX file: it begins with {0:02x?}")]
    NotIdx([u8; 4]),
    /// The values have another type than unsigned bytes.
    #[error("holds values of type {0:#04x}; only unsigned bytes (0x08) can be read")]
    OtherType(u8),
    /// There is no dimension or more than 4, one of them is 0, or there are too many values.
    #[error("has the dimensions {0:?}; only 1 to 4 dimensions of at least 1 and 1 GiB in all can be read")]
    BadDimensions(Vec<u64>),
    /// The file ends too early.
    #[error("ends after {got} of {expected} bytes of values")]
    Truncated {
        /// Number of bytes by the dimensions.
        expected: u64,
        /// Number of bytes found.
        got: u64,
    },
    /// There are bytes after the values.
    #[error("has more than its {0} bytes of values")]
    Trailing(u64),
    /// Images must have 3 dimensions, labels 1.
    #[error("{what} have the dimensions {got:?}")]
    OtherDimensions {
        /// `images` or `labels`.
        what: &'static str,
        /// Dimensions of the file.
        got: Vec<usize>,
    },
    /// The number of labels is not the number of images.
    #[error(transparent)]
    Examples(#[from] ExamplesError),
}

/// Reads images, `[count, height, width]`, and their labels, `[count]`. Pixels of 0 to 255 become inputs of 0 to 1.
///
/// # Errors
/// [`IdxError`] if a file cannot be read or they do not belong together.
pub fn read_idx_examples(images: impl Read, labels: impl Read, shape: IdxShape) -> Result<MemoryExamples, IdxError> {
    let images = read_idx(images)?;
    let [_, height, width] = images.dimensions[..] else {
        return Err(IdxError::OtherDimensions { what: "images", got: images.dimensions });
    };
    let labels = read_idx(labels)?;
    if labels.dimensions.len() != 1 {
        return Err(IdxError::OtherDimensions { what: "labels", got: labels.dimensions });
    }
    let input_shape = match shape {
        IdxShape::Image => vec![1, height, width],
        IdxShape::Flat => vec![height * width],
    };
    let examples = images.bytes.len() / (height * width);
    if labels.bytes.len() != examples {
        return Err(ExamplesError::WrongTargets { examples, got: labels.bytes.len() }.into());
    }
    let targets = Targets::Classes(labels.bytes.iter().map(|label| u32::from(*label)).collect());
    Ok(MemoryExamples::from_bytes(input_shape, images.bytes, 255.0, targets)?)
}

/// Reads one file. Its first bytes say whether it is gzipped.
///
/// # Errors
/// [`IdxError`] if it is not a whole IDX file of unsigned bytes.
pub fn read_idx(reader: impl Read) -> Result<Idx, IdxError> {
    let mut reader = BufReader::new(reader);
    if reader.fill_buf()?.starts_with(&GZIP_MAGIC) {
        read_plain(MultiGzDecoder::new(reader))
    } else {
        read_plain(reader)
    }
}

fn read_plain(mut reader: impl Read) -> Result<Idx, IdxError> {
    let mut magic = [0; 4];
    reader.read_exact(&mut magic)?;
    let [0, 0, value_type, dimension_count] = magic else {
        return Err(IdxError::NotIdx(magic));
    };
    if value_type != UNSIGNED_BYTE {
        return Err(IdxError::OtherType(value_type));
    }
    if !(1..=DIMENSIONS_MAX).contains(&dimension_count) {
        return Err(IdxError::BadDimensions(vec![]));
    }
    let mut dimensions = Vec::new();
    for _ in 0..dimension_count {
        let mut length = [0; 4];
        reader.read_exact(&mut length)?;
        dimensions.push(u64::from(u32::from_be_bytes(length)));
    }
    let product = dimensions.iter().try_fold(1u64, |count, length| count.checked_mul(*length));
    let expected = match product {
        Some(bytes) if (1..=IDX_BYTES_MAX).contains(&bytes) => bytes,
        _ => return Err(IdxError::BadDimensions(dimensions)),
    };
    let mut bytes = Vec::new();
    let got = reader.by_ref().take(expected).read_to_end(&mut bytes)? as u64;
    if got < expected {
        return Err(IdxError::Truncated { expected, got });
    }
    if reader.read(&mut [0])? > 0 {
        return Err(IdxError::Trailing(expected));
    }
    Ok(Idx { dimensions: dimensions.into_iter().map(|length| length as usize).collect(), bytes })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::super::contract::Examples;
    use super::*;

    fn file(dimensions: &[u32], values: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, 0, UNSIGNED_BYTE, dimensions.len() as u8];
        bytes.extend(dimensions.iter().flat_map(|length| length.to_be_bytes()));
        bytes.extend(values);
        bytes
    }

    fn gzipped(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn error(bytes: &[u8]) -> IdxError {
        read_idx(bytes).expect_err("must be refused")
    }

    #[test]
    fn plain_and_gzipped_files_give_the_same_examples() {
        let images = file(&[2, 1, 2], &[0, 255, 51, 102]);
        let labels = file(&[2], &[7, 3]);
        for (images, labels) in [(images.clone(), labels.clone()), (gzipped(&images), gzipped(&labels))] {
            let examples = read_idx_examples(&images[..], &labels[..], IdxShape::Image).unwrap();
            assert_eq!(examples.input_shape(), [1, 1, 2]);
            let batch = examples.batch(&[0, 1]).unwrap();
            assert_eq!(batch.inputs, [0.0, 1.0, 0.2, 0.4]);
            assert_eq!(batch.targets, Targets::Classes(vec![7, 3]));
        }
        let flat = read_idx_examples(&images[..], &labels[..], IdxShape::Flat).unwrap();
        assert_eq!(flat.input_shape(), [2]);
    }

    #[test]
    fn files_that_are_no_idx_of_bytes_are_refused() {
        assert!(matches!(error(b""), IdxError::Unreadable(_)));
        assert!(matches!(error(b"\x89PNG...."), IdxError::NotIdx(_)));
        assert!(matches!(error(&[0, 0, 0x0d, 1, 0, 0, 0, 1, 0]), IdxError::OtherType(0x0d)));
        assert!(matches!(error(&file(&[], &[])), IdxError::BadDimensions(_)));
        assert!(matches!(error(&file(&[1; 5], &[0])), IdxError::BadDimensions(_)));
        assert!(matches!(error(&file(&[3, 0], &[])), IdxError::BadDimensions(_)));
        assert!(matches!(error(&file(&[u32::MAX; 4], &[0])), IdxError::BadDimensions(_)));
        assert!(matches!(error(&file(&[3], &[1, 2, 3])[..7]), IdxError::Unreadable(_)));
    }

    #[test]
    fn too_few_and_too_many_bytes_are_refused_without_allocating_what_is_announced() {
        let huge = file(&[1 << 30], &[1, 2]);
        assert!(matches!(error(&huge), IdxError::Truncated { expected: 0x4000_0000, got: 2 }));
        assert!(matches!(error(&file(&[2], &[1, 2, 3])), IdxError::Trailing(2)));
        assert!(matches!(error(&gzipped(&file(&[2], &[1, 2, 3]))), IdxError::Trailing(2)));
        let mut packed = gzipped(&file(&[2], &[1, 2]));
        packed.extend(b"rest");
        assert!(matches!(error(&packed), IdxError::Unreadable(_)));
        packed.truncate(packed.len() - 10);
        assert!(matches!(error(&packed), IdxError::Unreadable(_)));
    }

    #[test]
    fn images_and_labels_must_belong_together() {
        let images = file(&[2, 1, 2], &[0, 255, 51, 102]);
        let examples = |images: &[u8], labels: &[u8]| {
            read_idx_examples(images, labels, IdxShape::Flat).expect_err("must be refused").to_string()
        };
        assert_eq!(examples(&images, &file(&[4], &[1; 4])), "4 targets do not fit 2 examples");
        assert_eq!(examples(&images, &file(&[2, 1], &[1; 2])), "labels have the dimensions [2, 1]");
        assert_eq!(examples(&file(&[2], &[1, 2]), &file(&[2], &[1, 2])), "images have the dimensions [2]");
    }
}
