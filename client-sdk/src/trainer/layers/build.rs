//! From a list of layers to stages: neighbours are joined, and values are put in the order that a layer reads.

use tributary_protocol::layers::{HeightWidth, Layer, LayeredModel, OUTPUTS_MAX, Padding};
use tributary_protocol::model::Model;

use super::super::contract::TrainError;
use super::super::fit::does_not_fit;
use super::batch_norm::BatchNorm;
use super::dropout::Dropout;
use super::embedding::Embedding;
use super::images::{Convolution, ImageLayer, Images};
use super::layer_norm::LayerNorm;
use super::linear::Linear;
use super::low_rank::LowRank;
use super::matrix::Matrix;
use super::pointwise::Pointwise;
use super::recurrent::{Recurrent, Shape};
use super::stage::Stage;
use crate::kernels::{AvgPool, Cell, Function, Geometry, Gru, Level, Lstm, PoolGrid};

/// The stages of a network that holds the model's values. `shapes` are those after each layer; the model was checked
/// to have the parameters of these layers.
pub(super) fn stages(
    network: &LayeredModel,
    shapes: &[Vec<usize>],
    model: &Model,
    level: Level,
) -> Result<Vec<Box<dyn Stage>>, TrainError> {
    let builder = Builder {
        level,
        model,
        next: 0,
        shape: network.input.clone(),
        channels_last: false,
        stages: Vec::new(),
        images: Vec::new(),
        images_from: 0,
    };
    builder.build(&network.layers, shapes)
}

struct Builder<'a> {
    level: Level,
    model: &'a Model,
    /// Index of the model's parameter that comes next.
    next: usize,
    /// Shape after the layers so far.
    shape: Vec<usize>,
    /// Whether values are in the order `[height][width][channels]` there.
    channels_last: bool,
    stages: Vec<Box<dyn Stage>>,
    /// The image layers since the last stage, each with the number of values that it puts out.
    images: Vec<(ImageLayer, usize)>,
    /// Number of values before the first of them.
    images_from: usize,
}

impl<'a> Builder<'a> {
    fn build(mut self, layers: &[Layer], shapes: &[Vec<usize>]) -> Result<Vec<Box<dyn Stage>>, TrainError> {
        let is_relu = |index: usize| matches!(layers.get(index), Some(Layer::Relu {}));
        // Whether a ReLU waits to become part of a pool, and whether the layer before has taken this one.
        let (mut relu_waits, mut taken) = (false, false);
        for (index, (layer, output)) in layers.iter().zip(shapes).enumerate() {
            if std::mem::take(&mut taken) {
                continue;
            }
            let mut relu = is_relu(index + 1);
            match layer {
                // The largest value is the same before and after a ReLU, and a pool has fewer of them.
                Layer::Conv2d { .. } if relu && matches!(layers.get(index + 2), Some(Layer::MaxPool2d { .. })) => {
                    (relu_waits, taken, relu) = (true, true, false);
                }
                Layer::Conv2d { .. } | Layer::Linear { .. } | Layer::LowRank { .. } => taken = relu,
                Layer::MaxPool2d { .. } => {
                    taken = relu;
                    relu |= std::mem::take(&mut relu_waits);
                }
                _ => {}
            }
            self.add(layer, output, relu).map_err(|what| does_not_fit(format!("layers[{index}] {what}")))?;
            self.shape.clone_from(output);
        }
        self.planes();
        self.close_images();
        Ok(self.stages)
    }

    /// `relu`: whether the layer is joined with a ReLU.
    fn add(&mut self, layer: &Layer, output: &[usize], relu: bool) -> Result<(), String> {
        let values = output.iter().product();
        let last = self.shape.last().copied().unwrap_or(1);
        match *layer {
            Layer::Conv2d { kernel_size, stride, padding, bias, .. } => {
                self.channels_last();
                let layer = self.convolution(output, [kernel_size, stride], padding, bias, relu)?;
                self.image(ImageLayer::Convolution(Box::new(layer)), values);
            }
            Layer::MaxPool2d { kernel_size, stride } => {
                self.channels_last();
                let grid = self.pool(kernel_size, stride, output);
                self.image(ImageLayer::MaxPool { grid, relu }, values);
            }
            Layer::AvgPool2d { kernel_size, stride } => {
                self.channels_last();
                let layer = AvgPool(self.pool(kernel_size, stride, output));
                self.image(ImageLayer::AvgPool(layer), values);
            }
            Layer::Relu {} => self.function(Function::Relu, values),
            Layer::Gelu {} => self.function(Function::Gelu, values),
            Layer::Tanh {} => self.function(Function::Tanh, values),
            Layer::Sigmoid {} => self.function(Function::Sigmoid, values),
            Layer::Flatten {} => self.planes(),
            Layer::Dropout { probability } => {
                let channels = if self.channels_last { self.shape[0] } else { values };
                self.stage(Dropout::new(probability, values / channels, channels));
            }
            Layer::BatchNorm { epsilon, momentum } => {
                self.channels_last();
                let parameters = [(); 4].map(|()| self.tensor());
                self.stage(BatchNorm::new(parameters, epsilon, momentum, values));
            }
            Layer::Linear { out_features, bias } => {
                self.planes();
                let weight = self.tensor();
                let bias = bias.then(|| self.tensor());
                let matrix = Matrix::new(weight, bias, out_features);
                self.stage(Linear::new(matrix, values / out_features, relu));
            }
            Layer::LowRank { out_features, rank, alpha, bias } => {
                self.planes();
                let weight = self.tensor();
                let bias = bias.then(|| self.tensor());
                let (a, b) = (self.tensor(), self.tensor());
                let matrices = [
                    Matrix::new(weight, bias, out_features),
                    Matrix::new(a, None, rank),
                    Matrix::new(b, None, out_features),
                ];
                let scale = alpha.map_or(1.0, |alpha| alpha / rank as f64);
                self.stage(LowRank::new(matrices, scale, values / out_features, relu));
            }
            Layer::LayerNorm { epsilon } => {
                self.planes();
                let (weight, bias) = (self.tensor(), self.tensor());
                self.stage(LayerNorm::new(weight, bias, epsilon, values));
            }
            Layer::Embedding { size, .. } => {
                let weight = self.tensor();
                self.stage(Embedding::new(weight, size, last));
            }
            Layer::Lstm { hidden_size, return_sequences } => self.recurrent(Lstm, hidden_size, return_sequences),
            Layer::Gru { hidden_size, return_sequences } => self.recurrent(Gru, hidden_size, return_sequences),
        }
        Ok(())
    }

    /// The values of the model's next parameter.
    fn tensor(&mut self) -> &'a [f32] {
        self.next += 1;
        self.model.tensor(self.next - 1)
    }

    fn stage(&mut self, stage: impl Stage + 'static) {
        self.close_images();
        self.stages.push(Box::new(stage));
    }

    fn image(&mut self, layer: ImageLayer, outputs: usize) {
        if self.images.is_empty() {
            self.images_from = self.shape.iter().product();
        }
        self.images.push((layer, outputs));
    }

    fn close_images(&mut self) {
        if !self.images.is_empty() {
            let images = Images::new(self.images_from, std::mem::take(&mut self.images));
            self.stages.push(Box::new(images));
        }
    }

    fn function(&mut self, function: Function, values: usize) {
        match self.images.is_empty() {
            true => self.stage(Pointwise::new(function, values)),
            false => self.image(ImageLayer::Function(function), values),
        }
    }

    /// Puts the values of an image in the order `[height][width][channels]`.
    fn channels_last(&mut self) {
        if let [channels, height, width] = self.shape[..]
            && !std::mem::replace(&mut self.channels_last, true)
        {
            self.transpose(channels, height * width);
        }
    }

    /// Puts the values of an image in the model's order, `[channels][height][width]`.
    fn planes(&mut self) {
        if let [channels, height, width] = self.shape[..]
            && std::mem::take(&mut self.channels_last)
        {
            self.transpose(height * width, channels);
        }
    }

    fn transpose(&mut self, rows: usize, columns: usize) {
        // With one row or column both orders are the same.
        if rows > 1 && columns > 1 {
            self.image(ImageLayer::Transpose { rows, columns }, rows * columns);
        }
    }

    /// Channels, height and width before the layer.
    fn image_shape(&self) -> [usize; 3] {
        self.shape[..].try_into().expect("shape inference accepts only three dimensions here")
    }

    fn convolution(
        &mut self,
        output: &[usize],
        [kernel, stride]: [HeightWidth; 2],
        padding: Padding,
        bias: bool,
        relu: bool,
    ) -> Result<Convolution, String> {
        let [channels, height, width] = self.image_shape();
        let [before, after] = padding.zeros(kernel);
        let (kernel, stride): ([usize; 2], [usize; 2]) = (kernel.into(), stride.into());
        let (input, out) = ([height, width], [output[1], output[2]]);
        let geometry = Geometry { channels, input, outputs: output[0], kernel, stride, before, after, out };
        if geometry.largest_buffer().is_none_or(|values| values > OUTPUTS_MAX) {
            return Err(format!("conv2d: an image with the zeros around it has more than {OUTPUTS_MAX} values"));
        }
        let weight = self.tensor();
        let bias = bias.then(|| self.tensor());
        Ok(Convolution::new(geometry, weight, bias, relu, self.level))
    }

    fn pool(&self, kernel: HeightWidth, stride: Option<HeightWidth>, output: &[usize]) -> PoolGrid {
        let [channels, _, width] = self.image_shape();
        let stride = stride.unwrap_or(kernel).into();
        PoolGrid { channels, width, kernel: kernel.into(), stride, out_width: output[2] }
    }

    fn recurrent<C: Cell>(&mut self, cell: C, hidden: usize, sequences: bool) {
        let [time, features] = self.shape[..].try_into().expect("shape inference accepts only two dimensions here");
        let [of_input, of_state, input_bias, state_bias] = [(); 4].map(|()| self.tensor());
        let matrices = [(of_input, input_bias), (of_state, state_bias)]
            .map(|(weight, bias)| Matrix::new(weight, Some(bias), C::GATES * hidden));
        self.stage(Recurrent::new(cell, Shape { time, features, hidden, sequences }, matrices));
    }
}
