//! The running weighted sum of updates: fixed-point integers, so that order does not matter.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tributary_protocol::cpu::{Cpu, prefetch};

use super::caps::{CapsError, SumCaps, factor};
use super::kernel::{add_scaled, add_scattered, first_outside};

/// Parameters that are behind one lock: nearly 2 MiB of sums, so that updates of a large model seldom wait for each other.
/// Allocators round a power of two up to the next size, which for 512 KiB is a seventh more memory.
const STRIPE_PARAMETERS: usize = (1 << 18) - (1 << 14);

/// Sum over updates of `weight * delta`, one i64 per parameter, with the count of updates and their total weight.
///
/// Each weighted value is rounded once, to the nearest multiple of 2^-s (s follows from the caps); everything after
/// that is exact. Two accumulators are equal when they hold the same sum.
///
/// Many may add at once: the sums are cut into stripes, each behind a lock of its own. An update can come in blocks
/// ([`Self::add`]) that are taken out again ([`Self::take`]) when it turns out bad; [`Self::count`] says that it is whole.
#[derive(Debug)]
pub struct Accumulator {
    stripes: Box<[Mutex<Box<[i64]>>]>,
    parameters_total: usize,
    caps: SumCaps,
    binary_point: u32,
    counted: Mutex<Counted>,
}

/// What is known of the whole updates in a sum.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counted {
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
        let stripe = |first: usize| {
            let parameters = STRIPE_PARAMETERS.min(parameters_total - first);
            Mutex::new(vec![0; parameters].into_boxed_slice())
        };
        let stripes = (0..parameters_total).step_by(STRIPE_PARAMETERS).map(stripe).collect();
        Ok(Self { stripes, parameters_total, caps, binary_point, counted: Mutex::default() })
    }

    /// Adds a whole update: `weight * delta`.
    ///
    /// Everything is checked before the first number is added, so a refused update leaves no trace.
    ///
    /// # Errors
    /// [`FoldError`] says what is wrong with the update, or that the sum is full.
    pub fn fold(&self, delta: &[f32], weight: u32) -> Result<(), FoldError> {
        self.check(delta, weight)?;
        self.count(weight)?;
        self.add(0, delta, weight);
        Ok(())
    }

    /// Takes an update out again that was folded in with this weight: the sum is then exactly what it would be had the
    /// update never come.
    ///
    /// # Errors
    /// [`FoldError`] if the sum cannot hold such an update. That it does hold this very one is the caller's word.
    pub fn unfold(&self, delta: &[f32], weight: u32) -> Result<(), FoldError> {
        self.check(delta, weight)?;
        let mut counted = lock(&self.counted);
        *counted = self.without(*counted, weight).ok_or(FoldError::NotHeld)?;
        drop(counted);
        self.take(0, delta, weight);
        Ok(())
    }

    /// Adds a block of an update, whose first value belongs to parameter `first`. The values are within the caps: that is
    /// the caller's word, as is that the update is counted once it is whole, or taken out again.
    ///
    /// # Panics
    /// If there are no such parameters, a mistake of the caller.
    pub fn add(&self, first: usize, values: &[f32], weight: u32) {
        self.add_times(first, values, factor(weight, self.binary_point));
    }

    /// Takes a block out again that was added. Rounding is symmetric, so this adds exactly the opposite.
    ///
    /// # Panics
    /// As [`Self::add`].
    pub fn take(&self, first: usize, values: &[f32], weight: u32) {
        self.add_times(first, values, -factor(weight, self.binary_point));
    }

    /// Adds single values of an update, at `first + indices[i]`, ascending; the others are zero.
    ///
    /// # Panics
    /// As [`Self::add`].
    pub fn add_sparse(&self, first: usize, indices: &[u32], values: &[f32], weight: u32) {
        self.add_sparse_times(first, indices, values, factor(weight, self.binary_point));
    }

    /// Takes single values out again that were added.
    ///
    /// # Panics
    /// As [`Self::add`].
    pub fn take_sparse(&self, first: usize, indices: &[u32], values: &[f32], weight: u32) {
        self.add_sparse_times(first, indices, values, -factor(weight, self.binary_point));
    }

    fn add_sparse_times(&self, first: usize, indices: &[u32], values: &[f32], factor: f64) {
        let (mut indices, mut values) = (indices, values);
        while let Some(index) = indices.first() {
            let place = first + *index as usize;
            assert!(place < self.parameters_total, "a sum of {} has no {place}", self.parameters_total);
            let stripe = place / STRIPE_PARAMETERS;
            let begins = stripe * STRIPE_PARAMETERS;
            let here = indices.partition_point(|index| first + (*index as usize) < begins + STRIPE_PARAMETERS);
            let (now, later) = (indices.split_at(here), values.split_at(here));
            add_scattered(
                &mut lock(&self.stripes[stripe]),
                |index| first + index as usize - begins,
                now.0,
                later.0,
                factor,
            );
            (indices, values) = (now.1, later.1);
        }
    }

    fn add_times(&self, first: usize, values: &[f32], factor: f64) {
        let (cpu, mut rest) = (Cpu::best(), values);
        self.each_stripe(first..first + values.len(), |sums, next| {
            let (now, later) = rest.split_at(sums.len());
            prefetch(&next[..next.len().min(now.len())]);
            add_scaled(cpu, sums, now, factor);
            rest = later;
        });
    }

    /// Shows the sums of some parameters, stripe by stripe, and what follows them in their stripe.
    fn each_stripe(&self, parameters: Range<usize>, mut show: impl FnMut(&mut [i64], &[i64])) {
        assert!(parameters.end <= self.parameters_total, "a sum of {} has no {parameters:?}", self.parameters_total);
        let mut at = parameters.start;
        while at < parameters.end {
            let (stripe, from) = (at / STRIPE_PARAMETERS, at % STRIPE_PARAMETERS);
            let to = STRIPE_PARAMETERS.min(from + parameters.end - at);
            let mut sums = lock(&self.stripes[stripe]);
            let (sums, next) = sums.split_at_mut(to);
            show(&mut sums[from..], next);
            at += to - from;
        }
    }

    /// Counts an update all of whose blocks were added.
    ///
    /// # Errors
    /// [`FoldError`] when the weight is not one, or the sum is full.
    pub fn count(&self, weight: u32) -> Result<(), FoldError> {
        self.check_weight(weight)?;
        let mut counted = lock(&self.counted);
        if counted.updates == self.caps.updates_max {
            return Err(FoldError::Full { updates_max: self.caps.updates_max });
        }
        counted.total_weight += u64::from(weight);
        counted.updates += 1;
        Ok(())
    }

    /// Adds what another accumulator has summed: the same as folding its updates here.
    ///
    /// # Errors
    /// [`MergeError`] if caps or lengths differ or the updates together are too many.
    pub fn merge(&self, other: &Self) -> Result<(), MergeError> {
        if self.caps != other.caps {
            return Err(MergeError::DifferentCaps);
        }
        if self.parameters_total != other.parameters_total {
            return Err(MergeError::WrongLength { expected: self.parameters_total, got: other.parameters_total });
        }
        let (updates_max, theirs) = (self.caps.updates_max, *lock(&other.counted));
        let mut counted = lock(&self.counted);
        let updates =
            counted.updates.checked_add(theirs.updates).filter(|updates| *updates <= updates_max).ok_or(
                MergeError::Full { updates: u64::from(counted.updates) + u64::from(theirs.updates), updates_max },
            )?;
        let total_weight = counted.total_weight + theirs.total_weight;
        *counted = Counted { total_weight, updates };
        for (ours, theirs) in self.stripes.iter().zip(&other.stripes) {
            // Copied, so that no two locks are ever held: merging two sums into each other cannot get stuck.
            let theirs = lock(theirs).clone();
            for (sum, other) in lock(ours).iter_mut().zip(theirs) {
                *sum = sum.wrapping_add(other);
            }
        }
        Ok(())
    }

    /// The weighted mean of the updates for some parameters, one f64 each; nothing if there is no update.
    ///
    /// # Panics
    /// If there are no such parameters, a mistake of the caller.
    #[must_use]
    pub fn mean(&self, parameters: Range<usize>) -> Option<Vec<f64>> {
        let Counted { total_weight, updates } = *lock(&self.counted);
        let divisor = total_weight as f64 * factor(1, self.binary_point);
        let mut means = Vec::with_capacity(parameters.len());
        if updates > 0 {
            self.each_stripe(parameters, |sums, _| means.extend(sums.iter().map(|sum| *sum as f64 / divisor)));
        }
        (updates > 0).then_some(means)
    }

    /// How far a value of the mean can be from the true weighted mean; 0 if there is no update.
    ///
    /// Each of n updates was rounded by at most half a step of 2^-s, so the mean over total weight W is off by at most
    /// `n * 2^-(s+1) / W`. The f64 operations (the product of value and factor, sum, weight and quotient, each 2^-53
    /// relative) add at most `magnitude_max * 2^-51`.
    #[must_use]
    pub fn mean_error_max(&self) -> f64 {
        let Counted { total_weight, updates } = *lock(&self.counted);
        if updates == 0 {
            return 0.0;
        }
        let rounding = f64::from(updates) / (total_weight as f64 * factor(2, self.binary_point));
        rounding + f64::from(self.caps.magnitude_max) / (1u64 << 51) as f64
    }

    /// How many updates the sum holds.
    #[must_use]
    pub fn updates(&self) -> u32 {
        lock(&self.counted).updates
    }

    /// The sum of their weights.
    #[must_use]
    pub fn total_weight(&self) -> u64 {
        lock(&self.counted).total_weight
    }

    /// How many parameters the model has.
    #[must_use]
    pub fn parameters_total(&self) -> usize {
        self.parameters_total
    }

    /// The caps under which it was started.
    #[must_use]
    pub fn caps(&self) -> SumCaps {
        self.caps
    }

    /// What is counted without an update of this weight, if what remains can be the weight of so many updates.
    fn without(&self, counted: Counted, weight: u32) -> Option<Counted> {
        let updates = counted.updates.checked_sub(1)?;
        let total_weight = counted.total_weight.checked_sub(u64::from(weight))?;
        let possible = u64::from(updates)..=u64::from(updates) * u64::from(self.caps.weight_max);
        possible.contains(&total_weight).then_some(Counted { total_weight, updates })
    }

    /// Whether an update may have this weight.
    ///
    /// # Errors
    /// [`FoldError`] when it is 0 or above the cap.
    pub fn check_weight(&self, weight: u32) -> Result<(), FoldError> {
        let weight_max = self.caps.weight_max;
        match weight {
            0 => Err(FoldError::ZeroWeight),
            got if got > weight_max => Err(FoldError::WeightTooLarge { got, weight_max }),
            _ => Ok(()),
        }
    }

    fn check(&self, delta: &[f32], weight: u32) -> Result<(), FoldError> {
        self.check_weight(weight)?;
        if delta.len() != self.parameters_total {
            return Err(FoldError::WrongLength { expected: self.parameters_total, got: delta.len() });
        }
        let magnitude_max = self.caps.magnitude_max;
        match first_outside(delta, magnitude_max) {
            None => Ok(()),
            Some(index) if !delta[index].is_finite() => Err(FoldError::NotFinite { index }),
            Some(index) => Err(FoldError::TooLarge { index, value: delta[index], magnitude_max }),
        }
    }
}

impl Clone for Accumulator {
    fn clone(&self) -> Self {
        Self {
            stripes: self.stripes.iter().map(|stripe| Mutex::new(lock(stripe).clone())).collect(),
            counted: Mutex::new(*lock(&self.counted)),
            ..*self
        }
    }
}

impl PartialEq for Accumulator {
    fn eq(&self, other: &Self) -> bool {
        // Copied, so that a sum can be compared with itself.
        let sums = |stripe: &Mutex<Box<[i64]>>| lock(stripe).clone();
        let counted = |sum: &Self| *lock(&sum.counted);
        self.caps == other.caps
            && self.parameters_total == other.parameters_total
            && counted(self) == counted(other)
            && self.stripes.iter().zip(&other.stripes).all(|(one, two)| sums(one) == sums(two))
    }
}

/// What is locked is whole between any two statements, so a panic of another thread damages nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CAPS: SumCaps = SumCaps { weight_max: 1000, magnitude_max: 8.0, updates_max: 20 };
    const PARAMETERS: usize = 5;

    fn sum_of<'a>(updates: impl IntoIterator<Item = &'a (Vec<f32>, u32)>) -> Accumulator {
        let sum = Accumulator::new(PARAMETERS, CAPS).expect("the caps are right");
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
            let merged = sum_of(right);
            merged.merge(&sum_of(left)).unwrap();
            prop_assert_eq!(merged, sum_of(&updates));
        }

        #[test]
        fn an_update_taken_out_was_never_there(updates in updates(), out in any::<prop::sample::Index>()) {
            let mut others = updates.clone();
            let (delta, weight) = others.swap_remove(out.index(updates.len()));
            let sum = sum_of(&updates);
            sum.unfold(&delta, weight).unwrap();
            prop_assert_eq!(sum, sum_of(&others));
        }

        #[test]
        fn blocks_are_as_good_as_a_whole_update_and_leave_no_trace_when_taken_out(
            updates in updates(), cut in 0..=PARAMETERS, bad in prop::collection::vec(-8.0f32..=8.0, PARAMETERS),
        ) {
            let whole = sum_of(&updates);
            let sum = sum_of(&[]);
            // One that turns out bad is half in while the others come.
            sum.add(0, &bad[..cut], 1000);
            for (delta, weight) in &updates {
                sum.add(cut, &delta[cut..], *weight);
                sum.add(0, &delta[..cut], *weight);
                sum.count(*weight).unwrap();
            }
            sum.take(0, &bad[..cut], 1000);
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
                prop_assert!(error <= sum.mean_error_max() + reference_error, "{error} at {index}");
            }
        }

        #[test]
        fn sums_at_the_caps_never_overflow(
            weight_max in 1u32..1000, magnitude_max in 1e-3f32..100.0, updates_max in 1u32..50, sign in any::<bool>(),
        ) {
            let caps = SumCaps { weight_max, magnitude_max, updates_max };
            let sum = Accumulator::new(1, caps).unwrap();
            let value = if sign { -magnitude_max } else { magnitude_max };
            for _ in 0..updates_max {
                sum.fold(&[value], weight_max).unwrap();
            }
            let full = sum.clone();
            prop_assert_eq!(sum.fold(&[value], weight_max), Err(FoldError::Full { updates_max }));
            prop_assert_eq!(&sum, &full);
            let mean = sum.mean(0..1).unwrap()[0];
            prop_assert!((mean - f64::from(value)).abs() <= sum.mean_error_max());
        }
    }

    #[test]
    fn a_block_may_lie_across_stripes() {
        let parameters = 2 * STRIPE_PARAMETERS + 3;
        let sum = Accumulator::new(parameters, CAPS).unwrap();
        let delta: Vec<f32> = (0..parameters).map(|index| (index % 7) as f32).collect();
        let cut = STRIPE_PARAMETERS - 5;
        sum.add(0, &delta[..cut], 2);
        sum.add(cut, &delta[cut..], 2);
        sum.count(2).unwrap();
        let whole = Accumulator::new(parameters, CAPS).unwrap();
        whole.fold(&delta, 2).unwrap();
        assert_eq!(sum, whole);
        let mean = sum.mean(cut..parameters).unwrap();
        assert!(mean.iter().zip(&delta[cut..]).all(|(mean, value)| *mean == f64::from(*value)));
    }

    #[test]
    fn updates_that_come_on_many_threads_make_the_same_sum() {
        let parameters = STRIPE_PARAMETERS + 100;
        let updates: Vec<(Vec<f32>, u32)> =
            (1..=8u16).map(|number| (vec![f32::from(number) * 0.3; parameters], number.into())).collect();
        let one = Accumulator::new(parameters, CAPS).unwrap();
        let many = one.clone();
        std::thread::scope(|scope| {
            for (delta, weight) in &updates {
                one.fold(delta, *weight).unwrap();
                let many = &many;
                scope.spawn(move || {
                    for (number, block) in delta.chunks(1_000).enumerate() {
                        many.add(number * 1_000, block, *weight);
                    }
                    many.count(*weight).unwrap();
                });
            }
        });
        assert_eq!(many, one);
    }

    #[test]
    fn an_update_outside_the_caps_is_refused_and_leaves_no_trace() {
        let held = sum_of(&[(vec![1.0; PARAMETERS], 7)]);
        let sum = held.clone();
        let refused = |delta: &[f32], weight, error: FoldError| {
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
        let empty = sum_of(&[]);
        assert_eq!(empty.unfold(&[1.0; PARAMETERS], 1), Err(FoldError::NotHeld));
        let light = sum_of(&[(vec![1.0; PARAMETERS], 3)]);
        assert_eq!(light.unfold(&[1.0; PARAMETERS], 4), Err(FoldError::NotHeld));
        assert_eq!(light.unfold(&[1.0; PARAMETERS], 2), Err(FoldError::NotHeld));
        assert_eq!(light, sum_of(&[(vec![1.0; PARAMETERS], 3)]));
    }

    #[test]
    fn sums_that_do_not_belong_together_are_not_merged() {
        let twelve = vec![(vec![1.0; PARAMETERS], 1); 12];
        let sum = sum_of(&twelve);
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
        assert!(sum.mean(0..PARAMETERS).is_none());
        assert_eq!((sum.updates(), sum.total_weight()), (0, 0));
    }
}
