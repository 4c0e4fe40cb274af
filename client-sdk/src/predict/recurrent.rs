//! LSTM and GRU over one sequence.

use std::ops::Range;

use super::linear::Linear;
use crate::kernels::{Add, Cell, Level, Moment};

/// Time steps whose inputs are multiplied at once: the weight is read once for all of them.
const STEPS: usize = 32;

/// A recurrent layer of any cell. States start at 0.
#[derive(Debug)]
pub(super) struct Recurrent<C> {
    pub(super) cell: C,
    pub(super) hidden: usize,
    /// Whether it puts out the state after every time step instead of the last one.
    pub(super) sequences: bool,
    pub(super) of_input: Linear,
    pub(super) of_state: Linear,
    /// Where its buffers are.
    pub(super) room: Range<usize>,
}

impl<C: Cell> Recurrent<C> {
    /// Values that a layer needs for itself: the gates of some time steps, the products of a state, and state and cell
    /// before and after a step.
    pub(super) fn room(time: usize, hidden: usize) -> usize {
        ((time.min(STEPS) + 1) * C::GATES + 2 * (1 + C::CARRIES)) * hidden
    }

    pub(super) fn run(&self, x: &[f32], y: &mut [f32], room: &mut [f32], level: Level) {
        let (hidden, features, step_gates) = (self.hidden, self.of_input.inputs, C::GATES * self.hidden);
        let (products, rest) = room[self.room.clone()].split_at_mut(step_gates);
        let (states, rest) = rest.split_at_mut(2 * hidden);
        let (cells, gates) = rest.split_at_mut(2 * C::CARRIES * hidden);
        let (mut before, mut after) = states.split_at_mut(hidden);
        let (mut cell_before, mut cell_after) = cells.split_at_mut(C::CARRIES * hidden);
        before.fill(0.0);
        cell_before.fill(0.0);
        for (block, x) in x.chunks(STEPS * features).enumerate() {
            let gates = &mut gates[..x.len() / features * step_gates];
            self.of_input.run(x, gates, level);
            for (step, gates) in gates.chunks_exact_mut(step_gates).enumerate() {
                self.of_state.run(before, products, level);
                if C::ADDS {
                    level.run(Add { to: gates, from: products });
                }
                let after_step = [&mut *after, &mut *cell_after];
                self.cell.forward(hidden, Moment { gates, products, before: [before, cell_before], after: after_step });
                if self.sequences {
                    y[(block * STEPS + step) * hidden..][..hidden].copy_from_slice(after);
                }
                std::mem::swap(&mut before, &mut after);
                std::mem::swap(&mut cell_before, &mut cell_after);
            }
        }
        if !self.sequences {
            y.copy_from_slice(before);
        }
    }
}
