//! Layers of images: each image goes through all of them before the next one does, so its values stay in the cache.
//!
//! Images are `[height][width][channels]`. A batch is cut into a fixed number of lanes, which threads share: whatever
//! their number, gradients are summed in the same order.

mod convolution;
mod lane;
mod layer;

pub(super) use convolution::Convolution;
pub(super) use layer::ImageLayer;

use self::lane::{Kept, Lane};
use super::machine::Machine;
use super::parameter::Parameter;
use super::stage::{Pass, Stage, Step};
use crate::kernels::Add;

/// Lanes of a batch. The bits of a result depend on it, and more threads than lanes do not help.
const LANES: usize = 4;

/// Consecutive layers of images.
#[derive(Debug)]
pub(super) struct Images {
    layers: Vec<ImageLayer>,
    /// Values of an image before the first layer and after each.
    sizes: Vec<usize>,
    lanes: Vec<Lane>,
}

impl Images {
    /// Layers, each with the number of values of an image that it puts out.
    pub(super) fn new(inputs: usize, layers: Vec<(ImageLayer, usize)>) -> Self {
        let (layers, outputs): (Vec<_>, Vec<_>) = layers.into_iter().unzip();
        let lanes = std::iter::repeat_with(|| Lane::new(layers.len())).take(LANES).collect();
        Self { layers, sizes: [vec![inputs], outputs].concat(), lanes }
    }

    fn inputs(&self) -> usize {
        self.sizes[0]
    }

    /// The sums of all lanes, added to those of the first one in order.
    fn add_lanes(lanes: &mut [Lane], layer: usize, machine: Machine) -> &Kept {
        let (first, others) = lanes.split_at_mut(1);
        let sum = &mut first[0].kept[layer];
        for lane in others {
            let kept = &lane.kept[layer];
            machine.level.run(Add { to: &mut sum.sums.weight, from: &kept.sums.weight });
            machine.level.run(Add { to: &mut sum.sums.bias, from: &kept.sums.bias });
        }
        sum
    }
}

impl Stage for Images {
    fn outputs(&self) -> usize {
        self.sizes[self.layers.len()]
    }

    fn forward(&mut self, x: &[f32], y: &mut [f32], pass: &mut Pass<'_>) {
        let (machine, is_training) = (pass.machine, pass.is_training());
        let (xs, ys) = (cut(x, self.inputs()), cut_mut(y, self.outputs()));
        let (layers, sizes) = (&self.layers, &self.sizes);
        let tasks = self.lanes.iter_mut().zip(xs).zip(ys);
        machine.each(tasks, |((lane, x), y)| lane.forward(layers, sizes, x, y, is_training, machine));
    }

    fn backward(&mut self, x: &[f32], y: &[f32], dy: &mut [f32], dx: Option<&mut [f32]>, step: &Step) {
        let machine = step.machine;
        let used = (x.len() / self.inputs()).min(LANES);
        let mut is_first = dx.is_none();
        for layer in &mut self.layers {
            if let ImageLayer::Convolution(layer) = layer {
                // Nobody asks for the gradient by the inputs of the first one.
                if !std::mem::take(&mut is_first) {
                    layer.pack_back(machine.level);
                }
            }
        }
        let (xs, ys, dys) = (cut(x, self.inputs()), cut(y, self.outputs()), cut(dy, self.outputs()));
        let dxs: Vec<Option<&mut [f32]>> = match dx {
            Some(dx) => cut_mut(dx, self.inputs()).into_iter().map(Some).collect(),
            None => std::iter::repeat_with(|| None).take(LANES).collect(),
        };
        let (layers, sizes) = (&self.layers, &self.sizes);
        let tasks = self.lanes.iter_mut().zip(xs).zip(ys).zip(dys).zip(dxs).take(used);
        machine.each(tasks, |((((lane, x), y), dy), dx)| lane.backward(layers, sizes, [x, y], dy, dx, machine));
        for (index, layer) in self.layers.iter_mut().enumerate() {
            if let ImageLayer::Convolution(layer) = layer {
                let sum = Self::add_lanes(&mut self.lanes[..used], index, machine);
                layer.step(&sum.sums, step);
            }
        }
    }

    fn parameters(&mut self) -> Vec<&mut Parameter> {
        let convolutions = self.layers.iter_mut().filter_map(|layer| match layer {
            ImageLayer::Convolution(layer) => Some(layer.parameters()),
            _ => None,
        });
        convolutions.flatten().collect()
    }

    fn export(&self, values: &mut Vec<f32>) {
        for layer in &self.layers {
            if let ImageLayer::Convolution(layer) = layer {
                layer.export(values);
            }
        }
    }
}

/// Rows of each lane, the larger shares first.
fn share(rows: usize, lane: usize) -> usize {
    rows / LANES + usize::from(lane < rows % LANES)
}

/// The rows of each lane.
fn cut(mut all: &[f32], each: usize) -> Vec<&[f32]> {
    let rows = all.len() / each;
    (0..LANES).map(|lane| all.split_off(..share(rows, lane) * each).expect("shares add up to all rows")).collect()
}

fn cut_mut(mut all: &mut [f32], each: usize) -> Vec<&mut [f32]> {
    let rows = all.len() / each;
    (0..LANES).map(|lane| all.split_off_mut(..share(rows, lane) * each).expect("shares add up to all rows")).collect()
}
