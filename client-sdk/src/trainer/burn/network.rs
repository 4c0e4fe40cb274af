//! What the trainer needs of a network: a forward pass, besides being a burn module.

use burn::module::Module;
use burn::tensor::{Tensor, TensorData};
use tributary_protocol::seed::Stream;

/// A network that [`BurnTrainer`](super::BurnTrainer) can train: any burn module with a forward pass.
///
/// Its float parameters, in the order in which burn visits them, are the model's parameters; their burn names and
/// shapes stand under `[model] parameters` in the job file ([`parameters_of`](super::parameters_of) lists them).
/// Parameters that require no gradient (running statistics) travel, too.
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
    /// `[batch, values of one input]` to `[batch, outputs]`, or to `[batch * positions, outputs]` where the network
    /// answers for each position of a sequence.
    ///
    /// For results that a seed repeats, take randomness from `pass`, not from burn's layers, whose random numbers are
    /// shared by all threads of the process.
    fn forward(&mut self, inputs: Tensor<2>, pass: &mut Pass) -> Tensor<2>;
}

/// Whether a forward pass trains, and the randomness of it.
#[derive(Debug)]
pub struct Pass {
    /// `None` when the network is only measured.
    randomness: Option<Stream>,
}

impl Pass {
    /// For training, with the stream that dropout draws from.
    #[must_use]
    pub fn training(randomness: Stream) -> Self {
        Self { randomness: Some(randomness) }
    }

    /// For measuring: dropout does nothing.
    #[must_use]
    pub fn evaluation() -> Self {
        Self { randomness: None }
    }

    /// Whether the network is being trained.
    #[must_use]
    pub fn is_training(&self) -> bool {
        self.randomness.is_some()
    }

    /// In training, sets each number to 0 with this probability (in `[0, 1)`) and divides the others by
    /// `1 - probability` (Srivastava et al. 2014, in the inverted form that PyTorch uses).
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

/// 0 or `1 / (1 - probability)`. One 64-bit number decides about two values.
fn dropout_mask(randomness: &mut Stream, count: usize, probability: f64) -> Vec<f32> {
    let kept = (1.0 / (1.0 - probability)) as f32;
    let threshold = (probability * (1u64 << 32) as f64) as u64;
    let mut mask = Vec::with_capacity(count + 1);
    while mask.len() < count {
        let both = randomness.next_u64();
        mask.extend([both >> 32, both & 0xffff_ffff].map(|half| if half < threshold { 0.0 } else { kept }));
    }
    mask.truncate(count);
    mask
}

#[cfg(test)]
mod tests {
    use tributary_protocol::seed::Seed;

    use super::*;

    #[test]
    fn a_mask_drops_the_share_asked_for_and_keeps_the_mean() {
        for probability in [0.1, 0.5, 0.9] {
            let mask = dropout_mask(&mut Seed(1).stream(), 100_001, probability);
            assert_eq!(mask.len(), 100_001);
            let dropped = mask.iter().filter(|value| **value == 0.0).count() as f64 / 100_001.0;
            assert!((dropped - probability).abs() < 0.01, "{dropped} of {probability}");
            let mean = mask.iter().map(|value| f64::from(*value)).sum::<f64>() / 100_001.0;
            assert!((mean - 1.0).abs() < 0.03, "{mean}");
        }
    }

    #[test]
    fn a_mask_repeats_with_its_seed_only() {
        let mask = |seed| dropout_mask(&mut Seed(seed).stream(), 64, 0.5);
        assert_eq!(mask(1), mask(1));
        assert_ne!(mask(1), mask(2));
    }
}
