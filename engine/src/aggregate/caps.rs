//! Limits of a round's sum, and the binary point that follows from them.

use super::kernel::quantise;
use tributary_protocol::fixed::Weight;

/// Fewest binary places of a sum. Coarser steps than 2^-16 per unit of weight would round away what is learned; and
/// weights have as many places.
const BINARY_POINT_MIN: u32 = Weight::PLACES;
/// Most binary places of a sum. Steps of 2^-62 are below the resolution of an f32 model.
const BINARY_POINT_MAX: u32 = 62;
const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;

/// Limits of one round's sum, fixed when the round opens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SumCaps {
    /// Largest weight of one update.
    pub weight_max: Weight,
    /// Largest absolute value in an update.
    pub magnitude_max: f32,
    /// Largest number of updates.
    pub updates_max: u32,
}

/// Why no exact sum is possible under these caps.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum CapsError {
    #[error("the cap on {0} must be above 0")]
    Zero(&'static str),
    #[error("the cap on magnitude must be a finite number above 0, not {0}")]
    BadMagnitude(f32),
    /// 63 bits cannot hold such sums with at least 16 binary places.
    #[error(
        "the caps on weight, magnitude and updates multiply to {0:e}, too much for an exact sum: lower one of them"
    )]
    TooLarge(f64),
}

impl SumCaps {
    /// Binary places of the sum: as many as possible without an overflow of any sum within the caps.
    ///
    /// The largest s in 16..=62 with `updates_max * round(weight_max * magnitude_max * 2^s) < 2^63`. Rounding is
    /// monotonic, so no update within the caps adds more than the one at the caps does.
    ///
    /// # Errors
    /// When a cap is 0 or not finite, or together they leave fewer than 16 places.
    pub(super) fn binary_point(&self) -> Result<u32, CapsError> {
        for (name, is_zero) in [("weight", self.weight_max.is_zero()), ("updates", self.updates_max == 0)] {
            if is_zero {
                return Err(CapsError::Zero(name));
            }
        }
        if !(self.magnitude_max.is_finite() && self.magnitude_max > 0.0) {
            return Err(CapsError::BadMagnitude(self.magnitude_max));
        }
        let too_large = CapsError::TooLarge(self.largest() * f64::from(self.updates_max));
        self.weight_max.checked_times(self.updates_max).ok_or(too_large)?;
        (BINARY_POINT_MIN..=BINARY_POINT_MAX).rev().find(|point| self.fits(*point)).ok_or(too_large)
    }

    fn fits(&self, binary_point: u32) -> bool {
        let largest = f64::from(self.magnitude_max) * self.weight_max.factor(binary_point);
        // The comparison keeps the quantisation within its domain; the product decides.
        largest < TWO_POW_63 && i128::from(quantise(largest)) * i128::from(self.updates_max) <= i128::from(i64::MAX)
    }

    /// The largest weighted value of one update.
    fn largest(&self) -> f64 {
        f64::from(self.magnitude_max) * self.weight_max.as_f64()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn caps(weight_max: u32, magnitude_max: f32, updates_max: u32) -> SumCaps {
        SumCaps { weight_max: Weight::examples(weight_max), magnitude_max, updates_max }
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
        let heavy = caps(u32::MAX, 1e-9, u32::MAX).binary_point();
        assert!(matches!(heavy, Err(CapsError::TooLarge(_))), "the total weight must fit too");
        assert!(matches!(caps(u32::MAX, f32::MAX, u32::MAX).binary_point(), Err(CapsError::TooLarge(_))));
        let largest = f64::from(1u32 << 16) * 65536.0 * f64::from(1u32 << 15);
        assert_eq!(caps(1 << 16, 65536.0, 1 << 15).binary_point(), Err(CapsError::TooLarge(largest)));
    }

    proptest! {
        #[test]
        fn one_more_place_would_overflow(
            weight_max in 1u32..100_000, magnitude_max in 1e-6f32..1e4, updates_max in 1u32..10_000,
        ) {
            let caps = caps(weight_max, magnitude_max, updates_max);
            let product = f64::from(magnitude_max) * f64::from(weight_max) * f64::from(updates_max);
            if let Ok(point) = caps.binary_point() {
                prop_assert!(product * 2f64.powi(point.cast_signed()) < TWO_POW_63 * (1.0 + 1e-9));
                prop_assert!(point == BINARY_POINT_MAX || product * 2f64.powi(point.cast_signed() + 1) > TWO_POW_63 * (1.0 - 1e-9));
            } else {
                prop_assert!(product * 2f64.powi(BINARY_POINT_MIN.cast_signed() + 1) > TWO_POW_63 * (1.0 - 1e-9));
            }
        }
    }
}
