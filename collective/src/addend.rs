//! What a member adds to the sum.

use tributary_protocol::fixed::{Weight, quantise};

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

/// An update times its weight: the integers that the coordinator would add.
#[derive(Clone, Copy, Debug)]
pub struct Weighted<'a> {
    values: &'a [f32],
    factor: f64,
}

impl<'a> Weighted<'a> {
    /// The update with these values and this weight, in a sum of so many binary places.
    pub fn new(values: &'a [f32], weight: Weight, binary_point: u32) -> Self {
        Self { values, factor: weight.factor(binary_point) }
    }
}

impl Addend for Weighted<'_> {
    fn values(&self) -> u32 {
        u32::try_from(self.values.len()).expect("a model has at most 2^32 - 1 parameters")
    }

    fn integers(&self, first: usize, integers: &mut [i64]) {
        for (integer, value) in integers.iter_mut().zip(&self.values[first..]) {
            *integer = quantise(f64::from(*value) * self.factor);
        }
    }
}
