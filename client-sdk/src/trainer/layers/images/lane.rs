//! What one lane of a batch keeps, and its way through the layers.

use super::super::machine::Machine;
use super::convolution::Sums;
use super::layer::ImageLayer;

#[derive(Debug)]
pub(super) struct Lane {
    /// Of each layer.
    pub(super) kept: Vec<Kept>,
    /// The gradient by the outputs of a layer, and by its inputs.
    gradients: [Vec<f32>; 2],
}

#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The inputs of a convolution with their border, image by image.
    images: Vec<f32>,
    /// What the layer put out, image by image. The last layer's outputs are not kept here.
    values: Vec<f32>,
    pub(super) sums: Sums,
}

impl Lane {
    pub(super) fn new(layers: usize) -> Self {
        let kept = std::iter::repeat_with(Kept::default).take(layers).collect();
        Self { kept, gradients: [Vec::new(), Vec::new()] }
    }

    /// Maps images to the outputs of the last layer. What the layers between put out is kept in training.
    pub(super) fn forward(
        &mut self,
        layers: &[ImageLayer],
        sizes: &[usize],
        x: &[f32],
        out: &mut [f32],
        is_training: bool,
        machine: Machine,
    ) {
        let last = layers.len() - 1;
        let images_total = x.len() / sizes[0];
        let slots = if is_training { images_total } else { 1 };
        for image in 0..images_total {
            let slot = if is_training { image } else { 0 };
            for (index, layer) in layers.iter().enumerate() {
                let (before, after) = self.kept.split_at_mut(index);
                let Kept { images, values, .. } = &mut after[0];
                let x = match index {
                    0 => &x[image * sizes[0]..][..sizes[0]],
                    _ => &before[index - 1].values[slot * sizes[index]..][..sizes[index]],
                };
                let size = sizes[index + 1];
                let y = match index == last {
                    true => &mut out[image * size..][..size],
                    false => slot_of(values, [slot, slots], size),
                };
                let bordered = match layer {
                    ImageLayer::Convolution(layer) => slot_of(images, [slot, slots], layer.bordered_size()),
                    _ => &mut [],
                };
                layer.forward(x, y, bordered, machine);
            }
        }
    }

    /// Sums the gradients by all weights over the images, and gives that by the inputs if asked.
    pub(super) fn backward(
        &mut self,
        layers: &[ImageLayer],
        sizes: &[usize],
        [x, out]: [&[f32]; 2],
        dy: &[f32],
        mut dx: Option<&mut [f32]>,
        machine: Machine,
    ) {
        let last = layers.len() - 1;
        // Before the first layer that learns, gradients matter only to what asked for `dx`.
        let first = if dx.is_some() { 0 } else { layers.iter().position(ImageLayer::learns).unwrap_or(last + 1) };
        let most = sizes.iter().copied().max().unwrap_or_default();
        self.gradients.iter_mut().for_each(|gradient| gradient.resize(most, 0.0));
        for (kept, layer) in self.kept.iter_mut().zip(layers) {
            if let ImageLayer::Convolution(layer) = layer {
                layer.clear(&mut kept.sums, machine.level);
            }
        }
        for (image, dy) in dy.chunks_exact(sizes[last + 1]).enumerate() {
            let [now, next] = &mut self.gradients;
            let (mut now, mut next) = (now, next);
            now[..dy.len()].copy_from_slice(dy);
            for (index, layer) in layers.iter().enumerate().skip(first).rev() {
                let (before, after) = self.kept.split_at_mut(index);
                let Kept { images, values, sums } = &mut after[0];
                let (inputs, outputs) = (sizes[index], sizes[index + 1]);
                let x = match index {
                    0 => &x[image * inputs..][..inputs],
                    _ => &before[index - 1].values[image * inputs..][..inputs],
                };
                let y = match index == last {
                    true => &out[image * outputs..][..outputs],
                    false => &values[image * outputs..][..outputs],
                };
                let bordered = match layer {
                    ImageLayer::Convolution(layer) => &images[image * layer.bordered_size()..][..layer.bordered_size()],
                    _ => &[],
                };
                let wanted = index > first || dx.is_some();
                let dx = wanted.then_some(&mut next[..inputs]);
                layer.backward([x, y], &mut now[..outputs], dx, (bordered, sums), machine);
                std::mem::swap(&mut now, &mut next);
            }
            if let Some(dx) = dx.as_deref_mut() {
                dx[image * sizes[0]..][..sizes[0]].copy_from_slice(&now[..sizes[0]]);
            }
        }
    }
}

/// The place of one image in a buffer that grows to hold it. Its memory is that of so many images from the first on:
/// growing by and by would take up to twice as much.
fn slot_of(buffer: &mut Vec<f32>, [slot, slots]: [usize; 2], size: usize) -> &mut [f32] {
    let end = (slot + 1) * size;
    if buffer.len() < end {
        buffer.reserve_exact(slots * size - buffer.len());
        buffer.resize(end, 0.0);
    }
    &mut buffer[slot * size..][..size]
}
