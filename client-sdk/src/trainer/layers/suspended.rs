//! Trainings that are suspended between two steps, and go on with the same bits.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_protocol::model::Model;

use super::super::contract::{Checkpoint, TrainError, TrainTask, VALUES};
use super::super::fit::does_not_fit;
use super::machine::Machine;
use super::network::Network;
use super::parameter::Parameter;
use super::rule::Rule;

/// The vectors of a checkpoint beside the model's values: the moments of the optimiser.
const MOMENTS: [&str; 2] = ["first_moment", "second_moment"];

/// Where a training is after these steps.
pub(super) fn checkpoint(
    task: &TrainTask<'_>,
    network: &mut Network,
    rule: &Rule,
    steps: u64,
    losses: f64,
) -> Checkpoint {
    let count = task.model.values().len();
    let mut vectors = BTreeMap::from([(VALUES.to_owned(), network.export(count))]);
    for (which, name) in MOMENTS.into_iter().enumerate().take(rule.moments()) {
        vectors.insert(name.to_owned(), network.moment(which, count));
    }
    Checkpoint { steps, losses, vectors, bytes: Vec::new() }
}

/// Whether a checkpoint is of such a training.
pub(super) fn fits(task: &TrainTask<'_>, rule: &Rule, checkpoint: &Checkpoint) -> bool {
    let needed = [VALUES].into_iter().chain(MOMENTS.into_iter().take(rule.moments()));
    checkpoint.has(needed, task.model.values().len())
}

/// The network of a training that goes on.
pub(super) fn resumed(
    task: &TrainTask<'_>,
    rule: &Rule,
    checkpoint: &Checkpoint,
    machine: Machine,
) -> Result<Network, TrainError> {
    let held = |name: &str| {
        let values = checkpoint.vectors.get(name).cloned().unwrap_or_default();
        let model = Model::new(Arc::clone(task.model.parameters()), values);
        let model = model.map_err(|error| does_not_fit(format!("the {name} of a suspended training: {error}")))?;
        Network::new(task.spec, &model, machine)
    };
    let mut network = held(VALUES)?;
    for (which, name) in MOMENTS.into_iter().enumerate().take(rule.moments()) {
        network.beside(held(name)?, |own, moment| own.set_moment(which, moment));
    }
    if rule.is_proximal() {
        network.beside(Network::new(task.spec, task.model, machine)?, Parameter::anchor_at);
    }
    Ok(network)
}
