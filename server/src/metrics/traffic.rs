//! Bytes on the wire.

/// Bytes of bodies that were received and sent, those of broken attempts included, and what the same content takes as
/// plain f32 safetensors files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes of received bodies.
    pub bytes_up: u64,
    /// Bytes of sent models.
    pub bytes_down: u64,
    /// Bytes of the accepted report as a plain file.
    pub raw_bytes_up: u64,
    /// Bytes of the models as plain files.
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
