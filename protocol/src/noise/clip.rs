//! Clipping in integers: a bound that no rounding passes.

use serde::{Deserialize, Serialize};

/// Integers beyond this magnitude count as this: far above every bound, and so small that no sum of squares overflows.
const MAGNITUDE_MAX: u64 = 1 << 40;

fn magnitude(value: i64) -> u128 {
    value.unsigned_abs().min(MAGNITUDE_MAX).into()
}

/// The sum of squares of an update's integers, which come in blocks.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct SquareSum(u128);

impl SquareSum {
    /// Takes the next integers.
    pub fn add(&mut self, values: &[i64]) {
        self.0 += values.iter().map(|value| magnitude(*value).pow(2)).sum::<u128>();
    }

    /// What shortens the integers so that their L2 norm is at most `bound`; nothing if it is already.
    #[must_use]
    pub fn clip(&self, bound: u64) -> Option<IntegerClip> {
        let bound = u128::from(bound);
        (self.0 > bound * bound).then(|| {
            let root = self.0.isqrt();
            // Rounded up, so that the shortened integers are never too long.
            IntegerClip { bound, root: root + u128::from(root * root < self.0) }
        })
    }
}

/// Shortens integers with an L2 norm of at most `root` to one of at most `bound`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntegerClip {
    bound: u128,
    root: u128,
}

impl IntegerClip {
    /// Each value times `bound / root`, rounded towards zero.
    pub fn apply(&self, values: &mut [i64]) {
        for value in values {
            // At most the bound, because no value is larger than the norm.
            let shortened = i64::try_from(magnitude(*value) * self.bound / self.root).unwrap_or(0);
            *value = if *value < 0 { -shortened } else { shortened };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn clipped(values: &[i64], bound: u64) -> Vec<i64> {
        let mut squares = SquareSum::default();
        values.chunks(2).for_each(|block| squares.add(block));
        let mut values = values.to_vec();
        if let Some(clip) = squares.clip(bound) {
            clip.apply(&mut values);
        }
        values
    }

    #[test]
    fn integers_are_clipped_as_printed() {
        assert_eq!(clipped(&[3, -4, 12], 13), [3, -4, 12]);
        assert_eq!(clipped(&[3, -4, 12], 10), [2, -3, 9]);
        assert_eq!(clipped(&[1_048_576, -1_048_576, 5, 0], 1_048_576), [741_454, -741_454, 3, 0]);
        assert_eq!(clipped(&[7; 8], 10), [3; 8]);
        assert_eq!(clipped(&[-1_000_000, 1], 1000), [-999, 0]);
    }

    proptest! {
        #[test]
        fn nothing_is_longer_than_the_bound(values in prop::collection::vec(any::<i64>(), 1..20), bound in 1u64..1 << 40) {
            let squares: u128 = clipped(&values, bound).iter().map(|value| u128::from(value.unsigned_abs()).pow(2)).sum();
            prop_assert!(squares <= u128::from(bound).pow(2));
        }
    }
}
