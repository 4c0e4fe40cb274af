//! Training of networks as data on the CPU, without a graph of operations.
//!
//! Each kind of layer has a forward and a backward pass over flat buffers, which are made once. In a backward pass a
//! block of a gradient goes to the optimiser as soon as it is made. All randomness comes from the task's seed, and sums
//! have a fixed order, so the same seed, model and examples give the same bits on any number of threads.
//!
//! | module | what it is |
//! |---|---|
//! | `network`, `build` | stages made of a list of layers, and their way through a batch |
//! | `stage`, `rule`, `parameter`, `loss` | what a stage does; optimiser steps; losses |
//! | `suspended` | trainings that stop and go on later |
//! | `linear`, `low_rank`, `matrix`, `recurrent`, `embedding` | layers with products of rows |
//! | `images` | convolutions and pools |
//! | `pointwise`, `dropout`, `layer_norm`, `batch_norm` | layers of values one by one, and norms |
//! | `machine` | instruction sets and threads |

mod batch_norm;
mod build;
mod dropout;
mod embedding;
mod images;
mod layer_norm;
mod linear;
mod loss;
mod low_rank;
mod machine;
mod matrix;
mod network;
mod parameter;
mod pointwise;
mod recurrent;
mod rule;
mod stage;
mod suspended;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tributary_protocol::inputs::Description;
#[cfg(test)]
use tributary_protocol::layers::ModelSpec;
#[cfg(test)]
use tributary_protocol::model::Model;
use tributary_protocol::plan::Algorithm;
use tributary_protocol::scalars::Scalars;

use self::loss::loss;
use self::machine::Machine;
use self::network::Network;
use self::parameter::Parameter;
use self::rule::Rule;
use self::stage::{Pass, Step};
use super::batches::{Batches, evaluation_batch};
use super::contract::{DescribeTask, EvaluateTask, Evaluated, TrainError, TrainTask, Trained, Trainer};
use super::dropout::stream_of_step;
use super::fit;
use super::panics::caught;
use super::score::{Measured, aim};
use crate::examples::{Batch, Examples};
use crate::kernels::Level;

/// A [`Trainer`] for jobs whose model is a list of layers. It computes on the CPU, with the widest vectors that the CPU
/// has.
pub struct LayerTrainer {
    examples: Arc<dyn Examples>,
    machine: Machine,
}

impl LayerTrainer {
    /// A trainer that computes on one thread.
    pub fn new(examples: Arc<dyn Examples>) -> Self {
        Self { examples, machine: Machine { level: Level::best(), threads: 1 } }
    }

    /// Computes on so many threads, at least one. The result is the same, bit by bit. Only large layers and images are
    /// shared out, images by up to four threads.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.machine.threads = threads.max(1);
        self
    }

    /// Computes with the vectors of this level.
    #[cfg(test)]
    fn at_level(mut self, level: Level) -> Self {
        self.machine.level = level;
        self
    }

    fn train_steps(&self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        let (spec, training, machine) = (task.spec, task.training, self.machine);
        training.check().map_err(|error| fit::does_not_fit(error.to_string()))?;
        let preparation = fit::preparation(task.inputs);
        fit::check_examples(spec, &*self.examples, preparation.as_ref())?;
        let correction = task.correction();
        let rule = |steps| Rule::new(&training.optimizer, &correction, steps);
        let resume = task.resume.filter(|checkpoint| suspended::fits(task, &rule(1), checkpoint));
        let mut network = match resume {
            None => Network::new(spec, task.model, machine)?,
            Some(checkpoint) => suspended::resumed(task, &rule(1), checkpoint, machine)?,
        };
        if let Some(constant) = correction.constant {
            let constants = Network::new(spec, &fit::constants(task.model, constant)?, machine)?;
            network.beside(constants, Parameter::shift_by);
        }
        if !task.frozen.is_empty() {
            let frozen = Network::new(spec, &fit::frozen(task), machine)?;
            network.beside(frozen, |own, frozen| own.is_frozen = frozen.values.first() == Some(&1.0));
        }
        let (mut steps, mut losses) = resume.map_or((0, 0.0), |checkpoint| (checkpoint.steps, checkpoint.losses));
        let mut batches = Batches::new(self.examples.len(), training, task.seed);
        batches.skip(steps);
        let mut gradient = Vec::new();
        while let Some(indices) = batches.next_batch() {
            if should_stop() {
                return Err(match task.may_suspend && steps > 0 {
                    true => suspended::checkpoint(task, &mut network, &rule(1), steps, losses).suspended(),
                    false => TrainError::Interrupted,
                });
            }
            if steps > 0 && task.is_over() {
                break;
            }
            if steps > 0 && task.checkpoint_is_due() {
                task.keep(suspended::checkpoint(task, &mut network, &rule(1), steps, losses));
            }
            let Batch { inputs, targets } = fit::batch(&*self.examples, indices, spec, preparation.as_ref())?;
            let outputs = network.outputs();
            let mut randomness = stream_of_step(task.seed, steps);
            let scores = network.forward(&inputs, &mut Pass { machine, randomness: Some(&mut randomness) });
            let aim = aim(&targets, training.loss, scores.len() / outputs, outputs)?;
            losses += finite(loss(scores, &aim, &mut gradient))?;
            steps += 1;
            network.backward(&inputs, &gradient, &Step { machine, rule: rule(steps) });
            if task.pauses_after(steps) {
                return Err(suspended::checkpoint(task, &mut network, &rule(1), steps, losses).paused());
            }
        }
        let mut values = network.export(task.model.values().len());
        fit::restore_frozen(&mut values, task);
        if values.iter().any(|value| !value.is_finite()) {
            return Err(TrainError::Diverged);
        }
        let (examples, loss) = (self.examples.len() as u64, losses / steps as f64);
        Ok(Trained { values, examples, steps, loss, metrics: Scalars::new() })
    }

    fn evaluate_batches(
        &self,
        task: &EvaluateTask<'_>,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<Evaluated, TrainError> {
        let preparation = fit::preparation(task.inputs);
        fit::check_examples(task.spec, &*self.examples, preparation.as_ref())?;
        let mut network = Network::new(task.spec, task.model, self.machine)?;
        let (mut measured, mut gradient) = (Measured::default(), Vec::new());
        let all: Vec<usize> = (0..self.examples.len()).collect();
        for indices in all.chunks(evaluation_batch(task.spec)?) {
            if should_stop() {
                return Err(TrainError::Interrupted);
            }
            let Batch { inputs, targets } = fit::batch(&*self.examples, indices, task.spec, preparation.as_ref())?;
            let outputs = network.outputs();
            let scores = network.forward(&inputs, &mut Pass { machine: self.machine, randomness: None });
            let aim = aim(&targets, task.loss, scores.len() / outputs, outputs)?;
            let loss = finite(loss(scores, &aim, &mut gradient))?;
            measured.add(indices.len(), loss, scores, outputs, &targets);
        }
        Ok(measured.result())
    }
}

impl Trainer for LayerTrainer {
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
        caught("trainer", || self.train_steps(task, should_stop))
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        caught("trainer", || self.evaluate_batches(task, should_stop))
    }

    fn describe(&mut self, task: &DescribeTask<'_>) -> Result<Description, TrainError> {
        caught("trainer", || fit::description(&*self.examples, task))
    }
}

/// The outputs of an evaluation for some examples, for tests of predictions.
#[cfg(test)]
pub(crate) fn evaluated(spec: &ModelSpec, model: &Model, inputs: &[f32]) -> Vec<f32> {
    let machine = Machine { level: Level::best(), threads: 1 };
    let mut network = Network::new(spec, model, machine).unwrap();
    network.forward(inputs, &mut Pass { machine, randomness: None }).to_vec()
}

fn finite(loss: f64) -> Result<f64, TrainError> {
    if loss.is_finite() { Ok(loss) } else { Err(TrainError::Diverged) }
}
