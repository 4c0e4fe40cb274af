//! Convolutions (`torch.nn.Conv2d`), with the ReLU that follows.

use super::super::parameter::Parameter;
use super::super::stage::Step;
use crate::kernels::{AddRows, Geometry, Grid, Level, ReluMask, WindowGradient, WindowProducts};

/// Sums over the images of a lane, and what computing them needs.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub(super) weight: Vec<f32>,
    pub(super) bias: Vec<f32>,
    /// The gradient by the outputs of an image, in panels.
    pub(super) panels: Vec<f32>,
    /// The gradient by the outputs of an image, spread out and with a border.
    pub(super) spread: Vec<f32>,
}

/// Cross-correlation of images with one kernel per output channel.
#[derive(Debug)]
pub(in super::super) struct Convolution {
    geometry: Geometry,
    /// Output channels of a panel.
    panel: usize,
    grid: Grid,
    back_grid: Grid,
    /// `[panel of outputs][y][x][channel][output in the panel]`.
    weight: Parameter,
    bias: Option<Parameter>,
    /// Whether a ReLU follows.
    relu: bool,
    /// The weight as the gradient by the inputs needs it: `[panel of channels][y][x][output][channel in the panel]`,
    /// upside down.
    back_panels: Vec<f32>,
}

impl Convolution {
    /// `weight` is `[output][channel][y][x]`.
    pub(in super::super) fn new(
        geometry: Geometry,
        weight: &[f32],
        bias: Option<&[f32]>,
        relu: bool,
        level: Level,
    ) -> Self {
        let (grid, panel) = (geometry.grid(), level.panel());
        let mut packed = vec![0.0; geometry.outputs.next_multiple_of(panel) * grid.window()];
        geometry.places(panel, |plain, place| packed[place] = weight[plain]);
        let back_grid = geometry.back_grid();
        let (weight, bias) = (Parameter::of(packed), bias.map(Parameter::new));
        Self { geometry, panel, grid, back_grid, weight, bias, relu, back_panels: Vec::new() }
    }

    /// Values of the input with its border.
    pub(super) fn bordered_size(&self) -> usize {
        let [height, width] = self.geometry.bordered();
        height * width * self.geometry.channels
    }

    /// `image` receives the input with its border; its border is 0 before.
    pub(super) fn forward(&self, x: &[f32], image: &mut [f32], y: &mut [f32], level: Level) {
        let outputs = self.geometry.outputs;
        self.geometry.frame(x, image);
        let (panels, bias) = (&self.weight.values, self.bias.as_ref().map_or(&[][..], |bias| &bias.values));
        level.run(WindowProducts { image, grid: &self.grid, panels, bias, relu: self.relu, outputs, out: y });
    }

    /// Makes the sums of a lane 0.
    pub(super) fn clear(&self, sums: &mut Sums, level: Level) {
        let outputs = self.geometry.outputs;
        let padded = outputs.next_multiple_of(level.gradient_panel(outputs));
        for (sums, count) in [(&mut sums.weight, padded * self.grid.window()), (&mut sums.bias, outputs)] {
            sums.clear();
            sums.resize(count, 0.0);
        }
    }

    /// Adds the gradients of one image to the sums. `dx` is given by [`Self::pack_back`]'s panels.
    pub(super) fn backward(
        &self,
        image: &[f32],
        y: &[f32],
        dy: &mut [f32],
        dx: Option<&mut [f32]>,
        sums: &mut Sums,
        level: Level,
    ) {
        if self.relu {
            level.run(ReluMask { y, dy });
        }
        level.run(AddRows { sums: &mut sums.bias, rows: dy });
        if let Some(dx) = dx {
            self.spread(dy, &mut sums.spread);
            let (grid, panels, outputs) = (&self.back_grid, &self.back_panels, self.geometry.channels);
            level.run(WindowProducts { image: &sums.spread, grid, panels, bias: &[], relu: false, outputs, out: dx });
        }
        if self.weight.is_frozen {
            return;
        }
        let width = level.gradient_panel(self.geometry.outputs);
        let dy = self.in_panels(dy, width, &mut sums.panels);
        for run in 0..self.grid.runs {
            let (grid, wide, gradient) = (&self.grid, width > self.panel, sums.weight.as_mut_slice());
            level.run(WindowGradient { image, grid, dy, wide, run, gradient });
        }
    }

    /// The gradient by the outputs with zeros between and around them, so that each value of the input has a window of
    /// those outputs that it went into.
    fn spread(&self, dy: &[f32], spread: &mut Vec<f32>) {
        let Geometry { outputs, out: [height, width], .. } = self.geometry;
        let size: usize = self.geometry.spread().iter().product();
        spread.resize(size * outputs, 0.0);
        for y in 0..height {
            let Some(to_y) = self.geometry.spread_place(0, y) else { continue };
            for x in 0..width {
                let Some(to_x) = self.geometry.spread_place(1, x) else { continue };
                let from = &dy[(y * width + x) * outputs..][..outputs];
                spread[to_y * self.back_grid.row + to_x * outputs..][..outputs].copy_from_slice(from);
            }
        }
    }

    /// `[window][output]` in panels of outputs. Places of a panel beyond the last output are 0.
    fn in_panels<'a>(&self, dy: &'a [f32], width: usize, panels: &'a mut Vec<f32>) -> &'a [f32] {
        let (outputs, windows) = (self.geometry.outputs, self.grid.starts.len());
        if outputs == width {
            return dy;
        }
        panels.resize(outputs.next_multiple_of(width) * windows, 0.0);
        for (first, panel) in (0..outputs).step_by(width).zip(panels.chunks_exact_mut(width * windows)) {
            let count = width.min(outputs - first);
            for (to, from) in panel.chunks_exact_mut(width).zip(dy.chunks_exact(outputs)) {
                to[..count].copy_from_slice(&from[first..first + count]);
            }
        }
        panels
    }

    /// Packs the weight for the gradient by the inputs.
    pub(super) fn pack_back(&mut self, level: Level) {
        let Geometry { channels, outputs, kernel, .. } = self.geometry;
        let (panel, window) = (level.panel(), kernel[0] * kernel[1]);
        let (rows, back_rows) = (self.grid.window(), window * outputs);
        self.back_panels.resize(channels.next_multiple_of(panel) * back_rows, 0.0);
        for (index, weights) in self.weight.values.chunks_exact(rows * panel).enumerate() {
            let count = panel.min(outputs - index * panel);
            for (at, weights) in weights.chunks_exact(channels * panel).enumerate() {
                let row = (window - 1 - at) * outputs + index * panel;
                for (channel, weights) in (0..channels).step_by(panel).zip(weights.chunks(panel * panel)) {
                    let to = &mut self.back_panels[channel * back_rows + row * panel..][..count * panel];
                    for (output, to) in to.chunks_exact_mut(panel).enumerate() {
                        to.iter_mut().zip(weights.chunks_exact(panel)).for_each(|(to, from)| *to = from[output]);
                    }
                }
            }
        }
    }

    /// One step along the sums of all lanes.
    pub(super) fn step(&mut self, sums: &Sums, step: &Step) {
        let gradient = &sums.weight[..self.weight.values.len()];
        self.weight.learned(&step.rule).step(step.machine.level, &step.rule, gradient);
        if let Some(bias) = &mut self.bias {
            bias.learned(&step.rule).step(step.machine.level, &step.rule, &sums.bias);
        }
    }

    pub(super) fn parameters(&mut self) -> Vec<&mut Parameter> {
        [&mut self.weight].into_iter().chain(&mut self.bias).collect()
    }

    pub(super) fn export(&self, values: &mut Vec<f32>) {
        let start = values.len();
        values.resize(start + self.geometry.outputs * self.grid.window(), 0.0);
        let weight = &self.weight.values;
        self.geometry.places(self.panel, |plain, place| values[start + plain] = weight[place]);
        values.extend(self.bias.iter().flat_map(|bias| &bias.values));
    }
}
