//! Gated recurrent unit.

use super::super::function::sigmoid;
use super::super::matrix::Matrix;
use super::super::parameter::Parameter;
use super::super::stage::{Pass, Stage, Step};
use super::shape::{Shape, export};

/// Gates reset, update, new: `n = tanh(W x + b + r (U h + b'))`, `h' = (1 - z) n + z h`.
#[derive(Debug)]
pub(in super::super) struct Gru {
    shape: Shape,
    of_input: Matrix,
    of_state: Matrix,
    /// Of each time step in training, of one in an evaluation.
    inputs: Vec<f32>,
    /// As `inputs`: the three gates after their functions. In a backward pass they become the gradients by `W x + b`.
    gates: Vec<f32>,
    /// As `inputs`: `U h + b'`. In a backward pass they become their gradients.
    products: Vec<f32>,
    /// The state before each time step and after the last one; in an evaluation before and after one.
    states: Vec<f32>,
    scratch: Vec<f32>,
}

impl Gru {
    pub(in super::super) fn new(shape: Shape, of_input: Matrix, of_state: Matrix) -> Self {
        let [inputs, gates, products, states, scratch] = [const { Vec::new() }; 5];
        Self { shape, of_input, of_state, inputs, gates, products, states, scratch }
    }
}

impl Stage for Gru {
    fn outputs(&self) -> usize {
        self.shape.outputs()
    }

    fn forward(&mut self, x: &[f32], y: &mut [f32], pass: &mut Pass<'_>) {
        let Shape { time, features, hidden, .. } = self.shape;
        let batch = self.shape.batch(x);
        let (state_size, gates_size) = (batch * hidden, batch * 3 * hidden);
        let kept = if pass.is_training() { time } else { 1 };
        self.inputs.resize(kept * batch * features, 0.0);
        self.gates.resize(kept * gates_size, 0.0);
        self.products.resize(kept * gates_size, 0.0);
        self.states.resize((kept + 1) * state_size, 0.0);
        self.states[..state_size].fill(0.0);
        for step in 0..time {
            let at = if pass.is_training() { step } else { 0 };
            let input = &mut self.inputs[at * batch * features..][..batch * features];
            self.shape.input(x, step, input);
            let gates = &mut self.gates[at * gates_size..][..gates_size];
            self.of_input.forward(input, gates, false, pass);
            let (before, after) = self.states[at * state_size..][..2 * state_size].split_at_mut(state_size);
            let products = &mut self.products[at * gates_size..][..gates_size];
            self.of_state.forward(before, products, false, pass);
            let rows = gates.chunks_exact_mut(3 * hidden).zip(products.chunks_exact(3 * hidden)).enumerate();
            for (row, (gates, products)) in rows {
                for unit in 0..hidden {
                    let [reset_at, update_at, new_at] = [unit, hidden + unit, 2 * hidden + unit];
                    let reset = sigmoid(gates[reset_at] + products[reset_at]);
                    let update = sigmoid(gates[update_at] + products[update_at]);
                    let new = (gates[new_at] + reset * products[new_at]).tanh();
                    let place = row * hidden + unit;
                    // n + z (h - n) = (1 - z) n + z h
                    after[place] = new + update * (before[place] - new);
                    (gates[reset_at], gates[update_at], gates[new_at]) = (reset, update, new);
                }
            }
            self.shape.output(after, step, y);
            if !pass.is_training() {
                before.copy_from_slice(after);
            }
        }
    }

    fn backward(&mut self, x: &[f32], _y: &[f32], dy: &mut [f32], dx: Option<&mut [f32]>, step: &Step) {
        let Shape { time, hidden, .. } = self.shape;
        let batch = self.shape.batch(x);
        let (state_size, gates_size) = (batch * hidden, batch * 3 * hidden);
        let mut by_state = vec![0.0; state_size];
        for at in (0..time).rev() {
            self.shape.add_gradient(dy, at, &mut by_state);
            let gates = &mut self.gates[at * gates_size..][..gates_size];
            let products = &mut self.products[at * gates_size..][..gates_size];
            let before = &self.states[at * state_size..][..state_size];
            let rows = gates.chunks_exact_mut(3 * hidden).zip(products.chunks_exact_mut(3 * hidden)).enumerate();
            for (row, (gates, products)) in rows {
                for unit in 0..hidden {
                    let [reset_at, update_at, new_at] = [unit, hidden + unit, 2 * hidden + unit];
                    let [reset, update, new] = [gates[reset_at], gates[update_at], gates[new_at]];
                    let place = row * hidden + unit;
                    let by_new = by_state[place] * (1.0 - update) * (1.0 - new * new);
                    let by_reset = by_new * products[new_at] * reset * (1.0 - reset);
                    let by_update = by_state[place] * (before[place] - new) * update * (1.0 - update);
                    (gates[reset_at], gates[update_at], gates[new_at]) = (by_reset, by_update, by_new);
                    products[new_at] = by_new * reset;
                    (products[reset_at], products[update_at]) = (by_reset, by_update);
                    by_state[place] *= update;
                }
            }
            self.of_state.pull_back_onto(products, &mut by_state, step.machine);
        }
        if let Some(dx) = dx {
            self.scratch.resize(x.len(), 0.0);
            self.of_input.pull_back(&self.gates, &mut self.scratch, step.machine);
            self.shape.by_example(&self.scratch, dx);
        }
        self.of_input.learn(&self.gates, &self.inputs, step);
        self.of_state.learn(&self.products, &self.states[..time * state_size], step);
    }

    fn parameters(&mut self) -> Vec<&mut Parameter> {
        self.of_input.parameters().into_iter().chain(self.of_state.parameters()).collect()
    }

    fn export(&self, values: &mut Vec<f32>) {
        export(&self.of_input, &self.of_state, values);
    }
}
