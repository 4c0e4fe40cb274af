//! Dropout of a batch.

use super::super::dropout::dropout_mask;
use super::stage::{Pass, Stage, Step};
use crate::kernels::{Scale, transpose};

/// In training each value is multiplied by 0 or `1 / (1 - p)`. The stream gives the factors in the model's order of the
/// values, `[channels][pixels]` for an image.
#[derive(Debug)]
pub(super) struct Dropout {
    probability: f64,
    /// Pixels and channels of values that are in the order `[pixels][channels]`; one pixel for other values.
    shape: [usize; 2],
    /// The factors of the last batch, in the order of its values; empty if nothing was dropped.
    mask: Vec<f32>,
}

impl Dropout {
    pub(super) fn new(probability: f64, pixels: usize, channels: usize) -> Self {
        Self { probability, shape: [pixels, channels], mask: Vec::new() }
    }
}

impl Stage for Dropout {
    fn outputs(&self) -> usize {
        self.shape[0] * self.shape[1]
    }

    fn forward(&mut self, x: &[f32], y: &mut [f32], pass: &mut Pass<'_>) {
        y.copy_from_slice(x);
        self.mask.clear();
        let Some(randomness) = pass.randomness.as_deref_mut().filter(|_| self.probability > 0.0) else { return };
        let mask = dropout_mask(randomness, x.len(), self.probability);
        let [pixels, channels] = self.shape;
        if pixels == 1 {
            self.mask = mask;
        } else {
            self.mask.resize(mask.len(), 0.0);
            let images = mask.chunks_exact(pixels * channels).zip(self.mask.chunks_exact_mut(pixels * channels));
            images.for_each(|(from, to)| transpose(from, to, channels, pixels));
        }
        pass.machine.level.run(Scale { to: y, by: &self.mask });
    }

    fn backward(&mut self, _x: &[f32], _y: &[f32], dy: &mut [f32], dx: Option<&mut [f32]>, step: &Step) {
        let Some(dx) = dx else { return };
        dx.copy_from_slice(dy);
        if !self.mask.is_empty() {
            step.machine.level.run(Scale { to: dx, by: &self.mask });
        }
    }

    fn export(&self, _values: &mut Vec<f32>) {}
}
