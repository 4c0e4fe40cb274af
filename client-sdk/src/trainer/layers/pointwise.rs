//! Functions of each value, as a stage.

use super::stage::{Pass, Stage, Step};
use crate::kernels::Function;

/// A function of each value of a batch.
#[derive(Debug)]
pub(super) struct Pointwise {
    function: Function,
    outputs: usize,
}

impl Pointwise {
    pub(super) fn new(function: Function, outputs: usize) -> Self {
        Self { function, outputs }
    }
}

impl Stage for Pointwise {
    fn outputs(&self) -> usize {
        self.outputs
    }

    fn forward(&mut self, x: &[f32], y: &mut [f32], _pass: &mut Pass<'_>) {
        self.function.forward(x, y);
    }

    fn backward(&mut self, x: &[f32], y: &[f32], dy: &mut [f32], dx: Option<&mut [f32]>, _step: &Step) {
        if let Some(dx) = dx {
            self.function.backward(x, y, dy, dx);
        }
    }

    fn export(&self, _values: &mut Vec<f32>) {}
}
