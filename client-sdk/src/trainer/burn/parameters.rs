//! Parameters of layers, before a model fills them.

use burn::module::{Param, ParamId};
use burn::tensor::{Device, Shape, Tensor};

/// A parameter of zeros. Until it is filled or read it takes no memory.
pub(super) fn zeros<const D: usize>(shape: [usize; D], learned: bool, device: &Device) -> Param<Tensor<D>> {
    let init = move |device: &Device, grad| Tensor::zeros(shape, device).set_require_grad(grad);
    Param::uninitialized(ParamId::new(), init, device.clone(), learned, Shape::from(shape))
}

/// A weight that is loaded and saved as `[outputs, inputs]`, PyTorch's layout, and held as `[inputs, outputs]`, which
/// burn multiplies without transposing first.
pub(super) fn transposed_weight(outputs: usize, inputs: usize, device: &Device) -> Param<Tensor<2>> {
    zeros([outputs, inputs], true, device).init_mapper(transposed).load_mapper(transposed).save_mapper(transposed)
}

/// The transpose in its own buffer, because optimiser steps on a transposed view are slow.
fn transposed(weight: Tensor<2>) -> Tensor<2> {
    let [rows, columns] = weight.dims();
    weight.transpose().reshape([rows * columns]).reshape([columns, rows])
}
