//! Models, examples and settings for tests of trainers.

use std::sync::Arc;

use tributary_protocol::layers::ModelSpec;
use tributary_protocol::model::Model;
use tributary_protocol::plan::{Algorithm, Loss, Optimizer, Training};
use tributary_protocol::rate::RateSchedule;
use tributary_protocol::seed::Seed;

use crate::examples::{MemoryExamples, Targets};

pub(in crate::trainer) const SGD: Optimizer =
    Optimizer::Sgd { learning_rate: 0.1, momentum: 0.0, weight_decay: 0.0, nesterov: false };

pub(in crate::trainer) fn spec(json: &str) -> ModelSpec {
    serde_json::from_str(json).unwrap()
}

/// A network of one layer.
pub(in crate::trainer) fn layer(input: &[usize], layer: &str) -> ModelSpec {
    spec(&format!(r#"{{"input":{input:?},"layers":[{layer}]}}"#))
}

pub(in crate::trainer) fn model(spec: &ModelSpec, values: Vec<f32>) -> Model {
    Model::new(Arc::new(spec.parameters().unwrap()), values).unwrap()
}

/// Values between -1 and 1.
pub(in crate::trainer) fn random(count: usize, seed: u64) -> Vec<f32> {
    let mut stream = Seed(seed).stream();
    (0..count).map(|_| stream.uniform(-1.0, 1.0)).collect()
}

pub(in crate::trainer) fn random_model(spec: &ModelSpec, seed: u64) -> Model {
    model(spec, random(spec.parameters().unwrap().total(), seed))
}

pub(in crate::trainer) fn classes(count: usize, of: u64, seed: u64) -> Targets {
    let mut stream = Seed(seed).stream();
    Targets::Classes((0..count).map(|_| stream.below(of) as u32).collect())
}

pub(in crate::trainer) fn examples(shape: &[usize], inputs: Vec<f32>, targets: Targets) -> MemoryExamples {
    MemoryExamples::new(shape.to_vec(), inputs, targets).unwrap()
}

pub(in crate::trainer) fn full_batch(steps: u32, loss: Loss, optimizer: Optimizer) -> Training {
    Training {
        epochs: None,
        steps: Some(steps),
        work_schedule: Vec::new(),
        batch_size: None,
        loss,
        optimizer,
        personal_epochs: None,
        partial_work: None,
        shuffle: true,
        algorithm: Algorithm::Plain,
        schedule: RateSchedule::Constant,
    }
}

#[track_caller]
pub(in crate::trainer) fn assert_near(got: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    for (place, (got, expected)) in got.iter().zip(expected).enumerate() {
        let allowed = tolerance * expected.abs().max(1.0);
        assert!((f64::from(*got) - expected).abs() <= allowed, "at {place}: got {got}, expected {expected}");
    }
}

pub(in crate::trainer) fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}
