//! From a list of layers to steps: neighbours are joined, values are put in the order that a layer reads, and what only
//! training needs is left out.

use std::ops::Range;

use tributary_protocol::layers::{HeightWidth, Layer, LayeredModel, OUTPUTS_MAX, Padding};
use tributary_protocol::model::Model;

use super::error::PredictError;
use super::linear::Linear;
use super::recurrent::Recurrent;
use super::step::{BatchNorm, Convolution, Kind, Step};
use crate::kernels::{AvgPool, Cell, Function, Geometry, Gru, Level, Lstm, PoolGrid};

/// The steps of a network that holds the model's values, and the values of the room that they share. `shapes` are those
/// after each layer; the model was checked to have the parameters of these layers.
pub(super) fn steps(
    network: &LayeredModel,
    shapes: &[Vec<usize>],
    model: &Model,
    level: Level,
) -> Result<(Vec<Step>, usize), PredictError> {
    let (shape, steps) = (network.input.clone(), Vec::new());
    let mut builder = Builder { level, model, next: 0, index: 0, shape, channels_last: false, steps, room: 0 };
    builder.build(&network.layers, shapes)?;
    Ok((builder.steps, builder.room))
}

struct Builder<'a> {
    level: Level,
    model: &'a Model,
    /// Index of the model's parameter that comes next.
    next: usize,
    /// Index of the layer.
    index: usize,
    /// Shape after the layers so far.
    shape: Vec<usize>,
    /// Whether values are in the order `[height][width][channels]` there.
    channels_last: bool,
    steps: Vec<Step>,
    /// Values that the steps so far keep to themselves.
    room: usize,
}

impl<'a> Builder<'a> {
    fn build(&mut self, layers: &[Layer], shapes: &[Vec<usize>]) -> Result<(), PredictError> {
        let mut taken = false;
        for (index, (layer, output)) in layers.iter().zip(shapes).enumerate() {
            if std::mem::take(&mut taken) {
                continue;
            }
            self.index = index;
            let joins = matches!(
                layer,
                Layer::Conv2d { .. } | Layer::Linear { .. } | Layer::LowRank { .. } | Layer::MaxPool2d { .. }
            );
            taken = joins && matches!(layers.get(index + 1), Some(Layer::Relu {}));
            self.add(layer, output, taken)?;
            self.shape.clone_from(output);
        }
        self.planes();
        Ok(())
    }

    /// `relu`: whether the layer is joined with a ReLU.
    fn add(&mut self, layer: &Layer, output: &[usize], relu: bool) -> Result<(), PredictError> {
        let values = output.iter().product();
        let kind = match *layer {
            Layer::Flatten {} => {
                self.planes();
                return Ok(());
            }
            Layer::Dropout { .. } => return Ok(()),
            Layer::Conv2d { kernel_size, stride, padding, bias, .. } => {
                self.channels_last();
                let geometry = self.geometry(output, [kernel_size, stride], padding)?;
                self.convolution(geometry, bias, relu)
            }
            Layer::MaxPool2d { kernel_size, stride } => {
                self.channels_last();
                Kind::MaxPool { grid: self.pool(kernel_size, stride, output), relu }
            }
            Layer::AvgPool2d { kernel_size, stride } => {
                self.channels_last();
                Kind::AvgPool(AvgPool(self.pool(kernel_size, stride, output)))
            }
            Layer::Relu {} => Kind::Function(Function::Relu),
            Layer::Gelu {} => Kind::Function(Function::Gelu),
            Layer::Tanh {} => Kind::Function(Function::Tanh),
            Layer::Sigmoid {} => Kind::Function(Function::Sigmoid),
            Layer::BatchNorm { epsilon, .. } => {
                self.channels_last();
                let parameters = [(); 4].map(|()| self.tensor());
                Kind::BatchNorm(BatchNorm::new(parameters, epsilon))
            }
            Layer::Linear { bias, .. } => {
                self.planes();
                Kind::Linear(self.linear(bias, relu))
            }
            Layer::LowRank { rank, alpha, bias, .. } => {
                self.planes();
                let mut linear = self.linear(bias, relu);
                let (a, b) = (self.tensor(), self.tensor());
                merge(&mut linear, [a, b], rank, alpha.map_or(1.0, |alpha| alpha / rank as f64));
                Kind::Linear(linear)
            }
            Layer::LayerNorm { epsilon } => {
                self.planes();
                let [weight, bias] = [(); 2].map(|()| self.tensor().to_vec());
                Kind::LayerNorm { weight, bias, epsilon }
            }
            Layer::Embedding { size, .. } => Kind::Embedding { weight: self.tensor().to_vec(), size },
            Layer::Lstm { hidden_size, return_sequences } => {
                Kind::Lstm(self.recurrent(Lstm, hidden_size, return_sequences))
            }
            Layer::Gru { hidden_size, return_sequences } => {
                Kind::Gru(self.recurrent(Gru, hidden_size, return_sequences))
            }
        };
        self.steps.push(Step::new(kind, values));
        Ok(())
    }

    /// The values of the model's next parameter.
    fn tensor(&mut self) -> &'a [f32] {
        self.next += 1;
        self.model.tensor(self.next - 1)
    }

    /// Values of the room for a step alone.
    fn reserve(&mut self, values: usize) -> Range<usize> {
        self.room += values;
        self.room - values..self.room
    }

    fn linear(&mut self, bias: bool, relu: bool) -> Linear {
        let inputs = self.shape.last().copied().unwrap_or(1);
        let weight = self.tensor().to_vec();
        let bias = if bias { self.tensor().to_vec() } else { Vec::new() };
        Linear { inputs, weight, bias, relu }
    }

    /// Channels, height and width before the layer.
    fn image_shape(&self) -> [usize; 3] {
        self.shape[..].try_into().expect("shape inference accepts only three dimensions here")
    }

    fn geometry(
        &self,
        output: &[usize],
        [kernel, stride]: [HeightWidth; 2],
        padding: Padding,
    ) -> Result<Geometry, PredictError> {
        let [channels, height, width] = self.image_shape();
        let [before, after] = padding.zeros(kernel);
        let (kernel, stride) = (kernel.into(), stride.into());
        let (input, out) = ([height, width], [output[1], output[2]]);
        let geometry = Geometry { channels, input, outputs: output[0], kernel, stride, before, after, out };
        match geometry.bordered_values() {
            Some(values) if values <= OUTPUTS_MAX => Ok(geometry),
            _ => Err(PredictError::ImageTooLarge { index: self.index }),
        }
    }

    fn convolution(&mut self, geometry: Geometry, bias: bool, relu: bool) -> Kind {
        let (grid, panel) = (geometry.grid(), self.level.panel());
        let weight = self.tensor();
        let mut panels = vec![0.0; geometry.outputs.next_multiple_of(panel) * grid.window()];
        geometry.places(panel, |plain, place| panels[place] = weight[plain]);
        let bias = if bias { self.tensor().to_vec() } else { Vec::new() };
        let room = self.reserve(geometry.bordered_values().unwrap_or_default());
        Kind::Convolution(Box::new(Convolution { geometry, grid, panels, bias, relu, room }))
    }

    fn pool(&self, kernel: HeightWidth, stride: Option<HeightWidth>, output: &[usize]) -> PoolGrid {
        let [channels, _, width] = self.image_shape();
        let stride = stride.unwrap_or(kernel).into();
        PoolGrid { channels, width, kernel: kernel.into(), stride, out_width: output[2] }
    }

    fn recurrent<C: Cell>(&mut self, cell: C, hidden: usize, sequences: bool) -> Recurrent<C> {
        let [time, inputs] = self.shape[..].try_into().expect("shape inference accepts only two dimensions here");
        let [of_input, of_state, input_bias, state_bias] = [(); 4].map(|()| self.tensor().to_vec());
        let of_input = Linear { inputs, weight: of_input, bias: input_bias, relu: false };
        let of_state = Linear { inputs: hidden, weight: of_state, bias: state_bias, relu: false };
        let room = self.reserve(Recurrent::<C>::room(time, hidden));
        Recurrent { cell, hidden, sequences, of_input, of_state, room }
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
            self.steps.push(Step::new(Kind::Transpose { rows, columns }, rows * columns));
        }
    }
}

/// Adds `scale B A` to the weight.
fn merge(linear: &mut Linear, [a, b]: [&[f32]; 2], rank: usize, scale: f64) {
    let mut sums = vec![0.0f64; linear.inputs];
    for (weight, b) in linear.weight.chunks_exact_mut(linear.inputs).zip(b.chunks_exact(rank)) {
        sums.fill(0.0);
        for (b, a) in b.iter().zip(a.chunks_exact(linear.inputs)) {
            sums.iter_mut().zip(a).for_each(|(sum, a)| *sum += f64::from(*b) * f64::from(*a));
        }
        weight.iter_mut().zip(&sums).for_each(|(weight, sum)| *weight = (f64::from(*weight) + scale * sum) as f32);
    }
}
