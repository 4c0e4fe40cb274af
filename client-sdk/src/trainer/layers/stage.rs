//! What every part of a network does.

use tributary_protocol::seed::Stream;

use super::machine::Machine;
use super::parameter::Parameter;
use super::rule::Rule;

/// A forward pass.
pub(super) struct Pass<'a> {
    pub(super) machine: Machine,
    /// What dropout draws from; `None` in an evaluation.
    pub(super) randomness: Option<&'a mut Stream>,
}

impl Pass<'_> {
    pub(super) fn is_training(&self) -> bool {
        self.randomness.is_some()
    }
}

/// A backward pass, in which every parameter makes an optimiser step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) machine: Machine,
    pub(super) rule: Rule,
}

/// One or several layers. A batch is a flat buffer: `batch` rows with the values of one example each.
pub(super) trait Stage: Send {
    /// Number of values of one example that it puts out.
    fn outputs(&self) -> usize;

    /// Maps inputs `x` to outputs `y`. In training it keeps what [`Self::backward`] needs.
    fn forward(&mut self, x: &[f32], y: &mut [f32], pass: &mut Pass<'_>);

    /// Maps the gradient `dy` by the outputs, which it may overwrite, to the gradient `dx` by the inputs, and steps its
    /// parameters. `x` and `y` are those of the forward pass. `dx` has no defined values before; `None` if nothing
    /// before this stage is learned.
    fn backward(&mut self, x: &[f32], y: &[f32], dy: &mut [f32], dx: Option<&mut [f32]>, step: &Step);

    /// Whether any of its parameters is learned and not frozen.
    fn learns(&mut self) -> bool {
        self.parameters().iter().any(|parameter| !parameter.is_frozen)
    }

    /// Its learned parameters, in an order that depends on nothing but the layer.
    fn parameters(&mut self) -> Vec<&mut Parameter> {
        Vec::new()
    }

    /// Appends its parameters in the order and layout of the model.
    fn export(&self, values: &mut Vec<f32>);
}
