//! The running weighted sum of updates, in fixed point: integer addition has no order.

use std::ops::Range;
use std::sync::Mutex;

use tributary_protocol::fixed::{CapsError, Contribution, SumCaps, Weight};

use super::combine::Combined;
use super::stripes::{Stripes, lock};

/// Sum over updates of `weight * value`, one i64 per parameter, with the number of updates and their total weight.
///
/// Each weighted value is rounded once, to the nearest multiple of 2^-s (s follows from the caps). Everything after
/// that is exact. Two accumulators are equal when they hold the same sum.
///
/// Many threads add at once: the sums are cut into stripes with a lock each. An update is added in blocks
/// ([`Self::add`]) and counted once it is complete ([`Self::count`]). Blocks of a refused update are subtracted again
/// ([`Self::take`]).
#[derive(Debug)]
pub struct Accumulator {
    stripes: Stripes,
    caps: SumCaps,
    binary_point: u32,
    counted: Mutex<Contribution>,
}

/// Why an update cannot be counted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FoldError {
    #[error("an update's weight must be at least 1")]
    ZeroWeight,
    #[error("the weight {got} is above the maximum of {weight_max}")]
    WeightTooLarge { got: Weight, weight_max: Weight },
    #[error("the sum already holds its maximum of {updates_max} updates")]
    Full { updates_max: u32 },
}

impl Accumulator {
    /// An empty sum for a model of this many parameters. It takes 8 bytes per parameter.
    ///
    /// # Errors
    /// When no exact sum is possible under these caps.
    pub fn new(parameters_total: usize, caps: SumCaps) -> Result<Self, CapsError> {
        let binary_point = caps.binary_point()?;
        Ok(Self { stripes: Stripes::zeros(parameters_total), caps, binary_point, counted: Mutex::default() })
    }

    /// Adds a block of an update, whose first value belongs to parameter `first`. The caller guarantees that the values
    /// are within the caps, and that the update is either counted when it is complete or subtracted again.
    ///
    /// # Panics
    /// If the block reaches past the last parameter, which is a mistake of the caller.
    pub fn add(&self, first: usize, values: &[f32], weight: Weight) {
        self.stripes.add_dense(first, values, weight.factor(self.binary_point));
    }

    /// Subtracts a block that was added. Rounding is symmetric, so this is the exact inverse.
    ///
    /// # Panics
    /// As [`Self::add`].
    pub fn take(&self, first: usize, values: &[f32], weight: Weight) {
        self.stripes.add_dense(first, values, -weight.factor(self.binary_point));
    }

    /// Adds `values[i]` to parameter `first + indices[i]`. Indices ascend; values that are absent are zero.
    ///
    /// # Panics
    /// As [`Self::add`].
    pub fn add_sparse(&self, first: usize, indices: &[u32], values: &[f32], weight: Weight) {
        self.stripes.add_sparse(first, indices, values, weight.factor(self.binary_point));
    }

    /// Subtracts sparse values that were added.
    ///
    /// # Panics
    /// As [`Self::add`].
    pub fn take_sparse(&self, first: usize, indices: &[u32], values: &[f32], weight: Weight) {
        self.stripes.add_sparse(first, indices, values, -weight.factor(self.binary_point));
    }

    /// Counts an update whose blocks were all added.
    ///
    /// # Errors
    /// When the weight is zero or above the cap, or the sum is full. Nothing is counted then.
    pub fn count(&self, contribution: Contribution) -> Result<(), FoldError> {
        let updates_max = self.caps.updates_max;
        let mut counted = lock(&self.counted);
        if contribution.updates > updates_max - counted.updates {
            return Err(FoldError::Full { updates_max });
        }
        self.check_weight(contribution)?;
        *counted = counted.plus(contribution);
        Ok(())
    }

    /// The updates in the sum and their total weight.
    pub fn counted(&self) -> Contribution {
        *lock(&self.counted)
    }

    /// The caps of the sum, fixed when it was made.
    pub fn caps(&self) -> SumCaps {
        self.caps
    }

    /// Checks the weight of a contribution against the caps of its updates.
    ///
    /// # Errors
    /// When it is zero or above the cap.
    pub fn check_weight(&self, Contribution { weight, updates }: Contribution) -> Result<(), FoldError> {
        // Within the caps the product fits: the accumulator was made with them.
        let weight_max = self.caps.weight_max.checked_times(updates).unwrap_or(self.caps.weight_max);
        if weight.is_zero() {
            Err(FoldError::ZeroWeight)
        } else if weight > weight_max {
            Err(FoldError::WeightTooLarge { got: weight, weight_max })
        } else {
            Ok(())
        }
    }
}

/// The weighted mean of the updates, `sum / total weight`.
impl Combined for Accumulator {
    fn parameters_total(&self) -> usize {
        self.stripes.parameters_total()
    }

    fn mean(&self, block: Range<usize>) -> Option<Vec<f64>> {
        let Contribution { weight, updates } = self.counted();
        (updates > 0).then(|| self.stripes.quotients(block, weight.factor(self.binary_point)))
    }
}

impl Clone for Accumulator {
    fn clone(&self) -> Self {
        Self { stripes: self.stripes.clone(), counted: Mutex::new(self.counted()), ..*self }
    }
}

impl PartialEq for Accumulator {
    fn eq(&self, other: &Self) -> bool {
        self.caps == other.caps && self.counted() == other.counted() && self.stripes == other.stripes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::stripes::STRIPE_PARAMETERS;
    use super::*;

    const CAPS: SumCaps = SumCaps { weight_max: Weight::examples(1000), magnitude_max: 8.0, updates_max: 20 };
    const PARAMETERS: usize = 5;

    fn fold(sum: &Accumulator, delta: &[f32], weight: u32) -> Result<(), FoldError> {
        let weight = Weight::examples(weight);
        sum.count(Contribution::of_one(weight))?;
        sum.add(0, delta, weight);
        Ok(())
    }

    fn sum_of<'a>(updates: impl IntoIterator<Item = &'a (Vec<f32>, u32)>) -> Accumulator {
        let sum = Accumulator::new(PARAMETERS, CAPS).expect("the caps are right");
        for (delta, weight) in updates {
            fold(&sum, delta, *weight).expect("the update is within the caps");
        }
        sum
    }

    fn updates() -> impl Strategy<Value = Vec<(Vec<f32>, u32)>> {
        let value = prop_oneof![-8.0f32..=8.0, -1e-3f32..1e-3, Just(8.0), Just(-8.0), Just(0.0), Just(1e-40)];
        let delta = prop::collection::vec(value, PARAMETERS);
        prop::collection::vec((delta, 1..=1000u32), 1..=CAPS.updates_max as usize)
    }

    /// How far a value of the mean can be from the true weighted mean.
    ///
    /// Each of n updates was rounded by at most half a step of 2^-s, so the mean over total weight W is off by at most
    /// `n * 2^-(s+1) / W`. The f64 operations (the product of value and factor, sum, weight and quotient, each 2^-53
    /// relative) add at most `magnitude_max * 2^-51`.
    fn mean_error_max(sum: &Accumulator) -> f64 {
        let Contribution { weight, updates } = sum.counted();
        let step = Weight::examples(2).factor(sum.binary_point);
        f64::from(updates) / (weight.as_f64() * step) + f64::from(sum.caps.magnitude_max) / (1u64 << 51) as f64
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
        fn blocks_equal_a_whole_update_and_leave_no_trace_when_taken_out(
            updates in updates(), cut in 0..=PARAMETERS, bad in prop::collection::vec(-8.0f32..=8.0, PARAMETERS),
        ) {
            let whole = sum_of(&updates);
            let sum = sum_of(&[]);
            let refused = Weight::examples(1000);
            // A refused update is partly in the sum while the others arrive.
            sum.add(0, &bad[..cut], refused);
            for (delta, weight) in &updates {
                let weight = Weight::examples(*weight);
                sum.add(cut, &delta[cut..], weight);
                sum.add(0, &delta[..cut], weight);
                sum.count(Contribution::of_one(weight)).unwrap();
            }
            sum.take(0, &bad[..cut], refused);
            prop_assert_eq!(sum, whole);
        }

        #[test]
        fn the_mean_is_as_near_as_the_formula_says(updates in updates()) {
            let sum = sum_of(&updates);
            let total: f64 = updates.iter().map(|(_, weight)| f64::from(*weight)).sum();
            // Products of an f32 and a weight are exact in f64; their sum is rounded at most 20 times.
            let reference_error = 20.0 * 8.0 * f64::EPSILON;
            for (index, mean) in sum.mean(0..PARAMETERS).unwrap().into_iter().enumerate() {
                let reference: f64 =
                    updates.iter().map(|(delta, weight)| f64::from(delta[index]) * f64::from(*weight)).sum();
                let error = (mean - reference / total).abs();
                prop_assert!(error <= mean_error_max(&sum) + reference_error, "{error} at {index}");
            }
        }

        #[test]
        fn sums_at_the_caps_never_overflow(
            weight_max in 1u32..1000, magnitude_max in 1e-3f32..100.0, updates_max in 1u32..50, sign in any::<bool>(),
        ) {
            let caps = SumCaps { weight_max: Weight::examples(weight_max), magnitude_max, updates_max };
            let sum = Accumulator::new(1, caps).unwrap();
            let value = if sign { -magnitude_max } else { magnitude_max };
            for _ in 0..updates_max {
                fold(&sum, &[value], weight_max).unwrap();
            }
            prop_assert_eq!(fold(&sum, &[value], weight_max), Err(FoldError::Full { updates_max }));
            prop_assert_eq!(sum.counted().updates, updates_max);
            let mean = sum.mean(0..1).unwrap()[0];
            prop_assert!((mean - f64::from(value)).abs() <= mean_error_max(&sum));
        }
    }

    #[test]
    fn a_block_may_lie_across_stripes() {
        let parameters = 2 * STRIPE_PARAMETERS + 3;
        let sum = Accumulator::new(parameters, CAPS).unwrap();
        let delta: Vec<f32> = (0..parameters).map(|index| (index % 7) as f32).collect();
        let (cut, weight) = (STRIPE_PARAMETERS - 5, Weight::examples(2));
        sum.add(0, &delta[..cut], weight);
        sum.add(cut, &delta[cut..], weight);
        sum.count(Contribution::of_one(weight)).unwrap();
        let whole = Accumulator::new(parameters, CAPS).unwrap();
        fold(&whole, &delta, 2).unwrap();
        assert_eq!(sum, whole);
        let mean = sum.mean(cut..parameters).unwrap();
        assert!(mean.iter().zip(&delta[cut..]).all(|(mean, value)| *mean == f64::from(*value)));
    }

    #[test]
    fn updates_that_begin_anywhere_make_the_sum_of_those_that_begin_at_the_front() {
        let parameters = STRIPE_PARAMETERS + 50;
        let delta: Vec<f32> = (0..parameters).map(|index| (index % 11) as f32 - 5.0).collect();
        let weight = Weight::examples(4);
        let [sum, other] = [0, 1].map(|_| Accumulator::new(parameters, CAPS).unwrap());
        assert_eq!(sum.clone(), other);
        fold(&sum, &delta, 4).unwrap();
        fold(&sum, &delta, 4).unwrap();
        // The second half of one update, then all of another, then the first half.
        let half = parameters / 2;
        other.add(half, &delta[half..], weight);
        other.add_sparse(0, &[3], &delta[3..4], weight);
        other.take(3, &delta[3..4], weight);
        fold(&other, &delta, 4).unwrap();
        other.add(0, &delta[..half], weight);
        other.count(Contribution::of_one(weight)).unwrap();
        assert_eq!(sum, other);
        assert_eq!(sum.mean(0..parameters), other.mean(0..parameters));
        // Nothing was added behind the front: the mean is zero there.
        let front = Accumulator::new(parameters, CAPS).unwrap();
        fold(&front, &delta[..10], 4).unwrap();
        let mean = front.mean(5..parameters).unwrap();
        assert!(mean.len() == parameters - 5 && mean[5..].iter().all(|mean| *mean == 0.0) && mean[0] == 0.0);
        assert_eq!(mean[1], 1.0);
    }

    #[test]
    fn sparse_values_are_added_and_taken_like_dense_ones() {
        let parameters = 2 * STRIPE_PARAMETERS + 3;
        let [sum, dense] = [0, 1].map(|_| Accumulator::new(parameters, CAPS).unwrap());
        let (indices, values) = ([0, 7, STRIPE_PARAMETERS as u32, 2 * STRIPE_PARAMETERS as u32], [1.0, -2.0, 3.5, 8.0]);
        let mut delta = vec![0.0; parameters];
        for (index, value) in indices.iter().zip(values) {
            delta[2 + *index as usize] = value;
        }
        let weight = Weight::examples(3);
        sum.add_sparse(2, &indices, &values, weight);
        dense.add(0, &delta, weight);
        assert_eq!(sum, dense);
        sum.take_sparse(2, &indices, &values, weight);
        assert_eq!(sum, Accumulator::new(parameters, CAPS).unwrap());
    }

    #[test]
    fn updates_that_come_on_many_threads_make_the_same_sum() {
        let parameters = STRIPE_PARAMETERS + 100;
        let updates: Vec<(Vec<f32>, u32)> =
            (1..=8u16).map(|number| (vec![f32::from(number) * 0.3; parameters], number.into())).collect();
        let [one, many] = [0, 1].map(|_| Accumulator::new(parameters, CAPS).unwrap());
        std::thread::scope(|scope| {
            for (delta, weight) in &updates {
                fold(&one, delta, *weight).unwrap();
                let many = &many;
                scope.spawn(move || {
                    let weight = Weight::examples(*weight);
                    for (number, block) in delta.chunks(1_000).enumerate() {
                        many.add(number * 1_000, block, weight);
                    }
                    many.count(Contribution::of_one(weight)).unwrap();
                });
            }
        });
        assert_eq!(many, one);
    }

    #[test]
    fn a_weight_outside_the_caps_is_refused_and_leaves_no_trace() {
        let sum = sum_of(&[(vec![1.0; PARAMETERS], 7)]);
        let weight_max = CAPS.weight_max;
        let got = Weight::examples(1001);
        assert_eq!(sum.count(Contribution::of_one(Weight::default())), Err(FoldError::ZeroWeight));
        assert_eq!(sum.count(Contribution::of_one(got)), Err(FoldError::WeightTooLarge { got, weight_max }));
        assert_eq!(sum, sum_of(&[(vec![1.0; PARAMETERS], 7)]));
    }

    #[test]
    fn the_sum_of_several_updates_may_weigh_as_much_as_they_do() {
        let sum = sum_of(&[]);
        let twice = |examples| Contribution { weight: Weight::examples(examples), updates: 2 };
        sum.count(twice(2000)).unwrap();
        assert_eq!(sum.counted(), twice(2000));
        assert!(matches!(sum.count(twice(2001)), Err(FoldError::WeightTooLarge { .. })));
        let too_many = Contribution { weight: Weight::examples(19), updates: 19 };
        assert_eq!(sum.count(too_many), Err(FoldError::Full { updates_max: 20 }));
    }

    #[test]
    fn an_empty_sum_has_no_mean() {
        let sum = sum_of(&[]);
        assert!(sum.mean(0..PARAMETERS).is_none());
        assert_eq!(sum.counted(), Contribution::default());
    }
}
