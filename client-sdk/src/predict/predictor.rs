//! The network of a prediction.

use tributary_protocol::layers::{Layer, LayeredModel, ModelSpec};
use tributary_protocol::model::{Model, ParameterList, ParameterSpec};

use super::build::steps;
use super::error::PredictError;
use super::scratch::Pool;
use super::step::Step;
use crate::kernels::Level;

/// A network with the values of a model. It may be shared by threads; each prediction takes one thread.
#[derive(Debug)]
pub struct Predictor {
    steps: Vec<Step>,
    level: Level,
    input_shape: Vec<usize>,
    output_shape: Vec<usize>,
    /// Size of the vocabulary, if the first layer reads token ids.
    tokens: Option<usize>,
    pool: Pool,
}

impl Predictor {
    /// A network of these layers with the model's values.
    ///
    /// # Errors
    /// [`PredictError`] if a layer is invalid, or if the model's parameters are not those of the layers.
    pub fn new(network: &LayeredModel, model: &Model) -> Result<Self, PredictError> {
        let level = Level::best();
        let mut shapes = checked_shapes(network, model)?;
        let (steps, room) = steps(network, &shapes, model, level)?;
        let tokens = match network.layers.first() {
            Some(Layer::Embedding { tokens, .. }) => Some(*tokens),
            _ => None,
        };
        let largest = steps.iter().map(Step::outputs).max().unwrap_or_default();
        Ok(Self {
            steps,
            level,
            input_shape: network.input.clone(),
            output_shape: shapes.pop().unwrap_or_default(),
            tokens,
            pool: Pool::new(largest, room),
        })
    }

    /// Shape of one example's inputs.
    pub fn input_shape(&self) -> &[usize] {
        &self.input_shape
    }

    /// Shape of one example's outputs.
    pub fn output_shape(&self) -> &[usize] {
        &self.output_shape
    }

    /// The network's outputs for one example, of the shapes [`Self::input_shape`] and [`Self::output_shape`]. The
    /// inputs are those that the network was trained with, after any preparation. The same inputs give the same bits on
    /// the same machine. A NaN among the inputs is not hidden.
    ///
    /// # Errors
    /// [`PredictError`] if a length is wrong, or if an input of an embedding is not a token id. The outputs stay as
    /// they were.
    pub fn predict(&self, inputs: &[f32], outputs: &mut [f32]) -> Result<(), PredictError> {
        self.check(inputs, outputs)?;
        let mut scratch = self.pool.take();
        let last = self.steps.len().saturating_sub(1);
        let [mut before, mut after] = scratch.values.each_mut();
        let mut count = inputs.len();
        for (index, step) in self.steps.iter().enumerate() {
            let x = if index == 0 { inputs } else { &before[..count] };
            count = step.outputs();
            let y = if index == last { &mut *outputs } else { &mut after[..count] };
            step.run(x, y, &mut scratch.room, self.level);
            std::mem::swap(&mut before, &mut after);
        }
        self.pool.put_back(scratch);
        Ok(())
    }

    fn check(&self, inputs: &[f32], outputs: &[f32]) -> Result<(), PredictError> {
        let expected = self.input_shape.iter().product();
        if inputs.len() != expected {
            return Err(PredictError::Inputs { shape: self.input_shape.clone(), expected, got: inputs.len() });
        }
        let expected = self.output_shape.iter().product();
        if outputs.len() != expected {
            return Err(PredictError::Outputs { expected, got: outputs.len() });
        }
        let Some(tokens) = self.tokens else { return Ok(()) };
        let is_token = |id: &f32| id.fract() == 0.0 && *id >= 0.0 && (*id as usize) < tokens;
        match inputs.iter().find(|id| !is_token(id)) {
            None => Ok(()),
            Some(id) => Err(PredictError::NotAToken { id: *id, tokens }),
        }
    }
}

/// The shapes after each layer of a network that has the model's parameters.
pub(super) fn checked_shapes(network: &LayeredModel, model: &Model) -> Result<Vec<Vec<usize>>, PredictError> {
    let shapes = network.shapes()?;
    let parameters = ModelSpec::Layers(network.clone()).parameters()?;
    check_parameters(&parameters, model.parameters())?;
    Ok(shapes)
}

/// Names and shapes must be those of the network, in its order.
fn check_parameters(network: &ParameterList, model: &ParameterList) -> Result<(), PredictError> {
    let (network, model) = (network.specs(), model.specs());
    let index = (0..network.len().max(model.len())).find(|index| network.get(*index) != model.get(*index));
    let Some(index) = index else { return Ok(()) };
    let named = |parameter: Option<&ParameterSpec>| match parameter {
        Some(ParameterSpec { name, shape }) => format!("{name:?} of the shape {shape:?}"),
        None => "missing".to_owned(),
    };
    let (given, expected) = (named(model.get(index)), named(network.get(index)));
    let text = format!("parameter {index} is {given} in the model, and {expected} in the network");
    Err(PredictError::OtherParameters(text))
}
