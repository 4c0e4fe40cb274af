//! Bytes on the wire.

use serde::{Deserialize, Serialize};

/// Bytes of bodies that were sent, those of broken attempts included, and what the same content takes as plain f32
/// safetensors files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Traffic {
    /// Bytes that clients uploaded: bodies of reports, including interrupted and refused ones.
    pub bytes_up: u64,
    /// Bytes that clients downloaded: bodies of models.
    pub bytes_down: u64,
    /// Bytes of the accepted reports if they were plain f32 files.
    #[serde(default)]
    pub raw_bytes_up: u64,
    /// Bytes of the downloaded models if they were plain f32 files.
    #[serde(default)]
    pub raw_bytes_down: u64,
}

impl std::ops::AddAssign for Traffic {
    fn add_assign(&mut self, more: Self) {
        self.bytes_up += more.bytes_up;
        self.bytes_down += more.bytes_down;
        self.raw_bytes_up += more.raw_bytes_up;
        self.raw_bytes_down += more.raw_bytes_down;
    }
}
