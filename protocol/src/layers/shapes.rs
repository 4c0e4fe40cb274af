//! Shape inference: the output shape of each layer for one example. Job files are untrusted, so every product is
//! checked.

use super::{HeightWidth, LAYERS_MAX, Layer, LayeredModel, ModelSpec, OUTPUTS_MAX, Padding, TOKENS_MAX};
use crate::model::ParameterListError;
use crate::sharing::SharingError;

/// A model as data that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelSpecError {
    /// The input has no dimension, too many, one of length 0, or too many values.
    #[error(
        "input {0:?} is not the shape of an example: 1 to 3 dimensions of at least 1, at most {OUTPUTS_MAX} values"
    )]
    Input(Vec<usize>),
    /// The list of layers is empty.
    #[error("a network needs at least one layer")]
    NoLayers,
    /// The list exceeds [`LAYERS_MAX`].
    #[error("{0} layers are more than the {LAYERS_MAX} allowed")]
    TooManyLayers(usize),
    /// A layer does not fit its input, or a setting is out of range.
    #[error("layers[{index}] {kind}: {error}")]
    Layer {
        /// Index of the layer, from 0.
        index: usize,
        /// Kind of the layer in the job file.
        kind: &'static str,
        /// The problem with the layer.
        error: LayerError,
    },
    /// The network has no parameters, too many, or invalid names.
    #[error(transparent)]
    Parameters(#[from] ParameterListError),
    /// A list of shared, frozen or personal parameters does not fit the model.
    #[error(transparent)]
    Sharing(#[from] SharingError),
}

/// The problem with one layer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayerError {
    /// The input does not have the dimensions that the layer reads.
    #[error("needs an input {needs}, got {got:?}")]
    NeedsInput {
        /// The required dimensions.
        needs: &'static str,
        /// Output shape of the layer before, or the network's input.
        got: Vec<usize>,
    },
    /// The window is larger than the padded input.
    #[error("a window of {window:?} does not fit into an input of {got:?}")]
    WindowTooLarge {
        /// Height and width of the window.
        window: [usize; 2],
        /// Output shape of the layer before, or the network's input.
        got: Vec<usize>,
    },
    /// A setting is out of range.
    #[error("`{setting}` must be {range}")]
    OutOfRange {
        /// Key of the setting.
        setting: &'static str,
        /// The allowed values, in words.
        range: &'static str,
    },
    /// An embedding is not the first layer.
    #[error("reads token ids, so it can only be the first layer")]
    NotFirst,
    /// The output exceeds [`OUTPUTS_MAX`].
    #[error("has more than {OUTPUTS_MAX} output values for an input of {got:?}")]
    TooLarge {
        /// Output shape of the layer before, or the network's input.
        got: Vec<usize>,
    },
}

impl LayeredModel {
    /// The shape of one example after each layer. The last one is the output of the network.
    ///
    /// # Errors
    /// [`ModelSpecError`] for the first layer that is invalid.
    pub fn shapes(&self) -> Result<Vec<Vec<usize>>, ModelSpecError> {
        if !(1..=3).contains(&self.input.len()) || self.input.contains(&0) || elements(&self.input).is_none() {
            return Err(ModelSpecError::Input(self.input.clone()));
        }
        match self.layers.len() {
            0 => return Err(ModelSpecError::NoLayers),
            count if count > LAYERS_MAX => return Err(ModelSpecError::TooManyLayers(count)),
            _ => {}
        }
        let mut shapes = Vec::with_capacity(self.layers.len());
        let mut shape = self.input.clone();
        for (index, layer) in self.layers.iter().enumerate() {
            let failed = |error| ModelSpecError::Layer { index, kind: layer.kind(), error };
            if index > 0 && matches!(layer, Layer::Embedding { .. }) {
                return Err(failed(LayerError::NotFirst));
            }
            let output = layer.output_shape(&shape).map_err(failed)?;
            if elements(&output).is_none() {
                return Err(failed(LayerError::TooLarge { got: shape }));
            }
            shapes.push(output.clone());
            shape = output;
        }
        Ok(shapes)
    }
}

impl ModelSpec {
    /// The output shape for one example. `None` for an app's own network.
    ///
    /// # Errors
    /// [`ModelSpecError`] for the first layer that is invalid.
    pub fn output_shape(&self) -> Result<Option<Vec<usize>>, ModelSpecError> {
        match self {
            Self::Layers(model) => Ok(model.shapes()?.pop()),
            Self::Parameters(_) => Ok(None),
        }
    }
}

impl Layer {
    /// The output shape for an input of this shape.
    fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>, LayerError> {
        match *self {
            Self::Linear { out_features, .. } => {
                at_least_one("out_features", out_features)?;
                let mut output = input.to_vec();
                if let Some(last) = output.last_mut() {
                    *last = out_features;
                }
                Ok(output)
            }
            Self::LowRank { out_features, rank, alpha, .. } => {
                if !(1..=OUTPUTS_MAX).contains(&rank) {
                    return Err(out_of_range("rank", "from 1 to 67108864"));
                }
                alpha.map_or(Ok(()), |alpha| positive("alpha", alpha))?;
                Self::Linear { out_features, bias: true }.output_shape(input)
            }
            Self::Conv2d { out_channels, kernel_size, stride, padding, .. } => {
                convolved(input, out_channels, kernel_size, (stride, padding))
            }
            Self::MaxPool2d { kernel_size, stride } | Self::AvgPool2d { kernel_size, stride } => {
                let [channels, ..] = image(input)?;
                let stride = stride.unwrap_or(kernel_size);
                let [height, width] = windows(input, kernel_size, stride, HeightWidth::square(0))?;
                Ok(vec![channels, height, width])
            }
            Self::Relu {} | Self::Gelu {} | Self::Tanh {} | Self::Sigmoid {} => Ok(input.to_vec()),
            Self::Flatten {} => Ok(vec![input.iter().product()]),
            // With 1 nothing would be left to scale up. NaN is in no range.
            Self::Dropout { probability } => match (0.0..1.0).contains(&probability) {
                true => Ok(input.to_vec()),
                false => Err(out_of_range("probability", "at least 0 and below 1")),
            },
            Self::LayerNorm { epsilon } => {
                positive("epsilon", epsilon)?;
                Ok(input.to_vec())
            }
            Self::BatchNorm { epsilon, momentum } => {
                positive("epsilon", epsilon)?;
                if !(0.0..=1.0).contains(&momentum) {
                    return Err(out_of_range("momentum", "from 0 to 1"));
                }
                match input.len() {
                    1 | 3 => Ok(input.to_vec()),
                    _ => Err(needs("[features] or [channels, height, width]", input)),
                }
            }
            Self::Embedding { tokens, size } => {
                if !(1..=TOKENS_MAX).contains(&tokens) {
                    return Err(out_of_range("tokens", "from 1 to 16777216"));
                }
                at_least_one("size", size)?;
                match *input {
                    [time] => Ok(vec![time, size]),
                    _ => Err(needs("[time]", input)),
                }
            }
            Self::Lstm { hidden_size, return_sequences } | Self::Gru { hidden_size, return_sequences } => {
                at_least_one("hidden_size", hidden_size)?;
                match *input {
                    [time, _] if return_sequences => Ok(vec![time, hidden_size]),
                    [_, _] => Ok(vec![hidden_size]),
                    _ => Err(needs("[time, features]", input)),
                }
            }
        }
    }
}

/// The output shape of a convolution.
fn convolved(
    input: &[usize],
    out_channels: usize,
    kernel_size: HeightWidth,
    (stride, padding): (HeightWidth, Padding),
) -> Result<Vec<usize>, LayerError> {
    at_least_one("out_channels", out_channels)?;
    let [_, height, width] = image(input)?;
    if padding == Padding::Same {
        window_at_least_one(kernel_size, stride)?;
        return match stride == HeightWidth::square(1) {
            true => Ok(vec![out_channels, height, width]),
            false => Err(out_of_range("stride", "1 where the padding is \"same\"")),
        };
    }
    let zeros = if let Padding::Zeros(zeros) = padding { zeros } else { HeightWidth::square(0) };
    let [height, width] = windows(input, kernel_size, stride, zeros)?;
    Ok(vec![out_channels, height, width])
}

/// The number of windows in each direction.
fn windows(
    input: &[usize],
    kernel: HeightWidth,
    stride: HeightWidth,
    zeros: HeightWidth,
) -> Result<[usize; 2], LayerError> {
    window_at_least_one(kernel, stride)?;
    let [_, height, width] = image(input)?;
    let too_large = || LayerError::TooLarge { got: input.to_vec() };
    let does_not_fit = || LayerError::WindowTooLarge { window: kernel.into(), got: input.to_vec() };
    let along = |length: usize, kernel: usize, stride: usize, zeros: usize| {
        // The numbers are an operator's: they may be so large that sums of them overflow.
        let padded = zeros.checked_mul(2).and_then(|zeros| zeros.checked_add(length)).ok_or_else(too_large)?;
        padded.checked_sub(kernel).map(|room| room / stride + 1).ok_or_else(does_not_fit)
    };
    let rows = along(height, kernel.height, stride.height, zeros.height)?;
    let columns = along(width, kernel.width, stride.width, zeros.width)?;
    Ok([rows, columns])
}

fn image(input: &[usize]) -> Result<[usize; 3], LayerError> {
    input.try_into().map_err(|_| needs("[channels, height, width]", input))
}

/// The number of elements, or `None` above [`OUTPUTS_MAX`].
fn elements(shape: &[usize]) -> Option<usize> {
    let count = shape.iter().try_fold(1usize, |count, length| count.checked_mul(*length))?;
    (count <= OUTPUTS_MAX).then_some(count)
}

fn window_at_least_one(kernel: HeightWidth, stride: HeightWidth) -> Result<(), LayerError> {
    at_least_one("kernel_size", kernel.height.min(kernel.width))?;
    at_least_one("stride", stride.height.min(stride.width))
}

fn at_least_one(setting: &'static str, value: usize) -> Result<(), LayerError> {
    if value > 0 { Ok(()) } else { Err(out_of_range(setting, "at least 1")) }
}

fn positive(setting: &'static str, value: f64) -> Result<(), LayerError> {
    if value.is_finite() && value > 0.0 { Ok(()) } else { Err(out_of_range(setting, "a finite number above 0")) }
}

fn out_of_range(setting: &'static str, range: &'static str) -> LayerError {
    LayerError::OutOfRange { setting, range }
}

fn needs(needs: &'static str, got: &[usize]) -> LayerError {
    LayerError::NeedsInput { needs, got: got.to_vec() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn square(length: usize) -> HeightWidth {
        HeightWidth::square(length)
    }

    fn conv(kernel: usize, stride: usize, padding: Padding) -> Layer {
        Layer::Conv2d { out_channels: 4, kernel_size: square(kernel), stride: square(stride), padding, bias: true }
    }

    fn pool(kernel: usize, stride: Option<usize>) -> Layer {
        Layer::MaxPool2d { kernel_size: square(kernel), stride: stride.map(square) }
    }

    fn after(input: &[usize], layer: Layer) -> Result<Vec<usize>, String> {
        let model = LayeredModel { input: input.to_vec(), layers: vec![layer] };
        model.shapes().map(|mut shapes| shapes.remove(0)).map_err(|error| error.to_string())
    }

    #[test]
    fn each_layer_has_the_output_shape_that_pytorch_gives() {
        let linear = Layer::Linear { out_features: 5, bias: true };
        let lstm = |return_sequences| Layer::Lstm { hidden_size: 6, return_sequences };
        let gru = |return_sequences| Layer::Gru { hidden_size: 6, return_sequences };
        let batch_norm = Layer::BatchNorm { epsilon: 1e-5, momentum: 0.1 };
        let table: &[(&[usize], Layer, &[usize])] = &[
            (&[3], linear.clone(), &[5]),
            (&[7, 3], linear, &[7, 5]),
            (&[1, 28, 28], conv(5, 1, Padding::Valid), &[4, 24, 24]),
            (&[1, 28, 28], conv(5, 1, Padding::Same), &[4, 28, 28]),
            (&[3, 9, 8], conv(4, 1, Padding::Same), &[4, 9, 8]),
            (&[3, 9, 8], conv(3, 2, Padding::Valid), &[4, 4, 3]),
            (&[3, 9, 8], conv(3, 2, Padding::Zeros(square(1))), &[4, 5, 4]),
            (&[3, 9, 8], pool(2, None), &[3, 4, 4]),
            (&[3, 9, 8], pool(3, Some(1)), &[3, 7, 6]),
            (&[3, 9, 8], Layer::AvgPool2d { kernel_size: square(3), stride: None }, &[3, 3, 2]),
            (&[3, 9, 8], Layer::Relu {}, &[3, 9, 8]),
            (&[3, 9, 8], Layer::Flatten {}, &[216]),
            (&[3], Layer::Dropout { probability: 0.0 }, &[3]),
            (&[7, 3], Layer::LayerNorm { epsilon: 1e-5 }, &[7, 3]),
            (&[3], batch_norm.clone(), &[3]),
            (&[3, 9, 8], batch_norm, &[3, 9, 8]),
            (&[80], Layer::Embedding { tokens: 90, size: 8 }, &[80, 8]),
            (&[80, 8], lstm(false), &[6]),
            (&[80, 8], lstm(true), &[80, 6]),
            (&[80, 8], gru(false), &[6]),
            (&[80, 8], gru(true), &[80, 6]),
        ];
        for (input, layer, output) in table {
            assert_eq!(after(input, layer.clone()).as_deref(), Ok(*output), "{layer:?} of {input:?}");
        }
    }

    #[test]
    fn a_layer_that_does_not_fit_is_named_with_what_it_got() {
        let batch_norm = |epsilon, momentum| Layer::BatchNorm { epsilon, momentum };
        let table: &[(&[usize], Layer, &str)] = &[
            (&[64], conv(3, 1, Padding::Valid), "layers[0] conv2d: needs an input [channels, height, width], got [64]"),
            (&[64], pool(2, None), "layers[0] max_pool2d: needs an input [channels, height, width], got [64]"),
            (&[1, 4, 9], conv(5, 1, Padding::Valid), "a window of [5, 5] does not fit into an input of [1, 4, 9]"),
            (&[1, 4, 4], conv(0, 1, Padding::Same), "`kernel_size` must be at least 1"),
            (&[1, 4, 4], conv(3, 0, Padding::Valid), "`stride` must be at least 1"),
            (&[1, 4, 4], conv(3, 2, Padding::Same), "`stride` must be 1 where the padding is \"same\""),
            (&[1, 4, 4], conv(3, 1, Padding::Zeros(square(usize::MAX))), "has more than"),
            (&[1, 4, 4], conv(3, 1, Padding::Zeros(square(usize::MAX / 4))), "has more than"),
            (&[1, 4, 4], pool(2, Some(0)), "`stride` must be at least 1"),
            (&[4], Layer::Linear { out_features: 0, bias: true }, "`out_features` must be at least 1"),
            (&[4], Layer::Linear { out_features: usize::MAX, bias: true }, "has more than"),
            (&[4], Layer::Dropout { probability: 1.0 }, "`probability` must be at least 0 and below 1"),
            (&[4], Layer::Dropout { probability: f64::NAN }, "`probability` must be"),
            (&[4], Layer::LayerNorm { epsilon: 0.0 }, "`epsilon` must be a finite number above 0"),
            (&[4], batch_norm(f64::INFINITY, 0.1), "`epsilon` must be"),
            (&[4], batch_norm(1e-5, 1.5), "`momentum` must be from 0 to 1"),
            (&[4, 4], batch_norm(1e-5, 0.1), "needs an input [features] or [channels, height, width], got [4, 4]"),
            (&[4, 4], Layer::Embedding { tokens: 3, size: 2 }, "needs an input [time], got [4, 4]"),
            (&[4], Layer::Embedding { tokens: 0, size: 2 }, "`tokens` must be from 1"),
            (&[4], Layer::Embedding { tokens: 1 << 25, size: 2 }, "`tokens` must be from 1"),
            (&[4], Layer::Lstm { hidden_size: 2, return_sequences: false }, "needs an input [time, features], got [4]"),
            (&[4, 4], Layer::Gru { hidden_size: 0, return_sequences: false }, "`hidden_size` must be at least 1"),
        ];
        for (input, layer, said) in table {
            let error = after(input, layer.clone()).expect_err("must be refused");
            assert!(error.contains(said), "{layer:?} of {input:?}: {error}");
        }
    }

    #[test]
    fn the_place_of_the_layer_is_counted_from_0() {
        let linear = Layer::Linear { out_features: 64, bias: true };
        let model = LayeredModel { input: vec![4], layers: vec![linear, Layer::Relu {}, conv(3, 1, Padding::Same)] };
        let said = "layers[2] conv2d: needs an input [channels, height, width], got [64]";
        assert_eq!(model.shapes().expect_err("must be refused").to_string(), said);
        let embedding = Layer::Embedding { tokens: 3, size: 2 };
        let model = LayeredModel { input: vec![4], layers: vec![Layer::Relu {}, embedding] };
        let error = model.shapes().expect_err("must be refused");
        assert!(matches!(error, ModelSpecError::Layer { index: 1, error: LayerError::NotFirst, .. }));
    }

    #[test]
    fn inputs_and_lists_that_are_no_network_are_refused() {
        for input in [vec![], vec![0], vec![3, 0], vec![1, 1, 1, 1], vec![usize::MAX, 2], vec![OUTPUTS_MAX + 1]] {
            let model = LayeredModel { input: input.clone(), layers: vec![Layer::Relu {}] };
            assert_eq!(model.shapes(), Err(ModelSpecError::Input(input)));
        }
        let of = |count| LayeredModel { input: vec![1], layers: vec![Layer::Relu {}; count] };
        assert_eq!(of(0).shapes(), Err(ModelSpecError::NoLayers));
        assert_eq!(of(LAYERS_MAX + 1).shapes(), Err(ModelSpecError::TooManyLayers(LAYERS_MAX + 1)));
        assert!(of(LAYERS_MAX).shapes().is_ok());
    }

    /// Small numbers that make networks, and numbers at the edges of usize that must not overflow.
    fn any_size() -> impl Strategy<Value = usize> {
        prop_oneof![6 => 0usize..6, 1 => Just(usize::MAX), 1 => Just(1 << 31), 1 => any::<usize>()]
    }

    fn any_layer() -> impl Strategy<Value = Layer> {
        let pair = || (any_size(), any_size()).prop_map(|(height, width)| HeightWidth { height, width });
        let padding = prop_oneof![Just(Padding::Same), Just(Padding::Valid), pair().prop_map(Padding::Zeros)];
        prop_oneof![
            (any_size(), any::<bool>()).prop_map(|(out_features, bias)| Layer::Linear { out_features, bias }),
            (any_size(), pair(), pair(), padding).prop_map(|(out_channels, kernel_size, stride, padding)| {
                Layer::Conv2d { out_channels, kernel_size, stride, padding, bias: true }
            }),
            (pair(), proptest::option::of(pair()))
                .prop_map(|(kernel_size, stride)| Layer::MaxPool2d { kernel_size, stride }),
            (pair(), proptest::option::of(pair()))
                .prop_map(|(kernel_size, stride)| Layer::AvgPool2d { kernel_size, stride }),
            Just(Layer::Flatten {}),
            any::<f64>().prop_map(|probability| Layer::Dropout { probability }),
            any::<f64>().prop_map(|epsilon| Layer::LayerNorm { epsilon }),
            Just(Layer::BatchNorm { epsilon: 1e-5, momentum: 0.1 }),
            (any_size(), any_size()).prop_map(|(tokens, size)| Layer::Embedding { tokens, size }),
            (any_size(), any::<bool>())
                .prop_map(|(hidden_size, return_sequences)| Layer::Lstm { hidden_size, return_sequences }),
            (any_size(), any::<bool>())
                .prop_map(|(hidden_size, return_sequences)| Layer::Gru { hidden_size, return_sequences }),
        ]
    }

    proptest! {
        #[test]
        fn inference_never_panics_and_its_shapes_are_within_the_limits(
            input in proptest::collection::vec(any_size(), 0..5),
            layers in proptest::collection::vec(any_layer(), 0..6),
        ) {
            let model = LayeredModel { input, layers };
            let parameters = ModelSpec::Layers(model.clone()).parameters();
            match model.shapes() {
                Ok(shapes) => {
                    prop_assert_eq!(shapes.len(), model.layers.len());
                    prop_assert!(shapes.iter().all(|shape| !shape.contains(&0) && elements(shape).is_some()));
                }
                Err(error) => {
                    prop_assert_eq!(parameters.expect_err("no shapes, no parameters"), error.clone());
                    prop_assert!(!error.to_string().is_empty());
                }
            }
        }
    }
}
