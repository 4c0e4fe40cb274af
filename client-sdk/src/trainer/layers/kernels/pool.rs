//! Largest values of windows of an image `[height][width][channels]`.

use pulp::{Simd, WithSimd};

use super::vectors::relu;

/// Where a pool's windows are.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct PoolGrid {
    pub(in super::super) channels: usize,
    /// Pixels in a row of the image.
    pub(in super::super) width: usize,
    /// Height and width of a window.
    pub(in super::super) kernel: [usize; 2],
    /// Distance between windows, down and across.
    pub(in super::super) stride: [usize; 2],
    /// Windows in a row.
    pub(in super::super) out_width: usize,
}

impl PoolGrid {
    /// Pixels of a window.
    pub(in super::super) fn window(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// The place of pixel `k` of a window in the image.
    #[inline(always)]
    pub(in super::super) fn place(&self, window: usize, k: usize) -> usize {
        let row = window / self.out_width * self.stride[0] + k / self.kernel[1];
        let column = window % self.out_width * self.stride[1] + k % self.kernel[1];
        (row * self.width + column) * self.channels
    }
}

/// The largest value of each window and channel, with ReLU if asked. A NaN is the largest of all, or a divergence would
/// be hidden.
pub(in super::super) struct MaxPool<'a> {
    pub(in super::super) grid: PoolGrid,
    pub(in super::super) relu: bool,
    pub(in super::super) x: &'a [f32],
    pub(in super::super) y: &'a mut [f32],
}

impl WithSimd for MaxPool<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let grid = self.grid;
        for (window, y) in self.y.chunks_exact_mut(grid.channels).enumerate() {
            for (channel, y) in (0..grid.channels).step_by(S::F32_LANES).zip(y.chunks_mut(S::F32_LANES)) {
                let mut largest = simd.splat_f32s(f32::NEG_INFINITY);
                for k in 0..grid.window() {
                    let x = simd.partial_load_f32s(&self.x[grid.place(window, k) + channel..][..y.len()]);
                    let less = simd.less_than_or_equal_f32s(x, largest);
                    let is_nan = simd.not_m32s(simd.equal_f32s(largest, largest));
                    largest = simd.select_f32s(simd.or_m32s(less, is_nan), largest, x);
                }
                simd.partial_store_f32s(y, if self.relu { relu(simd, largest) } else { largest });
            }
        }
    }
}

/// The gradient of [`MaxPool`]: it goes to the first pixel of each window that has the largest value.
pub(in super::super) struct MaxPoolBack<'a> {
    pub(in super::super) grid: PoolGrid,
    pub(in super::super) relu: bool,
    pub(in super::super) x: &'a [f32],
    pub(in super::super) y: &'a [f32],
    pub(in super::super) dy: &'a [f32],
    pub(in super::super) dx: &'a mut [f32],
}

impl WithSimd for MaxPoolBack<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (grid, lanes) = (self.grid, S::F32_LANES);
        let zero = simd.splat_f32s(0.0);
        self.dx.fill(0.0);
        let windows = self.dy.chunks_exact(grid.channels).zip(self.y.chunks_exact(grid.channels));
        for (window, (dy, y)) in windows.enumerate() {
            for (channel, (dy, y)) in (0..grid.channels).step_by(lanes).zip(dy.chunks(lanes).zip(y.chunks(lanes))) {
                let count = y.len();
                let (mut left, y) = (simd.partial_load_f32s(dy), simd.partial_load_f32s(y));
                if self.relu {
                    left = simd.select_f32s(simd.less_than_f32s(zero, y), left, zero);
                }
                for k in 0..grid.window() {
                    let place = grid.place(window, k) + channel;
                    let is_largest = simd.equal_f32s(simd.partial_load_f32s(&self.x[place..][..count]), y);
                    let to = &mut self.dx[place..][..count];
                    let taken = simd.select_f32s(is_largest, left, zero);
                    simd.partial_store_f32s(to, simd.add_f32s(simd.partial_load_f32s(to), taken));
                    left = simd.select_f32s(is_largest, zero, left);
                }
            }
        }
    }
}
