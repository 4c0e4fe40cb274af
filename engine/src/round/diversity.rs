//! How many updates a round can use, from the gradient diversity of the rounds before, and the goal that follows it.
//!
//! Let updates have the mean u and the covariance S. A round of m of them with equal weights has the diversity
//! `D = sum |d|^2 / |sum d|^2 = (1 + v) / (m + v)` with `v = tr S / |u|^2`, so `v = (m D - 1) / (1 - D)`. With weights
//! w, whose deltas w d the round adds, m is their effective number `(sum w)^2 / sum w^2`. The product m D grows with m
//! up to `1 + v`, the size up to which Yin et al. 2018 (<https://arxiv.org/abs/1706.05699>, theorem 3) show that larger
//! batches keep their worth. Beyond it, further updates repeat what the others say.

use tributary_protocol::operator::AdaptedGoal;

use super::policy::TaskPolicy;

/// Rounds whose diversity counts.
pub const DIVERSITY_ROUNDS: u32 = 20;
/// Fewest rounds from which anything is concluded.
const ROUNDS_MIN: usize = 5;

/// A committed round with a diversity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiverseRound {
    /// Updates that were combined.
    pub updates: u32,
    /// How many updates of equal weight they are worth.
    pub effective: f64,
    /// Their examples.
    pub examples: u64,
    pub diversity: f64,
}

/// The rounds that say how many updates are useful, and how many: infinitely many where the updates have no common
/// direction. None before enough rounds of at least two updates have ended.
#[must_use]
pub fn useful(rounds: &[DiverseRound]) -> Option<(Vec<&DiverseRound>, f64)> {
    let rounds: Vec<&DiverseRound> = rounds.iter().filter(|round| round.updates >= 2).collect();
    if rounds.len() < ROUNDS_MIN {
        return None;
    }
    let useful = median(rounds.iter().map(|round| useful_of(round)).collect());
    Some((rounds, useful))
}

/// The policy of the next round, with a goal between `least` and that of the policy that follows these rounds. Cohort
/// and available clients are in proportion. The policy as it is before enough is measured.
pub(super) fn follow_diversity(policy: &TaskPolicy, least: u32, rounds: &[DiverseRound]) -> TaskPolicy {
    let Some((rounds, useful)) = useful(rounds) else { return *policy };
    let (least, most) = (least.min(policy.goal), policy.goal);
    // A cast saturates, so a number without end is the largest one.
    let goal = (useful.round() as u32).clamp(least, most);
    let cohort = u64::from(policy.cohort_size) * u64::from(goal);
    let cohort_size = u32::try_from(cohort.div_ceil(u64::from(most.max(1)))).unwrap_or(u32::MAX).max(goal);
    TaskPolicy {
        goal,
        minimum: policy.minimum.min(goal),
        cohort_size,
        // A job may want more clients to choose from than it draws.
        available_min: if policy.available_min > policy.cohort_size { policy.available_min } else { cohort_size },
        adapted_goal: Some(AdaptedGoal {
            rounds: u32::try_from(rounds.len()).unwrap_or(u32::MAX),
            useful: (useful < f64::from(u32::MAX)).then(|| useful.round().max(1.0) as u32),
            least,
            most,
        }),
        ..*policy
    }
}

/// `1 + v`; infinite for updates without a common direction.
fn useful_of(round: &DiverseRound) -> f64 {
    let DiverseRound { effective, diversity, .. } = *round;
    let noise = (effective * diversity - 1.0).max(0.0) / (1.0 - diversity);
    if diversity < 1.0 { 1.0 + noise } else { f64::INFINITY }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POLICY: TaskPolicy = TaskPolicy {
        goal: 40,
        minimum: 5,
        cohort_size: 52,
        available_min: 52,
        selection_timeout_ms: 300_000,
        deadline_ms: 600_000,
        ..TaskPolicy::COHORT
    };

    /// Rounds of updates with the noise ratio v, as they are measured in rounds of this size.
    fn rounds(updates: u32, noise: f64) -> Vec<DiverseRound> {
        let diversity = (1.0 + noise) / (f64::from(updates) + noise);
        let effective = f64::from(updates);
        vec![DiverseRound { updates, effective, examples: 60 * u64::from(updates), diversity }; 7]
    }

    #[test]
    fn the_goal_follows_the_diversity_whatever_size_the_rounds_had() {
        for updates in [2, 10, 40] {
            let policy = follow_diversity(&POLICY, 6, &rounds(updates, 11.0));
            let goal = AdaptedGoal { rounds: 7, useful: Some(12), least: 6, most: 40 };
            assert_eq!((policy.goal, policy.cohort_size, policy.available_min), (12, 16, 16), "12 x 1.3");
            assert_eq!((policy.minimum, policy.adapted_goal), (5, Some(goal)));
        }
        let alike = follow_diversity(&POLICY, 6, &rounds(10, 0.0));
        assert_eq!((alike.goal, alike.adapted_goal.unwrap().useful), (6, Some(1)));
        let strict = follow_diversity(&TaskPolicy { minimum: 8, ..POLICY }, 6, &rounds(10, 0.0));
        assert_eq!((strict.goal, strict.minimum), (6, 6), "a goal is enough");
        let opposed = [DiverseRound { updates: 10, effective: 10.0, examples: 1, diversity: 1.5 }; 5];
        let opposed = follow_diversity(&POLICY, 6, &opposed);
        assert_eq!((opposed.goal, opposed.adapted_goal.unwrap().useful), (40, None));
        assert_eq!(follow_diversity(&POLICY, 6, &rounds(10, 3.0)[..4]), POLICY, "too few");
        let wide = TaskPolicy { available_min: 500, ..POLICY };
        assert_eq!(follow_diversity(&wide, 6, &rounds(10, 3.0)).available_min, 500);
    }

    #[test]
    fn one_heavy_update_among_light_ones_does_not_look_like_noise() {
        let round = |weights: &[f64], noise: f64| {
            let (sum, squares): (f64, f64) = (weights.iter().sum(), weights.iter().map(|weight| weight * weight).sum());
            let effective = sum * sum / squares;
            let diversity = (1.0 + noise) / (effective + noise);
            DiverseRound { updates: weights.len() as u32, effective, examples: 1, diversity }
        };
        let useful_of = |round| useful(&[round; 7]).unwrap().1;
        let equal = useful_of(round(&[1.0, 1.0, 1.0, 1.0, 1.0, 100.0], 0.0));
        assert!((equal - 1.0).abs() < 1e-9, "six equal updates, of which one would do: {equal}");
        let noisy = useful_of(round(&[5.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 1.0));
        assert!((noisy - 2.0).abs() < 1e-9, "{noisy}");
    }

    proptest! {
        #[test]
        fn whatever_was_measured_the_goal_is_within_its_bounds(
            measured in prop::collection::vec((0u32..200, 0.0f64..3.0), 0..30),
            minimum in 1u32..10, above in 0u32..30, spread in 0u32..100, surplus in 1.0f64..3.0,
        ) {
            let (least, goal) = (minimum + above, minimum + above + spread);
            let cohort_size = (f64::from(goal) * surplus).ceil() as u32;
            let policy = TaskPolicy { goal, minimum, cohort_size, available_min: cohort_size, ..POLICY };
            let rounds: Vec<_> = measured
                .into_iter()
                .map(|(updates, diversity)| DiverseRound { updates, effective: updates.into(), examples: 1, diversity })
                .collect();
            let followed = follow_diversity(&policy, least, &rounds);
            prop_assert!((least..=goal).contains(&followed.goal));
            prop_assert!((followed.goal..=cohort_size).contains(&followed.cohort_size));
            prop_assert_eq!((followed.minimum, followed.available_min), (minimum, followed.cohort_size));
            prop_assert_eq!(followed.deadline_ms, policy.deadline_ms);
        }
    }
}
