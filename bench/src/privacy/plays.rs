//! The least delta that fits many plays of the mechanism: one value of one client, or none, with the engine's clip and
//! noise.

use std::sync::Arc;

use tributary_engine::aggregate::{Combined, Grid, PrivateSum};
use tributary_engine::privacy::gaussian;
use tributary_protocol::seed::Seed;

use super::protection::noise;
use super::row::Row;
use crate::error::BenchError;
use crate::simulated::failed;

/// Plays of each of the two neighbours.
const PLAYS: usize = 100_000;
const CLIP: f64 = 0.5;
/// What the client sends: far more than its clip.
const VALUE: f32 = 1e3;
const NOISE_MULTIPLIER: f64 = 1.0;
/// Epsilons at which the claimed delta is compared.
const EPSILONS: [f64; 4] = [0.0, 0.5, 1.0, 2.0];
/// An event is a release beyond so many quarters of a clip.
const QUARTERS: u32 = 16;
/// Chance that one of all bounds does not hold.
const DOUBT: f64 = 1e-3;

/// What is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noise {
    Claimed,
    Halved,
}

impl Noise {
    fn of(self, steps: i64) -> i64 {
        match self {
            Self::Claimed => steps,
            Self::Halved => steps / 2,
        }
    }
}

pub(super) const CASES: &[Noise] = &[Noise::Claimed, Noise::Halved];

pub(super) fn measure(played: Noise, seed: Seed) -> Result<Vec<Row>, BenchError> {
    let releases = Releases::play(played, seed)?;
    let row = |epsilon: f64| Row {
        attack: "plays",
        mechanism: if played == Noise::Claimed { "gaussian" } else { "halved" },
        clip: Some(CLIP),
        noise_multiplier: Some(NOISE_MULTIPLIER),
        epsilon: Some(epsilon),
        delta: Some(gaussian::delta(1.0 / NOISE_MULTIPLIER, epsilon)),
        delta_at_least: Some(releases.delta_at_least(epsilon)),
        seed: seed.0,
        ..Row::default()
    };
    Ok(EPSILONS.map(row).to_vec())
}

/// What was released, in clips and in ascending order.
struct Releases {
    with: Vec<f64>,
    without: Vec<f64>,
}

impl Releases {
    fn play(played: Noise, seed: Seed) -> Result<Self, BenchError> {
        let of = |label: &str, update: &[f32]| -> Result<Vec<f64>, BenchError> {
            let drawn = noise(seed.derive(label, 0), 1).make(0..PLAYS, &[]).noise;
            let released = drawn.into_iter().map(|steps| release(update, played.of(steps)));
            let mut released = released.collect::<Result<Vec<_>, _>>()?;
            released.sort_by(f64::total_cmp);
            Ok(released)
        };
        // Without its data a client reports nothing but zeros.
        Ok(Self { with: of("with", &[VALUE])?, without: of("without", &[0.0])? })
    }

    /// The least delta with which both neighbours may have been released as they were: by the event that tells them
    /// apart best, in both directions.
    fn delta_at_least(&self, epsilon: f64) -> f64 {
        let all = self.with.len();
        // Two bounds for each event, direction and epsilon.
        let doubt = DOUBT / f64::from(4 * (QUARTERS + 1)) / EPSILONS.len() as f64;
        let of = |quarters: u32| {
            // From two clips below the middle of both neighbours to two above it.
            let place = 0.5 + (f64::from(quarters) - f64::from(QUARTERS) / 2.0) / 4.0;
            let below = |released: &[f64]| released.partition_point(|value| *value < place);
            let (with, without) = (below(&self.with), below(&self.without));
            let beyond = |likely: usize, other: usize| {
                least_chance(likely, all, doubt) - epsilon.exp() * (1.0 - least_chance(all - other, all, doubt))
            };
            beyond(all - with, all - without).max(beyond(without, with))
        };
        (0..=QUARTERS).map(of).fold(0.0, f64::max)
    }
}

/// What the coordinator releases of one value with so many steps of noise.
fn release(update: &[f32], noise: i64) -> Result<f64, BenchError> {
    let grid = Grid::new(CLIP, NOISE_MULTIPLIER);
    let sum = Arc::new(PrivateSum::new(1, grid, 1.0));
    sum.add(grid, update);
    sum.add_noise(0, &[noise]);
    let mean = sum.mean(0..1).ok_or_else(|| failed("a sum has no mean"))?;
    Ok(mean[0] / CLIP)
}

/// The least chance of an event that was seen so often, but for this doubt (Chernoff 1952): of smaller ones, so many
/// are too surprising.
fn least_chance(seen: usize, all: usize, doubt: f64) -> f64 {
    let share = seen as f64 / all as f64;
    let most = -doubt.ln() / all as f64;
    gaussian::bisect(0.0, share, |chance| divergence(share, chance) <= most)
}

/// The Kullback-Leibler divergence of two coins.
fn divergence(share: f64, chance: f64) -> f64 {
    let of = |share: f64, chance: f64| if share > 0.0 { share * (share / chance).ln() } else { 0.0 };
    of(share, chance) + of(1.0 - share, 1.0 - chance)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exceeds(row: &Row) -> bool {
        row.delta_at_least.unwrap() > row.delta.unwrap()
    }

    #[test]
    fn the_claimed_noise_passes_and_almost_all_of_its_delta_is_found() {
        let rows = measure(Noise::Claimed, Seed(7)).unwrap();
        assert!(!rows.iter().any(exceeds), "{rows:?}");
        let found = rows[0].delta_at_least.unwrap() / rows[0].delta.unwrap();
        assert!(found > 0.9, "{found}");
    }

    #[test]
    fn half_of_the_noise_fails() {
        let rows = measure(Noise::Halved, Seed(7)).unwrap();
        assert!(rows.iter().all(exceeds), "{rows:?}");
    }

    #[test]
    fn bounds_of_chances_hold() {
        assert_eq!(least_chance(0, 100, 0.01), 0.0);
        // All of a hundred: the chance to the power of 100 is the doubt.
        assert!((least_chance(100, 100, 0.01) - 0.01f64.powf(0.01)).abs() < 1e-9);
        let bound = least_chance(50_000, 100_000, 1e-6);
        assert!((0.49..0.4925).contains(&bound), "{bound}");
    }
}
