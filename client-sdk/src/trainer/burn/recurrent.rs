//! LSTM and GRU with PyTorch's parameters (`torch.nn.LSTM`, `GRU`, one layer, one direction): the matrices of the gates
//! are stacked by rows. States start at 0.
//!
//! Each time step multiplies its own input. One product for all steps would be slower: the gradient of cutting it into
//! steps fills a tensor of the whole product for each step.

use burn::module::{Module, Param};
use burn::tensor::activation::{sigmoid, tanh};
use burn::tensor::module::linear;
use burn::tensor::{Device, Tensor};

use super::parameters::{transposed_weight, zeros};

/// The formulas of a layer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cell {
    /// Gates input, forget, cell, output: `c' = f c + i g`, `h' = o tanh(c')`.
    Lstm,
    /// Gates reset, update, new: `n = tanh(W x + b + r (U h + b'))`, `h' = (1 - z) n + z h`.
    Gru,
}

#[derive(Module, Debug)]
pub(super) struct Recurrent {
    weight_ih_l0: Param<Tensor<2>>,
    weight_hh_l0: Param<Tensor<2>>,
    bias_ih_l0: Param<Tensor<1>>,
    bias_hh_l0: Param<Tensor<1>>,
    #[module(skip)]
    cell: Cell,
    #[module(skip)]
    return_sequences: bool,
}

impl Recurrent {
    pub(super) fn new(cell: Cell, features: usize, hidden: usize, return_sequences: bool, device: &Device) -> Self {
        let gates = match cell {
            Cell::Lstm => 4 * hidden,
            Cell::Gru => 3 * hidden,
        };
        Self {
            weight_ih_l0: transposed_weight(gates, features, device),
            weight_hh_l0: transposed_weight(gates, hidden, device),
            bias_ih_l0: zeros([gates], true, device),
            bias_hh_l0: zeros([gates], true, device),
            cell,
            return_sequences,
        }
    }

    pub(super) fn forward(&self, values: Tensor<2>) -> Tensor<2> {
        let (input_weight, state_weight) = (self.weight_ih_l0.val(), self.weight_hh_l0.val());
        let (input_bias, state_bias) = (self.bias_ih_l0.val(), self.bias_hh_l0.val());
        let [features, _] = input_weight.dims();
        let [hidden, _] = state_weight.dims();
        let [batch, _] = values.dims();
        let mut state = Tensor::zeros([batch, hidden], &values.device());
        let (mut cell, mut states) = (state.clone(), Vec::new());
        let bias = matches!(self.cell, Cell::Lstm).then(|| input_bias.clone() + state_bias.clone());
        for input in time_steps(values, features) {
            state = match self.cell {
                Cell::Lstm => {
                    let gates = linear(input, input_weight.clone(), bias.clone()) + state.matmul(state_weight.clone());
                    let gate = |index| gates.clone().narrow(1, index * hidden, hidden);
                    cell = sigmoid(gate(1)) * cell + sigmoid(gate(0)) * tanh(gate(2));
                    sigmoid(gate(3)) * tanh(cell.clone())
                }
                Cell::Gru => {
                    let of_input = linear(input, input_weight.clone(), Some(input_bias.clone()));
                    let of_state = linear(state.clone(), state_weight.clone(), Some(state_bias.clone()));
                    let input_gate = |index| of_input.clone().narrow(1, index * hidden, hidden);
                    let state_gate = |index| of_state.clone().narrow(1, index * hidden, hidden);
                    let reset = sigmoid(input_gate(0) + state_gate(0));
                    let update = sigmoid(input_gate(1) + state_gate(1));
                    let new = tanh(input_gate(2) + reset * state_gate(2));
                    // n + z (h - n) = (1 - z) n + z h
                    new.clone() + update * (state - new)
                }
            };
            if self.return_sequences {
                states.push(state.clone());
            }
        }
        if self.return_sequences { Tensor::cat(states, 1) } else { state }
    }
}

/// `[batch, time * features]` as `time` tensors of `[batch, features]`.
fn time_steps(values: Tensor<2>, features: usize) -> impl Iterator<Item = Tensor<2>> {
    let [_, each] = values.dims();
    (0..each / features).map(move |step| values.clone().narrow(1, step * features, features))
}
