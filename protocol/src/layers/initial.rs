//! Initial values of a model, drawn from the job's seed with the distributions of PyTorch's layers.

use std::f64::consts::TAU;
use std::iter::Enumerate;
use std::sync::Arc;
use std::vec::IntoIter;

use super::{Layer, ModelSpec, ModelSpecError};
use crate::model::{Model, ParameterSpec};
use crate::seed::{Seed, Stream};

/// The distribution of a parameter's initial values.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Initial {
    /// All values are equal.
    Constant(f32),
    /// Uniform in `[-1 / sqrt(fan_in), 1 / sqrt(fan_in))`.
    FanIn(usize),
    /// Normal with mean 0 and variance 1.
    Normal,
}

/// The initial values in the order of the flat vector, drawn in chunks: a large model is never in memory as a whole.
#[derive(Debug)]
pub struct InitialValues {
    seed: Seed,
    waiting: Enumerate<IntoIter<(Initial, usize)>>,
    drawing: Option<Drawing>,
}

/// The parameter that is being drawn.
#[derive(Debug)]
struct Drawing {
    initial: Initial,
    left: usize,
    stream: Stream,
}

impl InitialValues {
    /// So many zeros.
    pub fn zeros(total: usize) -> Self {
        Self { seed: Seed(0), waiting: vec![(Initial::Constant(0.0), total)].into_iter().enumerate(), drawing: None }
    }

    /// Draws the next values, at most `most`. An empty vector means that all values were drawn.
    pub fn draw(&mut self, most: usize) -> Vec<f32> {
        let mut values = Vec::new();
        while values.len() < most {
            let Some(drawing) = &mut self.drawing else {
                let Some((index, (initial, left))) = self.waiting.next() else { break };
                let stream = self.seed.derive("parameter", index as u64).stream();
                self.drawing = Some(Drawing { initial, left, stream });
                continue;
            };
            let count = drawing.left.min(most - values.len());
            values.reserve_exact(count);
            drawing.initial.draw(count, &mut drawing.stream, &mut values);
            drawing.left -= count;
            if drawing.left == 0 {
                self.drawing = None;
            }
        }
        values
    }
}

impl ModelSpec {
    /// The initial model. The same seed gives the same model.
    ///
    /// # Errors
    /// As [`Self::initial_values`].
    pub fn initial_model(&self, seed: Seed) -> Result<Model, ModelSpecError> {
        let parameters = Arc::new(self.parameters()?);
        let values = self.initial_values(seed)?.draw(parameters.total());
        Ok(Model::new(parameters, values).expect("as many values as parameters were drawn, all of them finite"))
    }

    /// The values of [`Self::initial_model`] in chunks.
    ///
    /// Weights and biases of linear and convolution layers are uniform in `±1/sqrt(fan_in)`, those of LSTM and GRU in
    /// `±1/sqrt(hidden_size)`. B of low-rank layers is zero, and A as a weight. Embeddings are standard normal. Norm
    /// layers start as the identity. Parameters of an app's own network are uniform in `±1/sqrt(fan_in)`, where the
    /// fan-in is the product of all dimensions but the first, or the length of a vector. Parameter `i` depends only on
    /// `seed.derive("parameter", i)` and its shape.
    ///
    /// # Errors
    /// [`ModelSpecError`] for the first layer or parameter that is invalid.
    pub fn initial_values(&self, seed: Seed) -> Result<InitialValues, ModelSpecError> {
        let parameters = self.parameters()?;
        let mut waiting = Vec::with_capacity(parameters.specs().len());
        let mut fan_in = 1;
        for (index, parameter) in parameters.specs().iter().enumerate() {
            let initial = match self.layer_of(parameter) {
                Some((layer, name)) => layer.initial(name, parameter, &mut fan_in),
                None => Initial::FanIn(own_fan_in(&parameter.shape)),
            };
            waiting.push((initial, parameters.range(index).len()));
        }
        Ok(InitialValues { seed, waiting: waiting.into_iter().enumerate(), drawing: None })
    }

    /// The layer of a parameter, and the parameter's name within it.
    fn layer_of<'a>(&self, parameter: &'a ParameterSpec) -> Option<(&Layer, &'a str)> {
        let Self::Layers(model) = self else { return None };
        let (index, name) = parameter.name.strip_prefix("layers.")?.split_once('.')?;
        Some((model.layers.get(index.parse::<usize>().ok()?)?, name))
    }
}

impl Layer {
    /// The distribution of the parameter `name`. A bias follows its weight and uses the same `fan_in`.
    fn initial(&self, name: &str, parameter: &ParameterSpec, fan_in: &mut usize) -> Initial {
        match (self, name) {
            (Self::LayerNorm { .. } | Self::BatchNorm { .. }, "weight" | "running_var") => Initial::Constant(1.0),
            (Self::LayerNorm { .. } | Self::BatchNorm { .. }, _) => Initial::Constant(0.0),
            (Self::LowRank { .. }, "lora_B") => Initial::Constant(0.0),
            (Self::Embedding { .. }, _) => Initial::Normal,
            (Self::Lstm { hidden_size, .. } | Self::Gru { hidden_size, .. }, _) => Initial::FanIn(*hidden_size),
            (_, "bias") => Initial::FanIn(*fan_in),
            _ => {
                *fan_in = own_fan_in(&parameter.shape);
                Initial::FanIn(*fan_in)
            }
        }
    }
}

impl Initial {
    fn draw(self, count: usize, stream: &mut Stream, values: &mut Vec<f32>) {
        match self {
            Self::Constant(value) => values.extend(std::iter::repeat_n(value, count)),
            Self::FanIn(fan_in) => {
                let bound = (1.0 / (fan_in as f64).sqrt()) as f32;
                values.extend((0..count).map(|_| stream.uniform(-bound, bound)));
            }
            Self::Normal => values.extend((0..count).map(|_| normal(stream))),
        }
    }
}

/// A standard normal number from two uniform ones (Box and Muller 1958). `1 - unit` is never 0, so the logarithm is
/// finite.
fn normal(stream: &mut Stream) -> f32 {
    let radius = (-2.0 * (1.0 - stream.unit()).ln()).sqrt();
    (radius * (TAU * stream.unit()).cos()) as f32
}

/// Number of inputs of one output, for a tensor in PyTorch's layout: its first dimension counts the outputs.
fn own_fan_in(shape: &[usize]) -> usize {
    match shape {
        [] => 1,
        [length] => *length,
        [_, inputs @ ..] => inputs.iter().product(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HeightWidth, LayeredModel, Padding};
    use super::*;

    fn linear(out_features: usize) -> Layer {
        Layer::Linear { out_features, bias: true }
    }

    fn model(input: Vec<usize>, layers: Vec<Layer>, seed: u64) -> Model {
        ModelSpec::Layers(LayeredModel { input, layers }).initial_model(Seed(seed)).unwrap()
    }

    fn largest(values: &[f32]) -> f32 {
        values.iter().fold(0.0, |largest, value| largest.max(value.abs()))
    }

    #[test]
    fn the_same_seed_gives_the_same_model_and_another_seed_another() {
        let layers = || vec![linear(8), Layer::Relu {}, linear(3)];
        assert_eq!(model(vec![4], layers(), 1), model(vec![4], layers(), 1));
        assert_ne!(model(vec![4], layers(), 1), model(vec![4], layers(), 2));
    }

    #[test]
    fn the_initial_values_never_change_between_releases() {
        let model = model(vec![2], vec![linear(1)], 1);
        let expected = [0.4471402, 0.17316748, 0.16880624];
        assert_eq!(model.values(), expected);
    }

    #[test]
    fn the_values_are_the_same_in_parts_of_any_length() {
        let layers = vec![Layer::Embedding { tokens: 7, size: 5 }, Layer::Flatten {}, linear(3), Layer::Relu {}];
        let spec = ModelSpec::Layers(LayeredModel { input: vec![2], layers });
        let whole = spec.initial_model(Seed(4)).unwrap();
        for most in [1, 2, 34, 35, 36, 1000] {
            let mut values = spec.initial_values(Seed(4)).unwrap();
            let parts: Vec<Vec<f32>> =
                std::iter::from_fn(|| Some(values.draw(most)).filter(|part| !part.is_empty())).collect();
            assert!(parts.iter().rev().skip(1).all(|part| part.len() == most));
            assert_eq!(parts.concat(), whole.values(), "parts of {most}");
        }
    }

    #[test]
    fn weights_and_biases_fill_the_range_of_their_fan_in() {
        let conv = Layer::Conv2d {
            out_channels: 64,
            kernel_size: HeightWidth { height: 2, width: 2 },
            stride: HeightWidth::square(1),
            padding: Padding::Same,
            bias: true,
        };
        let model = model(vec![4, 4, 4], vec![conv, Layer::Flatten {}, linear(100)], 3);
        for (index, fan_in) in [(0, 16.0f32), (1, 16.0), (2, 1024.0), (3, 1024.0)] {
            let bound = 1.0 / fan_in.sqrt();
            let largest = largest(model.tensor(index));
            assert!(largest <= bound && largest > 0.9 * bound, "parameter {index}: {largest} of {bound}");
        }
    }

    #[test]
    fn recurrent_layers_fill_the_range_of_their_hidden_size() {
        for layer in [
            Layer::Lstm { hidden_size: 25, return_sequences: false },
            Layer::Gru { hidden_size: 25, return_sequences: false },
        ] {
            let model = model(vec![3, 10], vec![layer], 3);
            for index in 0..4 {
                let largest = largest(model.tensor(index));
                assert!(largest <= 0.2 && largest > 0.18, "parameter {index}: {largest}");
            }
        }
    }

    #[test]
    fn the_product_of_a_low_rank_layer_starts_as_zero() {
        let model = model(vec![100], vec![Layer::LowRank { out_features: 3, rank: 20, alpha: None, bias: true }], 3);
        let largest = largest(model.tensor(2));
        assert!(largest <= 0.1 && largest > 0.09, "{largest}");
        assert_eq!(model.tensor(3), [0.0; 60]);
    }

    #[test]
    fn norms_start_as_the_identity() {
        let layers = vec![Layer::BatchNorm { epsilon: 1e-5, momentum: 0.1 }, Layer::LayerNorm { epsilon: 1e-5 }];
        let model = model(vec![2], layers, 3);
        assert_eq!(model.values(), [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn embeddings_are_normal_with_mean_0_and_variance_1() {
        let model = model(vec![1], vec![Layer::Embedding { tokens: 1000, size: 50 }], 3);
        let values = model.values();
        let count = values.len() as f64;
        let moment = |power| values.iter().map(|value| f64::from(*value).powi(power)).sum::<f64>() / count;
        assert!(moment(1).abs() < 0.02, "{}", moment(1));
        assert!((moment(2) - 1.0).abs() < 0.03, "{}", moment(2));
        assert!((moment(4) - 3.0).abs() < 0.2, "{}", moment(4));
    }

    #[test]
    fn an_apps_own_parameters_fill_the_range_of_their_fan_in() {
        let own = vec![ParameterSpec::new("w", [30, 5, 5]), ParameterSpec::new("b", [100])];
        let model = ModelSpec::Parameters(own).initial_model(Seed(1)).unwrap();
        assert!(largest(model.tensor(0)) <= 0.2 && largest(model.tensor(0)) > 0.19);
        assert!(largest(model.tensor(1)) <= 0.1 && largest(model.tensor(1)) > 0.09);
    }
}
