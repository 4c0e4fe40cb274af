//! Layer norm (`torch.nn.LayerNorm`).

use super::parameter::Parameter;
use super::stage::{Pass, Stage, Step};
use crate::kernels::{layer_norm, statistics};

/// `weight (x - mean) / sqrt(variance + epsilon) + bias` over the last dimension of each example (variance with `1/n`).
#[derive(Debug)]
pub(super) struct LayerNorm {
    weight: Parameter,
    bias: Parameter,
    epsilon: f64,
    outputs: usize,
}

impl LayerNorm {
    pub(super) fn new(weight: &[f32], bias: &[f32], epsilon: f64, outputs: usize) -> Self {
        Self { weight: Parameter::new(weight), bias: Parameter::new(bias), epsilon, outputs }
    }
}

impl Stage for LayerNorm {
    fn outputs(&self) -> usize {
        self.outputs
    }

    fn forward(&mut self, x: &[f32], y: &mut [f32], _pass: &mut Pass<'_>) {
        layer_norm(x, y, [&self.weight.values, &self.bias.values], self.epsilon);
    }

    /// With `n = (x - mean) / deviation` and `g = weight dy`: `dx = (g - mean(g) - n mean(g n)) / deviation`.
    fn backward(&mut self, x: &[f32], _y: &[f32], dy: &mut [f32], mut dx: Option<&mut [f32]>, step: &Step) {
        let features = self.weight.values.len();
        let (mut by_weight, mut by_bias) = (vec![0.0; features], vec![0.0; features]);
        let mut normed = vec![0.0; features];
        for (row, (x, dy)) in x.chunks_exact(features).zip(dy.chunks_exact_mut(features)).enumerate() {
            let [mean, scale] = statistics(x, self.epsilon);
            let mut means = [0.0f64; 2];
            for (place, (x, dy)) in x.iter().zip(dy.iter_mut()).enumerate() {
                normed[place] = ((f64::from(*x) - mean) * scale) as f32;
                by_weight[place] += *dy * normed[place];
                by_bias[place] += *dy;
                *dy *= self.weight.values[place];
                means[0] += f64::from(*dy);
                means[1] += f64::from(*dy) * f64::from(normed[place]);
            }
            let [mean, mean_normed] = means.map(|sum| (sum / features as f64) as f32);
            if let Some(dx) = dx.as_deref_mut() {
                let dx = &mut dx[row * features..][..features];
                for (place, (dx, dy)) in dx.iter_mut().zip(dy).enumerate() {
                    *dx = (*dy - mean - normed[place] * mean_normed) * scale as f32;
                }
            }
        }
        for (parameter, gradient) in [(&mut self.weight, &by_weight), (&mut self.bias, &by_bias)] {
            parameter.learned(&step.rule).step(step.machine.level, &step.rule, gradient);
        }
    }

    fn parameters(&mut self) -> Vec<&mut Parameter> {
        vec![&mut self.weight, &mut self.bias]
    }

    fn export(&self, values: &mut Vec<f32>) {
        values.extend_from_slice(&self.weight.values);
        values.extend_from_slice(&self.bias.values);
    }
}
