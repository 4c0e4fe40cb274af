//! Whether examples, model and network fit together.

#[cfg(feature = "layers")]
use std::sync::Arc;

use tributary_protocol::layers::{Layer, ModelSpec};
#[cfg(feature = "layers")]
use tributary_protocol::model::Model;

use super::contract::TrainError;
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
#[cfg(feature = "layers")]
pub(super) fn constants(model: &Model, constant: &[f32]) -> Result<Model, TrainError> {
    let constants = Model::new(Arc::clone(model.parameters()), constant.to_vec());
    constants.map_err(|error| does_not_fit(format!("the constants of the gradients: {error}")))
}

pub(super) fn does_not_fit(what: impl Into<String>) -> TrainError {
    TrainError::DoesNotFit(what.into())
}
