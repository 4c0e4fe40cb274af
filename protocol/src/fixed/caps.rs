//! Limits of a round's sum, and the binary point that follows from them.

use super::rounding::quantise;
use super::weight::Weight;

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
    /// The cap on this would let nothing into the sum.
    #[error("the cap on {0} must be above 0")]
    Zero(&'static str),
    /// The magnitude is no limit.
    #[error("the cap on magnitude must be a finite number above 0, not {0}")]
    BadMagnitude(f32),
    /// A sum with so many places is too coarse, or may overflow.
    #[error("a sum under these caps has {} to {most} binary places, not {got}", BINARY_POINT_MIN)]
    Places {
        /// The binary point that was asked for.
        got: u32,
        /// The largest binary point under the caps.
        most: u32,
    },
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
    pub fn binary_point(&self) -> Result<u32, CapsError> {
        for (name, is_zero) in [("weight", self.weight_max.is_zero()), ("updates", self.updates_max == 0)] {
            if is_zero {
                return Err(CapsError::Zero(name));
            }
        }
        if !(self.magnitude_max.is_finite() && self.magnitude_max > 0.0) {
            return Err(CapsError::BadMagnitude(self.magnitude_max));
        }
        let too_large =
            CapsError::TooLarge(f64::from(self.magnitude_max) * self.weight_max.as_f64() * f64::from(self.updates_max));
        self.weight_max.checked_times(self.updates_max).ok_or(too_large)?;
        (BINARY_POINT_MIN..=BINARY_POINT_MAX).rev().find(|point| self.fits(*point)).ok_or(too_large)
    }

    /// Checks that a sum with this binary point is fine enough, and that none within the caps overflows.
    ///
    /// # Errors
    /// As [`Self::binary_point`]; and when the binary point is below 16 or above what that gives.
    pub fn check_binary_point(&self, binary_point: u32) -> Result<(), CapsError> {
        // A sum with fewer places is smaller, so all binary points below the largest fit.
        let most = self.binary_point()?;
        let allowed = BINARY_POINT_MIN..=most;
        allowed.contains(&binary_point).then_some(()).ok_or(CapsError::Places { got: binary_point, most })
    }

    /// The largest absolute integer that one update within the caps adds:
    /// `round(weight_max * magnitude_max * 2^binary_point)`.
    ///
    /// The binary point is one that [`Self::check_binary_point`] allows.
    pub fn value_max(&self, binary_point: u32) -> i64 {
        let largest = self.largest(binary_point);
        if largest < TWO_POW_63 { quantise(largest) } else { i64::MAX }
    }

    fn fits(&self, binary_point: u32) -> bool {
        // The comparison keeps the quantisation within its domain; the product decides.
        self.largest(binary_point) < TWO_POW_63
            && i128::from(self.value_max(binary_point)) * i128::from(self.updates_max) <= i128::from(i64::MAX)
    }

    /// The largest weighted value of one update, before it is rounded.
    fn largest(&self, binary_point: u32) -> f64 {
        f64::from(self.magnitude_max) * self.weight_max.factor(binary_point)
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

    #[test]
    fn the_caps_of_the_usual_job_leave_forty_places() {
        let caps = caps(10_000, 32.0, 16);
        assert_eq!(caps.binary_point(), Ok(40));
        assert_eq!(caps.value_max(40), 320_000 << 40);
        assert_eq!(caps.check_binary_point(40), Ok(()));
        assert_eq!(caps.check_binary_point(16), Ok(()));
        for got in [0, 15, 41, 63, u32::MAX] {
            assert_eq!(caps.check_binary_point(got), Err(CapsError::Places { got, most: 40 }));
        }
    }

    #[test]
    fn the_largest_value_is_rounded_like_every_value() {
        // Halves go to the even neighbour.
        let largest = |examples, magnitude_max| caps(examples, magnitude_max, 1).value_max(16);
        let unit = 1.0 / 65536.0;
        assert_eq!([largest(1, 2.5 * unit), largest(1, 3.5 * unit), largest(3, 0.5 * unit)], [2, 4, 2]);
    }

    proptest! {
        #[test]
        fn no_update_within_the_caps_adds_more_than_the_largest_value(
            weight_max in 1u32..100_000, magnitude_max in 1e-6f32..1e4, weight in 0.0f64..=1.0, value in -1.0f32..=1.0,
        ) {
            let caps = caps(weight_max, magnitude_max, 1);
            let point = caps.binary_point().unwrap();
            let weight = caps.weight_max.discounted(weight);
            let added = quantise(f64::from(value * magnitude_max) * weight.factor(point));
            prop_assert!(added.unsigned_abs() <= caps.value_max(point).unsigned_abs());
        }

        #[test]
        fn one_more_place_would_overflow(
            weight_max in 1u32..100_000, magnitude_max in 1e-6f32..1e4, updates_max in 1u32..10_000,
        ) {
            let caps = caps(weight_max, magnitude_max, updates_max);
            let product = f64::from(magnitude_max) * f64::from(weight_max) * f64::from(updates_max);
            if let Ok(point) = caps.binary_point() {
                prop_assert!(product * 2f64.powi(point.cast_signed()) < TWO_POW_63 * (1.0 + 1e-9));
                let next = product * 2f64.powi(point.cast_signed() + 1);
                prop_assert!(point == BINARY_POINT_MAX || next > TWO_POW_63 * (1.0 - 1e-9));
            } else {
                prop_assert!(product * 2f64.powi(BINARY_POINT_MIN.cast_signed() + 1) > TWO_POW_63 * (1.0 - 1e-9));
            }
        }
    }
}
