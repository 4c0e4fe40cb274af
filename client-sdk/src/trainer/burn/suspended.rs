//! Trainings with burn that are suspended between two steps, and go on with the same bits.

use std::collections::BTreeMap;

use burn::tensor::{Device, Tensor, TensorData};

use super::super::contract::{Checkpoint, TrainError, TrainTask, VALUES};
use super::network::Network;
use super::optimizer::Stepper;
use super::transfer;

/// The vectors of a checkpoint beside the model's values: the moments of the optimiser as burn holds them.
/// `LayerTrainer` keeps moments in the model's order, so its vectors have other names.
const MOMENTS: [&str; 2] = ["first_moment_of_burn", "second_moment_of_burn"];

/// Where a training is after these steps.
pub(super) fn checkpoint<N: Network>(
    task: &TrainTask<'_>,
    network: &N,
    stepper: &Stepper,
    steps: u64,
    losses: f64,
) -> Result<Checkpoint, TrainError> {
    let values = transfer::export(network, task.model.values().len())?;
    let mut vectors = BTreeMap::from([(VALUES.to_owned(), values)]);
    let lengths: Vec<usize> = transfer::as_held(network).iter().map(|held| held.dims()[0]).collect();
    for (which, name) in MOMENTS.into_iter().enumerate().take(stepper.moments()) {
        vectors.insert(name.to_owned(), stepper.moment(which, &lengths)?);
    }
    Ok(Checkpoint { steps, losses, vectors, bytes: Vec::new() })
}

/// Whether a checkpoint is of such a training.
pub(super) fn fits(task: &TrainTask<'_>, stepper: &Stepper, checkpoint: &Checkpoint) -> bool {
    let needed = [VALUES].into_iter().chain(MOMENTS.into_iter().take(stepper.moments()));
    checkpoint.has(needed, task.model.values().len())
}

/// Puts an optimiser where it was. `anchors` are the weights before the first step, where the rule pulls towards them.
pub(super) fn resume(stepper: &mut Stepper, checkpoint: &Checkpoint, held: &[Tensor<1>], anchors: &[Tensor<1>]) {
    let moments = MOMENTS.map(|name| checkpoint.vectors.get(name).map(Vec::as_slice).unwrap_or_default());
    let mut first = 0;
    for (index, held) in held.iter().enumerate() {
        let (length, device) = (held.dims()[0], held.device().without_autodiff());
        let moments = moments.map(|moment| Some(tensor(moment.get(first..first + length)?, &device)));
        stepper.resume(index, moments, anchors.get(index).cloned());
        first += length;
    }
    stepper.skip(checkpoint.steps);
}

fn tensor(values: &[f32], device: &Device) -> Tensor<1> {
    Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), device)
}
