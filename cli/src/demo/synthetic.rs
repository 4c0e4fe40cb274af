//! FedProx's generated task synthetic(A, B): clients whose models and data differ by as much as one says (Li et al.
//! 2020, <https://arxiv.org/abs/1812.06127>, section 5.1, and the authors' script).
//!
//! Client k has `y = argmax(W_k x + b_k)` with 60 features and 10 classes. The entries of `W_k` and `b_k` are drawn
//! from `N(u_k, 1)` with `u_k` from `N(0, A)`; those of x from `N(v_k, j^-1.2)` with `v_k` from `N(B_k, 1)` and `B_k`
//! from `N(0, B)`. A and B are standard deviations, as in the authors' script.

use std::fmt;
use std::str::FromStr;

use tributary_client::examples::{ExamplesError, MemoryExamples, Targets};
use tributary_protocol::seed::{Seed, Stream};

use super::data::DemoData;

pub const FEATURES: usize = 60;
pub const CLASSES: usize = 10;
/// Most examples of a client. The distribution has a long tail.
const EXAMPLES_MAX: f64 = 20_000.0;
/// Fewest examples of a client.
const EXAMPLES_MIN: f64 = 50.0;
/// One of this many examples of a client is held out.
const HELD_OUT_EVERY: usize = 10;

/// How much clients differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Synthetic {
    /// A: of their models.
    models: f64,
    /// B: of their data.
    data: f64,
}

/// The examples of all clients; `split` has the indices of each client's.
pub fn generate(synthetic: Synthetic, clients: usize, seed: Seed) -> Result<DemoData, ExamplesError> {
    let mut all = [Rows::default(), Rows::default()];
    let mut split = Vec::with_capacity(clients);
    for client in 0..clients {
        let mut normal = Normal { stream: seed.derive("synthetic", client as u64).stream(), spare: None };
        let count = ((4.0 + 2.0 * normal.draw()).exp().floor() + EXAMPLES_MIN).min(EXAMPLES_MAX) as usize;
        let model_mean = synthetic.models * normal.draw();
        let data_mean = synthetic.data * normal.draw();
        let means: Vec<f64> = (0..FEATURES).map(|_| data_mean + normal.draw()).collect();
        let weights: Vec<f64> = (0..FEATURES * CLASSES).map(|_| model_mean + normal.draw()).collect();
        let biases: Vec<f64> = (0..CLASSES).map(|_| model_mean + normal.draw()).collect();
        let first = all[0].classes.len();
        for example in 0..count {
            let x: Vec<f64> = (0..FEATURES)
                .map(|feature| means[feature] + normal.draw() * ((feature + 1) as f64).powf(-0.6))
                .collect();
            let score = |class: usize| {
                let products = x.iter().enumerate().map(|(feature, x)| x * weights[feature * CLASSES + class]);
                products.sum::<f64>() + biases[class]
            };
            let class = (0..CLASSES).max_by(|one, other| score(*one).total_cmp(&score(*other))).unwrap_or_default();
            let rows = &mut all[usize::from(example % HELD_OUT_EVERY == HELD_OUT_EVERY - 1)];
            rows.inputs.extend(x.iter().map(|value| *value as f32));
            rows.classes.push(class as u32);
        }
        split.push((first..all[0].classes.len()).collect());
    }
    let [train, test] = all;
    Ok(DemoData { train: train.examples()?, test: test.examples()?, split: Some(split) })
}

#[derive(Default)]
struct Rows {
    inputs: Vec<f32>,
    classes: Vec<u32>,
}

impl Rows {
    fn examples(self) -> Result<MemoryExamples, ExamplesError> {
        MemoryExamples::new(vec![FEATURES], self.inputs, Targets::Classes(self.classes))
    }
}

/// Normal numbers by Box and Muller's transform, two at a time.
pub struct Normal {
    pub stream: Stream,
    pub spare: Option<f64>,
}

impl Normal {
    pub fn draw(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        // In (0, 1]: its logarithm is finite.
        let radius = (-2.0 * (1.0 - self.stream.unit()).ln()).sqrt();
        let (sine, cosine) = (std::f64::consts::TAU * self.stream.unit()).sin_cos();
        self.spare = Some(radius * sine);
        radius * cosine
    }
}

/// Why a text names no such task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("synthetic needs two numbers from 0 to 100, as in synthetic:1,1")]
pub struct NotSynthetic;

impl FromStr for Synthetic {
    type Err = NotSynthetic;

    fn from_str(text: &str) -> Result<Self, NotSynthetic> {
        let (models, data) = text.split_once(',').ok_or(NotSynthetic)?;
        let number = |text: &str| text.parse().ok().filter(|number| (0.0..=100.0).contains(number)).ok_or(NotSynthetic);
        Ok(Self { models: number(models)?, data: number(data)? })
    }
}

impl fmt::Display for Synthetic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{},{}", self.models, self.data)
    }
}

#[cfg(test)]
mod tests {
    use tributary_client::examples::Examples;

    use super::*;
    use crate::data::labels;

    #[test]
    fn every_client_has_data_of_its_own_and_a_seed_gives_them_again() {
        let task: Synthetic = "1,0.5".parse().unwrap();
        let data = generate(task, 30, Seed(1)).unwrap();
        let split = data.split.unwrap();
        assert_eq!(split.len(), 30);
        assert_eq!(split.iter().map(Vec::len).sum::<usize>(), data.train.len());
        assert!(split.iter().all(|examples| examples.len() >= 45));
        let share = data.test.len() as f64 / (data.train.len() + data.test.len()) as f64;
        assert!((share - 0.1).abs() < 0.01, "{share}");
        let classes = labels(&data.train).unwrap();
        let distinct = |examples: &[usize]| {
            examples.iter().map(|example| classes[*example]).collect::<std::collections::BTreeSet<_>>().len()
        };
        assert!(distinct(&(0..classes.len()).collect::<Vec<_>>()) == CLASSES);
        assert!(split.iter().any(|examples| distinct(examples) < CLASSES), "clients have different classes");
        let again = generate(task, 30, Seed(1)).unwrap();
        assert_eq!(labels(&again.train), Some(classes));
        let inputs = |data: &MemoryExamples| data.batch(&[0, 99]).unwrap().inputs;
        assert_eq!(inputs(&again.train), inputs(&data.train));
        assert_ne!(inputs(&generate(task, 30, Seed(2)).unwrap().train), inputs(&data.train));
    }

    #[test]
    fn normal_numbers_have_their_mean_and_variance() {
        let mut normal = Normal { stream: Seed(3).stream(), spare: None };
        let drawn: Vec<f64> = (0..20_000).map(|_| normal.draw()).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let variance = drawn.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / drawn.len() as f64;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.03, "{mean}, {variance}");
    }

    #[test]
    fn a_task_has_two_numbers() {
        assert_eq!("0,0".parse::<Synthetic>().unwrap().to_string(), "0,0");
        for wrong in ["", "1", "1,", "1;1", "-1,0", "nan,0", "101,0"] {
            assert_eq!(wrong.parse::<Synthetic>(), Err(NotSynthetic), "{wrong}");
        }
    }
}
