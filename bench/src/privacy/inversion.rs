//! Images that are read from updates: for one example, the gradient of a linear layer's weights is that of its bias
//! times the input (Zhu, Liu and Han 2019, <https://arxiv.org/abs/1906.08935>; Geiping et al. 2020,
//! <https://arxiv.org/abs/2003.14053>, section 3.1).

use tributary_client::examples::MemoryExamples;
use tributary_protocol::model::Model;
use tributary_protocol::seed::Seed;

use super::digits::{Digits, PIXELS, content, training};
use super::federated::{first_model, trainer, update};
use super::protection::{Protection, noise};
use super::row::Row;
use crate::error::BenchError;

/// Images of clients whose updates are seen one by one.
const IMAGES: usize = 200;
/// Sums that are seen, and clients in each.
const SUMS: usize = 100;
const CLIENTS_PER_SUM: usize = 20;
/// The norm to which an update is clipped before noise is added to it; most are longer.
const CLIP: f64 = 0.5;
const LOCAL_NOISE: f64 = 0.1;
const LEARNING_RATE: f64 = 0.5;

/// What an attacker sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// The update of one client.
    Update,
    /// The sum of the updates of twenty clients. The image is that of the client that it resembles most.
    Sum,
    /// The update of one client, with noise of a tenth of its norm in each value.
    NoisedUpdate,
}

pub(super) const CASES: &[Seen] = &[Seen::Update, Seen::Sum, Seen::NoisedUpdate];

pub(super) fn measure(seen: Seen, seed: Seed) -> Result<Vec<Row>, BenchError> {
    let (mechanism, protection, cohorts, size) = match seen {
        Seen::Update => ("none", Protection::None, IMAGES, 1),
        Seen::Sum => ("sum", Protection::None, SUMS, CLIENTS_PER_SUM),
        Seen::NoisedUpdate => ("local", Protection::Noise { clip: CLIP, noise_multiplier: LOCAL_NOISE }, IMAGES, 1),
    };
    let (model, digits) = (first_model(seed)?, Digits::shuffled(seed)?);
    let mut correlations = Vec::with_capacity(cohorts);
    for cohort in 0..cohorts {
        let cohort_seed = seed.derive("cohort", cohort as u64);
        let clients = digits.again(cohort_seed).clients(size, 1)?;
        correlations.push(best_match(&clients, &model, protection, cohort_seed)?);
    }
    let total: f64 = correlations.iter().sum();
    Ok(vec![Row {
        mechanism,
        correlation: Some(total / cohorts as f64),
        correlation_min: correlations.iter().copied().reduce(f64::min),
        correlation_max: correlations.iter().copied().reduce(f64::max),
        ..Row::of("inversion", protection, seed)
    }])
}

/// The largest correlation of what a sum gives away with an image of its clients, after one step of each.
fn best_match(
    clients: &[MemoryExamples],
    model: &Model,
    protection: Protection,
    seed: Seed,
) -> Result<f64, BenchError> {
    let training = training(1, LEARNING_RATE)?;
    let updates = clients.iter().map(|client| update(&mut trainer(client.clone()), model, &training, seed));
    let updates = updates.collect::<Result<Vec<_>, _>>()?;
    let seen = protection.mean(&updates, model.values().len(), 1.0, noise(seed, 1))?;
    let image = given_away(&seen, model);
    let correlations = clients.iter().map(|client| Ok(correlation(&image, &content(client)?.0)));
    let correlations: Vec<f64> = correlations.collect::<Result<_, BenchError>>()?;
    Ok(correlations.into_iter().fold(f64::NEG_INFINITY, f64::max))
}

/// The image that the first layer gives away: the row of the weights of the unit whose bias changes most, over that
/// change.
fn given_away(update: &[f64], model: &Model) -> Vec<f64> {
    let (weights, biases) = (&update[model.parameters().range(0)], &update[model.parameters().range(1)]);
    let changes = biases.iter().copied().enumerate();
    let Some((unit, change)) = changes.max_by(|(_, one), (_, other)| one.abs().total_cmp(&other.abs())) else {
        return Vec::new();
    };
    weights[unit * PIXELS..(unit + 1) * PIXELS].iter().map(|weight| weight / change).collect()
}

fn correlation(one: &[f64], other: &[f32]) -> f64 {
    let other: Vec<f64> = other.iter().copied().map(f64::from).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (middle, others) = (mean(one), mean(&other));
    let product = |left: &[f64], of_left: f64, right: &[f64], of_right: f64| -> f64 {
        left.iter().zip(right).map(|(left, right)| (left - of_left) * (right - of_right)).sum()
    };
    let lengths = product(one, middle, one, middle) * product(&other, others, &other, others);
    product(one, middle, &other, others) / lengths.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(seen: Seen) -> Row {
        measure(seen, Seed(7)).unwrap().remove(0)
    }

    #[test]
    fn the_update_of_one_example_is_its_image() {
        let row = row(Seen::Update);
        assert!(row.correlation_min.unwrap() > 0.999, "{row:?}");
    }

    #[test]
    fn no_sum_of_twenty_gives_an_image_away() {
        let row = row(Seen::Sum);
        assert!(row.correlation_max.unwrap() < 0.99, "{row:?}");
    }

    #[test]
    fn little_noise_on_an_update_hides_its_image() {
        let row = row(Seen::NoisedUpdate);
        assert!(row.correlation.unwrap() < 0.15, "{row:?}");
    }
}
