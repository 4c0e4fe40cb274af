//! Clients whose wrong labels tell that they took part: what a model would not predict otherwise, it has memorised.

use tributary_client::examples::MemoryExamples;
use tributary_protocol::operator::EpsilonPair;
use tributary_protocol::seed::Seed;

use super::digits::{Digits, mislabelled};
use super::federated::{Course, evaluate};
use super::protection::Protection;
use super::row::Row;
use crate::error::BenchError;

/// Clients with right labels.
const CLIENTS: u32 = 200;
/// Digits of each client.
const EXAMPLES: usize = 4;
/// Clients with wrong labels, half of which take part.
pub(super) const CANARIES: usize = 40;
const RATE: f64 = 0.2;
const ROUNDS: u32 = 150;
const STEPS: u32 = 10;
const LEARNING_RATE: f64 = 0.5;
const CLIP: f64 = 0.5;
pub(super) const DELTA: f64 = 1e-3;

pub(super) const CASES: &[Protection] = &[Protection::None, Protection::Clip(CLIP), noise(1.0), noise(4.0)];

pub(super) const fn noise(noise_multiplier: f64) -> Protection {
    Protection::Noise { clip: CLIP, noise_multiplier }
}

/// What became of the canaries.
#[derive(Debug)]
pub(super) struct Found {
    /// Loss of the model on the digits of each canary, and whether it took part.
    pub(super) canaries: Vec<(f64, bool)>,
    pub(super) accuracy: Option<f64>,
    pub(super) spent: Option<EpsilonPair>,
}

pub(super) fn measure(protection: Protection, seed: Seed) -> Result<Vec<Row>, BenchError> {
    let found = play(protection, |canary| canary % 2 == 0, seed)?;
    Ok(vec![row("canaries", protection, &found, seed)])
}

/// What attacks on canaries have in common.
pub(super) fn row(attack: &'static str, protection: Protection, found: &Found, seed: Seed) -> Row {
    let row = Row::of(attack, protection, seed).promising(found.spent, DELTA);
    Row { auc: Some(auc(&found.canaries)), accuracy: found.accuracy, rounds: Some(ROUNDS), ..row }
}

/// Trains with the canaries that take part. Sums are divided by the same number whichever do.
pub(super) fn play(
    protection: Protection,
    mut takes_part: impl FnMut(usize) -> bool,
    seed: Seed,
) -> Result<Found, BenchError> {
    let mut digits = Digits::shuffled(seed)?;
    let mut clients = digits.clients(CLIENTS as usize, EXAMPLES)?;
    let canaries = digits.clients(CANARIES, EXAMPLES)?.into_iter().enumerate();
    let canaries = canaries.map(|(canary, right)| mislabelled(&right, seed.derive("wrong labels", canary as u64)));
    let canaries: Vec<MemoryExamples> = canaries.collect::<Result<_, _>>()?;
    let taking_part: Vec<bool> = (0..CANARIES).map(&mut takes_part).collect();
    let drawn = canaries.iter().zip(&taking_part).filter(|(_, takes_part)| **takes_part);
    clients.extend(drawn.map(|(canary, _)| canary.clone()));
    let available = CLIENTS + CANARIES as u32 / 2;
    let course = Course {
        rate: RATE,
        available,
        rounds: ROUNDS,
        steps: STEPS,
        learning_rate: LEARNING_RATE,
        server_rate: 1.0,
        protection,
    };
    let learned = course.learn(clients, seed)?;
    let losses = canaries.into_iter().map(|canary| Ok(evaluate(&learned.model, canary)?.loss));
    let losses: Vec<f64> = losses.collect::<Result<_, BenchError>>()?;
    Ok(Found {
        canaries: losses.into_iter().zip(taking_part).collect(),
        accuracy: evaluate(&learned.model, digits.held_out()?)?.accuracy,
        spent: protection.spent((RATE, ROUNDS), learned.participations, DELTA)?,
    })
}

/// The chance that a canary that took part has a smaller loss than one that did not.
fn auc(canaries: &[(f64, bool)]) -> f64 {
    let of = |wanted: bool| canaries.iter().filter(move |(_, took_part)| *took_part == wanted).map(|(loss, _)| *loss);
    let pairs = of(true).flat_map(|inside| of(false).map(move |outside| (inside, outside)));
    let (right, all) = pairs.fold((0.0, 0u32), |(right, all), (inside, outside)| {
        // A tie counts half.
        let halves = u8::from(inside < outside) + u8::from(inside <= outside);
        (right + f64::from(halves) / 2.0, all + 1)
    });
    right / f64::from(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of twenty canaries on each side chance alone moves an AUC by a tenth.
    const SEEDS: [u64; 3] = [1, 2, 3];

    fn auc_of(protection: Protection) -> f64 {
        let auc = SEEDS.map(|seed| measure(protection, Seed(seed)).unwrap()[0].auc.unwrap());
        auc.iter().sum::<f64>() / SEEDS.len() as f64
    }

    #[test]
    fn a_model_without_protection_remembers_its_canaries() {
        let auc = auc_of(CASES[0]);
        assert!(auc > 0.8, "{auc}");
    }

    #[test]
    fn a_clip_hides_canaries_from_this_attack() {
        let auc = auc_of(CASES[1]);
        assert!(auc < 0.65, "{auc}");
    }

    #[test]
    fn much_noise_hides_canaries() {
        let auc = auc_of(CASES[3]);
        assert!(auc < 0.62, "{auc}");
    }

    #[test]
    fn pairs_are_counted() {
        let canaries = [(1.0, true), (2.0, false), (3.0, true), (3.0, false)];
        assert_eq!(auc(&canaries), (1.0 + 1.0 + 0.0 + 0.5) / 4.0);
    }
}
