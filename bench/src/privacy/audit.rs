//! The least epsilon that fits how many canaries were found, from one training (Steinke, Nasr and Jagielski 2023,
//! <https://arxiv.org/abs/2305.08846>).

use tributary_engine::privacy::gaussian::bisect;
use tributary_protocol::seed::Seed;

use super::canaries::{CANARIES, DELTA, Found, noise, play, row};
use super::protection::Protection;
use super::row::Row;
use crate::error::BenchError;

/// Canaries about which the auditor guesses: half of them the ones with the smallest losses, half those with the
/// largest. It must not depend on what was found.
const GUESSES: usize = 20;
/// Chance that a bound does not hold.
const DOUBT: f64 = 0.05;
/// Bounds are sought below.
const EPSILON_MAX: f64 = 30.0;

pub(super) const CASES: &[Protection] = &[Protection::None, noise(1.0), noise(4.0)];

/// Each canary takes part by a coin of its own, on which the bound relies.
pub(super) fn measure(protection: Protection, seed: Seed) -> Result<Vec<Row>, BenchError> {
    let mut coins = seed.derive("canaries", 0).stream();
    let found = play(protection, |_| coins.below(2) == 0, seed)?;
    let epsilon = epsilon_at_least(CANARIES, GUESSES, right_guesses(&found), DELTA);
    let row = row("audit", protection, &found, seed);
    Ok(vec![Row { delta: Some(DELTA), epsilon_at_least: Some(epsilon), ..row }])
}

/// How many guesses are right.
fn right_guesses(found: &Found) -> usize {
    let mut canaries = found.canaries.clone();
    canaries.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let inside = canaries[..GUESSES / 2].iter().filter(|(_, took_part)| *took_part).count();
    let outside = canaries[CANARIES - GUESSES / 2..].iter().filter(|(_, took_part)| !*took_part).count();
    inside + outside
}

/// The least epsilon of a mechanism of which so many guesses about canaries, `right` of them true, are no surprise.
fn epsilon_at_least(canaries: usize, guesses: usize, right: usize, delta: f64) -> f64 {
    let is_no_surprise = |epsilon: f64| chance(canaries, guesses, right, epsilon, delta) >= DOUBT;
    if is_no_surprise(0.0) { 0.0 } else { bisect(0.0, EPSILON_MAX, is_no_surprise) }
}

/// At most the chance of as many right guesses with this epsilon and delta (theorem 5.2; appendix D).
fn chance(canaries: usize, guesses: usize, right: usize, epsilon: f64, delta: f64) -> f64 {
    let chances = binomial(guesses, 1.0 / (1.0 + (-epsilon).exp()));
    let at_least: f64 = chances[right..].iter().sum();
    // The most that delta adds: it moves outcomes that are a little worse beyond what was seen.
    let (mut below, mut most) = (0.0, 0.0f64);
    for worse in 1..=right {
        below += chances[right - worse];
        most = most.max(below / worse as f64);
    }
    (at_least + 2.0 * canaries as f64 * delta * most).min(1.0)
}

/// Chances of 0, 1, .. successes.
fn binomial(trials: usize, success: f64) -> Vec<f64> {
    let odds = success / (1.0 - success);
    let mut chance = (1.0 - success).powi(trials as i32);
    let mut chances = vec![chance];
    for successes in 0..trials {
        chance *= (trials - successes) as f64 / (successes + 1) as f64 * odds;
        chances.push(chance);
    }
    chances
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_follow_from_counts() {
        let near = |got: f64, wanted: f64| assert!((got - wanted).abs() < 1e-6, "{got} is not {wanted}");
        binomial(3, 0.25).into_iter().zip([27.0, 27.0, 9.0, 1.0]).for_each(|(got, wanted)| near(got, wanted / 64.0));
        // All guesses are right: the chance of one is the twentieth root of the doubt.
        let one = DOUBT.powf(1.0 / 20.0);
        near(epsilon_at_least(40, 20, 20, 0.0), (one / (1.0 - one)).ln());
        assert!(epsilon_at_least(40, 20, 20, 1e-3) < epsilon_at_least(40, 20, 20, 0.0));
        assert!(epsilon_at_least(40, 20, 18, 1e-3) < epsilon_at_least(40, 20, 19, 1e-3));
        assert_eq!(epsilon_at_least(40, 20, 12, 1e-3), 0.0);
    }

    #[test]
    fn an_audit_finds_a_model_without_protection() {
        let row = measure(CASES[0], Seed(7)).unwrap().remove(0);
        assert!(row.epsilon_at_least.unwrap() > 0.3, "{row:?}");
    }

    #[test]
    fn an_audit_finds_no_more_than_is_promised() {
        for case in &CASES[1..] {
            let row = measure(*case, Seed(7)).unwrap().remove(0);
            assert!(row.epsilon_at_least.unwrap() <= row.epsilon.unwrap(), "{row:?}");
        }
    }
}
