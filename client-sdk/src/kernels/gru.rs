//! Gated recurrent unit.

use super::cell::{Cell, Moment};
use super::function::sigmoid;

/// Gates reset, update, new: `n = tanh(W x + b + r (U h + b'))`, `h' = (1 - z) n + z h`.
#[derive(Debug)]
pub(crate) struct Gru;

impl Cell for Gru {
    const GATES: usize = 3;
    const ADDS: bool = false;
    const CARRIES: usize = 0;

    fn forward(&self, hidden: usize, moment: Moment<'_>) {
        let Moment { gates, products, before: [before, _], after: [after, _] } = moment;
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
    }

    fn backward(&self, hidden: usize, moment: Moment<'_>, [by_state, _]: [&mut [f32]; 2]) {
        let Moment { gates, products, before: [before, _], .. } = moment;
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
    }
}
