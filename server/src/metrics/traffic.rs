//! Bytes on the wire.

/// Bytes of bodies that were received and sent, including interrupted attempts, and the length of the same content as
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
