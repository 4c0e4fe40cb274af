//! Long short-term memory.

use super::cell::{Cell, Moment};
use super::function::sigmoid;

/// Gates input, forget, cell, output: `c' = f c + i g`, `h' = o tanh(c')`.
#[derive(Debug)]
pub(crate) struct Lstm;

impl Cell for Lstm {
    const GATES: usize = 4;
    const ADDS: bool = true;
    const CARRIES: usize = 1;

    fn forward(&self, hidden: usize, moment: Moment<'_>) {
        let Moment { gates, before: [_, cell_before], after: [after, cell_after], .. } = moment;
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
    }

    fn backward(&self, hidden: usize, moment: Moment<'_>, [by_state, by_cell]: [&mut [f32]; 2]) {
        let Moment { gates, before: [_, cell_before], after: [_, cell_after], .. } = moment;
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
    }
}
