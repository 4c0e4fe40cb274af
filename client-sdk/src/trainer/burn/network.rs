//! What the trainer needs of a network besides being a burn module: a forward pass.

use burn::module::Module;
use burn::tensor::{Tensor, TensorData};
use tributary_protocol::seed::Stream;

use super::super::dropout::dropout_mask;

/// A burn module with a forward pass, which [`BurnTrainer`](crate::BurnTrainer) can train.
///
/// Its float parameters, in burn's visiting order, are the model's parameters. The job file names them, with their
/// shapes, under `[model] parameters`; [`parameters_of`](crate::trainer::parameters_of) lists them. Parameters without
/// a gradient (running statistics) are part of the model, too.
///
/// ```
/// use burn::module::Module;
/// use burn::nn::{Linear, LinearConfig};
/// use burn::tensor::{Device, Tensor, activation};
/// use tributary_client::trainer::{Network, Pass};
///
/// #[derive(Module, Debug)]
/// struct Own {
///     hidden: Linear,
///     output: Linear,
/// }
///
/// impl Own {
///     fn new(device: &Device) -> Self {
///         let linear = |inputs, outputs| LinearConfig::new(inputs, outputs).init(device);
///         Self { hidden: linear(64, 32), output: linear(32, 10) }
///     }
/// }
///
/// impl Network for Own {
///     fn forward(&mut self, inputs: Tensor<2>, pass: &mut Pass) -> Tensor<2> {
///         let hidden = activation::relu(self.hidden.forward(inputs));
///         self.output.forward(pass.dropout(hidden, 0.5))
///     }
/// }
/// ```
pub trait Network: Module {
    /// Maps `[batch, values of one input]` to `[batch, outputs]`, or to `[batch * positions, outputs]` if the network
    /// has an output for each position of a sequence.
    ///
    /// Randomness must come from `pass` if the seed is to determine the result: burn's own layers draw from a generator
    /// that all threads of the process share.
    fn forward(&mut self, inputs: Tensor<2>, pass: &mut Pass) -> Tensor<2>;
}

/// Whether a forward pass is part of training, and its randomness.
#[derive(Debug)]
pub struct Pass {
    /// `None` in an evaluation.
    randomness: Option<Stream>,
}

impl Pass {
    /// A pass of training. Dropout draws from the stream.
    pub fn training(randomness: Stream) -> Self {
        Self { randomness: Some(randomness) }
    }

    /// A pass of an evaluation: dropout does nothing.
    pub fn evaluation() -> Self {
        Self { randomness: None }
    }

    /// Whether the pass is part of training: batch norm behaves differently.
    pub fn is_training(&self) -> bool {
        self.randomness.is_some()
    }

    /// Dropout (Srivastava et al. 2014, in PyTorch's inverted form): in training it sets each value to 0 with this
    /// probability, which is in `[0, 1)`, and divides the others by `1 - probability`.
    pub fn dropout<const D: usize>(&mut self, values: Tensor<D>, probability: f64) -> Tensor<D> {
        let Some(randomness) = self.randomness.as_mut().filter(|_| probability > 0.0) else {
            return values;
        };
        let shape = values.dims();
        let count = shape.iter().product();
        let mask = dropout_mask(randomness, count, probability);
        let mask = Tensor::<1>::from_data(TensorData::new(mask, [count]), &values.device());
        values * mask.reshape(shape)
    }
}
