//! What stands between the updates of clients and their mean: the engine's clip and noise, and what they promise.

use std::sync::Arc;

use tributary_engine::aggregate::{Combined, Grid, NoiseMaker, PrivateSum};
use tributary_engine::privacy::{Charge, gaussian, spent};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::operator::EpsilonPair;
use tributary_protocol::seed::Seed;

use crate::error::BenchError;
use crate::simulated::failed;

/// The grid of sums without noise is as fine as with noise of one clip.
const GRID_MULTIPLIER: f64 = 1.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Protection {
    None,
    /// Each update is clipped to this norm.
    Clip(f64),
    /// And noise is added to the sum, with a standard deviation of so many clips.
    Noise {
        clip: f64,
        noise_multiplier: f64,
    },
}

impl Protection {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Clip(_) => "clip",
            Self::Noise { .. } => "gaussian",
        }
    }

    pub(super) fn clip(self) -> Option<f64> {
        match self {
            Self::None => None,
            Self::Clip(clip) | Self::Noise { clip, .. } => Some(clip),
        }
    }

    pub(super) fn noise_multiplier(self) -> Option<f64> {
        match self {
            Self::None | Self::Clip(_) => None,
            Self::Noise { noise_multiplier, .. } => Some(noise_multiplier),
        }
    }

    /// What remains of the updates of a round, of so many parameters each: their sum over a fixed divisor.
    pub(super) fn mean(
        self,
        updates: &[Vec<f32>],
        parameters: usize,
        divisor: f64,
        noise: NoiseMaker,
    ) -> Result<Vec<f64>, BenchError> {
        let Some(clip) = self.clip() else { return Ok(plain_mean(updates, parameters, divisor)) };
        let grid = Grid::new(clip, self.noise_multiplier().unwrap_or(GRID_MULTIPLIER));
        let sum = Arc::new(PrivateSum::new(parameters, grid, divisor));
        updates.iter().for_each(|update| sum.add(grid, update));
        if let Self::Noise { .. } = self {
            sum.add_noise(0, &noise.make(0..parameters, &[]).noise);
        }
        sum.mean(0..parameters).ok_or_else(|| failed("a sum has no mean"))
    }

    /// What so many releases with this noise spend. Each client was drawn by a coin with this chance, and the one with
    /// the most luck so many times; None without noise.
    pub(super) fn spent(
        self,
        (rate, rounds): (f64, u32),
        participations: u32,
        delta: f64,
    ) -> Result<Option<EpsilonPair>, BenchError> {
        let Some(noise_multiplier) = self.noise_multiplier() else { return Ok(None) };
        let models = spent(&[Charge::Sampled { noise_multiplier, rate, times: rounds }], delta).map_err(failed)?;
        // Releases with Gaussian noise are one of the same mu, whose epsilon is exact.
        let cohorts = gaussian::epsilon(f64::from(participations).sqrt() / noise_multiplier, delta);
        Ok(Some(EpsilonPair { models: models.epsilon, cohorts }))
    }
}

/// The noise of a round. Its key follows from a seed, so that figures can be repeated.
pub(super) fn noise(seed: Seed, round: u32) -> NoiseMaker {
    NoiseMaker::new(Sha256Hash::of(&seed.0.to_le_bytes()).0, seed, round, None)
}

fn plain_mean(updates: &[Vec<f32>], parameters: usize, divisor: f64) -> Vec<f64> {
    let mut sums = vec![0.0; parameters];
    for update in updates {
        sums.iter_mut().zip(update).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    sums.into_iter().map(|sum| sum / divisor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clips_shorten_and_noise_has_its_deviation() {
        let updates = vec![vec![3.0f32; 1000]; 2];
        let of = |protection: Protection| protection.mean(&updates, 1000, 4.0, noise(Seed(1), 1)).unwrap();
        assert!(of(Protection::None).iter().all(|value| *value == 1.5));
        let norm = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>().sqrt();
        assert!((norm(&of(Protection::Clip(0.5))) - 0.25).abs() < 1e-3);
        let noised = of(Protection::Noise { clip: 0.5, noise_multiplier: 4.0 });
        // 1,000 values with a deviation of 4 clips over the divisor, beside which the updates are short.
        assert!((norm(&noised) / 1000f64.sqrt() - 0.5).abs() < 0.05, "{}", norm(&noised));
    }

    /// The figures of the accountants that the page names.
    #[test]
    fn draws_that_are_known_spend_more() {
        let protection = Protection::Noise { clip: 0.3, noise_multiplier: 2.0 };
        let epsilon = protection.spent((0.05, 300), 20, 1e-4).unwrap().unwrap();
        assert!((epsilon.models - 1.62).abs() < 0.01 && epsilon.cohorts > 2.0 * epsilon.models, "{epsilon:?}");
        assert!(Protection::Clip(1.0).spent((0.05, 300), 20, 1e-4).unwrap().is_none());
    }
}
