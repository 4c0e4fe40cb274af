//! Products of a batch of rows with a matrix `[outputs][inputs]`, forward and backward. Nothing is packed: a matrix
//! that is used for ten rows would be copied for ten rows.

use pulp::{Simd, WithSimd};

use super::vectors::{vectors, vectors_mut};

/// `y[b][o] = bias[o] + x[b] weight[o]`, with ReLU if asked.
pub(crate) struct Dots<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) weight: &'a [f32],
    /// Empty if there is none.
    pub(crate) bias: &'a [f32],
    pub(crate) relu: bool,
    pub(crate) inputs: usize,
    pub(crate) y: &'a mut [f32],
}

impl WithSimd for Dots<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match (S::F32_LANES, S::REGISTER_COUNT) {
            (16, _) | (2..=4, 32..) => self.tiles::<S, 5, 5>(simd),
            _ => self.tiles::<S, 5, 2>(simd),
        }
    }
}

impl Dots<'_> {
    /// Tiles of B rows and O outputs. Tiles at the edges repeat their last row.
    #[inline(always)]
    fn tiles<S: Simd, const B: usize, const O: usize>(self, simd: S) {
        let Self { x, weight, bias, relu, inputs, y } = self;
        let (outputs, rows) = (weight.len() / inputs, x.len() / inputs);
        for o0 in (0..outputs).step_by(O) {
            let ws: [&[f32]; O] = std::array::from_fn(|i| &weight[(o0 + i).min(outputs - 1) * inputs..][..inputs]);
            for b0 in (0..rows).step_by(B) {
                let xs: [&[f32]; B] = std::array::from_fn(|i| &x[(b0 + i).min(rows - 1) * inputs..][..inputs]);
                // Vectors that were indexed by what is not a constant would be in memory, also while they are summed.
                let sums = dot_products::<S, B, O>(simd, xs, ws).map(|sums| sums.map(|sum| simd.reduce_sum_f32s(sum)));
                for (b, sums) in sums.iter().enumerate().take(rows - b0) {
                    for (o, sum) in sums.iter().enumerate().take(outputs - o0) {
                        let bias = if bias.is_empty() { 0.0 } else { bias[o0 + o] };
                        let value = bias + sum;
                        y[(b0 + b) * outputs + o0 + o] = if relu && value < 0.0 { 0.0 } else { value };
                    }
                }
            }
        }
    }
}

/// `sums[b][o]`: the products of `xs[b]` and `ws[o]`, summed lane by lane.
#[inline(always)]
fn dot_products<S: Simd, const B: usize, const O: usize>(
    simd: S,
    xs: [&[f32]; B],
    ws: [&[f32]; O],
) -> [[S::f32s; O]; B] {
    let mut sums = [[simd.splat_f32s(0.0); O]; B];
    let whole = xs[0].len() / S::F32_LANES;
    let x: [&[S::f32s]; B] = std::array::from_fn(|b| &vectors::<S>(xs[b])[..whole]);
    let w: [&[S::f32s]; O] = std::array::from_fn(|o| &vectors::<S>(ws[o])[..whole]);
    for k in 0..whole {
        let w: [S::f32s; O] = std::array::from_fn(|o| w[o][k]);
        for b in 0..B {
            let x = x[b][k];
            for o in 0..O {
                sums[b][o] = simd.mul_add_e_f32s(x, w[o], sums[b][o]);
            }
        }
    }
    let done = whole * S::F32_LANES;
    if done < xs[0].len() {
        let w: [S::f32s; O] = std::array::from_fn(|o| simd.partial_load_f32s(&ws[o][done..]));
        for b in 0..B {
            let x = simd.partial_load_f32s(&xs[b][done..]);
            for o in 0..O {
                sums[b][o] = simd.mul_add_e_f32s(x, w[o], sums[b][o]);
            }
        }
    }
    sums
}

/// `dx[b] += sum over o of dy[b][o] weight[o]`, for a block of outputs and of columns.
pub(crate) struct PullBack<'a> {
    /// From the first output of the block on.
    pub(crate) dy: &'a [f32],
    /// Values from a row of `dy` to the next one.
    pub(crate) dy_row: usize,
    /// From the first output and column of the block on.
    pub(crate) weight: &'a [f32],
    /// Values from a row of the weight to the next one.
    pub(crate) inputs: usize,
    /// Outputs of the block.
    pub(crate) outputs: usize,
    /// Columns of the block.
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    /// From the first column of the block on.
    pub(crate) dx: &'a mut [f32],
    /// Values from a row of `dx` to the next one.
    pub(crate) dx_row: usize,
}

impl WithSimd for PullBack<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match S::REGISTER_COUNT {
            32.. => self.tiles::<S, 10, 2>(simd),
            _ => self.tiles::<S, 5, 2>(simd),
        }
    }
}

impl PullBack<'_> {
    /// Tiles of M rows and P vectors of columns.
    #[inline(always)]
    fn tiles<S: Simd, const M: usize, const P: usize>(mut self, simd: S) {
        let width = P * S::F32_LANES;
        let whole = self.columns / width * width;
        for column in (0..whole).step_by(width) {
            for row in (0..self.rows).step_by(M) {
                self.tile::<S, M, P>(simd, row, column);
            }
        }
        self.rest(whole);
    }

    #[inline(always)]
    fn tile<S: Simd, const M: usize, const P: usize>(&mut self, simd: S, row: usize, column: usize) {
        let width = P * S::F32_LANES;
        let at = |i: usize| (row + i).min(self.rows - 1);
        let dy: [&[f32]; M] = std::array::from_fn(|i| &self.dy[at(i) * self.dy_row..][..self.outputs]);
        let mut sums: [[S::f32s; P]; M] = std::array::from_fn(|i| {
            let before = vectors::<S>(&self.dx[at(i) * self.dx_row + column..][..width]);
            std::array::from_fn(|j| before[j])
        });
        for (o, row) in self.weight.chunks(self.inputs).enumerate().take(self.outputs) {
            let weights = vectors::<S>(&row[column..][..width]);
            for i in 0..M {
                let value = simd.splat_f32s(dy[i][o]);
                for j in 0..P {
                    sums[i][j] = simd.mul_add_e_f32s(value, weights[j], sums[i][j]);
                }
            }
        }
        for (i, sums) in sums.iter().enumerate().take(self.rows - row) {
            vectors_mut::<S>(&mut self.dx[(row + i) * self.dx_row + column..][..width]).copy_from_slice(sums);
        }
    }

    /// The columns that fill no tile.
    #[inline(always)]
    fn rest(&mut self, first: usize) {
        let width = self.columns - first;
        for row in 0..self.rows {
            let to = &mut self.dx[row * self.dx_row + first..][..width];
            for o in 0..self.outputs {
                let value = self.dy[row * self.dy_row + o];
                let weights = &self.weight[o * self.inputs + first..][..width];
                to.iter_mut().zip(weights).for_each(|(to, weight)| *to += value * weight);
            }
        }
    }
}

/// `gradient[o] = sum over b of dy[b][o] x[b]`, for a block of outputs and of columns.
pub(crate) struct RowGradient<'a> {
    /// From the first output of the block on.
    pub(crate) dy: &'a [f32],
    /// Values from a row of `dy` to the next one.
    pub(crate) dy_row: usize,
    /// From the first column of the block on.
    pub(crate) x: &'a [f32],
    /// Values from a row of `x` to the next one.
    pub(crate) inputs: usize,
    /// Columns of the block.
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    /// The block alone.
    pub(crate) gradient: &'a mut [f32],
}

impl WithSimd for RowGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match S::REGISTER_COUNT {
            32.. => self.tiles::<S, 8, 2>(simd),
            _ => self.tiles::<S, 4, 2>(simd),
        }
    }
}

impl RowGradient<'_> {
    /// Tiles of M outputs and P vectors of columns.
    #[inline(always)]
    fn tiles<S: Simd, const M: usize, const P: usize>(mut self, simd: S) {
        let width = P * S::F32_LANES;
        let outputs = self.gradient.len() / self.columns;
        let whole = if outputs < M { 0 } else { self.columns / width * width };
        for column in (0..whole).step_by(width) {
            for output in (0..outputs).step_by(M) {
                // The last tile steps back and computes some outputs again.
                self.tile::<S, M, P>(simd, output.min(outputs - M), column);
            }
        }
        self.rest(outputs, whole);
    }

    #[inline(always)]
    fn tile<S: Simd, const M: usize, const P: usize>(&mut self, simd: S, output: usize, column: usize) {
        let width = P * S::F32_LANES;
        let mut sums = [[simd.splat_f32s(0.0); P]; M];
        for row in 0..self.rows {
            let dy: &[f32; M] = self.dy[row * self.dy_row + output..].first_chunk().expect("a row of the tile");
            let x = vectors::<S>(&self.x[row * self.inputs + column..][..width]);
            for i in 0..M {
                let value = simd.splat_f32s(dy[i]);
                for j in 0..P {
                    sums[i][j] = simd.mul_add_e_f32s(value, x[j], sums[i][j]);
                }
            }
        }
        for (i, sums) in sums.iter().enumerate() {
            vectors_mut::<S>(&mut self.gradient[(output + i) * self.columns + column..][..width]).copy_from_slice(sums);
        }
    }

    /// The columns that fill no tile.
    #[inline(always)]
    fn rest(&mut self, outputs: usize, first: usize) {
        let width = self.columns - first;
        for output in 0..outputs {
            let to = &mut self.gradient[output * self.columns + first..][..width];
            to.fill(0.0);
            for row in 0..self.rows {
                let value = self.dy[row * self.dy_row + output];
                let x = &self.x[row * self.inputs + first..][..width];
                to.iter_mut().zip(x).for_each(|(to, x)| *to += value * x);
            }
        }
    }
}
