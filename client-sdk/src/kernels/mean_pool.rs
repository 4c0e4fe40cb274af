//! Means of windows (`torch.nn.AvgPool2d`).

use super::pool::PoolGrid;

/// Mean of each window and channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AvgPool(pub(crate) PoolGrid);

impl AvgPool {
    pub(crate) fn forward(&self, x: &[f32], y: &mut [f32]) {
        let share = self.share();
        for (window, y) in y.chunks_exact_mut(self.0.channels).enumerate() {
            y.fill(0.0);
            for place in self.0.places(window) {
                let x = &x[place..][..self.0.channels];
                y.iter_mut().zip(x).for_each(|(y, x)| *y += x);
            }
            y.iter_mut().for_each(|y| *y *= share);
        }
    }

    pub(crate) fn backward(&self, dy: &[f32], dx: &mut [f32]) {
        let share = self.share();
        dx.fill(0.0);
        for (window, dy) in dy.chunks_exact(self.0.channels).enumerate() {
            for place in self.0.places(window) {
                let dx = &mut dx[place..][..self.0.channels];
                dx.iter_mut().zip(dy).for_each(|(dx, dy)| *dx += dy * share);
            }
        }
    }

    fn share(&self) -> f32 {
        1.0 / self.0.window() as f32
    }
}
