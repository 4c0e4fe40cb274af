//! Optimiser steps with PyTorch's formulas (`torch.optim`, version 2), so that settings carry over. Burn's own
//! optimisers differ in details.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Gradients, Tensor};
use tributary_protocol::plan::Optimizer;

use super::super::contract::TrainError;

/// An optimiser and its state for each parameter.
pub(super) struct Stepper {
    optimizer: Optimizer,
    /// Weight of the distance from the first weights, added to each gradient; 0 for none.
    pull: f64,
    /// What is added to each gradient, one tensor per parameter in burn's visiting order and layout; empty for nothing.
    constants: Vec<Tensor<1>>,
    /// For each parameter, whether it stays as it is; empty if none does.
    frozen: Vec<bool>,
    /// Number of steps so far.
    steps: i32,
    /// One per parameter, in burn's visiting order.
    states: Vec<State>,
}

/// What an optimiser keeps of one parameter from step to step; nothing before the first step.
#[derive(Default)]
struct State {
    /// SGD: the velocity. Adam: the decaying mean of the gradient.
    first: Option<Tensor<1>>,
    /// Adam: the decaying mean of the squared gradient.
    second: Option<Tensor<1>>,
    /// The weights before the first step, where the rule pulls towards them.
    anchor: Option<Tensor<1>>,
}

impl Stepper {
    pub(super) fn new(optimizer: Optimizer, pull: f64, constants: Vec<Tensor<1>>, frozen: &[bool]) -> Self {
        Self { optimizer, pull, constants, frozen: frozen.to_vec(), steps: 0, states: Vec::new() }
    }

    /// Moments that the optimiser keeps of each value.
    pub(super) fn moments(&self) -> usize {
        match self.optimizer {
            Optimizer::Sgd { momentum: 0.0, .. } => 0,
            Optimizer::Sgd { .. } => 1,
            Optimizer::Adam { .. } | Optimizer::AdamW { .. } => 2,
        }
    }

    /// A moment of all parameters of these lengths, one behind the other. It is zero before the first step.
    pub(super) fn moment(&self, which: usize, lengths: &[usize]) -> Result<Vec<f32>, TrainError> {
        let mut values = Vec::with_capacity(lengths.iter().sum());
        for (index, length) in lengths.iter().enumerate() {
            let state = self.states.get(index);
            match state.and_then(|state| if which == 0 { state.first.clone() } else { state.second.clone() }) {
                None => values.resize(values.len() + length, 0.0),
                Some(moment) => {
                    let moment = moment.try_into_vec_as::<f32>();
                    values.extend(moment.map_err(|error| TrainError::Other(format!("{error:?}")))?);
                }
            }
        }
        Ok(values)
    }

    /// Puts the state of a parameter where it was; parameters come in burn's visiting order. A moment of zeros is the
    /// same as none: it adds nothing.
    pub(super) fn resume(&mut self, index: usize, [first, second]: [Option<Tensor<1>>; 2], anchor: Option<Tensor<1>>) {
        self.states.resize_with(index + 1, State::default);
        self.states[index] = State { first, second, anchor };
    }

    /// Lays parameters out as a step leaves them. Burn may hold a loaded one transposed, and products with it would sum
    /// in another order.
    pub(super) fn settle<N: Module>(&self, network: N) -> N {
        network.map(&mut Settle { frozen: &self.frozen, next: 0 })
    }

    /// Counts steps that were taken earlier.
    pub(super) fn skip(&mut self, steps: u64) {
        self.steps = i32::try_from(steps).unwrap_or(i32::MAX);
    }

    /// Updates all parameters that have a gradient and are not frozen.
    pub(super) fn step<N: Module>(&mut self, network: N, gradients: Gradients) -> N {
        self.steps = self.steps.saturating_add(1);
        network.map(&mut Step { stepper: self, gradients, next: 0 })
    }

    /// The new value of parameter `index`.
    fn moved(&mut self, index: usize, weight: Tensor<1>, gradient: Tensor<1>) -> Tensor<1> {
        let mut state = std::mem::take(&mut self.states[index]);
        let anchor = (self.pull > 0.0).then(|| state.anchor.take().unwrap_or_else(|| weight.clone()));
        let gradient = match &anchor {
            Some(anchor) => gradient + (weight.clone() - anchor.clone()) * self.pull,
            None => gradient,
        };
        let gradient = match self.constants.get(index) {
            Some(constant) => gradient + constant.clone(),
            None => gradient,
        };
        let (weight, state) = match self.optimizer {
            Optimizer::Sgd { learning_rate, momentum, weight_decay, nesterov } => {
                let gradient = with_penalty(gradient, &weight, weight_decay);
                let (direction, state) = with_momentum(gradient, state, momentum, nesterov);
                (weight - direction * learning_rate, state)
            }
            Optimizer::Adam { learning_rate, beta1, beta2, epsilon, weight_decay } => {
                let gradient = with_penalty(gradient, &weight, weight_decay);
                let adam = Adam { learning_rate, beta1, beta2, epsilon, steps: self.steps };
                adam.moved(weight, gradient, state)
            }
            Optimizer::AdamW { learning_rate, beta1, beta2, epsilon, weight_decay } => {
                let weight = if weight_decay == 0.0 { weight } else { weight * (1.0 - learning_rate * weight_decay) };
                let adam = Adam { learning_rate, beta1, beta2, epsilon, steps: self.steps };
                adam.moved(weight, gradient, state)
            }
        };
        self.states[index] = State { anchor, ..state };
        weight
    }
}

/// `g + weight_decay w`.
fn with_penalty(gradient: Tensor<1>, weight: &Tensor<1>, weight_decay: f64) -> Tensor<1> {
    if weight_decay == 0.0 { gradient } else { gradient + weight.clone() * weight_decay }
}

/// `v = momentum v + g`, first `v = g`; the direction is `v`, with Nesterov `g + momentum v`.
fn with_momentum(gradient: Tensor<1>, state: State, momentum: f64, nesterov: bool) -> (Tensor<1>, State) {
    if momentum == 0.0 {
        return (gradient, state);
    }
    let velocity = decayed(state.first, momentum, gradient.clone());
    let direction = if nesterov { gradient + velocity.clone() * momentum } else { velocity.clone() };
    (direction, State { first: Some(velocity), ..State::default() })
}

/// `share old + new`; `new` in the first step.
fn decayed(old: Option<Tensor<1>>, share: f64, new: Tensor<1>) -> Tensor<1> {
    match old {
        Some(old) => old * share + new,
        None => new,
    }
}

/// Kingma and Ba (2015), algorithm 1, with the two bias corrections as PyTorch applies them.
struct Adam {
    learning_rate: f64,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    /// Number of this step, from 1.
    steps: i32,
}

impl Adam {
    /// `m = b1 m + (1 - b1) g`, `v = b2 v + (1 - b2) g^2`,
    /// `w - lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + epsilon)`.
    fn moved(&self, weight: Tensor<1>, gradient: Tensor<1>, state: State) -> (Tensor<1>, State) {
        let first = decayed(state.first, self.beta1, gradient.clone() * (1.0 - self.beta1));
        let second = decayed(state.second, self.beta2, gradient.square() * (1.0 - self.beta2));
        let rate = self.learning_rate / (1.0 - self.beta1.powi(self.steps));
        let correction = (1.0 - self.beta2.powi(self.steps)).sqrt();
        let denominator = second.clone().sqrt() / correction + self.epsilon;
        (weight - first.clone() / denominator * rate, State { first: Some(first), second: Some(second), anchor: None })
    }
}

struct Settle<'a> {
    frozen: &'a [bool],
    /// Index of the parameter that burn visits next.
    next: usize,
}

impl ModuleMapper for Settle<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let is_frozen = self.frozen.get(self.next).copied().unwrap_or_default();
        self.next += 1;
        let (id, weight, mapper) = param.consume();
        let value = match weight.is_require_grad() && !is_frozen {
            false => weight,
            true => {
                let shape = weight.dims();
                let count: usize = shape.iter().product();
                Tensor::from_inner(weight.inner().reshape([count]).reshape(shape)).require_grad()
            }
        };
        Param::from_mapped_value(id, value, mapper)
    }
}

struct Step<'a> {
    stepper: &'a mut Stepper,
    gradients: Gradients,
    /// Index of the parameter that burn visits next.
    next: usize,
}

impl ModuleMapper for Step<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let index = self.next;
        self.next += 1;
        if self.stepper.states.len() <= index {
            self.stepper.states.push(State::default());
        }
        let (id, weight, mapper) = param.consume();
        let is_frozen = self.stepper.frozen.get(index).copied().unwrap_or_default();
        let value = match weight.grad_remove(&mut self.gradients).filter(|_| !is_frozen) {
            None => weight,
            Some(gradient) => {
                let shape = weight.dims();
                let count: usize = shape.iter().product();
                let weight = weight.inner().reshape([count]);
                let moved = self.stepper.moved(index, weight, gradient.reshape([count]));
                Tensor::from_inner(moved.reshape(shape)).require_grad()
            }
        };
        Param::from_mapped_value(id, value, mapper)
    }
}
