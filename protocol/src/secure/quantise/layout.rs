//! Where the values of a delta go: over all blocks, so that every block has values of every layer.

use std::ops::Range;

/// Coordinates of a block: half a megabyte, which stays in the second-level cache.
pub(super) const BLOCK: usize = 1 << 16;
/// Most values: blocks of them are numbered by words of 32 bits.
const VALUES_MAX: usize = (u32::MAX as usize) / BLOCK * BLOCK;

/// Values in blocks. The last block is padded with zeros to a power of two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Layout {
    values: usize,
    /// By how far each value is from the one before it, modulo the number of values.
    stride: usize,
}

impl Layout {
    /// `None` for no values, or too many.
    pub(super) fn new(values: usize) -> Option<Self> {
        if !(1..=VALUES_MAX).contains(&values) {
            return None;
        }
        let stride = if values > BLOCK { stride(values as u64) as usize } else { 1 };
        Some(Self { values, stride })
    }

    pub(super) fn values(&self) -> usize {
        self.values
    }

    /// Coordinates of all blocks.
    pub(super) fn coordinates(&self) -> usize {
        let rest = self.values % BLOCK;
        self.values - rest + if rest > 0 { rest.next_power_of_two() } else { 0 }
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let coordinates = self.coordinates();
        (0..coordinates).step_by(BLOCK).map(move |first| first..coordinates.min(first + BLOCK))
    }

    /// The place of each value: value i is at `i * stride mod values`.
    pub(super) fn places(&self) -> impl Iterator<Item = usize> + use<> {
        let Self { values, stride } = *self;
        std::iter::successors(Some(0), move |place| {
            let next = place + stride;
            Some(if next >= values { next - values } else { next })
        })
        .take(values)
    }
}

/// The number without a common divisor with `values` that is nearest to .618 of it, the smaller one of two.
fn stride(values: u64) -> u64 {
    let target = values * 618;
    let below = target / 1000;
    let distance = |stride: u64| (1000 * stride).abs_diff(target);
    let is_coprime = |stride: &u64| divisor(*stride, values) == 1;
    // 1 and values - 1 have none, so both are found.
    let down = (1..=below).rev().find(is_coprime);
    let up = (below + 1..values).find(is_coprime);
    [down, up].into_iter().flatten().min_by_key(|stride| distance(*stride)).unwrap_or(1)
}

/// The greatest common divisor (Euclid).
fn divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { divisor(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_place_of_its_own() {
        for values in [1, 5, 65_535, 65_536, 65_537, 100_000, 131_072, 1_000_000] {
            let layout = Layout::new(values).unwrap();
            let mut taken = vec![false; values];
            layout.places().for_each(|place| assert!(!std::mem::replace(&mut taken[place], true)));
            assert!(taken.into_iter().all(|taken| taken));
        }
    }

    #[test]
    fn the_stride_is_the_nearest_coprime_number() {
        // 61800 is even, and 61801 and 61799 are as near: the smaller one has no common divisor.
        assert_eq!(stride(100_000), 61_799);
        assert_eq!(stride(10), 7);
        assert_eq!(stride(65_537), 40_502);
        assert_eq!(Layout::new(65_536).unwrap().stride, 1);
    }

    #[test]
    fn blocks_have_a_power_of_two_of_coordinates() {
        let blocks = |values| Layout::new(values).unwrap().blocks().map(|block| block.len()).collect::<Vec<_>>();
        assert_eq!(blocks(1), [1]);
        assert_eq!(blocks(9), [16]);
        assert_eq!(blocks(65_536), [65_536]);
        assert_eq!(blocks(65_537), [65_536, 1]);
        assert_eq!(blocks(200_000), [65_536, 65_536, 65_536, 4096]);
        assert_eq!((Layout::new(0), Layout::new(VALUES_MAX + 1)), (None, None));
    }
}
