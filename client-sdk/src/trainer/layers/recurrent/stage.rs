//! A recurrent layer of any cell.

use super::super::matrix::Matrix;
use super::super::parameter::Parameter;
use super::super::stage::{Pass, Stage, Step};
use super::shape::Shape;
use crate::kernels::{Add, Cell, Moment};

#[derive(Debug)]
pub(in super::super) struct Recurrent<C> {
    cell: C,
    shape: Shape,
    of_input: Matrix,
    of_state: Matrix,
    /// Of each time step in training, of one in an evaluation.
    inputs: Vec<f32>,
    /// As `inputs`: `W x + b`, then the gates after their functions. In a backward pass they become the gradients by
    /// `W x + b`.
    gates: Vec<f32>,
    /// As `inputs`: `U h + b'`. In a backward pass they become their gradients. Of one time step if the cell adds them.
    products: Vec<f32>,
    /// The state before each time step and after the last one; in an evaluation before and after one.
    states: Vec<f32>,
    /// As `states`: what the cell carries beside them.
    cells: Vec<f32>,
    scratch: Vec<f32>,
}

impl<C: Cell> Recurrent<C> {
    pub(in super::super) fn new(cell: C, shape: Shape, [of_input, of_state]: [Matrix; 2]) -> Self {
        let [inputs, gates, products, states, cells, scratch] = [const { Vec::new() }; 6];
        Self { cell, shape, of_input, of_state, inputs, gates, products, states, cells, scratch }
    }

    /// Values of state, cell and gates of a batch at one time step.
    fn sizes(&self, x: &[f32]) -> [usize; 3] {
        let units = self.shape.batch(x) * self.shape.hidden;
        [units, C::CARRIES * units, C::GATES * units]
    }
}

impl<C: Cell> Stage for Recurrent<C> {
    fn outputs(&self) -> usize {
        self.shape.outputs()
    }

    fn forward(&mut self, x: &[f32], y: &mut [f32], pass: &mut Pass<'_>) {
        let Shape { time, hidden, .. } = self.shape;
        let [state_size, cell_size, gates_size] = self.sizes(x);
        let (input_size, kept) = (x.len() / time, if pass.is_training() { time } else { 1 });
        self.inputs.resize(kept * input_size, 0.0);
        self.gates.resize(kept * gates_size, 0.0);
        self.products.resize(if C::ADDS { gates_size } else { kept * gates_size }, 0.0);
        self.states.resize((kept + 1) * state_size, 0.0);
        self.cells.resize((kept + 1) * cell_size, 0.0);
        self.states[..state_size].fill(0.0);
        self.cells[..cell_size].fill(0.0);
        for step in 0..time {
            let at = if pass.is_training() { step } else { 0 };
            let input = &mut self.inputs[at * input_size..][..input_size];
            self.shape.input(x, step, input);
            let gates = &mut self.gates[at * gates_size..][..gates_size];
            self.of_input.forward(input, gates, false, pass);
            let (before, after) = self.states[at * state_size..][..2 * state_size].split_at_mut(state_size);
            let (cell_before, cell_after) = self.cells[at * cell_size..][..2 * cell_size].split_at_mut(cell_size);
            let products = &mut self.products[if C::ADDS { 0 } else { at * gates_size }..][..gates_size];
            self.of_state.forward(before, products, false, pass);
            if C::ADDS {
                pass.machine.level.run(Add { to: gates, from: products });
            }
            let moment =
                Moment { gates, products, before: [before, cell_before], after: [&mut *after, &mut *cell_after] };
            self.cell.forward(hidden, moment);
            self.shape.output(after, step, y);
            if !pass.is_training() {
                before.copy_from_slice(after);
                cell_before.copy_from_slice(cell_after);
            }
        }
    }

    fn backward(&mut self, x: &[f32], _y: &[f32], dy: &mut [f32], dx: Option<&mut [f32]>, step: &Step) {
        let Shape { time, hidden, .. } = self.shape;
        let [state_size, cell_size, gates_size] = self.sizes(x);
        let (mut by_state, mut by_cell) = (vec![0.0; state_size], vec![0.0; cell_size]);
        for at in (0..time).rev() {
            self.shape.add_gradient(dy, at, &mut by_state);
            let gates = &mut self.gates[at * gates_size..][..gates_size];
            let products = &mut self.products[if C::ADDS { 0 } else { at * gates_size }..][..gates_size];
            let (before, after) = self.states[at * state_size..][..2 * state_size].split_at_mut(state_size);
            let (cell_before, cell_after) = self.cells[at * cell_size..][..2 * cell_size].split_at_mut(cell_size);
            let moment = Moment { gates, products, before: [before, cell_before], after: [after, cell_after] };
            self.cell.backward(hidden, moment, [&mut by_state, &mut by_cell]);
            match C::ADDS {
                true => self.of_state.pull_back(gates, &mut by_state, step.machine),
                false => self.of_state.pull_back_onto(products, &mut by_state, step.machine),
            }
        }
        if let Some(dx) = dx {
            self.scratch.resize(x.len(), 0.0);
            self.of_input.pull_back(&self.gates, &mut self.scratch, step.machine);
            self.shape.by_example(&self.scratch, dx);
        }
        self.of_input.learn(&self.gates, &self.inputs, step);
        let by_products = if C::ADDS { &self.gates } else { &self.products };
        self.of_state.learn(by_products, &self.states[..time * state_size], step);
    }

    fn parameters(&mut self) -> Vec<&mut Parameter> {
        self.of_input.parameters().into_iter().chain(self.of_state.parameters()).collect()
    }

    /// Both weights, then both biases.
    fn export(&self, values: &mut Vec<f32>) {
        self.of_input.export_weight(values);
        self.of_state.export_weight(values);
        self.of_input.export_bias(values);
        self.of_state.export_bias(values);
    }
}
