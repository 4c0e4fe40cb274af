//! What sparse codecs share: choosing the largest, gaps as Rice codes, values in few bits.

use serde::{Deserialize, Serialize};

/// How the values of a sparse codec are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SparseValues {
    /// Half precision.
    #[default]
    F16,
    /// 8-bit numbers and a scale.
    Int8,
    /// Signs and one magnitude.
    Sign,
}
