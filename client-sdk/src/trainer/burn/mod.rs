//! Training with burn: networks as data, or any burn module that the app brings.
//!
//! All randomness comes from the task's seed, none from burn's generator, which all threads share. So the same seed,
//! model and examples give the same bits, whatever else the process does.

mod batches;
mod convolution;
mod layered;
mod loss;
mod network;
mod norm;
mod optimizer;
mod parameters;
mod recurrent;
#[cfg(test)]
mod tests;
mod transfer;

use std::sync::Arc;

use burn::tensor::{Device, Tensor, TensorData};
use tributary_protocol::layers::{Layer, ModelSpec};
use tributary_protocol::model::Model;

use self::batches::Batches;
use self::loss::{loss_of, right_rows};
use self::optimizer::Stepper;
use super::contract::{EvaluateTask, Evaluated, TrainError, TrainTask, Trained, Trainer};
use super::panics::caught;
use crate::examples::{Batch, Examples, Targets};

pub use layered::LayeredNetwork;
pub use network::{Network, Pass};
pub use transfer::parameters_of;

/// Number of examples in a batch of an evaluation.
const EVALUATION_BATCH: usize = 256;

type Build<N> = Box<dyn Fn(&ModelSpec, &Device) -> Result<N, TrainError> + Send>;

/// A [`Trainer`] with burn. It computes on the CPU unless [`Self::on_device`] names another device.
pub struct BurnTrainer<N: Network = LayeredNetwork> {
    build: Build<N>,
    examples: Arc<dyn Examples>,
    device: Device,
}

impl BurnTrainer {
    /// A trainer for jobs whose model is a list of layers.
    #[must_use]
    pub fn new(examples: Arc<dyn Examples>) -> Self {
        Self { build: Box::new(LayeredNetwork::build), examples, device: Device::flex() }
    }
}

impl<N: Network> BurnTrainer<N> {
    /// A trainer for jobs whose model lists the parameters of the app's own network. `factory` builds the network for
    /// each task, because burn's clones share running statistics. Its initial values do not matter.
    pub fn with_network(factory: impl Fn(&Device) -> N + Send + 'static, examples: Arc<dyn Examples>) -> Self {
        Self { build: Box::new(move |_, device| Ok(factory(device))), examples, device: Device::flex() }
    }

    /// Computes on this device.
    #[must_use]
    pub fn on_device(self, device: Device) -> Self {
        Self { device: device.without_autodiff(), ..self }
    }

    /// The task's network with the model's values. The examples are checked against it.
    fn network(&self, spec: &ModelSpec, model: &Model, device: &Device) -> Result<N, TrainError> {
        if self.examples.is_empty() {
            return Err(TrainError::NoExamples);
        }
        check_input_shape(spec, self.examples.input_shape())?;
        transfer::import((self.build)(spec, device)?, model)
    }

    fn batch(&self, indices: &[usize], spec: &ModelSpec) -> Result<Batch, TrainError> {
        let batch = self.examples.batch(indices).map_err(|error| TrainError::Other(error.to_string()))?;
        let expected = indices.len() * self.examples.input_shape().iter().product::<usize>();
        if batch.inputs.len() != expected {
            let got = batch.inputs.len();
            return Err(TrainError::DoesNotFit(format!("a batch has {got} input values instead of {expected}")));
        }
        check_tokens(spec, &batch.inputs)?;
        Ok(batch)
    }

    fn train_steps(&self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        task.training.check().map_err(|error| TrainError::DoesNotFit(error.to_string()))?;
        let device = self.device.clone().autodiff();
        let mut network = self.network(task.spec, task.model, &device)?;
        let mut stepper = Stepper::new(task.training.optimizer.clone());
        let mut pass = Pass::training(task.seed.derive("dropout", 0).stream());
        let mut batches = Batches::new(self.examples.len(), task.training, task.seed);
        let (mut steps, mut losses) = (0u64, 0.0);
        while let Some(indices) = batches.next_batch() {
            if should_stop() {
                return Err(TrainError::Interrupted);
            }
            let batch = self.batch(indices, task.spec)?;
            let inputs = rows(batch.inputs, indices.len(), &device);
            let loss = loss_of(network.forward(inputs, &mut pass), batch.targets, task.training.loss)?;
            losses += finite(&loss)?;
            steps += 1;
            network = stepper.step(network, loss.backward());
        }
        let values = transfer::export(&network, task.model.values().len())?;
        if values.iter().any(|value| !value.is_finite()) {
            return Err(TrainError::Diverged);
        }
        Ok(Trained { values, examples: self.examples.len() as u64, steps, loss: losses / steps as f64 })
    }

    fn evaluate_batches(
        &self,
        task: &EvaluateTask<'_>,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<Evaluated, TrainError> {
        let mut network = self.network(task.spec, task.model, &self.device)?;
        let mut measured = Measured::default();
        let all: Vec<usize> = (0..self.examples.len()).collect();
        for indices in all.chunks(EVALUATION_BATCH) {
            if should_stop() {
                return Err(TrainError::Interrupted);
            }
            let Batch { inputs, targets } = self.batch(indices, task.spec)?;
            let scores = network.forward(rows(inputs, indices.len(), &self.device), &mut Pass::evaluation());
            let loss = loss_of(scores.clone(), targets.clone(), task.loss)?;
            measured.add(indices.len(), finite(&loss)?, scores, &targets)?;
        }
        Ok(measured.result())
    }
}

impl<N: Network> Trainer for BurnTrainer<N> {
    fn examples(&self) -> u64 {
        self.examples.len() as u64
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        caught("network", || self.train_steps(task, should_stop))
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        caught("network", || self.evaluate_batches(task, should_stop))
    }
}

/// Sums over the batches of an evaluation.
#[derive(Default)]
struct Measured {
    examples: u64,
    /// Sum of the examples' losses.
    loss: f64,
    /// How many of the classes had the highest score.
    right: u64,
    /// Number of classes compared; 0 if the targets are values.
    classes: u64,
}

impl Measured {
    fn add(&mut self, examples: usize, loss: f64, scores: Tensor<2>, targets: &Targets) -> Result<(), TrainError> {
        self.examples += examples as u64;
        self.loss += loss * examples as f64;
        if let Some((right, classes)) = right_rows(scores, targets)? {
            self.right += right;
            self.classes += classes;
        }
        Ok(())
    }

    fn result(&self) -> Evaluated {
        let accuracy = (self.classes > 0).then(|| self.right as f64 / self.classes as f64);
        Evaluated { examples: self.examples, loss: self.loss / self.examples as f64, accuracy }
    }
}

/// The examples must have the network's input shape. A network that reads vectors accepts any shape of as many values.
fn check_input_shape(spec: &ModelSpec, given: &[usize]) -> Result<(), TrainError> {
    let ModelSpec::Layers(model) = spec else { return Ok(()) };
    let values = given.iter().product::<usize>();
    if model.input == given || model.input == [values] {
        return Ok(());
    }
    Err(TrainError::DoesNotFit(format!("the network reads inputs {:?}, and the examples are {given:?}", model.input)))
}

/// Token ids must be whole numbers below the size of the vocabulary.
fn check_tokens(spec: &ModelSpec, inputs: &[f32]) -> Result<(), TrainError> {
    let ModelSpec::Layers(model) = spec else { return Ok(()) };
    let Some(Layer::Embedding { tokens, .. }) = model.layers.first() else { return Ok(()) };
    let is_token = |id: &f32| id.fract() == 0.0 && *id >= 0.0 && (*id as usize) < *tokens;
    match inputs.iter().find(|id| !is_token(id)) {
        None => Ok(()),
        Some(id) => Err(TrainError::DoesNotFit(format!("{id} is not a token id: those are 0 to {}", tokens - 1))),
    }
}

fn rows(values: Vec<f32>, batch: usize, device: &Device) -> Tensor<2> {
    let each = values.len() / batch;
    Tensor::from_data(TensorData::new(values, [batch, each]), device)
}

fn finite(loss: &Tensor<1>) -> Result<f64, TrainError> {
    let loss = loss.clone().try_into_scalar::<f32>().map_err(|error| TrainError::Other(format!("{error:?}")))?;
    if loss.is_finite() { Ok(f64::from(loss)) } else { Err(TrainError::Diverged) }
}
