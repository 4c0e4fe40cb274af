//! What one round may add up at most, and the binary point that follows.

use super::kernel::quantise;

/// Fewest binary places of a sum: with coarser steps than 2^-16 per unit of weight, rounding would drown the learning.
const BINARY_POINT_MIN: u32 = 16;
/// Most binary places of a sum: steps of 2^-62 are below anything that an f32 model shows.
const BINARY_POINT_MAX: u32 = 62;

/// Caps of one round, fixed when it starts. Two sums can be merged only if their caps are the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SumCaps {
    /// Largest weight of an update (examples).
    pub weight_max: u32,
    /// Largest absolute value in a delta.
    pub magnitude_max: f32,
    /// Most updates in the sum.
    pub updates_max: u32,
}

/// Why no sum can be kept under these caps.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum CapsError {
    /// A cap that lets nothing through.
    #[error("the cap on {0} must be above 0")]
    Zero(&'static str),
    /// Not a number that a magnitude can be compared with.
    #[error("the cap on magnitude must be a finite number above 0, not {0}")]
    BadMagnitude(f32),
    /// 63 bits cannot hold such large sums with enough places behind the binary point.
    #[error(
        "the caps on weight, magnitude and updates multiply to {0:e}, too much for an exact sum: lower one of them"
    )]
    TooLarge(f64),
}

impl SumCaps {
    /// Places behind the sum's binary point: the most with which no sum within the caps overflows.
    ///
    /// The largest s in 16..=62 with `updates_max * round(weight_max * magnitude_max * 2^s) < 2^63`. Rounding is
    /// monotonic, so no update within the caps adds more than the one at the caps does.
    ///
    /// # Errors
    /// [`CapsError`] if a cap is 0 or not finite, or together they leave fewer than 16 places.
    pub(super) fn binary_point(&self) -> Result<u32, CapsError> {
        for (name, cap) in [("weight", self.weight_max), ("updates", self.updates_max)] {
            if cap == 0 {
                return Err(CapsError::Zero(name));
            }
        }
        if !(self.magnitude_max.is_finite() && self.magnitude_max > 0.0) {
            return Err(CapsError::BadMagnitude(self.magnitude_max));
        }
        (BINARY_POINT_MIN..=BINARY_POINT_MAX)
            .rev()
            .find(|point| self.fits(*point))
            .ok_or_else(|| CapsError::TooLarge(self.largest() * f64::from(self.updates_max)))
    }

    fn fits(&self, binary_point: u32) -> bool {
        let largest = f64::from(self.magnitude_max) * factor(self.weight_max, binary_point);
        // The comparison keeps the quantisation inside its range; the product decides.
        largest < factor(1, 63) && i128::from(quantise(largest)) * i128::from(self.updates_max) <= i128::from(i64::MAX)
    }

    /// The largest weighted value of one update.
    fn largest(&self) -> f64 {
        f64::from(self.magnitude_max) * f64::from(self.weight_max)
    }
}

/// `weight * 2^binary_point`, exactly: what a value of a delta is multiplied by.
pub(super) fn factor(weight: u32, binary_point: u32) -> f64 {
    f64::from(weight) * (1u64 << binary_point) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn caps(weight_max: u32, magnitude_max: f32, updates_max: u32) -> SumCaps {
        SumCaps { weight_max, magnitude_max, updates_max }
    }

    #[test]
    fn the_binary_point_is_as_far_right_as_the_caps_allow() {
        assert_eq!(caps(1, 1.0, 1).binary_point(), Ok(62));
        // 2 * 2^62 is 2^63, one too many; 2 * 2^61 fits.
        assert_eq!(caps(1, 1.0, 2).binary_point(), Ok(61));
        assert_eq!(caps(1 << 10, 16.0, 1 << 10).binary_point(), Ok(38));
        assert_eq!(caps(1, f32::MIN_POSITIVE, 1).binary_point(), Ok(62));
    }

    #[test]
    fn caps_that_make_no_sum_are_refused() {
        assert_eq!(caps(0, 1.0, 1).binary_point(), Err(CapsError::Zero("weight")));
        assert_eq!(caps(1, 1.0, 0).binary_point(), Err(CapsError::Zero("updates")));
        for magnitude in [0.0, -1.0, f32::INFINITY] {
            assert_eq!(caps(1, magnitude, 1).binary_point(), Err(CapsError::BadMagnitude(magnitude)));
        }
        assert!(matches!(caps(1, f32::NAN, 1).binary_point(), Err(CapsError::BadMagnitude(_))));
        assert!(matches!(caps(u32::MAX, f32::MAX, u32::MAX).binary_point(), Err(CapsError::TooLarge(_))));
        assert!(matches!(caps(1 << 16, 65536.0, 1 << 15).binary_point(), Err(CapsError::TooLarge(_))));
    }

    proptest! {
        #[test]
        fn one_more_place_would_overflow(
            weight_max in 1u32..100_000, magnitude_max in 1e-6f32..1e4, updates_max in 1u32..10_000,
        ) {
            let caps = caps(weight_max, magnitude_max, updates_max);
            let product = f64::from(magnitude_max) * f64::from(weight_max) * f64::from(updates_max);
            if let Ok(point) = caps.binary_point() {
                prop_assert!(product * factor(1, point) < factor(1, 63) * (1.0 + 1e-9));
                prop_assert!(point == BINARY_POINT_MAX || product * factor(2, point) > factor(1, 63) * (1.0 - 1e-9));
            } else {
                prop_assert!(product * factor(2, BINARY_POINT_MIN) > factor(1, 63) * (1.0 - 1e-9));
            }
        }
    }
}
