//! What a member adds to the sum.

use std::sync::OnceLock;

use tributary_protocol::fixed::{Weight, quantise};
use tributary_protocol::group::grid;
use tributary_protocol::seed::Seed;

/// The integers of one member. They may be made when they are asked for, so that a caller keeps its f32 values only.
///
/// Each place is asked for once. No integer is beyond `magnitude_max` of the [`RingPlace`](crate::RingPlace).
pub trait Addend: Sync {
    /// Number of values, the same for all members.
    fn values(&self) -> u32;

    /// Writes the integers of the places `first..first + integers.len()`.
    fn integers(&self, first: usize, integers: &mut [i64]);

    /// The grid of the integers, if members agree on one before they add up.
    fn scale(&self) -> Option<&Scale> {
        None
    }
}

/// The exponents of a [`grid`](tributary_protocol::group::grid), one for each of its blocks: the member's own ones, and
/// then those of all members.
#[derive(Clone, Debug)]
pub struct Scale {
    pub(crate) own: Vec<u8>,
    /// Largest exponent that any member may need.
    pub(crate) most: u8,
    pub(crate) agreed: OnceLock<Vec<u8>>,
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

/// An update times its weight, rounded to the grid of its group.
#[derive(Clone, Debug)]
pub struct Gridded<'a> {
    weighted: Weighted<'a>,
    magnitude_max: u64,
    seed: Seed,
    scale: Scale,
}

impl<'a> Gridded<'a> {
    /// The update as integers of so many bits above the zeros that their block ends with, `magnitude_max` being that of
    /// the [`RingPlace`](crate::RingPlace). The seed says which way they are rounded.
    pub fn new(weighted: Weighted<'a>, bits: u32, magnitude_max: u64, seed: Seed) -> Self {
        let mut block = [0; grid::GRID_BLOCK];
        let own = (0..weighted.values.len()).step_by(grid::GRID_BLOCK).map(|first| {
            let block = &mut block[..grid::GRID_BLOCK.min(weighted.values.len() - first)];
            weighted.integers(first, block);
            grid::exponent(block, bits)
        });
        let own = own.collect();
        let most = grid::exponent(&[magnitude_max.cast_signed()], bits);
        Self { weighted, magnitude_max, seed, scale: Scale { own, most, agreed: OnceLock::new() } }
    }
}

impl Addend for Gridded<'_> {
    fn values(&self) -> u32 {
        self.weighted.values()
    }

    fn integers(&self, first: usize, integers: &mut [i64]) {
        self.weighted.integers(first, integers);
        let exponents = self.scale.agreed.get().expect("members agree before they add up");
        grid::round(integers, first, exponents, self.magnitude_max, self.seed);
    }

    fn scale(&self) -> Option<&Scale> {
        Some(&self.scale)
    }
}
