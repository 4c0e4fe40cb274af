//! One file for each codec, with its client half and its server half.
//!
//! Dense codecs ([`plain`], [`blocks`]) write tensors per parameter that any reader of safetensors understands. The others
//! write one frame of [sections](super::frame) for the whole delta: for a small model and a fraction of a bit per value,
//! the names and shapes of a dozen tensors would be longer than the values.

pub(super) mod blocks;
pub(super) mod dgc;
pub(super) mod eden;
pub(super) mod nearest;
pub(super) mod plain;
pub(super) mod qsgd;
pub(super) mod random_k;
pub(super) mod sign;
pub(super) mod sparse;
pub(super) mod ternary;
pub(super) mod top_k;

pub use blocks::Blocks;
pub use dgc::Dgc;
pub use eden::Eden;
pub use qsgd::Qsgd;
pub use random_k::RandomK;
pub use sparse::SparseValues;
pub use ternary::Ternary;
pub use top_k::TopK;

/// A setting that makes no sense: its name, and what it may be.
pub(super) type BadSetting = (&'static str, &'static str);
