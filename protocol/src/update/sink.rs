//! The receiver of a decoded delta.

/// Most values that a decoder hands out at once: 4 KiB of f32, which stay in the first-level cache between decoder and
/// receiver.
pub(super) const BLOCK_VALUES_MAX: usize = 1024;

/// Receives the values of a delta as they are decoded. Places are indices of the flat vector of all parameters.
pub trait DeltaSink {
    /// Receives the values of the places `first..first + values.len()`.
    fn dense(&mut self, first: usize, values: &[f32]);

    /// Receives the values of the places `first + indices[i]`, which ascend. The values between them are zero.
    fn sparse(&mut self, first: usize, indices: &[u32], values: &[f32]);

    /// Whether the receiver wants no more values, so that decoding may end early.
    fn is_full(&self) -> bool {
        false
    }
}

/// A vector of zeros becomes the delta.
impl DeltaSink for Vec<f32> {
    fn dense(&mut self, first: usize, values: &[f32]) {
        self[first..first + values.len()].copy_from_slice(values);
    }

    fn sparse(&mut self, first: usize, indices: &[u32], values: &[f32]) {
        for (index, value) in indices.iter().zip(values) {
            self[first + *index as usize] = *value;
        }
    }
}
