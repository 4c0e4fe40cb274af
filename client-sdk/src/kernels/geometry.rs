//! Where the values of a convolution are.

use super::windows::Grid;

/// Sizes of a convolution; pairs are height and width.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub(crate) channels: usize,
    pub(crate) input: [usize; 2],
    pub(crate) outputs: usize,
    pub(crate) kernel: [usize; 2],
    pub(crate) stride: [usize; 2],
    /// Zeros above and to the left.
    pub(crate) before: [usize; 2],
    /// Zeros below and to the right.
    pub(crate) after: [usize; 2],
    pub(crate) out: [usize; 2],
}

impl Geometry {
    /// Height and width of the input with its border.
    pub(crate) fn bordered(&self) -> [usize; 2] {
        [0, 1].map(|side| self.before[side] + self.input[side] + self.after[side])
    }

    /// Values of the input with its border; `None` if they cannot be counted.
    pub(crate) fn bordered_values(&self) -> Option<usize> {
        let [height, width] = self.bordered();
        height.checked_mul(width)?.checked_mul(self.channels)
    }

    /// Puts the input into an image whose border is 0 before.
    pub(crate) fn frame(&self, x: &[f32], image: &mut [f32]) {
        let Self { channels, input, before, .. } = *self;
        let (row, [_, width]) = (input[1] * channels, self.bordered());
        for (line, x) in x.chunks_exact(row).enumerate() {
            image[((line + before[0]) * width + before[1]) * channels..][..row].copy_from_slice(x);
        }
    }

    /// Values of the largest buffer for one image; `None` if they cannot be counted.
    pub(crate) fn largest_buffer(&self) -> Option<usize> {
        let size = |[height, width]: [usize; 2], channels: usize| height.checked_mul(width)?.checked_mul(channels);
        Some(size(self.bordered(), self.channels)?.max(size(self.spread(), self.outputs)?))
    }

    /// The windows of the bordered input.
    pub(crate) fn grid(&self) -> Grid {
        let (channels, [_, width]) = (self.channels, self.bordered());
        let grid = Grid {
            row: width * channels,
            step: self.stride[1] * channels,
            step_down: self.stride[0] * width * channels,
            run: self.kernel[1] * channels,
            runs: self.kernel[0],
            inside: self.before[0]..self.before[0] + self.input[0],
            width: self.out[1],
            starts: Vec::new(),
        };
        grid.starts(self.out[0])
    }

    /// The windows of the gradient by the outputs, spread out and with a border, one for each value of the input.
    pub(crate) fn back_grid(&self) -> Grid {
        let [_, width] = self.spread();
        let rows = || (0..self.out[0]).filter_map(|row| self.spread_place(0, row));
        let grid = Grid {
            row: width * self.outputs,
            step: self.outputs,
            step_down: width * self.outputs,
            run: self.kernel[1] * self.outputs,
            runs: self.kernel[0],
            inside: rows().next().unwrap_or(0)..rows().next_back().map_or(0, |last| last + 1),
            width: self.input[1],
            starts: Vec::new(),
        };
        grid.starts(self.input[0])
    }

    /// Height and width of what [`Self::back_grid`] looks at.
    pub(crate) fn spread(&self) -> [usize; 2] {
        [0, 1].map(|side| self.input[side] + self.kernel[side] - 1)
    }

    /// Where row (0) or column (1) `out` of the outputs is in there; `None` if its windows see only zeros.
    pub(crate) fn spread_place(&self, side: usize, out: usize) -> Option<usize> {
        let place = (out * self.stride[side] + self.kernel[side] - 1).checked_sub(self.before[side])?;
        (place < self.spread()[side]).then_some(place)
    }

    /// Calls `each` with the place of every weight in `[output][channel][y][x]`, and in panels.
    pub(crate) fn places(&self, panel: usize, mut each: impl FnMut(usize, usize)) {
        let Geometry { channels, outputs, kernel, .. } = *self;
        let window = kernel[0] * kernel[1];
        for output in 0..outputs {
            for channel in 0..channels {
                for at in 0..window {
                    let row = output / panel * window * channels * panel;
                    let place = row + (at * channels + channel) * panel + output % panel;
                    each((output * channels + channel) * window + at, place);
                }
            }
        }
    }
}
