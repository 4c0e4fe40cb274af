//! The gradient of a convolution by its weights.

use pulp::{Simd, WithSimd};

use super::vectors::{MANY_REGISTERS, PANEL_VECTORS, vectors, vectors_mut};
use super::windows::Grid;

/// `gradient[run][i] += sum over windows p of window[p][run][i] dy[p]`, for one row of each window.
pub(crate) struct WindowGradient<'a> {
    pub(crate) image: &'a [f32],
    pub(crate) grid: &'a Grid,
    /// The gradient by the outputs as `[panel][window][output in the panel]`, in panels of `Level::gradient_panel`.
    pub(crate) dy: &'a [f32],
    /// Whether such a panel is two panels of weights.
    pub(crate) wide: bool,
    /// The row of each window.
    pub(crate) run: usize,
    /// As the weights: `[panel of outputs][value of the window][output in the panel]`.
    pub(crate) gradient: &'a mut [f32],
}

impl WithSimd for WindowGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let many = S::REGISTER_COUNT >= MANY_REGISTERS;
        match (self.grid.run, self.wide) {
            (0, _) => {}
            // Tiles are no longer than a row of the window.
            (1..=2, true) => self.tiles::<S, 1, 4>(simd),
            (3..=4, true) => self.tiles::<S, 3, 4>(simd),
            (5, true) => self.tiles::<S, 5, 4>(simd),
            (_, true) => self.tiles::<S, 6, 4>(simd),
            (1..=2, false) => self.tiles::<S, 1, 2>(simd),
            (3..=4, false) => self.tiles::<S, 3, 2>(simd),
            (5..=11, false) => self.tiles::<S, 5, 2>(simd),
            (_, false) if many && S::F32_LANES == 16 => self.tiles::<S, 12, 2>(simd),
            (_, false) if many => self.tiles::<S, 8, 2>(simd),
            (_, false) => self.tiles::<S, 6, 2>(simd),
        }
    }
}

impl WindowGradient<'_> {
    /// Tiles of M values of the window and P vectors of outputs.
    #[inline(always)]
    fn tiles<S: Simd, const M: usize, const P: usize>(self, simd: S) {
        let Self { image, grid, dy, run, gradient, .. } = self;
        let (image, k0) = (&image[run * grid.row..], run * grid.run);
        // Elsewhere the image is 0.
        let lines = grid.lines_inside(run);
        let (width, weights_width) = (P * S::F32_LANES, PANEL_VECTORS * S::F32_LANES);
        let (count, window) = (grid.starts.len(), grid.window());
        for (dy, gradient) in dy.chunks_exact(width * count).zip(gradient.chunks_mut(window * width)) {
            for first in (0..grid.run).step_by(M) {
                // The last tile steps back; what it computes again is not added again.
                let start = first.min(grid.run - M);
                let mut sums = [[simd.splat_f32s(0.0); P]; M];
                for (y, line) in dy.chunks_exact(width * grid.width).enumerate().take(lines.end).skip(lines.start) {
                    let values = &image[y * grid.step_down + start..][..(grid.width - 1) * grid.step + M];
                    sums = add_outer_products::<S, M, P>(simd, sums, values, grid.step, vectors::<S>(line));
                }
                for (i, sums) in sums.iter().enumerate().skip(first - start) {
                    for (panel, sums) in
                        gradient.chunks_exact_mut(window * weights_width).zip(sums.chunks_exact(PANEL_VECTORS))
                    {
                        let to = vectors_mut::<S>(&mut panel[(k0 + start + i) * weights_width..][..weights_width]);
                        for (to, sum) in to.iter_mut().zip(sums) {
                            *to = simd.add_f32s(*to, *sum);
                        }
                    }
                }
            }
        }
    }
}

/// `sums[i] += sum over p of values[p step + i] dy[p]`.
#[inline(always)]
fn add_outer_products<S: Simd, const M: usize, const P: usize>(
    simd: S,
    mut sums: [[S::f32s; P]; M],
    values: &[f32],
    step: usize,
    dy: &[S::f32s],
) -> [[S::f32s; P]; M] {
    for (p, dy) in dy.as_chunks::<P>().0.iter().enumerate() {
        let values: &[f32; M] = values[p * step..].first_chunk().expect("a row of the tile");
        for i in 0..M {
            let value = simd.splat_f32s(values[i]);
            for j in 0..P {
                sums[i][j] = simd.mul_add_e_f32s(value, dy[j], sums[i][j]);
            }
        }
    }
    sums
}
