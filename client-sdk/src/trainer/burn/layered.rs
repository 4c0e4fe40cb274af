//! Networks as data, built as burn modules.
//!
//! Between layers a batch is always `[batch, values of one example]`. Each layer knows the shape of those values.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, activation};
use tributary_protocol::layers::{HeightWidth, Layer, LayeredModel, ModelSpec};

use super::super::contract::TrainError;
use super::convolution::{Conv2d, Pool2d};
use super::low_rank::LowRank;
use super::network::{Network, Pass};
use super::norm::{BatchNorm, LayerNorm};
use super::parameters::{transposed_weight, zeros};
use super::recurrent::{Cell, Recurrent};

/// A network built from a list of layers. Its parameters are loaded and saved with PyTorch's names and layouts.
#[derive(Module, Debug)]
pub struct LayeredNetwork {
    layers: Vec<LayerModule>,
    #[module(skip)]
    outputs: usize,
}

#[derive(Module, Debug)]
enum LayerModule {
    Linear(Linear),
    LowRank(LowRank),
    Conv2d(Conv2d),
    Pool2d(Pool2d),
    Pointwise(Pointwise),
    Dropout(Dropout),
    LayerNorm(LayerNorm),
    BatchNorm(BatchNorm),
    Embedding(Embedding),
    Recurrent(Recurrent),
}

impl LayeredNetwork {
    /// A network of zeros, which a model fills. `Err` if the spec lists parameters instead of layers.
    pub(super) fn build(spec: &ModelSpec, device: &Device) -> Result<Self, TrainError> {
        let ModelSpec::Layers(model) = spec else {
            let what = "the job's model is a list of parameters: the app must bring the network";
            return Err(TrainError::DoesNotFit(what.to_owned()));
        };
        Self::of_layers(model, device)
    }

    fn of_layers(model: &LayeredModel, device: &Device) -> Result<Self, TrainError> {
        let shapes = model.shapes().map_err(|error| TrainError::DoesNotFit(error.to_string()))?;
        let inputs = std::iter::once(&model.input).chain(&shapes);
        let layers = model.layers.iter().zip(inputs).map(|(layer, input)| LayerModule::new(layer, input, device));
        let outputs = shapes.last().and_then(|shape| shape.last()).copied().unwrap_or(1);
        Ok(Self { layers: layers.collect(), outputs })
    }
}

impl Network for LayeredNetwork {
    fn forward(&mut self, inputs: Tensor<2>, pass: &mut Pass) -> Tensor<2> {
        let values = self.layers.iter_mut().fold(inputs, |values, layer| layer.forward(values, pass));
        let [batch, each] = values.dims();
        match each == self.outputs {
            true => values,
            false => values.reshape([batch * each / self.outputs, self.outputs]),
        }
    }
}

impl LayerModule {
    /// A layer for one input of this shape, which shape inference has accepted.
    fn new(layer: &Layer, input: &[usize], device: &Device) -> Self {
        let last = input.last().copied().unwrap_or(1);
        let image = || -> [usize; 3] { input.try_into().expect("shape inference accepts only three dimensions here") };
        match *layer {
            Layer::Linear { out_features, bias } => Self::Linear(Linear::new(last, out_features, bias, device)),
            Layer::LowRank { out_features, rank, alpha, bias } => {
                let scale = alpha.map_or(1.0, |alpha| alpha / rank as f64);
                Self::LowRank(LowRank::new([last, out_features, rank], scale, bias, device))
            }
            Layer::Conv2d { out_channels, kernel_size, stride, padding, bias } => {
                Self::Conv2d(Conv2d::new(image(), out_channels, [kernel_size, stride], padding, bias, device))
            }
            Layer::MaxPool2d { kernel_size, stride } => Self::Pool2d(pool(image(), kernel_size, stride, true)),
            Layer::AvgPool2d { kernel_size, stride } => Self::Pool2d(pool(image(), kernel_size, stride, false)),
            Layer::Relu {} => Self::Pointwise(Pointwise { function: Function::Relu }),
            Layer::Gelu {} => Self::Pointwise(Pointwise { function: Function::Gelu }),
            Layer::Tanh {} => Self::Pointwise(Pointwise { function: Function::Tanh }),
            Layer::Sigmoid {} => Self::Pointwise(Pointwise { function: Function::Sigmoid }),
            Layer::Flatten {} => Self::Pointwise(Pointwise { function: Function::Identity }),
            Layer::Dropout { probability } => Self::Dropout(Dropout { probability }),
            Layer::LayerNorm { epsilon } => Self::LayerNorm(LayerNorm::new(last, epsilon, device)),
            Layer::BatchNorm { epsilon, momentum } => {
                Self::BatchNorm(BatchNorm::new(input.to_vec(), epsilon, momentum, device))
            }
            Layer::Embedding { tokens, size } => {
                Self::Embedding(Embedding { weight: zeros([tokens, size], true, device) })
            }
            Layer::Lstm { hidden_size, return_sequences } => {
                Self::Recurrent(Recurrent::new(Cell::Lstm, last, hidden_size, return_sequences, device))
            }
            Layer::Gru { hidden_size, return_sequences } => {
                Self::Recurrent(Recurrent::new(Cell::Gru, last, hidden_size, return_sequences, device))
            }
        }
    }

    fn forward(&mut self, values: Tensor<2>, pass: &mut Pass) -> Tensor<2> {
        match self {
            Self::Linear(layer) => layer.forward(values),
            Self::LowRank(layer) => layer.forward(values),
            Self::Conv2d(layer) => layer.forward(values),
            Self::Pool2d(layer) => layer.forward(values),
            Self::Pointwise(layer) => layer.forward(values),
            Self::Dropout(layer) => pass.dropout(values, layer.probability),
            Self::LayerNorm(layer) => layer.forward(values),
            Self::BatchNorm(layer) => layer.forward(values, pass),
            Self::Embedding(layer) => layer.forward(values),
            Self::Recurrent(layer) => layer.forward(values),
        }
    }
}

fn pool(input: [usize; 3], kernel_size: HeightWidth, stride: Option<HeightWidth>, largest: bool) -> Pool2d {
    Pool2d::new(input, kernel_size, stride.unwrap_or(kernel_size), largest)
}

/// `y = x W^T + b` over the last dimension.
#[derive(Module, Debug)]
struct Linear {
    weight: Param<Tensor<2>>,
    bias: Option<Param<Tensor<1>>>,
}

impl Linear {
    fn new(inputs: usize, outputs: usize, bias: bool, device: &Device) -> Self {
        let bias = bias.then(|| zeros([outputs], true, device));
        Self { weight: transposed_weight(outputs, inputs, device), bias }
    }

    fn forward(&self, values: Tensor<2>) -> Tensor<2> {
        let weight = self.weight.val();
        let [inputs, outputs] = weight.dims();
        let bias = self.bias.as_ref().map(Param::val);
        let [batch, each] = values.dims();
        if each == inputs {
            return burn::tensor::module::linear(values, weight, bias);
        }
        let positions = each / inputs;
        let rows = values.reshape([batch * positions, inputs]);
        burn::tensor::module::linear(rows, weight, bias).reshape([batch, positions * outputs])
    }
}

/// A function of each value.
#[derive(Module, Debug)]
struct Pointwise {
    #[module(skip)]
    function: Function,
}

#[derive(Clone, Copy, Debug)]
enum Function {
    Identity,
    Relu,
    Gelu,
    Tanh,
    Sigmoid,
}

impl Pointwise {
    fn forward(&self, values: Tensor<2>) -> Tensor<2> {
        match self.function {
            Function::Identity => values,
            Function::Relu => activation::relu(values),
            Function::Gelu => activation::gelu(values),
            Function::Tanh => activation::tanh(values),
            Function::Sigmoid => activation::sigmoid(values),
        }
    }
}

#[derive(Module, Debug)]
struct Dropout {
    #[module(skip)]
    probability: f64,
}

/// A row of the weight for each token id.
#[derive(Module, Debug)]
struct Embedding {
    /// `[tokens, size]`.
    weight: Param<Tensor<2>>,
}

impl Embedding {
    fn forward(&self, ids: Tensor<2>) -> Tensor<2> {
        let vectors = burn::tensor::module::embedding(self.weight.val(), ids.int());
        let [batch, time, size] = vectors.dims();
        vectors.reshape([batch, time * size])
    }
}
