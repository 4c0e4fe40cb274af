//! One layer of images.

use super::super::machine::Machine;
use super::convolution::{Convolution, Sums};
use crate::kernels::{AvgPool, Function, MaxPool, MaxPoolBack, PoolGrid, transpose};

/// A layer of images, without what a lane keeps for it.
#[derive(Debug)]
pub(in super::super) enum ImageLayer {
    Convolution(Box<Convolution>),
    MaxPool {
        grid: PoolGrid,
        relu: bool,
    },
    AvgPool(AvgPool),
    Function(Function),
    /// `[rows][columns]` to `[columns][rows]`: from planes to channels last, or back.
    Transpose {
        rows: usize,
        columns: usize,
    },
}

impl ImageLayer {
    pub(super) fn learns(&self) -> bool {
        matches!(self, Self::Convolution(_))
    }

    pub(super) fn forward(&self, x: &[f32], y: &mut [f32], image: &mut [f32], machine: Machine) {
        match self {
            Self::Convolution(layer) => layer.forward(x, image, y, machine.level),
            Self::MaxPool { grid, relu } => machine.level.run(MaxPool { grid: *grid, relu: *relu, x, y }),
            Self::AvgPool(layer) => layer.forward(x, y),
            Self::Function(function) => function.forward(x, y),
            Self::Transpose { rows, columns } => transpose(x, y, *rows, *columns),
        }
    }

    /// `image` is what the lane kept for this image.
    pub(super) fn backward(
        &self,
        [x, y]: [&[f32]; 2],
        dy: &mut [f32],
        dx: Option<&mut [f32]>,
        (image, kept): (&[f32], &mut Sums),
        machine: Machine,
    ) {
        if let Self::Convolution(layer) = self {
            return layer.backward(image, y, dy, dx, kept, machine.level);
        }
        let Some(dx) = dx else { return };
        match self {
            Self::Convolution(_) => {}
            Self::MaxPool { grid, relu } => {
                machine.level.run(MaxPoolBack { grid: *grid, relu: *relu, x, y, dy, dx });
            }
            Self::AvgPool(layer) => layer.backward(dy, dx),
            Self::Function(function) => function.backward(x, y, dy, dx),
            Self::Transpose { rows, columns } => transpose(dy, dx, *columns, *rows),
        }
    }
}
