//! Which trainings have kernels. All others are computed on the CPU.

use tributary_protocol::layers::{LayeredModel, ModelSpec};
use tributary_protocol::plan::{Loss, Optimizer};

use super::super::contract::TrainTask;

/// The factors of stochastic gradient descent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descent {
    pub(super) rate: f32,
    pub(super) penalty: f32,
    pub(super) momentum: f32,
    pub(super) nesterov: bool,
}

/// The network and the optimiser, if there are kernels for all of the training but maybe its layers.
///
/// # Errors
/// What has no kernel, as text for a person.
pub(super) fn covered<'a>(task: &TrainTask<'a>) -> Result<(&'a LayeredModel, Descent), String> {
    let ModelSpec::Layers(network) = task.spec else { return Err("the model is no list of layers".to_owned()) };
    if task.training.loss != Loss::CrossEntropy {
        return Err("the loss is not cross-entropy".to_owned());
    }
    let Optimizer::Sgd { learning_rate, momentum, weight_decay, nesterov } = task.training.optimizer else {
        return Err("the optimiser is not sgd".to_owned());
    };
    if task.training.algorithm.corrects_gradients() {
        return Err(format!("{} corrects gradients", task.training.algorithm.as_str()));
    }
    // Each is a call of its own, and this trainer remembers the answers of one only.
    if !task.may_suspend {
        return Err("the job has several trainings in one assignment".to_owned());
    }
    if task.resume.is_some() {
        return Err("the training was begun on the CPU".to_owned());
    }
    // A model with other parameters than the network is an error, which the CPU's trainer words.
    if task.spec.parameters().ok().is_none_or(|expected| expected.specs() != task.model.parameters().specs()) {
        return Err("the model does not fit the network".to_owned());
    }
    let (rate, penalty, momentum) = (learning_rate as f32, weight_decay as f32, momentum as f32);
    Ok((network, Descent { rate, penalty, momentum, nesterov }))
}
