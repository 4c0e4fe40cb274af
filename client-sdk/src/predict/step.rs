//! One step of a prediction. Images are `[height][width][channels]`.

use std::ops::Range;

use super::linear::Linear;
use super::recurrent::Recurrent;
use crate::kernels::{
    AvgPool, Function, Geometry, Grid, Gru, Level, Lstm, MaxPool, PoolGrid, WindowProducts, layer_norm, transpose,
};

/// One or two layers, or a change of the order of values.
#[derive(Debug)]
pub(super) struct Step {
    /// Number of values that it puts out.
    outputs: usize,
    kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Linear(Linear),
    Convolution(Box<Convolution>),
    MaxPool { grid: PoolGrid, relu: bool },
    AvgPool(AvgPool),
    Function(Function),
    BatchNorm(BatchNorm),
    LayerNorm { weight: Vec<f32>, bias: Vec<f32>, epsilon: f64 },
    Embedding { weight: Vec<f32>, size: usize },
    Lstm(Recurrent<Lstm>),
    Gru(Recurrent<Gru>),
    Transpose { rows: usize, columns: usize },
}

impl Step {
    pub(super) fn new(kind: Kind, outputs: usize) -> Self {
        Self { outputs, kind }
    }

    pub(super) fn outputs(&self) -> usize {
        self.outputs
    }

    /// `room` is that of all steps; each has its range.
    pub(super) fn run(&self, x: &[f32], y: &mut [f32], room: &mut [f32], level: Level) {
        match &self.kind {
            Kind::Linear(layer) => layer.run(x, y, level),
            Kind::Convolution(layer) => layer.run(x, y, room, level),
            Kind::MaxPool { grid, relu } => level.run(MaxPool { grid: *grid, relu: *relu, x, y }),
            Kind::AvgPool(layer) => layer.forward(x, y),
            Kind::Function(function) => function.forward(x, y),
            Kind::BatchNorm(layer) => layer.run(x, y),
            Kind::LayerNorm { weight, bias, epsilon } => layer_norm(x, y, [weight, bias], *epsilon),
            Kind::Embedding { weight, size } => {
                for (id, y) in x.iter().zip(y.chunks_exact_mut(*size)) {
                    y.copy_from_slice(&weight[*id as usize * size..][..*size]);
                }
            }
            Kind::Lstm(layer) => layer.run(x, y, room, level),
            Kind::Gru(layer) => layer.run(x, y, room, level),
            Kind::Transpose { rows, columns } => transpose(x, y, *rows, *columns),
        }
    }
}

#[derive(Debug)]
pub(super) struct Convolution {
    pub(super) geometry: Geometry,
    pub(super) grid: Grid,
    /// `[panel of outputs][y][x][channel][output in the panel]`.
    pub(super) panels: Vec<f32>,
    /// Empty if there is none.
    pub(super) bias: Vec<f32>,
    /// Whether a ReLU follows.
    pub(super) relu: bool,
    /// Where the input with its border is.
    pub(super) room: Range<usize>,
}

impl Convolution {
    fn run(&self, x: &[f32], y: &mut [f32], room: &mut [f32], level: Level) {
        let image = &mut room[self.room.clone()];
        self.geometry.frame(x, image);
        let Self { grid, panels, bias, relu, .. } = self;
        level.run(WindowProducts { image, grid, panels, bias, relu: *relu, outputs: self.geometry.outputs, out: y });
    }
}

/// `scale x + shift` for each channel. A mean that is large beside its deviation would be lost in f32.
#[derive(Debug)]
pub(super) struct BatchNorm {
    /// Scale and shift of each channel.
    channels: Vec<[f64; 2]>,
}

impl BatchNorm {
    /// `parameters` are weight, bias, running mean and running variance.
    pub(super) fn new(parameters: [&[f32]; 4], epsilon: f64) -> Self {
        let of_channel = |channel: usize| {
            let [weight, bias, mean, variance] = parameters.map(|parameter| f64::from(parameter[channel]));
            // Averaging and compression can make a variance slightly negative.
            let scale = weight / (variance.max(0.0) + epsilon).sqrt();
            [scale, bias - mean * scale]
        };
        Self { channels: (0..parameters[0].len()).map(of_channel).collect() }
    }

    fn run(&self, x: &[f32], y: &mut [f32]) {
        let channels = self.channels.len();
        for (x, y) in x.chunks_exact(channels).zip(y.chunks_exact_mut(channels)) {
            for ((x, y), [scale, shift]) in x.iter().zip(y).zip(&self.channels) {
                *y = (f64::from(*x) * scale + shift) as f32;
            }
        }
    }
}
