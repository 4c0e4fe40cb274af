//! The running weighted sum of updates: fixed-point integers, so that order does not matter.

use super::caps::{CapsError, SumCaps, factor};
use super::kernel::{add_scaled, first_outside};

/// Sum over updates of `weight * delta`, one i64 per parameter, with the count of updates and their total weight.
///
/// Each weighted value is rounded once, to the nearest multiple of 2^-s (s follows from the caps); everything after
/// that is exact. Two accumulators are equal when they hold the same sum.
#[derive(Clone, Debug, PartialEq)]
pub struct Accumulator {
    sums: Vec<i64>,
    caps: SumCaps,
    binary_point: u32,
    total_weight: u64,
    updates: u32,
}

/// Why an update was not added. The sum is as it was before.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FoldError {
    /// An update must count for something.
    #[error("an update's weight must be at least 1")]
    ZeroWeight,
    /// The weight is above the cap.
    #[error("the weight {got} is above the cap of {weight_max}")]
    WeightTooLarge {
        /// The update's.
        got: u32,
        /// The cap.
        weight_max: u32,
    },
    /// The sum holds as many updates as it may.
    #[error("the sum is full with {updates_max} updates")]
    Full {
        /// The cap.
        updates_max: u32,
    },
    /// There is no such update in the sum to take out.
    #[error("the sum does not hold this update")]
    NotHeld,
    /// A delta of another model.
    #[error("a delta of {got} values cannot be added to a sum of {expected}")]
    WrongLength {
        /// Parameters of the sum.
        expected: usize,
        /// Values of the delta.
        got: usize,
    },
    /// A NaN or an infinity.
    #[error("value {index} of the delta is not finite")]
    NotFinite {
        /// Its place in the flat vector.
        index: usize,
    },
    /// A value above the cap.
    #[error("value {index} of the delta is {value}, above the largest magnitude of {magnitude_max}")]
    TooLarge {
        /// Its place in the flat vector.
        index: usize,
        /// The value.
        value: f32,
        /// The cap.
        magnitude_max: f32,
    },
}

/// Why two sums were not merged. Both are as they were before.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MergeError {
    /// Other caps, hence another binary point.
    #[error("sums under different caps cannot be merged")]
    DifferentCaps,
    /// Sums of different models.
    #[error("a sum of {got} parameters cannot be merged into one of {expected}")]
    WrongLength {
        /// Parameters of this sum.
        expected: usize,
        /// Parameters of the other.
        got: usize,
    },
    /// Together they would hold more updates than the caps allow.
    #[error("together the sums hold {updates} updates, above the cap of {updates_max}")]
    Full {
        /// How many it would be.
        updates: u64,
        /// The cap.
        updates_max: u32,
    },
}

impl Accumulator {
    /// An empty sum for a model of so many parameters (8 bytes each).
    ///
    /// # Errors
    /// [`CapsError`] if no exact sum can be kept under these caps.
    pub fn new(parameters_total: usize, caps: SumCaps) -> Result<Self, CapsError> {
        let binary_point = caps.binary_point()?;
        Ok(Self { sums: vec![0; parameters_total], caps, binary_point, total_weight: 0, updates: 0 })
    }

    /// Adds a whole update: `weight * delta`.
    ///
    /// Everything is checked before the first number is added, so a refused update leaves no trace.
    ///
    /// # Errors
    /// [`FoldError`] says what is wrong with the update, or that the sum is full.
    pub fn fold(&mut self, delta: &[f32], weight: u32) -> Result<(), FoldError> {
        if self.updates == self.caps.updates_max {
            return Err(FoldError::Full { updates_max: self.caps.updates_max });
        }
        self.check(delta, weight)?;
        add_scaled(&mut self.sums, delta, factor(weight, self.binary_point));
        self.total_weight += u64::from(weight);
        self.updates += 1;
        Ok(())
    }

    /// Takes an update out again that was folded in with this weight: the sum is then exactly what it would be had the
    /// update never come.
    ///
    /// # Errors
    /// [`FoldError`] if the sum cannot hold such an update. That it does hold this very one is the caller's word.
    pub fn unfold(&mut self, delta: &[f32], weight: u32) -> Result<(), FoldError> {
        self.check(delta, weight)?;
        let (updates, total_weight) = self.without(weight).ok_or(FoldError::NotHeld)?;
        (self.updates, self.total_weight) = (updates, total_weight);
        // Rounding is symmetric, so this adds exactly the opposite of what the fold added.
        add_scaled(&mut self.sums, delta, -factor(weight, self.binary_point));
        Ok(())
    }

    /// Adds what another accumulator has summed: the same as folding its updates here.
    ///
    /// # Errors
    /// [`MergeError`] if caps or lengths differ or the updates together are too many.
    pub fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        if self.caps != other.caps {
            return Err(MergeError::DifferentCaps);
        }
        if self.sums.len() != other.sums.len() {
            return Err(MergeError::WrongLength { expected: self.sums.len(), got: other.sums.len() });
        }
        let updates_max = self.caps.updates_max;
        let updates = self
            .updates
            .checked_add(other.updates)
            .filter(|updates| *updates <= updates_max)
            .ok_or(MergeError::Full { updates: u64::from(self.updates) + u64::from(other.updates), updates_max })?;
        for (sum, other) in self.sums.iter_mut().zip(&other.sums) {
            *sum = sum.wrapping_add(*other);
        }
        self.updates = updates;
        self.total_weight += other.total_weight;
        Ok(())
    }

    /// The weighted mean of the updates, one f64 per parameter; nothing if there is no update.
    pub fn mean(&self) -> Option<impl ExactSizeIterator<Item = f64> + '_> {
        let divisor = self.total_weight as f64 * factor(1, self.binary_point);
        (self.updates > 0).then(|| self.sums.iter().map(move |sum| *sum as f64 / divisor))
    }

    /// How far a value of the mean can be from the true weighted mean; 0 if there is no update.
    ///
    /// Each of n updates was rounded by at most half a step of 2^-s, so the mean over total weight W is off by at most
    /// `n * 2^-(s+1) / W`. The f64 operations (the product of value and factor, sum, weight and quotient, each 2^-53
    /// relative) add at most `magnitude_max * 2^-51`.
    #[must_use]
    pub fn mean_error_max(&self) -> f64 {
        if self.updates == 0 {
            return 0.0;
        }
        let rounding = f64::from(self.updates) / (self.total_weight as f64 * factor(2, self.binary_point));
        rounding + f64::from(self.caps.magnitude_max) / (1u64 << 51) as f64
    }

    /// How many updates the sum holds.
    #[must_use]
    pub fn updates(&self) -> u32 {
        self.updates
    }

    /// The sum of their weights.
    #[must_use]
    pub fn total_weight(&self) -> u64 {
        self.total_weight
    }

    /// How many parameters the model has.
    #[must_use]
    pub fn parameters_total(&self) -> usize {
        self.sums.len()
    }

    /// The caps under which it was started.
    #[must_use]
    pub fn caps(&self) -> SumCaps {
        self.caps
    }

    /// Count and total weight without an update of this weight, if what remains can be the weight of so many updates.
    fn without(&self, weight: u32) -> Option<(u32, u64)> {
        let updates = self.updates.checked_sub(1)?;
        let total_weight = self.total_weight.checked_sub(u64::from(weight))?;
        let possible = u64::from(updates)..=u64::from(updates) * u64::from(self.caps.weight_max);
        possible.contains(&total_weight).then_some((updates, total_weight))
    }

    fn check(&self, delta: &[f32], weight: u32) -> Result<(), FoldError> {
        let SumCaps { weight_max, magnitude_max, .. } = self.caps;
        if weight == 0 {
            return Err(FoldError::ZeroWeight);
        }
        if weight > weight_max {
            return Err(FoldError::WeightTooLarge { got: weight, weight_max });
        }
        if delta.len() != self.sums.len() {
            return Err(FoldError::WrongLength { expected: self.sums.len(), got: delta.len() });
        }
        match first_outside(delta, magnitude_max) {
            None => Ok(()),
            Some(index) if !delta[index].is_finite() => Err(FoldError::NotFinite { index }),
            Some(index) => Err(FoldError::TooLarge { index, value: delta[index], magnitude_max }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CAPS: SumCaps = SumCaps { weight_max: 1000, magnitude_max: 8.0, updates_max: 20 };
    const PARAMETERS: usize = 5;

    fn sum_of<'a>(updates: impl IntoIterator<Item = &'a (Vec<f32>, u32)>) -> Accumulator {
        let mut sum = Accumulator::new(PARAMETERS, CAPS).expect("the caps are right");
        for (delta, weight) in updates {
            sum.fold(delta, *weight).expect("the update is within the caps");
        }
        sum
    }

    fn updates() -> impl Strategy<Value = Vec<(Vec<f32>, u32)>> {
        let value = prop_oneof![-8.0f32..=8.0, -1e-3f32..1e-3, Just(8.0), Just(-8.0), Just(0.0), Just(1e-40)];
        let delta = prop::collection::vec(value, PARAMETERS);
        prop::collection::vec((delta, 1..=CAPS.weight_max), 1..=CAPS.updates_max as usize)
    }

    proptest! {
        #[test]
        fn order_does_not_change_a_bit(updates in updates(), shuffled in any::<prop::sample::Index>()) {
            let mut other = updates.clone();
            other.rotate_left(shuffled.index(updates.len()));
            other.reverse();
            prop_assert_eq!(sum_of(&other), sum_of(&updates));
        }

        #[test]
        fn splitting_and_merging_does_not_change_a_bit(updates in updates(), split in any::<prop::sample::Index>()) {
            let (left, right) = updates.split_at(split.index(updates.len()));
            let mut merged = sum_of(right);
            merged.merge(&sum_of(left)).unwrap();
            prop_assert_eq!(merged, sum_of(&updates));
        }

        #[test]
        fn an_update_taken_out_was_never_there(updates in updates(), out in any::<prop::sample::Index>()) {
            let mut others = updates.clone();
            let (delta, weight) = others.swap_remove(out.index(updates.len()));
            let mut sum = sum_of(&updates);
            sum.unfold(&delta, weight).unwrap();
            prop_assert_eq!(sum, sum_of(&others));
        }

        #[test]
        fn the_mean_is_as_near_as_the_formula_says(updates in updates()) {
            let sum = sum_of(&updates);
            let total: f64 = updates.iter().map(|(_, weight)| f64::from(*weight)).sum();
            // Products of an f32 and a weight are exact in f64; their sum is rounded at most 20 times.
            let reference_error = 20.0 * 8.0 * f64::EPSILON;
            for (index, mean) in sum.mean().unwrap().enumerate() {
                let reference: f64 =
                    updates.iter().map(|(delta, weight)| f64::from(delta[index]) * f64::from(*weight)).sum();
                let error = (mean - reference / total).abs();
                prop_assert!(error <= sum.mean_error_max() + reference_error, "{error} at {index}");
            }
        }

        #[test]
        fn sums_at_the_caps_never_overflow(
            weight_max in 1u32..1000, magnitude_max in 1e-3f32..100.0, updates_max in 1u32..50, sign in any::<bool>(),
        ) {
            let caps = SumCaps { weight_max, magnitude_max, updates_max };
            let mut sum = Accumulator::new(1, caps).unwrap();
            let value = if sign { -magnitude_max } else { magnitude_max };
            for _ in 0..updates_max {
                sum.fold(&[value], weight_max).unwrap();
            }
            let full = sum.clone();
            prop_assert_eq!(sum.fold(&[value], weight_max), Err(FoldError::Full { updates_max }));
            prop_assert_eq!(&sum, &full);
            let mean = sum.mean().unwrap().next().unwrap();
            prop_assert!((mean - f64::from(value)).abs() <= sum.mean_error_max());
        }
    }

    #[test]
    fn an_update_outside_the_caps_is_refused_and_leaves_no_trace() {
        let held = sum_of(&[(vec![1.0; PARAMETERS], 7)]);
        let mut sum = held.clone();
        let mut refused = |delta: &[f32], weight, error: FoldError| {
            assert_eq!(sum.fold(delta, weight), Err(error.clone()));
            assert_eq!(sum.unfold(delta, weight), Err(error));
            assert_eq!(sum, held);
        };
        let last = |value| [0.0, 0.0, 0.0, 0.0, value];
        refused(&[0.0; PARAMETERS], 0, FoldError::ZeroWeight);
        refused(&[0.0; PARAMETERS], 1001, FoldError::WeightTooLarge { got: 1001, weight_max: 1000 });
        refused(&[0.0; 4], 1, FoldError::WrongLength { expected: PARAMETERS, got: 4 });
        refused(&last(f32::NAN), 1, FoldError::NotFinite { index: 4 });
        refused(&last(f32::NEG_INFINITY), 1, FoldError::NotFinite { index: 4 });
        let value = 8.0f32.next_up();
        refused(&last(value), 1, FoldError::TooLarge { index: 4, value, magnitude_max: 8.0 });
    }

    #[test]
    fn an_update_that_the_sum_cannot_hold_is_not_taken_out() {
        let mut empty = sum_of(&[]);
        assert_eq!(empty.unfold(&[1.0; PARAMETERS], 1), Err(FoldError::NotHeld));
        let mut light = sum_of(&[(vec![1.0; PARAMETERS], 3)]);
        assert_eq!(light.unfold(&[1.0; PARAMETERS], 4), Err(FoldError::NotHeld));
        assert_eq!(light.unfold(&[1.0; PARAMETERS], 2), Err(FoldError::NotHeld));
        assert_eq!(light, sum_of(&[(vec![1.0; PARAMETERS], 3)]));
    }

    #[test]
    fn sums_that_do_not_belong_together_are_not_merged() {
        let twelve = vec![(vec![1.0; PARAMETERS], 1); 12];
        let mut sum = sum_of(&twelve);
        let full = MergeError::Full { updates: 24, updates_max: 20 };
        assert_eq!(sum.merge(&sum_of(&twelve)), Err(full));
        let wide = Accumulator::new(PARAMETERS, SumCaps { weight_max: 2000, ..CAPS }).unwrap();
        assert_eq!(sum.merge(&wide), Err(MergeError::DifferentCaps));
        let long = Accumulator::new(6, CAPS).unwrap();
        assert_eq!(sum.merge(&long), Err(MergeError::WrongLength { expected: PARAMETERS, got: 6 }));
        assert_eq!(sum, sum_of(&twelve));
    }

    #[test]
    fn an_empty_sum_has_no_mean() {
        let sum = sum_of(&[]);
        assert!(sum.mean().is_none());
        assert_eq!((sum.updates(), sum.total_weight()), (0, 0));
    }
}
