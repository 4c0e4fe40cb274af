//! A network of stages with their buffers, which are made in the first batch.

use tributary_protocol::layers::ModelSpec;
use tributary_protocol::model::{Model, ParameterList};

use super::super::contract::TrainError;
use super::super::fit::does_not_fit;
use super::build::stages;
use super::machine::Machine;
use super::parameter::Parameter;
use super::stage::{Pass, Stage, Step};

pub(super) struct Network {
    stages: Vec<Box<dyn Stage>>,
    /// Number of values of an example.
    inputs: usize,
    /// Number of scores in a row: the last dimension of the output.
    outputs: usize,
    /// In training, what each stage put out; in an evaluation, two buffers that the stages take turns with.
    values: Vec<Vec<f32>>,
    /// The gradient by the outputs of a stage, and by its inputs.
    gradients: [Vec<f32>; 2],
}

impl Network {
    /// A network with the model's values.
    ///
    /// # Errors
    /// [`TrainError::DoesNotFit`] if the spec lists parameters instead of layers, or if the model has other parameters.
    pub(super) fn new(spec: &ModelSpec, model: &Model, machine: Machine) -> Result<Self, TrainError> {
        let ModelSpec::Layers(network) = spec else {
            return Err(does_not_fit("the job's model is a list of parameters: the app must bring the network"));
        };
        let shapes = network.shapes().map_err(|error| does_not_fit(error.to_string()))?;
        let parameters = spec.parameters().map_err(|error| does_not_fit(error.to_string()))?;
        check_parameters(&parameters, model.parameters())?;
        let outputs = shapes.last().and_then(|shape| shape.last()).copied().unwrap_or(1);
        let stages = stages(network, &shapes, model, machine.level)?;
        let inputs = network.input.iter().product();
        Ok(Self { stages, inputs, outputs, values: Vec::new(), gradients: [Vec::new(), Vec::new()] })
    }

    /// Visits each parameter with that of another network of the same layers.
    pub(super) fn beside(&mut self, mut other: Self, visit: impl Fn(&mut Parameter, &mut Parameter)) {
        let others = other.stages.iter_mut().flat_map(|stage| stage.parameters());
        for (own, other) in self.stages.iter_mut().flat_map(|stage| stage.parameters()).zip(others) {
            visit(own, other);
        }
    }

    /// A moment of the optimiser for each value, in the model's order. Where nothing is learned, as in running
    /// statistics, it is any value.
    pub(super) fn moment(&mut self, which: usize, count: usize) -> Vec<f32> {
        let swap = |network: &mut Self| {
            let parameters = network.stages.iter_mut().flat_map(|stage| stage.parameters());
            parameters.for_each(|parameter| parameter.swap_moment(which));
        };
        swap(self);
        let moment = self.export(count);
        swap(self);
        moment
    }

    /// Number of scores in a row.
    pub(super) fn outputs(&self) -> usize {
        self.outputs
    }

    /// The scores of a batch of examples, row by row.
    pub(super) fn forward(&mut self, inputs: &[f32], pass: &mut Pass<'_>) -> &[f32] {
        let batch = inputs.len() / self.inputs;
        let is_training = pass.is_training();
        self.values.resize_with(if is_training { self.stages.len() } else { 2 }, Vec::new);
        let mut last = 0;
        for (index, stage) in self.stages.iter_mut().enumerate() {
            let place = if is_training { index } else { index % 2 };
            let mut y = std::mem::take(&mut self.values[place]);
            y.resize(batch * stage.outputs(), 0.0);
            let x = if index == 0 { inputs } else { &self.values[last] };
            stage.forward(x, &mut y, pass);
            self.values[place] = y;
            last = place;
        }
        &self.values[last]
    }

    /// One optimiser step of every parameter, from the gradient by the scores of the last forward pass.
    pub(super) fn backward(&mut self, inputs: &[f32], gradient: &[f32], step: &Step) {
        let batch = inputs.len() / self.inputs;
        let first = self.stages.iter_mut().position(|stage| stage.learns()).unwrap_or_default();
        let [now, next] = &mut self.gradients;
        now.clear();
        now.extend_from_slice(gradient);
        for (index, stage) in self.stages.iter_mut().enumerate().skip(first).rev() {
            let x = if index == 0 { inputs } else { &self.values[index - 1] };
            next.resize(if index > first { x.len() } else { 0 }, 0.0);
            debug_assert_eq!(now.len(), batch * stage.outputs());
            let dx = (index > first).then_some(next.as_mut_slice());
            stage.backward(x, &self.values[index], now, dx, step);
            std::mem::swap(now, next);
        }
    }

    /// All values in the model's order; `count` is their number, to allocate once.
    pub(super) fn export(&self, count: usize) -> Vec<f32> {
        let mut values = Vec::with_capacity(count);
        self.stages.iter().for_each(|stage| stage.export(&mut values));
        values
    }
}

/// Names and shapes must be those of the network.
fn check_parameters(network: &ParameterList, model: &ParameterList) -> Result<(), TrainError> {
    for (index, expected) in network.specs().iter().enumerate() {
        let name = &expected.name;
        let Some(given) = model.specs().get(index) else {
            return Err(does_not_fit(format!("the model has no parameter {name:?}, which the network has")));
        };
        if given.name != *name {
            let given = &given.name;
            return Err(does_not_fit(format!(
                "parameter {index} is {given:?} in the model and {name:?} in the network"
            )));
        }
        if given.shape != expected.shape {
            let (given, expected) = (&given.shape, &expected.shape);
            return Err(does_not_fit(format!(
                "parameter {name:?} has the shape {given:?} in the model and {expected:?} in the network"
            )));
        }
    }
    match model.specs().get(network.specs().len()) {
        None => Ok(()),
        Some(more) => Err(does_not_fit(format!("the network has no parameter {:?}, which the model has", more.name))),
    }
}
