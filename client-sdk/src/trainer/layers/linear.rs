//! Linear layers (`torch.nn.Linear`), with the ReLU that follows.

use super::matrix::Matrix;
use super::parameter::Parameter;
use super::stage::{Pass, Stage, Step};
use crate::kernels::ReluMask;

/// `y = x W^T + b` over the last dimension.
#[derive(Debug)]
pub(super) struct Linear {
    matrix: Matrix,
    /// Rows of one example.
    positions: usize,
    /// Whether a ReLU follows.
    relu: bool,
}

impl Linear {
    pub(super) fn new(matrix: Matrix, positions: usize, relu: bool) -> Self {
        Self { matrix, positions, relu }
    }
}

impl Stage for Linear {
    fn outputs(&self) -> usize {
        self.positions * self.matrix.outputs
    }

    fn forward(&mut self, x: &[f32], y: &mut [f32], pass: &mut Pass<'_>) {
        self.matrix.forward(x, y, self.relu, pass);
    }

    fn backward(&mut self, x: &[f32], y: &[f32], dy: &mut [f32], dx: Option<&mut [f32]>, step: &Step) {
        if self.relu {
            step.machine.level.run(ReluMask { y, dy });
        }
        if let Some(dx) = dx {
            self.matrix.pull_back(dy, dx, step.machine);
        }
        self.matrix.learn(dy, x, step);
    }

    fn parameters(&mut self) -> Vec<&mut Parameter> {
        self.matrix.parameters()
    }

    fn export(&self, values: &mut Vec<f32>) {
        self.matrix.export_weight(values);
        self.matrix.export_bias(values);
    }
}
