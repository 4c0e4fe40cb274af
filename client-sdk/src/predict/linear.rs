//! A matrix and a bias.

use crate::kernels::{Dots, Level, Product};

/// `y = x W^T + b` for each row of `x`.
#[derive(Debug)]
pub(super) struct Linear {
    pub(super) inputs: usize,
    /// `[outputs][inputs]`.
    pub(super) weight: Vec<f32>,
    /// Empty if there is none.
    pub(super) bias: Vec<f32>,
    /// Whether a ReLU follows.
    pub(super) relu: bool,
}

impl Linear {
    pub(super) fn run(&self, x: &[f32], y: &mut [f32], level: Level) {
        let Self { inputs, weight, bias, relu, .. } = self;
        let (inputs, relu) = (*inputs, *relu);
        match x.len() == inputs {
            true => level.run(Product { x, weight, bias, relu, y }),
            false => level.run(Dots { x, weight, bias, relu, inputs, y }),
        }
    }
}
