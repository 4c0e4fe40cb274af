//! Linear layers with a product of two small matrices (LoRA, Hu et al. 2021, <https://arxiv.org/abs/2106.09685>).

use super::matrix::Matrix;
use super::parameter::Parameter;
use super::stage::{Pass, Stage, Step};
use crate::kernels::ReluMask;

/// `y = x W^T + b + scale (x A^T) B^T` over the last dimension. The product B A is never made.
#[derive(Debug)]
pub(super) struct LowRank {
    matrix: Matrix,
    a: Matrix,
    b: Matrix,
    /// `alpha / rank`.
    scale: f32,
    /// Rows of one example.
    positions: usize,
    /// Whether a ReLU follows.
    relu: bool,
    /// `x A^T` of the last forward pass. In a backward pass it stays as it is.
    hidden: Vec<f32>,
    /// The gradient by `hidden`.
    by_hidden: Vec<f32>,
    /// `(x A^T) B^T`; in a backward pass the scaled gradient by the outputs.
    scratch: Vec<f32>,
}

impl LowRank {
    pub(super) fn new([matrix, a, b]: [Matrix; 3], scale: f64, positions: usize, relu: bool) -> Self {
        let [hidden, by_hidden, scratch] = [const { Vec::new() }; 3];
        Self { matrix, a, b, scale: scale as f32, positions, relu, hidden, by_hidden, scratch }
    }
}

impl Stage for LowRank {
    fn outputs(&self) -> usize {
        self.positions * self.matrix.outputs
    }

    fn forward(&mut self, x: &[f32], y: &mut [f32], pass: &mut Pass<'_>) {
        let rows = x.len() / self.matrix.inputs;
        self.hidden.resize(rows * self.a.outputs, 0.0);
        self.scratch.resize(y.len(), 0.0);
        self.matrix.forward(x, y, false, pass);
        self.a.forward(x, &mut self.hidden, false, pass);
        self.b.forward(&self.hidden, &mut self.scratch, false, pass);
        for (y, product) in y.iter_mut().zip(&self.scratch) {
            *y += self.scale * product;
            *y = if self.relu { y.max(0.0) } else { *y };
        }
    }

    /// With `h = x A^T` and `dh = scale dy B`: `dW = dy^T x`, `dB = scale dy^T h`, `dA = dh^T x`, and
    /// `dx = dy W + dh A`.
    fn backward(&mut self, x: &[f32], y: &[f32], dy: &mut [f32], dx: Option<&mut [f32]>, step: &Step) {
        let machine = step.machine;
        if self.relu {
            machine.level.run(ReluMask { y, dy });
        }
        self.scratch.clear();
        self.scratch.extend(dy.iter().map(|dy| self.scale * dy));
        self.by_hidden.resize(self.hidden.len(), 0.0);
        self.b.pull_back(&self.scratch, &mut self.by_hidden, machine);
        if let Some(dx) = dx {
            self.matrix.pull_back(dy, dx, machine);
            self.a.pull_back_onto(&self.by_hidden, dx, machine);
        }
        self.matrix.learn(dy, x, step);
        self.b.learn(&self.scratch, &self.hidden, step);
        self.a.learn(&self.by_hidden, x, step);
    }

    fn parameters(&mut self) -> Vec<&mut Parameter> {
        [&mut self.matrix, &mut self.a, &mut self.b].into_iter().flat_map(Matrix::parameters).collect()
    }

    fn export(&self, values: &mut Vec<f32>) {
        self.matrix.export_weight(values);
        self.matrix.export_bias(values);
        self.a.export_weight(values);
        self.b.export_weight(values);
    }
}
