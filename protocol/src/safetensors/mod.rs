//! Safetensors files: a writer, and a streaming reader for untrusted files.
//!
//! The format (<https://huggingface.co/docs/safetensors>): eight bytes with the header's length (little-endian), the
//! header as a JSON object `name -> {dtype, shape, data_offsets}` with an optional `__metadata__` of strings, then the
//! tensors' values, little-endian and row by row, without holes. The crate `safetensors` needs a whole file in memory
//! and accepts duplicate names; this reader checks a file as it arrives, in pieces of any size.
//!
//! | item | purpose |
//! |---|---|
//! | [`write()`] | writes tensors to a file; the same tensors give the same bytes |
//! | [`Header`] | the checked header of a file |
//! | [`Decoder`], [`Sink`] | decode a file that comes in pieces to blocks of elements |
//! | [`match_tensors`] | checks that a file has the expected tensors |
//! | [`model_to_bytes`], [`model_from_bytes`] | whole models |
//! | [`model_file_beginning`], [`ModelDecoder`] | write and read models without holding them in memory |

mod decoder;
mod header;
mod layout;
mod model_file;
mod writer;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use decoder::{Decoder, Sink};
pub use header::{Header, TensorInfo};
pub(crate) use layout::tensor_per_parameter;
pub use layout::{LayoutError, TensorSpec, match_tensors};
pub(crate) use model_file::f32_file;
pub use model_file::{
    ModelDecoder, ModelFileError, model_file_beginning, model_from_bytes, model_metadata, model_to_bytes,
    model_with_metadata,
};
pub(crate) use writer::beginning_of;
pub use writer::{Data, Tensor, write};

/// Longest header of a file, in bytes. The largest [`crate::model::ParameterList`] needs 12 MiB.
pub const HEADER_BYTES_MAX: u64 = 16 << 20;

/// Bytes of the header's length at the beginning of a file.
const PREFIX_BYTES: usize = 8;

/// The key of the header that is not the name of a tensor.
const METADATA_KEY: &str = "__metadata__";

/// Type of a tensor's elements, with the names of the format.
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
    /// Size of an element in bytes: 1, 2, 4 or 8.
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

/// A file that is not a valid safetensors file. Names in messages are shortened, since the sender of the file chose
/// them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SafetensorsError {
    /// The header exceeds its limit.
    #[error("the file's header of {got} bytes is longer than the {limit} allowed")]
    HeaderTooLong {
        /// Length of the header according to the file.
        got: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The header is not JSON of the expected form.
    #[error("the file's header cannot be read: {0}")]
    BadHeader(String),
    /// A name is empty or too long.
    #[error("{0:?} cannot be a tensor's name")]
    BadName(String),
    /// Two tensors or two entries of the metadata have the same name.
    #[error("{0:?} is in the header twice")]
    DuplicateName(String),
    /// A shape has too many dimensions or elements.
    #[error("tensor {0:?} has an impossible shape")]
    BadShape(String),
    /// The offsets of a tensor do not span the bytes that shape and dtype need.
    #[error("tensor {tensor:?} needs {expected} bytes but its offsets are {begin} to {end}")]
    WrongSpan {
        /// The tensor's name.
        tensor: String,
        /// Bytes that shape and dtype need.
        expected: u64,
        /// Its first offset.
        begin: u64,
        /// Its second offset.
        end: u64,
    },
    /// There is a hole before the tensor, or it overlaps the one before it.
    #[error("tensor {tensor:?} begins at byte {begin} of the data, but the one before it ends at {expected}")]
    NotContiguous {
        /// The tensor's name.
        tensor: String,
        /// Where it begins, according to the header.
        begin: u64,
        /// Where the tensor before it ends.
        expected: u64,
    },
    /// The file ends within its header.
    #[error("the file ends within its header")]
    TruncatedHeader,
    /// The file ends within its data.
    #[error("the file is truncated: {missing_bytes} bytes are missing")]
    Truncated {
        /// Number of missing bytes of data.
        missing_bytes: u64,
    },
    /// Bytes follow the last tensor.
    #[error("bytes follow the last tensor of the file")]
    TrailingBytes,
    /// The decoder was used again after an error.
    #[error("the file was already refused")]
    AlreadyFailed,
}

/// The beginning of an untrusted text, for an error.
pub(crate) fn shortened(text: &str) -> String {
    const LETTERS_MAX: usize = 100;
    match text.char_indices().nth(LETTERS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}
