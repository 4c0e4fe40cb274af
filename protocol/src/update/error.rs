//! Errors of writing and reading updates.

use super::format::FORMAT;
use crate::body::UnpackError;
use crate::safetensors::{LayoutError, SafetensorsError};
use crate::secure::packed::PackedError;

/// A delta that cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum EncodeError {
    /// A NaN or an infinity: training has diverged.
    #[error("value {index} of the delta is not finite")]
    NotFinite {
        /// Index in the flat vector.
        index: usize,
    },
    /// A finite value beyond the range of the codec's numbers.
    #[error("value {index} of the delta is {value}, which is beyond the codec's range")]
    TooLarge {
        /// Index in the flat vector.
        index: usize,
        /// The value itself.
        value: f32,
    },
}

/// A section of a frame that no encoder writes. Sections are described in `frame.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SectionError {
    /// The length is not a LEB128 number, or exceeds what the codec needs for the section's values.
    #[error("its length is impossible")]
    BadLength,
    /// The bytes end before the last value.
    #[error("it ends too early")]
    Truncated,
    /// Bytes follow the last value.
    #[error("it has bytes left over")]
    TrailingBytes,
    /// A scale, norm or value is NaN, infinite, or negative where it must not be.
    #[error("its {0} is not a finite number in range")]
    BadNumber(&'static str),
    /// An index is beyond the section's end, or not above the index before it.
    #[error("an index is out of range")]
    BadIndex,
    /// The section has more values than the codec sends.
    #[error("it has more values than the codec sends")]
    TooMany,
    /// A bit pattern that the codec assigns to no value.
    #[error("it has a code without a meaning")]
    BadCode,
}

/// A file that is not an acceptable update. The message says which check failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum UpdateError {
    /// The body cannot be decompressed.
    #[error(transparent)]
    Body(#[from] UnpackError),
    /// The file is not a safetensors file.
    #[error(transparent)]
    File(#[from] SafetensorsError),
    /// The tensors are not those that the codec writes for this model.
    #[error(transparent)]
    Tensors(#[from] LayoutError),
    /// The body is no masked update of its group.
    #[error(transparent)]
    Masked(#[from] PackedError),
    /// A required entry of the metadata is missing.
    #[error("the update's metadata has no {0:?}")]
    MissingMetadata(&'static str),
    /// The format is not one that this release reads.
    #[error("the update's format is {0:?} instead of {FORMAT:?}")]
    WrongFormat(String),
    /// The codec or its settings are not those of the plan.
    #[error("the update's codec is {got:?} instead of \"{expected}\"")]
    WrongCodec {
        /// The plan's codec, as it is written in metadata.
        expected: String,
        /// The file's codec.
        got: String,
    },
    /// The update belongs to another job.
    #[error("the update is for job {got:?} instead of {expected:?}")]
    WrongJob {
        /// The assignment's job.
        expected: String,
        /// The file's job.
        got: String,
    },
    /// The delta is relative to another model version.
    #[error("the update's base version is {got:?} instead of {expected}")]
    WrongBaseVersion {
        /// The version that the round started from.
        expected: u64,
        /// The file's base version.
        got: String,
    },
    /// The file does not begin with the tag that an update has before its frame.
    #[error("the update does not begin with the tag of codec {codec}, job {job:?} and base version {base_version}")]
    WrongTag {
        /// The plan's codec, as it is written in metadata.
        codec: String,
        /// The assignment's job.
        job: String,
        /// The version that the round started from.
        base_version: u64,
    },
    /// A tensor comes before one that is needed to decode it. A streaming reader cannot go back.
    #[error("tensor {tensor:?} must come after {after:?}, which it needs")]
    OutOfOrder {
        /// The tensor that came too early.
        tensor: String,
        /// The tensor that must precede it.
        after: String,
    },
    /// A scale is NaN, infinite or negative.
    #[error("a scale of tensor {tensor:?} is {scale}")]
    BadScale {
        /// The tensor of scales.
        tensor: String,
        /// The invalid scale.
        scale: f32,
    },
    /// A quantised number that the codec never writes.
    #[error("tensor {tensor:?} has a code without a meaning")]
    BadCode {
        /// The tensor of numbers.
        tensor: String,
    },
    /// A section of the frame is invalid.
    #[error("section {section} of the update: {source}")]
    Section {
        /// Number of the section, from 0.
        section: usize,
        /// The failed check.
        source: SectionError,
    },
    /// A decoded value is NaN or infinite.
    #[error("value {index} of tensor {tensor:?} is not finite")]
    NotFinite {
        /// The parameter's name.
        tensor: String,
        /// Index in the tensor, row by row.
        index: usize,
    },
    /// A decoded value exceeds the job's cap on magnitudes.
    #[error("value {index} of tensor {tensor:?} is {value}, above the largest magnitude of {magnitude_max}")]
    TooLarge {
        /// The parameter's name.
        tensor: String,
        /// Index in the tensor, row by row.
        index: usize,
        /// The value itself.
        value: f32,
        /// The cap.
        magnitude_max: f32,
    },
    /// The L2 norm of the delta exceeds the bound of the round.
    #[error("the norm of the update is {norm}, above the round's largest of {norm_max}")]
    NormTooLarge {
        /// The norm of the decoded delta.
        norm: f64,
        /// The bound.
        norm_max: f64,
    },
}
