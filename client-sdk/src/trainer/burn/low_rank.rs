//! Linear layers with a product of two small matrices (LoRA). Fields are the parameters' names, which are those of
//! loralib.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};

use super::parameters::{transposed_weight, zeros};

/// `y = x W^T + b + scale (x A^T) B^T` over the last dimension.
#[derive(Module, Debug)]
pub(super) struct LowRank {
    weight: Param<Tensor<2>>,
    bias: Option<Param<Tensor<1>>>,
    lora_A: Param<Tensor<2>>,
    lora_B: Param<Tensor<2>>,
    #[module(skip)]
    scale: f64,
}

impl LowRank {
    pub(super) fn new([inputs, outputs, rank]: [usize; 3], scale: f64, bias: bool, device: &Device) -> Self {
        Self {
            weight: transposed_weight(outputs, inputs, device),
            bias: bias.then(|| zeros([outputs], true, device)),
            lora_A: transposed_weight(rank, inputs, device),
            lora_B: transposed_weight(outputs, rank, device),
            scale,
        }
    }

    pub(super) fn forward(&self, values: Tensor<2>) -> Tensor<2> {
        let weight = self.weight.val();
        let [inputs, outputs] = weight.dims();
        let [batch, each] = values.dims();
        let positions = each / inputs;
        let rows = values.reshape([batch * positions, inputs]);
        let product = rows.clone().matmul(self.lora_A.val()).matmul(self.lora_B.val()) * self.scale;
        let linear = burn::tensor::module::linear(rows, weight, self.bias.as_ref().map(Param::val));
        (linear + product).reshape([batch, positions * outputs])
    }
}
