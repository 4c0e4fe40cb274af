//! Long short-term memory.

use super::super::function::sigmoid;
use super::super::kernels::Add;
use super::super::matrix::Matrix;
use super::super::parameter::Parameter;
use super::super::stage::{Pass, Stage, Step};
use super::shape::{Shape, export};

/// Gates input, forget, cell, output: `c' = f c + i g`, `h' = o tanh(c')`.
#[derive(Debug)]
pub(in super::super) struct Lstm {
    shape: Shape,
    of_input: Matrix,
    of_state: Matrix,
    /// Of each time step in training, of one in an evaluation.
    inputs: Vec<f32>,
    /// As `inputs`: the four gates after their functions. In a backward pass they become their gradients.
    gates: Vec<f32>,
    /// The state before each time step and after the last one; in an evaluation before and after one.
    states: Vec<f32>,
    /// As `states`.
    cells: Vec<f32>,
    scratch: Vec<f32>,
}

impl Lstm {
    pub(in super::super) fn new(shape: Shape, of_input: Matrix, of_state: Matrix) -> Self {
        let [inputs, gates, states, cells, scratch] = [const { Vec::new() }; 5];
        Self { shape, of_input, of_state, inputs, gates, states, cells, scratch }
    }
}

impl Stage for Lstm {
    fn outputs(&self) -> usize {
        self.shape.outputs()
    }

    fn forward(&mut self, x: &[f32], y: &mut [f32], pass: &mut Pass<'_>) {
        let Shape { time, features, hidden, .. } = self.shape;
        let batch = self.shape.batch(x);
        let (state_size, gates_size) = (batch * hidden, batch * 4 * hidden);
        let kept = if pass.is_training() { time } else { 1 };
        self.inputs.resize(kept * batch * features, 0.0);
        self.gates.resize(kept * gates_size, 0.0);
        self.states.resize((kept + 1) * state_size, 0.0);
        self.cells.resize((kept + 1) * state_size, 0.0);
        self.scratch.resize(gates_size, 0.0);
        self.states[..state_size].fill(0.0);
        self.cells[..state_size].fill(0.0);
        for step in 0..time {
            let at = if pass.is_training() { step } else { 0 };
            let input = &mut self.inputs[at * batch * features..][..batch * features];
            self.shape.input(x, step, input);
            let gates = &mut self.gates[at * gates_size..][..gates_size];
            self.of_input.forward(input, gates, false, pass);
            let (before, after) = self.states[at * state_size..][..2 * state_size].split_at_mut(state_size);
            self.of_state.forward(before, &mut self.scratch, false, pass);
            pass.machine.level.run(Add { to: gates, from: &self.scratch });
            let (cell_before, cell_after) = self.cells[at * state_size..][..2 * state_size].split_at_mut(state_size);
            for (row, gates) in gates.chunks_exact_mut(4 * hidden).enumerate() {
                for unit in 0..hidden {
                    let gate = |index: usize| gates[index * hidden + unit];
                    let [i, f, g, o] = [sigmoid(gate(0)), sigmoid(gate(1)), gate(2).tanh(), sigmoid(gate(3))];
                    let place = row * hidden + unit;
                    let cell = f * cell_before[place] + i * g;
                    cell_after[place] = cell;
                    after[place] = o * cell.tanh();
                    for (index, value) in [i, f, g, o].into_iter().enumerate() {
                        gates[index * hidden + unit] = value;
                    }
                }
            }
            self.shape.output(after, step, y);
            if !pass.is_training() {
                before.copy_from_slice(after);
                cell_before.copy_from_slice(cell_after);
            }
        }
    }

    fn backward(&mut self, x: &[f32], _y: &[f32], dy: &mut [f32], dx: Option<&mut [f32]>, step: &Step) {
        let Shape { time, hidden, .. } = self.shape;
        let batch = self.shape.batch(x);
        let (state_size, gates_size) = (batch * hidden, batch * 4 * hidden);
        let (mut by_state, mut by_cell) = (vec![0.0; state_size], vec![0.0; state_size]);
        for at in (0..time).rev() {
            self.shape.add_gradient(dy, at, &mut by_state);
            let gates = &mut self.gates[at * gates_size..][..gates_size];
            let (cell_before, cell_after) = self.cells[at * state_size..][..2 * state_size].split_at(state_size);
            for (row, gates) in gates.chunks_exact_mut(4 * hidden).enumerate() {
                for unit in 0..hidden {
                    let place = row * hidden + unit;
                    let [i, f, g, o] = [0, 1, 2, 3].map(|index| gates[index * hidden + unit]);
                    let cell = cell_after[place].tanh();
                    let by_cell = &mut by_cell[place];
                    *by_cell += by_state[place] * o * (1.0 - cell * cell);
                    let gradients = [
                        *by_cell * g * i * (1.0 - i),
                        *by_cell * cell_before[place] * f * (1.0 - f),
                        *by_cell * i * (1.0 - g * g),
                        by_state[place] * cell * o * (1.0 - o),
                    ];
                    *by_cell *= f;
                    for (index, gradient) in gradients.into_iter().enumerate() {
                        gates[index * hidden + unit] = gradient;
                    }
                }
            }
            self.of_state.pull_back(gates, &mut by_state, step.machine);
        }
        if let Some(dx) = dx {
            self.scratch.resize(x.len(), 0.0);
            self.of_input.pull_back(&self.gates, &mut self.scratch, step.machine);
            self.shape.by_example(&self.scratch, dx);
        }
        self.of_input.learn(&self.gates, &self.inputs, step);
        self.of_state.learn(&self.gates, &self.states[..time * state_size], step);
    }

    fn parameters(&mut self) -> Vec<&mut Parameter> {
        self.of_input.parameters().into_iter().chain(self.of_state.parameters()).collect()
    }

    fn export(&self, values: &mut Vec<f32>) {
        export(&self.of_input, &self.of_state, values);
    }
}
