//! One module for each codec, with its client half and its server half.
//!
//! Dense codecs ([`plain`], [`blocks`]) write tensors per parameter, which any reader of safetensors understands. The
//! others write one frame of [sections](super::frame) for the whole delta: at a fraction of a bit per value, the names
//! and shapes of a small model's tensors would take more bytes than its values.

pub(super) mod blocks;
pub(super) mod dgc;
pub(super) mod eden;
pub(super) mod hierarchical;
pub(super) mod nearest;
pub(super) mod plain;
mod properties;
pub(super) mod qsgd;
pub(super) mod random_k;
mod settings;
pub(super) mod sign;
pub(super) mod sparse;
pub(super) mod ternary;
pub(super) mod top_k;

pub use blocks::Blocks;
pub use dgc::Dgc;
pub use eden::Eden;
pub use hierarchical::Hierarchical;
pub use properties::Properties;
pub use qsgd::Qsgd;
pub use random_k::RandomK;
pub use settings::RESIDUAL_AGE_ROUNDS_MAX;
pub use sparse::SparseValues;
pub use ternary::Ternary;
pub use top_k::TopK;
