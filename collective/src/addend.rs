//! What a member adds to the sum.

/// The integers of one member. They may be made when they are asked for, so that a caller keeps its f32 values only.
///
/// Each place is asked for once. No integer is beyond `magnitude_max` of the [`RingPlace`](crate::RingPlace).
pub trait Addend: Sync {
    /// Number of values, the same for all members.
    fn values(&self) -> u32;

    /// Writes the integers of the places `first..first + integers.len()`.
    fn integers(&self, first: usize, integers: &mut [i64]);
}

/// Integers that are there already.
impl Addend for Vec<i64> {
    fn values(&self) -> u32 {
        u32::try_from(self.len()).expect("a model has at most 2^32 - 1 parameters")
    }

    fn integers(&self, first: usize, integers: &mut [i64]) {
        integers.copy_from_slice(&self[first..first + integers.len()]);
    }
}
