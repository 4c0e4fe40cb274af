//! Training with burn: any burn module that the app brings, and networks as data on devices of burn.
//!
//! All randomness comes from the task's seed, none from burn's generator, which all threads share. So the same seed,
//! model and examples give the same bits, whatever else the process does.

mod convolution;
#[cfg(feature = "wgpu")]
mod gpu;
mod layered;
mod loss;
#[expect(non_snake_case, reason = "the derived code has the fields' names")]
mod low_rank;
mod network;
mod norm;
mod optimizer;
mod parameters;
mod recurrent;
mod suspended;
#[cfg(test)]
mod tests;
mod transfer;

use std::sync::Arc;

use burn::tensor::{Device, Tensor, TensorData};
use tributary_protocol::inputs::Description;
use tributary_protocol::layers::ModelSpec;
use tributary_protocol::model::Model;
use tributary_protocol::plan::Algorithm;
use tributary_protocol::scalars::Scalars;

use self::loss::loss_of;
use self::optimizer::Stepper;
use super::batches::{Batches, evaluation_batch};
use super::contract::{Checkpoint, DescribeTask, EvaluateTask, Evaluated, TrainError, TrainTask, Trained, Trainer};
use super::dropout::stream_of_step;
use super::fit;
use super::panics::caught;
use super::score::Measured;
use crate::examples::{Batch, Examples};

#[cfg(feature = "wgpu")]
pub use gpu::Gpu;
pub use layered::LayeredNetwork;
pub use network::{Network, Pass};
pub use transfer::parameters_of;

type Build<N> = Box<dyn Fn(&ModelSpec, &Device) -> Result<N, TrainError> + Send>;

/// A [`Trainer`] with burn. It computes on the CPU unless `on_gpu` or [`Self::on_device`] names another device.
pub struct BurnTrainer<N: Network = LayeredNetwork> {
    build: Build<N>,
    examples: Arc<dyn Examples>,
    device: Device,
}

impl BurnTrainer {
    /// A trainer for jobs whose model is a list of layers, for the devices of burn. On the CPU
    /// [`LayerTrainer`](crate::LayerTrainer) computes the same without a graph.
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

    /// Computes on this GPU.
    #[cfg(feature = "wgpu")]
    #[must_use]
    pub fn on_gpu(self, gpu: Gpu) -> Self {
        self.on_device(gpu.into_device())
    }

    /// Computes on this device of burn.
    #[must_use]
    pub fn on_device(self, device: Device) -> Self {
        Self { device: device.without_autodiff(), ..self }
    }

    /// The task's network with the model's values.
    fn network(&self, spec: &ModelSpec, model: &Model, device: &Device) -> Result<N, TrainError> {
        transfer::import((self.build)(spec, device)?, model)
    }

    fn train_steps(&self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        task.training.check().map_err(|error| fit::does_not_fit(error.to_string()))?;
        let preparation = fit::preparation(task.inputs);
        fit::check_examples(task.spec, &*self.examples, preparation.as_ref())?;
        let device = self.device.clone().autodiff();
        let correction = task.correction();
        let constants = match correction.constant {
            // As values of a network, they get the layout and the order in which burn holds the weights.
            Some(constant) => {
                let constants = fit::constants(task.model, constant)?;
                transfer::as_held(&self.network(task.spec, &constants, &self.device)?)
            }
            None => Vec::new(),
        };
        let mut stepper = Stepper::new(task.training.optimizer.clone(), correction.pull, constants, task.frozen);
        let resume = task.resume.filter(|checkpoint| suspended::fits(task, &stepper, checkpoint));
        let mut network = match resume {
            None => self.network(task.spec, task.model, &device)?,
            Some(checkpoint) => self.resumed(task, checkpoint, &mut stepper, &device)?,
        };
        let (mut steps, mut losses) = resume.map_or((0, 0.0), |checkpoint| (checkpoint.steps, checkpoint.losses));
        let mut batches = Batches::new(self.examples.len(), task.training, task.seed);
        batches.skip(steps);
        while let Some(indices) = batches.next_batch() {
            if should_stop() {
                return Err(match task.may_suspend && steps > 0 {
                    true => suspended::checkpoint(task, &network, &stepper, steps, losses)?.suspended(),
                    false => TrainError::Interrupted,
                });
            }
            if steps > 0 && task.is_over() {
                break;
            }
            if steps > 0 && task.checkpoint_is_due() {
                task.keep(suspended::checkpoint(task, &network, &stepper, steps, losses)?);
            }
            let batch = fit::batch(&*self.examples, indices, task.spec, preparation.as_ref())?;
            let inputs = rows(batch.inputs, indices.len(), &device);
            let mut pass = Pass::training(stream_of_step(task.seed, steps));
            let loss = loss_of(network.forward(inputs, &mut pass), &batch.targets, task.training.loss)?;
            losses += finite(&loss)?;
            steps += 1;
            network = stepper.step(network, loss.backward());
            if task.pauses_after(steps) {
                return Err(suspended::checkpoint(task, &network, &stepper, steps, losses)?.paused());
            }
        }
        let mut values = transfer::export(&network, task.model.values().len())?;
        fit::restore_frozen(&mut values, task);
        if values.iter().any(|value| !value.is_finite()) {
            return Err(TrainError::Diverged);
        }
        let (examples, loss) = (self.examples.len() as u64, losses / steps as f64);
        Ok(Trained { values, examples, steps, loss, metrics: Scalars::new() })
    }

    /// The network of a training that goes on, with the optimiser where it was.
    fn resumed(
        &self,
        task: &TrainTask<'_>,
        checkpoint: &Checkpoint,
        stepper: &mut Stepper,
        device: &Device,
    ) -> Result<N, TrainError> {
        let values = checkpoint.values().map(<[f32]>::to_vec).unwrap_or_default();
        let model = Model::new(Arc::clone(task.model.parameters()), values);
        let model = model.map_err(|error| fit::does_not_fit(format!("the values of a suspended training: {error}")))?;
        let network = stepper.settle(self.network(task.spec, &model, device)?);
        let anchors = match task.correction().pull > 0.0 {
            true => transfer::as_held(&self.network(task.spec, task.model, &self.device)?),
            false => Vec::new(),
        };
        suspended::resume(stepper, checkpoint, &transfer::as_held(&network), &anchors);
        Ok(network)
    }

    fn evaluate_batches(
        &self,
        task: &EvaluateTask<'_>,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<Evaluated, TrainError> {
        let preparation = fit::preparation(task.inputs);
        fit::check_examples(task.spec, &*self.examples, preparation.as_ref())?;
        let mut network = self.network(task.spec, task.model, &self.device)?;
        let mut measured = Measured::default();
        let all: Vec<usize> = (0..self.examples.len()).collect();
        for indices in all.chunks(evaluation_batch(task.spec)?) {
            if should_stop() {
                return Err(TrainError::Interrupted);
            }
            let Batch { inputs, targets } = fit::batch(&*self.examples, indices, task.spec, preparation.as_ref())?;
            let scores = network.forward(rows(inputs, indices.len(), &self.device), &mut Pass::evaluation());
            let loss = finite(&loss_of(scores.clone(), &targets, task.loss)?)?;
            let [_, outputs] = scores.dims();
            let scores = scores.try_into_vec_as::<f32>().map_err(|error| TrainError::Other(format!("{error:?}")))?;
            measured.add(indices.len(), loss, &scores, outputs, &targets);
        }
        Ok(measured.result())
    }
}

impl<N: Network> Trainer for BurnTrainer<N> {
    fn examples(&self) -> u64 {
        self.examples.len() as u64
    }

    fn follows(&self, _: &Algorithm) -> bool {
        true
    }

    fn exchanges(&self) -> bool {
        true
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        caught("network", || self.train_steps(task, should_stop))
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        caught("network", || self.evaluate_batches(task, should_stop))
    }

    fn describe(&mut self, task: &DescribeTask<'_>) -> Result<Description, TrainError> {
        caught("trainer", || fit::description(&*self.examples, task))
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
