//! The fixture of the robust rules with its printed digits, their limits and their invariants.

use proptest::prelude::*;
use tributary_protocol::figures::Figures;
use tributary_protocol::fixed::{Contribution, Weight};
use tributary_protocol::job_file::{CenteredClipping, Combine, GeometricMedian, TrimmedMean};
use tributary_protocol::seed::Seed;

use super::super::{Combined, Facts, Gathering, Keep, Mixture, Pairs, Recipe, Reports, Weighing};
use super::{Distances, Middle, krum};

/// Five honest updates and two attackers.
const FIXTURE: [[f32; 2]; 7] =
    [[1.0, 1.0], [1.1, 0.9], [0.9, 1.2], [1.05, 1.0], [0.95, 0.95], [10.0, -10.0], [9.0, -12.0]];

/// Round 1 of the fixture of the means.
const DELTAS: [[f32; 3]; 3] = [[0.3, -0.1, 0.02], [-0.1, 0.4, 0.0], [0.2, 0.1, -0.06]];

fn norm(update: &[f32]) -> f64 {
    update.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt()
}

/// Facts of an update with these examples, this norm, this loss and these steps.
fn fact((examples, norm, loss, steps): (u32, f64, f64, u64), enrolment: u64) -> Facts {
    let weight = Weight::examples(examples);
    let contribution = Contribution::of_one(weight);
    let figures = Figures { contribution, loss: Some(loss), norm: Some(norm), steps, ..Figures::default() };
    Facts { figures, weight, enrolment, row: None }
}

fn distances(updates: &[Vec<f32>]) -> Distances {
    let mut distances = Distances::zeros(updates.len());
    // In stripes of one parameter each.
    for parameter in 0..updates[0].len() {
        let stripe: Vec<&[f32]> = updates.iter().map(|update| &update[parameter..=parameter]).collect();
        distances.add(&stripe);
    }
    distances
}

/// The combination of updates that one client each sent, in the order in which a coordinator reads them.
fn combined(gathering: Gathering, updates: &[Vec<f32>]) -> Vec<f64> {
    let facts = |(update, enrolment): (&Vec<f32>, u64)| fact((1, norm(update), 1.0, 1), enrolment);
    let mut facts: Vec<Facts> = updates.iter().zip(0..).map(facts).collect();
    facts.sort_by(Facts::order);
    let mut ordered: Vec<Vec<f32>> = facts.iter().map(|facts| updates[facts.enrolment as usize].clone()).collect();
    if gathering.centre().is_some() {
        ordered.push(vec![0.0; updates[0].len()]);
    }
    let distances = gathering.needs_distances().then(|| distances(&ordered));
    match gathering.recipe(&facts, distances.as_ref()) {
        Recipe::WeightedMean => panic!("the rule of these tests has a recipe of its own"),
        Recipe::Mixture(coefficients) => {
            let largest = ordered.iter().flatten().fold(0.0f32, |largest, value| largest.max(value.abs()));
            let mixture = Mixture::new(updates[0].len(), &coefficients, largest);
            for (update, coefficient) in ordered.iter().zip(coefficients) {
                mixture.add(0, update, coefficient);
            }
            mixture.mean(0..updates[0].len()).unwrap()
        }
        Recipe::Coordinates { members, middle } => {
            let stripe: Vec<&[f32]> = members.iter().map(|member| ordered[*member].as_slice()).collect();
            middle.combine(&stripe)
        }
    }
}

fn fixture(gathering: Gathering) -> Vec<f64> {
    combined(gathering, &FIXTURE.map(|update| update.to_vec()))
}

fn near(got: &[f64], expected: &[f64], tolerance: f64) {
    for (value, wanted) in got.iter().zip(expected) {
        assert!((value - wanted).abs() <= tolerance, "{got:?} instead of {expected:?}");
    }
}

fn krum_of(byzantine: u32, keep: Keep) -> Gathering {
    Gathering::Pairs(Pairs::Krum { byzantine, keep })
}

fn geometric(iterations: u32) -> Gathering {
    Gathering::Pairs(Pairs::GeometricMedian(GeometricMedian { smoothing: 1e-6, iterations }))
}

fn clipped(radius: f64, iterations: u32) -> Gathering {
    Gathering::Pairs(Pairs::CenteredClipping(CenteredClipping { radius, iterations }))
}

fn trimmed(trim: f64) -> Gathering {
    Gathering::Trimmed(TrimmedMean { trim })
}

/// Every rule that withstands two wrong updates of eleven.
fn robust_rules() -> Vec<Gathering> {
    vec![
        Gathering::Median,
        trimmed(0.2),
        krum_of(2, Keep::Exactly(1)),
        krum_of(2, Keep::Right),
        Gathering::Bulyan { byzantine: 2 },
        geometric(30),
        clipped(2.0, 3),
        Gathering::Reports(Reports::Clipped { norm: 1.0 }),
    ]
}

#[test]
fn krum_scores_and_selects_as_printed() {
    // In twentieths the values are exact in f32, and so is the tie of the first and the fourth.
    let exact: Vec<Vec<f32>> =
        FIXTURE.iter().map(|update| update.iter().map(|value| (value * 20.0).round()).collect()).collect();
    let scores = krum::scores(&distances(&exact), 2);
    let expected = [0.0275, 0.0575, 0.1775, 0.0275, 0.0425, 404.1225, 466.0225];
    near(&scores, &expected.map(|score| score * 400.0), 1e-9);
    near(&combined(krum_of(2, Keep::Exactly(1)), &exact), &[20.0, 20.0], 1e-9);
    near(&combined(krum_of(2, Keep::Exactly(3)), &exact), &[20.0, 19.666666666667], 1e-9);
}

#[test]
fn medians_and_trimmed_means_are_as_printed() {
    near(&fixture(Gathering::Sum(Weighing::Uniform)), &[3.428571, -2.421429], 5e-7);
    near(&fixture(Gathering::Median), &[1.05, 0.95], 1e-7);
    // 2 of 7 at each end.
    near(&fixture(trimmed(0.3)), &[1.05, 0.95], 1e-7);
    let six: Vec<Vec<f32>> = FIXTURE[..6].iter().map(|update| update.to_vec()).collect();
    near(&combined(Gathering::Median, &six), &[1.025, 0.975], 1e-7);
}

#[test]
fn the_geometric_median_is_as_printed_after_three_steps_and_in_the_limit() {
    near(&fixture(geometric(3)), &[1.216745, 0.704727], 5e-7);
    near(&fixture(geometric(500)), &[1.036757, 0.964214], 5e-7);
}

/// Goal: with its default settings the geometric median withstands nearly half of wrong updates. Method: 11 honest
/// updates around one point, 9 at 30 in every coordinate; from the mean, a step leaves 9 / 11 of the way.
#[test]
fn the_geometric_median_withstands_nine_wrong_updates_among_twenty_by_default() {
    let mut stream = Seed(5).stream();
    let mut updates: Vec<Vec<f32>> = (0..11).map(|_| (0..40).map(|_| stream.uniform(-0.5, 0.5)).collect()).collect();
    updates.extend(vec![vec![30.0; 40]; 9]);
    let norm = |settings| {
        let result = combined(Gathering::Pairs(Pairs::GeometricMedian(settings)), &updates);
        result.iter().map(|value| value * value).sum::<f64>().sqrt()
    };
    let Combine::GeometricMedian(settings) = serde_json::from_str(r#""geometric_median""#).unwrap() else {
        panic!("another rule")
    };
    // The honest updates have norms of about 1.8.
    let (default, few) = (norm(settings), norm(GeometricMedian { iterations: 8, ..settings }));
    assert!(default < 4.0 && few > 20.0, "{default}, {few}");
}

#[test]
fn centered_clipping_is_as_printed_after_one_and_three_steps() {
    near(&fixture(clipped(1.0, 1)), &[0.688488, 0.290000], 5e-7);
    near(&fixture(clipped(1.0, 3)), &[1.192927, 0.656971], 5e-7);
}

#[test]
fn bulyan_without_wrong_updates_is_the_mean() {
    let six: Vec<Vec<f32>> = FIXTURE[..6].iter().map(|update| update.to_vec()).collect();
    let mean = combined(Gathering::Sum(Weighing::Uniform), &six);
    near(&combined(Gathering::Bulyan { byzantine: 0 }, &six), &mean, 1e-6);
    // One wrong update of seven.
    let seven: Vec<Vec<f32>> = FIXTURE[..5].iter().chain([&[1.0, 1.1], &[50.0, -50.0]]).map(|u| u.to_vec()).collect();
    let robust = combined(Gathering::Bulyan { byzantine: 1 }, &seven);
    assert!(robust.iter().all(|value| (0.9..=1.2).contains(value)), "{robust:?}");
}

#[test]
fn the_values_nearest_to_the_median_are_averaged() {
    let column = [[-9.0f32], [1.0], [1.5], [2.0], [8.0]];
    let stripe: Vec<&[f32]> = column.iter().map(<[f32; 1]>::as_slice).collect();
    assert_eq!(Middle::Nearest { keep: 3 }.combine(&stripe), [1.5]);
    assert_eq!(Middle::Nearest { keep: 1 }.combine(&stripe), [1.5]);
    assert_eq!(Middle::Nearest { keep: 9 }.combine(&stripe), [0.7]);
    assert_eq!(Middle::Trimmed { cut: 2 }.combine(&stripe), [1.5]);
    assert_eq!(Middle::Trimmed { cut: 7 }.combine(&stripe), [1.5], "at least one value is left");
}

/// Facts of round 1 of the fixture of the means, in its order.
fn facts(weights: [u32; 3], losses: [f64; 3], steps: [u64; 3]) -> Vec<Facts> {
    (0..3).map(|k| fact((weights[k], norm(&DELTAS[k]), losses[k], steps[k]), k as u64)).collect()
}

/// The model (1, -2, 0.5) after the fixture's first round, in f64.
fn after(reports: Reports, facts: &[Facts]) -> Vec<f64> {
    let recipe = Gathering::Reports(reports).recipe(facts, None);
    let Recipe::Mixture(coefficients) = recipe else { panic!("{recipe:?}") };
    let deltas = [[0.3, -0.1, 0.02], [-0.1, 0.4, 0.0], [0.2, 0.1, -0.06]];
    let step = |index: usize| deltas.iter().zip(&coefficients).map(|(delta, c)| delta[index] * c).sum::<f64>();
    [1.0, -2.0, 0.5].iter().enumerate().map(|(index, value)| value + step(index)).collect()
}

#[test]
fn q_fedavg_is_as_printed_and_is_the_uniform_mean_for_q_0() {
    let facts = facts([10, 20, 30], [2.0, 1.0, 0.5], [1; 3]);
    let fair = |q| Reports::Fair { q, learning_rate: 0.1 };
    // The norms are those of f32 values.
    near(&after(fair(1.0), &facts), &[1.089020771513, -1.962908011869, 0.501483679525], 1e-8);
    let Recipe::Mixture(even) = Gathering::Reports(fair(0.0)).recipe(&facts, None) else { panic!() };
    near(&even, &[1.0 / 3.0; 3], 1e-15);
}

/// With q = 1 and a power of ten as rate, several wrong formulas give the printed values. Expected: the formula
/// of the paper's algorithm 2, computed in Python.
#[test]
fn q_fedavg_follows_q_and_the_learning_rate_and_takes_a_loss_below_0_for_none() {
    let after = |q, learning_rate, last| {
        after(Reports::Fair { q, learning_rate }, &facts([10, 20, 30], [2.0, 1.0, last], [1; 3]))
    };
    near(&after(2.0, 0.05, 0.5), &[1.054363240995, -1.998818190411, 0.503072704926], 1e-8);
    near(&after(0.5, 0.1, 0.5), &[1.098970459656, -1.930017316838, 0.496994422439], 1e-8);
    assert_eq!(after(2.0, 0.05, -1.0), after(2.0, 0.05, 0.0));
}

#[test]
fn fednova_with_a_pull_counts_steps_that_shrink() {
    let uneven = |steps| facts([10, 20, 30], [1.0; 3], steps);
    // A rate of 0.1 times mu of 0.5: 2, 4 and 8 steps count as 1.95, 3.709875 and 6.731591374.
    let pulled = Reports::Normalised { momentum: 0.0, proximal_rate: 0.05 };
    near(&after(pulled, &uneven([2, 4, 8])), &[1.155269556004, -1.828423415599, 0.486463405718], 6e-13);
    // An update without steps counts as one of a single step.
    let plain = Reports::Normalised { momentum: 0.0, proximal_rate: 0.0 };
    assert_eq!(after(plain, &uneven([0, 4, 8])), after(plain, &uneven([1, 4, 8])));
    near(&after(plain, &uneven([1, 4, 8])), &[1.297916666667, -1.873958333333, 0.497708333333], 6e-13);
}

#[test]
fn fednova_is_as_printed_and_with_equal_steps_it_is_the_exact_mean() {
    let weights = [10, 20, 30];
    let plain = Reports::Normalised { momentum: 0.0, proximal_rate: 0.0 };
    let with_momentum = Reports::Normalised { momentum: 0.9, proximal_rate: 0.0 };
    let uneven = facts(weights, [1.0; 3], [2, 4, 8]);
    near(&after(plain, &uneven), &[1.165277777778, -1.822916666667, 0.488194444444], 6e-13);
    near(&after(with_momentum, &uneven), &[1.304462144443, -1.808299698081, 0.501888187957], 6e-13);
    let even = facts(weights, [1.0; 3], [5, 5, 5]);
    for reports in [plain, with_momentum, Reports::Normalised { momentum: 0.0, proximal_rate: 0.05 }] {
        assert_eq!(Gathering::Reports(reports).recipe(&even, None), Recipe::WeightedMean, "the running sum's bits");
    }
}

#[test]
fn norm_clipping_scales_only_what_is_longer() {
    let facts = facts([10, 20, 30], [1.0; 3], [1; 3]);
    let far = Gathering::Reports(Reports::Clipped { norm: 1.0 });
    assert_eq!(far.recipe(&facts, None), Recipe::WeightedMean);
    let near_by = Gathering::Reports(Reports::Clipped { norm: 0.35 });
    let Recipe::Mixture(coefficients) = near_by.recipe(&facts, None) else { panic!() };
    let second = 20.0 / 60.0 * 0.35 / norm(&DELTAS[1]);
    near(&coefficients, &[10.0 / 60.0, second, 0.5], 1e-15);
}

/// Eleven updates of four values.
fn honest() -> impl Strategy<Value = Vec<Vec<f32>>> {
    prop::collection::vec(prop::collection::vec(-1.0f32..1.0, 4), 11)
}

proptest! {
    #[test]
    fn the_order_of_the_clients_changes_no_bit(updates in honest(), turn in 1usize..11) {
        let mut turned = updates.clone();
        turned.rotate_left(turn);
        turned.swap(0, 5);
        for rule in robust_rules() {
            prop_assert_eq!(combined(rule, &updates), combined(rule, &turned), "{:?}", rule);
        }
    }

    /// Goal: however far two of eleven clients go, the result stays near the others. Method: every value of the honest
    /// updates is within 1; the wrong ones are at 10^3 and 10^6 of any direction.
    #[test]
    fn wrong_updates_move_the_result_by_a_bounded_amount(
        updates in honest(), direction in prop::collection::vec(-1.0f32..1.0, 4),
    ) {
        prop_assume!(norm(&direction) > 0.1);
        for rule in robust_rules() {
            let moved = |scale: f32| {
                let mut updates = updates.clone();
                updates[3] = direction.iter().map(|value| value * scale).collect();
                updates[7] = updates[3].clone();
                combined(rule, &updates)
            };
            for scale in [1e3, 1e6] {
                let far = moved(scale);
                prop_assert!(far.iter().all(|value| value.abs() < 4.0), "{:?} at {}: {:?}", rule, scale, far);
            }
        }
    }

    #[test]
    fn stripes_of_any_length_give_the_same_distances(updates in honest(), cut in 0usize..=4) {
        let mut cut_once = Distances::zeros(updates.len());
        for range in [0..cut, cut..4] {
            let stripe: Vec<&[f32]> = updates.iter().map(|update| &update[range.clone()]).collect();
            cut_once.add(&stripe);
        }
        let by_value = distances(&updates);
        for i in 0..updates.len() {
            for j in 0..updates.len() {
                let difference = (cut_once.square(i, j) - by_value.square(i, j)).abs();
                prop_assert!(difference < 1e-12);
            }
        }
    }
}
