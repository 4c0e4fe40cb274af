//! Sums of updates in any order, in blocks, on many threads, and by way of groups.

use proptest::prelude::*;

use tributary_protocol::id::JobId;
use tributary_protocol::sum::{Expected, IntegerSink, SumDecoder, SumWriter, tag};

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

/// Adds what a decoder hands out.
struct Adds<'a>(&'a Accumulator);

impl IntegerSink for Adds<'_> {
    fn integers(&mut self, first: usize, values: &[i64]) {
        self.0.add_sum(first, values);
    }
}

/// What a sum with this binary point is expected to be.
fn expected(sum: &Accumulator) -> Expected {
    Expected {
        tag: tag(&JobId::from_random([4; 16]), 7, sum.binary_point()),
        values: sum.parameters_total() as u32,
        caps: CAPS,
        binary_point: sum.binary_point(),
        updates_max: CAPS.updates_max,
    }
}

/// The sum as it travels.
fn body(sum: &Accumulator) -> Vec<u8> {
    let Expected { tag, values, .. } = expected(sum);
    let mut writer = SumWriter::new(tag, sum.counted(), values);
    for first in (0..sum.parameters_total()).step_by(3) {
        writer.push(&sum.integers(first..sum.parameters_total().min(first + 3)));
    }
    writer.finish().unwrap()
}

/// Reads a body into a sum, and counts it.
fn fold_body(sum: &Accumulator, body: &[u8]) {
    let mut decoder = SumDecoder::new(expected(sum));
    for piece in body.chunks(11) {
        decoder.read(piece, &mut Adds(sum)).unwrap();
    }
    sum.count(decoder.finish().unwrap()).unwrap();
}

/// The sum of these updates by way of groups: update i goes to the group with the number `groups[0][i]`, that group to
/// the one with the number `groups[1][group]`, and so on. What is left is added at the root.
fn tree_of(updates: &[(Vec<f32>, u32)], groups: &[Vec<usize>]) -> Accumulator {
    let mut sums: Vec<Accumulator> = updates.iter().map(|update| sum_of([update])).collect();
    for level in groups {
        let parents: Vec<Accumulator> = (0..GROUPS_MAX).map(|_| sum_of(&[])).collect();
        for (sum, group) in sums.iter().zip(level) {
            fold_body(&parents[*group], &body(sum));
        }
        sums = parents.into_iter().filter(|sum| sum.counted().updates > 0).collect();
    }
    let root = sum_of(&[]);
    sums.iter().for_each(|sum| fold_body(&root, &body(sum)));
    root
}

const GROUPS_MAX: usize = 6;

proptest! {
    /// Goal: a tree gives the bits of the star. Method: random updates in random groups, on one to three levels; each
    /// sum travels as a body.
    #[test]
    fn any_tree_over_the_updates_equals_the_flat_sum(
        updates in updates(),
        groups in prop::collection::vec(prop::collection::vec(0..GROUPS_MAX, CAPS.updates_max as usize), 0..=2),
    ) {
        let (tree, flat) = (tree_of(&updates, &groups), sum_of(&updates));
        prop_assert_eq!(body(&tree), body(&flat));
        prop_assert_eq!(tree, flat);
    }

    #[test]
    fn a_sum_that_is_taken_out_leaves_no_trace(
        updates in updates(), sum in prop::collection::vec(any::<i64>(), 1..=PARAMETERS),
    ) {
        let (flat, changed) = (sum_of(&updates), sum_of(&updates));
        let first = PARAMETERS - sum.len();
        changed.add_sum(first, &sum);
        let added = changed.integers(first..PARAMETERS);
        let before = flat.integers(first..PARAMETERS);
        let expected: Vec<i64> = before.iter().zip(&sum).map(|(before, sum)| before.wrapping_add(*sum)).collect();
        prop_assert_eq!(added, expected);
        changed.take_sum(first, &sum);
        prop_assert_eq!(changed, flat);
    }
}

#[test]
fn the_integers_of_a_sum_are_zero_where_nothing_was_added() {
    let parameters = 2 * STRIPE_PARAMETERS + 3;
    let sum = Accumulator::new(parameters, CAPS).unwrap();
    sum.add_sum(STRIPE_PARAMETERS - 1, &[7, -7, 9]);
    let integers = sum.integers(STRIPE_PARAMETERS - 2..parameters);
    assert_eq!(integers[..5], [0, 7, -7, 9, 0]);
    assert!(integers.len() == STRIPE_PARAMETERS + 5 && integers[5..].iter().all(|integer| *integer == 0));
    assert!(sum.integers(5..5).is_empty());
}

#[test]
fn a_sum_may_have_fewer_places_than_its_caps_allow_but_not_more() {
    let most = CAPS.binary_point().unwrap();
    let sum = Accumulator::at(PARAMETERS, CAPS, 20).unwrap();
    assert_eq!(sum.binary_point(), 20);
    fold(&sum, &[1.0, -0.5, 0.0, 8.0, 3e-7], 3).unwrap();
    assert_eq!(sum.integers(0..PARAMETERS), [3 << 20, -3 << 19, 0, 24 << 20, 1]);
    assert_ne!(sum_of(&[]), Accumulator::at(PARAMETERS, CAPS, 20).unwrap());
    assert_eq!(Accumulator::at(PARAMETERS, CAPS, most).unwrap(), sum_of(&[]));
    for got in [15, most + 1] {
        assert_eq!(Accumulator::at(PARAMETERS, CAPS, got).unwrap_err(), CapsError::Places { got, most });
    }
}
