//! Largest values of windows of an image `[height][width][channels]`.

use pulp::{Simd, WithSimd};

use super::vectors::{load, relu, store};

/// Where a pool's windows are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolGrid {
    pub(crate) channels: usize,
    /// Pixels in a row of the image.
    pub(crate) width: usize,
    /// Height and width of a window.
    pub(crate) kernel: [usize; 2],
    /// Distance between windows, down and across.
    pub(crate) stride: [usize; 2],
    /// Windows in a row.
    pub(crate) out_width: usize,
}

impl PoolGrid {
    /// Pixels of a window.
    pub(crate) fn window(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// The places of a window's pixels in the image.
    #[inline(always)]
    pub(crate) fn places(&self, window: usize) -> impl Iterator<Item = usize> + Clone {
        let Self { channels, width, kernel: [rows, columns], .. } = *self;
        let (row, column) = (window / self.out_width * self.stride[0], window % self.out_width * self.stride[1]);
        let first = (row * width + column) * channels;
        (0..rows).flat_map(move |y| (0..columns).map(move |x| first + (y * width + x) * channels))
    }
}

/// The largest value of each window and channel, with ReLU if asked. A NaN is the largest of all, or a divergence would
/// be hidden.
pub(crate) struct MaxPool<'a> {
    pub(crate) grid: PoolGrid,
    pub(crate) relu: bool,
    pub(crate) x: &'a [f32],
    pub(crate) y: &'a mut [f32],
}

impl WithSimd for MaxPool<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let grid = self.grid;
        for (window, y) in self.y.chunks_exact_mut(grid.channels).enumerate() {
            let places = grid.places(window);
            for (channel, y) in (0..grid.channels).step_by(S::F32_LANES).zip(y.chunks_mut(S::F32_LANES)) {
                let mut largest = simd.splat_f32s(f32::NEG_INFINITY);
                for place in places.clone() {
                    let x = load(simd, &self.x[place + channel..][..y.len()]);
                    let less = simd.less_than_or_equal_f32s(x, largest);
                    let is_nan = simd.not_m32s(simd.equal_f32s(largest, largest));
                    largest = simd.select_f32s(simd.or_m32s(less, is_nan), largest, x);
                }
                store(simd, y, if self.relu { relu(simd, largest) } else { largest });
            }
        }
    }
}

/// The gradient of [`MaxPool`]: it goes to the first pixel of each window that has the largest value.
pub(crate) struct MaxPoolBack<'a> {
    pub(crate) grid: PoolGrid,
    pub(crate) relu: bool,
    pub(crate) x: &'a [f32],
    pub(crate) y: &'a [f32],
    pub(crate) dy: &'a [f32],
    pub(crate) dx: &'a mut [f32],
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
            let places = grid.places(window);
            for (channel, (dy, y)) in (0..grid.channels).step_by(lanes).zip(dy.chunks(lanes).zip(y.chunks(lanes))) {
                let count = y.len();
                let (mut left, y) = (load(simd, dy), load(simd, y));
                if self.relu {
                    left = simd.select_f32s(simd.less_than_f32s(zero, y), left, zero);
                }
                for place in places.clone() {
                    let is_largest = simd.equal_f32s(load(simd, &self.x[place + channel..][..count]), y);
                    let to = &mut self.dx[place + channel..][..count];
                    let taken = simd.select_f32s(is_largest, left, zero);
                    let sum = simd.add_f32s(load(simd, to), taken);
                    store(simd, to, sum);
                    left = simd.select_f32s(is_largest, zero, left);
                }
            }
        }
    }
}
