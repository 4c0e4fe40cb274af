//! Convolution and pooling of images (`torch.nn.Conv2d`, `MaxPool2d`, `AvgPool2d`).

use burn::module::{Module, Param};
use burn::tensor::module::{avg_pool2d, conv2d, max_pool2d};
use burn::tensor::ops::{AvgPoolOptions, ConvOptions, MaxPoolOptions};
use burn::tensor::{Device, Tensor};
use tributary_protocol::layers::{HeightWidth, Padding};

use super::parameters::zeros;

/// Cross-correlation of images with one kernel per output channel.
#[derive(Module, Debug)]
pub(super) struct Conv2d {
    /// `[out_channels, in_channels, height, width]`.
    weight: Param<Tensor<4>>,
    bias: Option<Param<Tensor<1>>>,
    /// Shape of one input: `[channels, height, width]`.
    #[module(skip)]
    input: [usize; 3],
    #[module(skip)]
    stride: [usize; 2],
    /// Zeros before and after the height, then the width.
    #[module(skip)]
    padding: [(usize, usize); 2],
}

impl Conv2d {
    pub(super) fn new(
        input: [usize; 3],
        out_channels: usize,
        [kernel, stride]: [HeightWidth; 2],
        padding: Padding,
        bias: bool,
        device: &Device,
    ) -> Self {
        let [before, after] = padding.zeros(kernel);
        Self {
            weight: zeros([out_channels, input[0], kernel.height, kernel.width], true, device),
            bias: bias.then(|| zeros([out_channels], true, device)),
            input,
            stride: stride.into(),
            padding: [(before[0], after[0]), (before[1], after[1])],
        }
    }

    pub(super) fn forward(&self, values: Tensor<2>) -> Tensor<2> {
        let options = ConvOptions::new_with_padding(self.stride, self.padding, [1, 1], 1);
        let bias = self.bias.as_ref().map(Param::val);
        flat(conv2d(images(values, self.input), self.weight.val(), bias, options))
    }
}

/// The largest value or the mean of each window.
#[derive(Module, Debug)]
pub(super) struct Pool2d {
    /// Shape of one input: `[channels, height, width]`.
    #[module(skip)]
    input: [usize; 3],
    #[module(skip)]
    kernel: [usize; 2],
    #[module(skip)]
    stride: [usize; 2],
    /// Whether it is the largest value.
    #[module(skip)]
    largest: bool,
}

impl Pool2d {
    pub(super) fn new(input: [usize; 3], kernel: HeightWidth, stride: HeightWidth, largest: bool) -> Self {
        Self { input, kernel: kernel.into(), stride: stride.into(), largest }
    }

    pub(super) fn forward(&self, values: Tensor<2>) -> Tensor<2> {
        let images = images(values, self.input);
        flat(match self.largest {
            true => max_pool2d(images, MaxPoolOptions::new(self.kernel).with_stride(self.stride)),
            false => avg_pool2d(images, AvgPoolOptions::new(self.kernel).with_stride(self.stride)),
        })
    }
}

/// `[batch, channels * height * width]` to `[batch, channels, height, width]`.
pub(super) fn images(values: Tensor<2>, [channels, height, width]: [usize; 3]) -> Tensor<4> {
    let [batch, _] = values.dims();
    values.reshape([batch, channels, height, width])
}

/// `[batch, channels, height, width]` to `[batch, channels * height * width]`.
pub(super) fn flat(images: Tensor<4>) -> Tensor<2> {
    let [batch, channels, height, width] = images.dims();
    images.reshape([batch, channels * height * width])
}
