//! Whether examples, model and network fit together.

use std::sync::Arc;

use tributary_protocol::inputs::{Description, Inputs};
use tributary_protocol::layers::{Layer, ModelSpec};
use tributary_protocol::model::Model;

use super::contract::{DescribeTask, TrainError, TrainTask};
use crate::examples::{Batch, Examples, ExamplesError};
use crate::inputs::{Preparation, describe};

/// There must be examples, of the network's input shape. A network that reads vectors accepts any shape of as many
/// values.
pub(super) fn check_examples(
    spec: &ModelSpec,
    examples: &dyn Examples,
    preparation: Option<&Preparation>,
) -> Result<(), TrainError> {
    if examples.is_empty() {
        return Err(TrainError::NoExamples);
    }
    let ModelSpec::Layers(model) = spec else { return Ok(()) };
    let given = examples.input_shape();
    let values = given.iter().product::<usize>();
    if let Some(columns) = preparation.and_then(Preparation::raw_width) {
        let what = || does_not_fit(format!("the job has {columns} columns, and an example has {values} values"));
        return if values == columns { Ok(()) } else { Err(what()) };
    }
    if model.input == given || model.input == [values] {
        return Ok(());
    }
    Err(does_not_fit(format!("the network reads inputs {:?}, and the examples are {given:?}", model.input)))
}

/// The examples with these indices as the network reads them, checked against it.
pub(super) fn batch(
    examples: &dyn Examples,
    indices: &[usize],
    spec: &ModelSpec,
    preparation: Option<&Preparation>,
) -> Result<Batch, TrainError> {
    let batch = match preparation {
        None => examples.batch(indices),
        Some(preparation) => preparation.batch(examples, indices),
    };
    let batch = batch.map_err(|error| match error {
        ExamplesError::Unfit { .. } => does_not_fit(error.to_string()),
        error => TrainError::Other(error.to_string()),
    })?;
    let each = examples.input_shape().iter().product::<usize>();
    let expected = indices.len() * preparation.map_or(each, |preparation| preparation.width(each));
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

/// How a task's examples become what its network reads; `None` where they are fed as they are.
pub(super) fn preparation(inputs: Option<&Inputs>) -> Option<Preparation> {
    inputs.map(Preparation::of)
}

/// The sums of all examples.
pub(super) fn description(examples: &dyn Examples, task: &DescribeTask<'_>) -> Result<Description, TrainError> {
    match examples.is_empty() {
        true => Err(TrainError::NoExamples),
        false => describe(examples, task.inputs).map_err(|error| does_not_fit(error.to_string())),
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
