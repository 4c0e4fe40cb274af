//! Whether examples, model and network fit together.

use std::sync::Arc;

use tributary_protocol::layers::{Layer, ModelSpec};
use tributary_protocol::model::Model;

use super::contract::{TrainError, TrainTask};
use crate::examples::{Batch, Examples};

/// There must be examples, of the network's input shape. A network that reads vectors accepts any shape of as many
/// values.
pub(super) fn check_examples(spec: &ModelSpec, examples: &dyn Examples) -> Result<(), TrainError> {
    if examples.is_empty() {
        return Err(TrainError::NoExamples);
    }
    let ModelSpec::Layers(model) = spec else { return Ok(()) };
    let given = examples.input_shape();
    let values = given.iter().product::<usize>();
    if model.input == given || model.input == [values] {
        return Ok(());
    }
    Err(does_not_fit(format!("the network reads inputs {:?}, and the examples are {given:?}", model.input)))
}

/// The examples with these indices, checked against the network.
pub(super) fn batch(examples: &dyn Examples, indices: &[usize], spec: &ModelSpec) -> Result<Batch, TrainError> {
    let batch = examples.batch(indices).map_err(|error| TrainError::Other(error.to_string()))?;
    let expected = indices.len() * examples.input_shape().iter().product::<usize>();
    if batch.inputs.len() != expected {
        let got = batch.inputs.len();
        return Err(does_not_fit(format!("a batch has {got} input values instead of {expected}")));
    }
    check_tokens(spec, &batch.inputs)?;
    Ok(batch)
}

/// Token ids must be whole numbers below the size of the vocabulary.
fn check_tokens(spec: &ModelSpec, inputs: &[f32]) -> Result<(), TrainError> {
    let ModelSpec::Layers(model) = spec else { return Ok(()) };
    let Some(Layer::Embedding { tokens, .. }) = model.layers.first() else { return Ok(()) };
    let is_token = |id: &f32| id.fract() == 0.0 && *id >= 0.0 && (*id as usize) < *tokens;
    match inputs.iter().find(|id| !is_token(id)) {
        None => Ok(()),
        Some(id) => Err(does_not_fit(format!("{id} is not a token id: those are 0 to {}", tokens - 1))),
    }
}

/// What is added to the gradients of a model, as values of its parameters.
pub(super) fn constants(model: &Model, constant: &[f32]) -> Result<Model, TrainError> {
    let constants = Model::new(Arc::clone(model.parameters()), constant.to_vec());
    constants.map_err(|error| does_not_fit(format!("the constants of the gradients: {error}")))
}

/// For each parameter, ones where it is frozen, else zeros, as values of a model.
#[cfg(feature = "layers")]
pub(super) fn frozen(task: &TrainTask<'_>) -> Model {
    let parameters = task.model.parameters();
    let values = (0..parameters.specs().len()).flat_map(|index| {
        std::iter::repeat_n(f32::from(u8::from(task.is_frozen(index))), parameters.range(index).len())
    });
    Model::new(Arc::clone(parameters), values.collect()).expect("ones and zeros are finite")
}

/// Puts back what running statistics did to frozen parameters: a forward pass moves them.
pub(super) fn restore_frozen(values: &mut [f32], task: &TrainTask<'_>) {
    for index in (0..task.frozen.len()).filter(|index| task.is_frozen(*index)) {
        let range = task.model.parameters().range(index);
        values[range].copy_from_slice(task.model.tensor(index));
    }
}

pub(super) fn does_not_fit(what: impl Into<String>) -> TrainError {
    TrainError::DoesNotFit(what.into())
}
