//! Layer norm and batch norm (`torch.nn.LayerNorm`, `BatchNorm1d`, `BatchNorm2d`).

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};

use super::convolution::{flat, images};
use super::network::Pass;
use super::parameters::zeros;

/// `weight (x - mean) / sqrt(variance + epsilon) + bias` over the last dimension of each example (variance with `1/n`).
#[derive(Module, Debug)]
pub(super) struct LayerNorm {
    weight: Param<Tensor<1>>,
    bias: Param<Tensor<1>>,
    #[module(skip)]
    features: usize,
    #[module(skip)]
    epsilon: f64,
}

impl LayerNorm {
    pub(super) fn new(features: usize, epsilon: f64, device: &Device) -> Self {
        let vector = || zeros([features], true, device);
        Self { weight: vector(), bias: vector(), features, epsilon }
    }

    pub(super) fn forward(&self, values: Tensor<2>) -> Tensor<2> {
        let [batch, each] = values.dims();
        let rows = values.reshape([batch * each / self.features, self.features]);
        let normed = burn::tensor::module::layer_norm(rows, self.weight.val(), Some(self.bias.val()), self.epsilon);
        normed.reshape([batch, each])
    }
}

/// The formula of [`LayerNorm`] for each feature or channel over the batch. Training normalises with the batch's mean
/// and variance (with `1/n`) and moves the running ones towards them (variance with `1/(n-1)`). Evaluation uses the
/// running ones.
#[derive(Module, Debug)]
pub(super) struct BatchNorm {
    weight: Param<Tensor<1>>,
    bias: Param<Tensor<1>>,
    running_mean: Param<Tensor<1>>,
    running_var: Param<Tensor<1>>,
    /// Shape of one input: `[features]` or `[channels, height, width]`.
    #[module(skip)]
    input: Vec<usize>,
    #[module(skip)]
    epsilon: f64,
    #[module(skip)]
    momentum: f64,
}

impl BatchNorm {
    pub(super) fn new(input: Vec<usize>, epsilon: f64, momentum: f64, device: &Device) -> Self {
        let vector = |learned| zeros([input[0]], learned, device);
        let (weight, bias) = (vector(true), vector(true));
        Self { weight, bias, running_mean: vector(false), running_var: vector(false), input, epsilon, momentum }
    }

    pub(super) fn forward(&mut self, values: Tensor<2>, pass: &Pass) -> Tensor<2> {
        match *self.input.as_slice() {
            [channels, height, width] => flat(self.normed(images(values, [channels, height, width]), pass)),
            _ => self.normed(values, pass),
        }
    }

    /// `values` are `[batch, channels, ..]`.
    fn normed<const D: usize>(&mut self, values: Tensor<D>, pass: &Pass) -> Tensor<D> {
        let (weight, bias) = (self.weight.val(), self.bias.val());
        if !pass.is_training() {
            // Averaging and compression can make a variance slightly negative.
            let (mean, variance) = (self.running_mean.val(), self.running_var.val().clamp_min(0.0));
            return burn::tensor::module::batch_norm(values, weight, bias, mean, variance, self.epsilon);
        }
        let count = values.dims().iter().product::<usize>() / self.input[0];
        let result = burn::tensor::module::batch_norm_train(values, weight, bias, self.epsilon);
        // One value has no variance. PyTorch refuses such a batch; here it leaves the running statistics unchanged,
        // because the last batch of an epoch can be a single example.
        if count > 1 {
            let unbiased = count as f64 / (count - 1) as f64;
            self.running_mean = moved(&self.running_mean, result.mean, self.momentum);
            self.running_var = moved(&self.running_var, result.variance * unbiased, self.momentum);
        }
        result.output
    }
}

/// `(1 - momentum) running + momentum batch`, without gradients.
fn moved(running: &Param<Tensor<1>>, batch: Tensor<1>, momentum: f64) -> Param<Tensor<1>> {
    running.clone().map(|running| (running * (1.0 - momentum) + batch * momentum).detach())
}
