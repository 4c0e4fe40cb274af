//! Products of windows of an image with panels of weights: the forward pass of a convolution, and its gradient by the
//! input.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::vectors::{relu, store, vectors};

/// Where the windows of an image `[height][width][channels]` are.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    /// Values of one row of the image.
    pub(crate) row: usize,
    /// Values from a window to the next one of its row.
    pub(crate) step: usize,
    /// Values from a row of windows to the next one.
    pub(crate) step_down: usize,
    /// Values of one row of a window.
    pub(crate) run: usize,
    /// Rows of a window.
    pub(crate) runs: usize,
    /// The rows of the image that are not zeros around it.
    pub(crate) inside: Range<usize>,
    /// Windows in a row.
    pub(crate) width: usize,
    /// The place of each window's first value.
    pub(crate) starts: Vec<usize>,
}

impl Grid {
    /// The windows in `height` rows of `width`.
    pub(crate) fn starts(mut self, height: usize) -> Self {
        let row = |y: usize| (0..self.width).map(move |x| (x, y));
        self.starts = (0..height).flat_map(row).map(|(x, y)| y * self.step_down + x * self.step).collect();
        self
    }

    /// Rows of a matrix as windows without overlap.
    pub(crate) fn rows(rows: usize, columns: usize) -> Self {
        let grid = Self {
            row: 0,
            step: columns,
            step_down: 0,
            run: columns,
            runs: 1,
            inside: 0..1,
            width: rows,
            starts: Vec::new(),
        };
        grid.starts(1)
    }

    /// Values of a window.
    pub(crate) fn window(&self) -> usize {
        self.run * self.runs
    }

    /// Rows of the image from a row of windows to the next one.
    fn stride(&self) -> usize {
        self.step_down.checked_div(self.row).unwrap_or(1)
    }

    /// The rows of a window that are inside the image for any of the windows from `first` to `last`.
    fn runs_inside(&self, first: usize, last: usize) -> Range<usize> {
        let [first, last] = [first, last].map(|window| window / self.width * self.stride());
        self.inside.start.saturating_sub(last)..self.inside.end.saturating_sub(first).min(self.runs)
    }

    /// The rows of windows whose row `run` is inside the image.
    pub(super) fn lines_inside(&self, run: usize) -> Range<usize> {
        let line = |row: usize| row.saturating_sub(run).div_ceil(self.stride());
        line(self.inside.start)..line(self.inside.end).min(self.starts.len() / self.width)
    }
}

/// `out[p] = bias + W window[p]` for each window, with ReLU if asked.
pub(crate) struct WindowProducts<'a> {
    pub(crate) image: &'a [f32],
    pub(crate) grid: &'a Grid,
    /// W as `[panel of outputs][value of the window][output in the panel]`.
    pub(crate) panels: &'a [f32],
    /// Empty if there is none.
    pub(crate) bias: &'a [f32],
    pub(crate) relu: bool,
    pub(crate) outputs: usize,
    pub(crate) out: &'a mut [f32],
}

impl WithSimd for WindowProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match (S::F32_LANES, S::REGISTER_COUNT) {
            (16, _) => self.tiles::<S, 14, 2>(simd),
            (8, _) => self.tiles::<S, 6, 2>(simd),
            (_, 32..) => self.tiles::<S, 8, 2>(simd),
            _ => self.tiles::<S, 4, 2>(simd),
        }
    }
}

impl WindowProducts<'_> {
    /// Tiles of M windows and one panel of P vectors.
    #[inline(always)]
    fn tiles<S: Simd, const M: usize, const P: usize>(self, simd: S) {
        let Self { image, grid, panels, bias, outputs, .. } = self;
        let (panel_width, count) = (P * S::F32_LANES, grid.starts.len());
        let panels = panels.chunks_exact(grid.window() * panel_width);
        for (panel, output) in panels.zip((0..outputs).step_by(panel_width)) {
            let width = panel_width.min(outputs - output);
            let first: [S::f32s; P] = std::array::from_fn(|j| {
                let from = (output + j * S::F32_LANES).min(bias.len());
                simd.partial_load_f32s(&bias[from..(from + S::F32_LANES).min(bias.len())])
            });
            for place in (0..count).step_by(M) {
                // The last tile steps back and computes some windows again.
                let place = place.min(count.saturating_sub(M));
                let from: [&[f32]; M] = std::array::from_fn(|i| &image[grid.starts[(place + i).min(count - 1)]..]);
                let mut sums = [first; M];
                let inside = grid.runs_inside(place, (place + M - 1).min(count - 1));
                for (row, panel) in
                    panel.chunks_exact(grid.run * panel_width).enumerate().take(inside.end).skip(inside.start)
                {
                    let runs: [&[f32]; M] = std::array::from_fn(|i| &from[i][row * grid.row..][..grid.run]);
                    sums = add_products::<S, M, P>(simd, sums, runs, panel);
                }
                if self.relu {
                    sums = sums.map(|sums| sums.map(|sum| relu(simd, sum)));
                }
                for (i, sums) in sums.iter().enumerate().take(count - place) {
                    let to = &mut self.out[(place + i) * outputs + output..][..width];
                    to.chunks_mut(S::F32_LANES).zip(sums).for_each(|(to, sum)| store(simd, to, *sum));
                }
            }
        }
    }
}

/// `sums[i] += sum over k of rows[i][k] panel[k]`.
#[inline(always)]
fn add_products<S: Simd, const M: usize, const P: usize>(
    simd: S,
    mut sums: [[S::f32s; P]; M],
    rows: [&[f32]; M],
    panel: &[f32],
) -> [[S::f32s; P]; M] {
    let panel = vectors::<S>(panel).as_chunks::<P>().0;
    let rows: [&[f32]; M] = std::array::from_fn(|i| &rows[i][..panel.len()]);
    for (k, weights) in panel.iter().enumerate() {
        for i in 0..M {
            let value = simd.splat_f32s(rows[i][k]);
            for j in 0..P {
                sums[i][j] = simd.mul_add_e_f32s(value, weights[j], sums[i][j]);
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_left_out_where_they_are_zeros_around_the_image() {
        for stride in 1..=3 {
            for (before, height, after, runs) in [(2, 5, 2, 5), (4, 1, 4, 3), (0, 6, 0, 2), (3, 2, 0, 3)] {
                let lines = (before + height + after - runs) / stride + 1;
                let inside = before..before + height;
                let (row, step_down, starts) = (4, 4 * stride, Vec::new());
                let grid = Grid { row, step: 1, step_down, run: 2, runs, inside, width: 3, starts }.starts(lines);
                let is_inside = |line: &usize, run: &usize| grid.inside.contains(&(line * stride + run));
                for run in 0..runs {
                    let expected: Vec<usize> = (0..lines).filter(|line| is_inside(line, &run)).collect();
                    assert_eq!(grid.lines_inside(run).collect::<Vec<_>>(), expected);
                }
                for line in 0..lines {
                    let expected: Vec<usize> = (0..runs).filter(|run| is_inside(&line, run)).collect();
                    assert_eq!(grid.runs_inside(3 * line, 3 * line + 2).collect::<Vec<_>>(), expected);
                }
            }
        }
    }
}
