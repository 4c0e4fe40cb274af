//! Safetensors files: a writer, and a streaming reader that trusts nothing in the file.
//!
//! The format (<https://huggingface.co/docs/safetensors>): eight bytes with the header's length (little-endian), the
//! header as a JSON object `name -> {dtype, shape, data_offsets}` with an optional `__metadata__` of strings, then the
//! tensors' values, little-endian and row by row, without holes. The crate of that name wants a whole file in memory and
//! accepts a name twice; here a file is checked as it arrives, in pieces of any size.
//!
//! | part | what it does |
//! |---|---|
//! | [`write()`] | tensors to a file, byte for byte the same each time |
//! | [`Header`] | the checked table of contents |
//! | [`Decoder`], [`Sink`] | a file in pieces to blocks of values |
//! | [`match_tensors`] | is this file made of the tensors that were expected? |
//! | [`model_to_bytes`], [`model_from_bytes`] | whole models |
//! | [`model_file_beginning`], [`ModelDecoder`] | models that are never whole in memory |

mod decoder;
mod header;
mod layout;
mod model_file;
mod writer;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use decoder::{Decoder, Sink};
pub use header::{Header, TensorInfo};
pub use layout::{LayoutError, TensorSpec, match_tensors};
pub(crate) use model_file::f32_file;
pub use model_file::{
    ModelDecoder, ModelFileError, model_file_beginning, model_from_bytes, model_metadata, model_to_bytes,
};
pub(crate) use writer::beginning_of;
pub use writer::{Data, Tensor, write};

/// Longest header that any file may have, in bytes: the largest [`crate::model::ParameterList`] needs 12 MiB.
pub const HEADER_BYTES_MAX: u64 = 16 << 20;

/// Length in bytes of the number that a file begins with.
const PREFIX_BYTES: usize = 8;

/// The key of the header that names no tensor.
const METADATA_KEY: &str = "__metadata__";

/// What one element of a tensor is, under the names that the format uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "the names are the format's own and say it all")]
pub enum Dtype {
    Bool,
    U8,
    I8,
    #[serde(rename = "F8_E4M3")]
    F8E4M3,
    #[serde(rename = "F8_E5M2")]
    F8E5M2,
    U16,
    I16,
    F16,
    Bf16,
    U32,
    I32,
    F32,
    U64,
    I64,
    F64,
}

impl Dtype {
    /// Bytes of one element: 1, 2, 4 or 8.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Bool | Self::U8 | Self::I8 | Self::F8E4M3 | Self::F8E5M2 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Why bytes are not a safetensors file. Names are shortened, since whoever sent the file chose them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SafetensorsError {
    /// The header is longer than this file may have.
    #[error("the file's header of {got} bytes is longer than the {limit} allowed")]
    HeaderTooLong {
        /// What the file announces.
        got: u64,
        /// What is allowed, in bytes.
        limit: u64,
    },
    /// The header is not JSON of the expected form.
    #[error("the file's header cannot be read: {0}")]
    BadHeader(String),
    /// A name that is empty or too long.
    #[error("{0:?} cannot be a tensor's name")]
    BadName(String),
    /// Two tensors, or two entries of the metadata, of one name.
    #[error("{0:?} is in the header twice")]
    DuplicateName(String),
    /// More dimensions or elements than can be.
    #[error("tensor {0:?} has an impossible shape")]
    BadShape(String),
    /// The offsets span another length than shape and dtype need.
    #[error("tensor {tensor:?} needs {expected} bytes but its offsets are {begin} to {end}")]
    WrongSpan {
        /// The tensor's name.
        tensor: String,
        /// What shape and dtype need, in bytes.
        expected: u64,
        /// Its first offset.
        begin: u64,
        /// Its second offset.
        end: u64,
    },
    /// A hole in front of the tensor, or an overlap with the one before it.
    #[error("tensor {tensor:?} begins at byte {begin} of the data, but the one before it ends at {expected}")]
    NotContiguous {
        /// The tensor's name.
        tensor: String,
        /// Where it begins.
        begin: u64,
        /// Where it should begin.
        expected: u64,
    },
    /// The file ends within its header.
    #[error("the file ends within its header")]
    TruncatedHeader,
    /// The file ends within its data.
    #[error("the file is truncated: {missing_bytes} bytes are missing")]
    Truncated {
        /// How many bytes of data did not come.
        missing_bytes: u64,
    },
    /// Bytes after the last tensor.
    #[error("the file goes on after its last tensor")]
    TrailingBytes,
    /// The decoder was asked to go on after it had failed.
    #[error("the file was refused already")]
    AlreadyFailed,
}

/// What of an untrusted text goes into an error.
pub(crate) fn shortened(text: &str) -> String {
    const LETTERS_MAX: usize = 100;
    match text.char_indices().nth(LETTERS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}
