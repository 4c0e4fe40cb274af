//! Batch norm (`torch.nn.BatchNorm1d`, `BatchNorm2d`).

use super::parameter::Parameter;
use super::stage::{Pass, Stage, Step};

/// `weight (x - mean) / sqrt(variance + epsilon) + bias` for each feature or channel over the batch. Training
/// normalises with the batch's mean and variance (with `1/n`) and moves the running ones towards them (variance with
/// `1/(n-1)`). Evaluation uses the running ones. Values are rows of all channels, so a pixel of an image is a row.
#[derive(Debug)]
pub(super) struct BatchNorm {
    weight: Parameter,
    bias: Parameter,
    running_mean: Vec<f32>,
    running_variance: Vec<f32>,
    epsilon: f64,
    momentum: f64,
    outputs: usize,
    /// Per channel of the last batch: mean, and 1 / standard deviation.
    statistics: Vec<[f64; 2]>,
}

impl BatchNorm {
    /// `parameters` are weight, bias, running mean and running variance.
    pub(super) fn new(parameters: [&[f32]; 4], epsilon: f64, momentum: f64, outputs: usize) -> Self {
        let [weight, bias, mean, variance] = parameters;
        Self {
            weight: Parameter::new(weight),
            bias: Parameter::new(bias),
            running_mean: mean.to_vec(),
            running_variance: variance.to_vec(),
            epsilon,
            momentum,
            outputs,
            statistics: Vec::new(),
        }
    }

    /// Mean and variance of each channel.
    fn of_batch(&self, x: &[f32]) -> Vec<[f64; 2]> {
        let channels = self.weight.values.len();
        let count = (x.len() / channels) as f64;
        let mut sums = vec![[0.0f64; 2]; channels];
        for row in x.chunks_exact(channels) {
            sums.iter_mut().zip(row).for_each(|(sums, x)| sums[0] += f64::from(*x));
        }
        sums.iter_mut().for_each(|sums| sums[0] /= count);
        for row in x.chunks_exact(channels) {
            sums.iter_mut().zip(row).for_each(|(sums, x)| sums[1] += (f64::from(*x) - sums[0]).powi(2));
        }
        sums.iter_mut().for_each(|sums| sums[1] /= count);
        sums
    }

    fn move_running(&mut self, batch: &[[f64; 2]], count: usize) {
        // One value has no variance. PyTorch refuses such a batch; here it leaves the running statistics unchanged,
        // because the last batch of an epoch can be a single example.
        if count < 2 {
            return;
        }
        let unbiased = count as f64 / (count - 1) as f64;
        let moved = |running: &mut f32, batch: f64| {
            *running = (f64::from(*running) * (1.0 - self.momentum) + batch * self.momentum) as f32;
        };
        for (channel, [mean, variance]) in batch.iter().enumerate() {
            moved(&mut self.running_mean[channel], *mean);
            moved(&mut self.running_variance[channel], variance * unbiased);
        }
    }
}

impl Stage for BatchNorm {
    fn outputs(&self) -> usize {
        self.outputs
    }

    fn forward(&mut self, x: &[f32], y: &mut [f32], pass: &mut Pass<'_>) {
        let channels = self.weight.values.len();
        let statistics = if pass.is_training() {
            let batch = self.of_batch(x);
            self.move_running(&batch, x.len() / channels);
            batch
        } else {
            // Averaging and compression can make a variance slightly negative.
            let running = self.running_mean.iter().zip(&self.running_variance);
            running.map(|(mean, variance)| [f64::from(*mean), f64::from(*variance).max(0.0)]).collect()
        };
        let scale = |[mean, variance]: [f64; 2]| [mean, 1.0 / (variance + self.epsilon).sqrt()];
        self.statistics = statistics.into_iter().map(scale).collect();
        let (weight, bias) = (&self.weight.values, &self.bias.values);
        for (x, y) in x.chunks_exact(channels).zip(y.chunks_exact_mut(channels)) {
            for (channel, (x, y)) in x.iter().zip(y).enumerate() {
                let [mean, scale] = self.statistics[channel];
                *y = ((f64::from(*x) - mean) * scale) as f32 * weight[channel] + bias[channel];
            }
        }
    }

    /// With `n = (x - mean) / deviation` and means over the batch: `dx = weight (dy - mean(dy) - n mean(dy n)) /
    /// deviation` (Ioffe and Szegedy 2015, section 3).
    fn backward(&mut self, x: &[f32], _y: &[f32], dy: &mut [f32], dx: Option<&mut [f32]>, step: &Step) {
        let channels = self.weight.values.len();
        let count = (x.len() / channels) as f64;
        let normed = |channel: usize, x: f32| {
            let [mean, scale] = self.statistics[channel];
            (f64::from(x) - mean) * scale
        };
        let mut sums = vec![[0.0f64; 2]; channels];
        for (x, dy) in x.chunks_exact(channels).zip(dy.chunks_exact(channels)) {
            for (channel, (x, dy)) in x.iter().zip(dy).enumerate() {
                sums[channel][0] += f64::from(*dy);
                sums[channel][1] += f64::from(*dy) * normed(channel, *x);
            }
        }
        if let Some(dx) = dx {
            let rows = x.chunks_exact(channels).zip(dy.chunks_exact(channels)).zip(dx.chunks_exact_mut(channels));
            for ((x, dy), dx) in rows {
                for (channel, ((x, dy), dx)) in x.iter().zip(dy).zip(dx).enumerate() {
                    let [by_bias, by_weight] = sums[channel].map(|sum| sum / count);
                    let centred = f64::from(*dy) - by_bias - normed(channel, *x) * by_weight;
                    *dx = (centred * self.statistics[channel][1]) as f32 * self.weight.values[channel];
                }
            }
        }
        for (parameter, place) in [(&mut self.weight, 1), (&mut self.bias, 0)] {
            let gradient: Vec<f32> = sums.iter().map(|sums| sums[place] as f32).collect();
            parameter.learned(&step.rule).step(step.machine.level, &step.rule, &gradient);
        }
    }

    fn parameters(&mut self) -> Vec<&mut Parameter> {
        vec![&mut self.weight, &mut self.bias]
    }

    fn export(&self, values: &mut Vec<f32>) {
        for parameter in [&self.weight.values, &self.bias.values, &self.running_mean, &self.running_variance] {
            values.extend_from_slice(parameter);
        }
    }
}
