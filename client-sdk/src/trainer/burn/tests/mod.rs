//! The burn trainer against plain arithmetic in f64, written from the formulas.

mod behaviour;
mod forward;
mod gradients;
mod own_network;
mod steps;

use std::sync::Arc;

use burn::tensor::{Device, Tensor, TensorData};
use tributary_protocol::layers::ModelSpec;
use tributary_protocol::model::Model;
use tributary_protocol::plan::{Loss, Optimizer, Training};
use tributary_protocol::seed::Seed;

use super::{BurnTrainer, LayeredNetwork, Network, Pass, transfer};
use crate::examples::{MemoryExamples, Targets};
use crate::trainer::{EvaluateTask, Evaluated, TrainError, TrainTask, Trained, Trainer};

const SGD: Optimizer = Optimizer::Sgd { learning_rate: 0.1, momentum: 0.0, weight_decay: 0.0, nesterov: false };

fn spec(json: &str) -> ModelSpec {
    serde_json::from_str(json).unwrap()
}

/// A network of one layer.
fn layer(input: &[usize], layer: &str) -> ModelSpec {
    spec(&format!(r#"{{"input":{input:?},"layers":[{layer}]}}"#))
}

fn model(spec: &ModelSpec, values: Vec<f32>) -> Model {
    Model::new(Arc::new(spec.parameters().unwrap()), values).unwrap()
}

/// Values between -1 and 1.
fn random(count: usize, seed: u64) -> Vec<f32> {
    let mut stream = Seed(seed).stream();
    (0..count).map(|_| stream.uniform(-1.0, 1.0)).collect()
}

fn random_model(spec: &ModelSpec, seed: u64) -> Model {
    model(spec, random(spec.parameters().unwrap().total(), seed))
}

fn classes(count: usize, of: u64, seed: u64) -> Targets {
    let mut stream = Seed(seed).stream();
    Targets::Classes((0..count).map(|_| stream.below(of) as u32).collect())
}

fn examples(shape: &[usize], inputs: Vec<f32>, targets: Targets) -> MemoryExamples {
    MemoryExamples::new(shape.to_vec(), inputs, targets).unwrap()
}

fn full_batch(steps: u32, loss: Loss, optimizer: Optimizer) -> Training {
    Training { epochs: None, steps: Some(steps), batch_size: None, loss, optimizer, shuffle: true }
}

fn train(
    examples: &MemoryExamples,
    model: &Model,
    spec: &ModelSpec,
    training: &Training,
    seed: u64,
) -> Result<Trained, TrainError> {
    let task = TrainTask { model, spec, training, seed: Seed(seed) };
    BurnTrainer::new(Arc::new(examples.clone())).train(&task, &|| false)
}

fn evaluate(examples: &MemoryExamples, model: &Model, spec: &ModelSpec, loss: Loss) -> Result<Evaluated, TrainError> {
    BurnTrainer::new(Arc::new(examples.clone())).evaluate(&EvaluateTask { model, spec, loss }, &|| false)
}

/// A batch through a network that holds the model; also the values that the network holds afterwards.
fn forward(spec: &ModelSpec, model: &Model, inputs: &[f32], batch: usize, pass: &mut Pass) -> (Vec<f32>, Vec<f32>) {
    let device = Device::flex();
    let mut network = transfer::import(LayeredNetwork::build(spec, &device).unwrap(), model).unwrap();
    let inputs = TensorData::new(inputs.to_vec(), [batch, inputs.len() / batch]);
    let outputs = network.forward(Tensor::from_data(inputs, &device), pass);
    (outputs.try_into_vec_as().unwrap(), transfer::export(&network, 0).unwrap())
}

fn evaluated(spec: &ModelSpec, model: &Model, inputs: &[f32], batch: usize) -> Vec<f32> {
    forward(spec, model, inputs, batch, &mut Pass::evaluation()).0
}

#[track_caller]
fn assert_near(got: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    for (place, (got, expected)) in got.iter().zip(expected).enumerate() {
        let allowed = tolerance * expected.abs().max(1.0);
        assert!((f64::from(*got) - expected).abs() <= allowed, "at {place}: got {got}, expected {expected}");
    }
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}
