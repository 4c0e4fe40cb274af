//! Networks as data: the section `[model]` of a job file. A new architecture needs no new release of the app.
//!
//! ```toml
//! [model]
//! input = [64]
//! layers = [
//!   { kind = "linear", out_features = 32 },
//!   { kind = "relu" },
//!   { kind = "linear", out_features = 10 },
//! ]
//! ```
//!
//! Shapes are those of one example, without the batch dimension. Layers, settings, parameter names and layouts are
//! those of PyTorch 2 (`torch.nn`): an exported model loads there as an `nn.Sequential` with the name `layers`.

mod initial;
mod memory;
mod parameters;
mod shapes;

use serde::{Deserialize, Serialize};

use crate::model::ParameterSpec;

pub use initial::InitialValues;
pub use parameters::LayerRow;
pub use shapes::{LayerError, ModelSpecError};

/// Most layers of a network.
pub const LAYERS_MAX: usize = 1024;
/// Most output values of one layer for one example: 2^26, which is 256 MiB of f32.
pub const OUTPUTS_MAX: usize = 1 << 26;
/// Largest vocabulary of an embedding. Token ids are passed as f32, which is exact up to 2^24.
pub const TOKENS_MAX: usize = 1 << 24;

/// The model of a job: a network as data, or the parameters of an app's own network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "ModelTable", into = "ModelTable")]
pub enum ModelSpec {
    /// Keys `input` and `layers`: the SDK builds the network.
    Layers(LayeredModel),
    /// Key `parameters`: names and shapes only; the app implements the network.
    Parameters(Vec<ParameterSpec>),
}

/// A network as a list of layers. The output of each layer is the input of the next.
#[derive(Clone, Debug, PartialEq)]
pub struct LayeredModel {
    /// Shape of one example: `[features]`, `[channels, height, width]`, `[time, features]`, or `[time]` of token ids.
    pub input: Vec<usize>,
    /// The layers in order.
    pub layers: Vec<Layer>,
}

/// A layer of a network. Settings that are left out have the defaults of PyTorch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Layer {
    /// `y = x W^T + b` over the last dimension.
    Linear {
        /// Length of the last dimension of the output.
        out_features: usize,
        /// Whether `b` is added. Default: true.
        #[serde(default = "yes")]
        bias: bool,
    },
    /// A linear layer and a product of two small matrices: `y = x (W + alpha / rank B A)^T + b` (LoRA, Hu et al. 2021).
    /// B starts as zeros, so the layer begins as the linear one. Freeze `weight` and `bias` to train A and B alone.
    LowRank {
        /// Length of the last dimension of the output.
        out_features: usize,
        /// Rows of A and columns of B.
        rank: usize,
        /// Weight of the product is `alpha / rank`. Default: the rank.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        alpha: Option<f64>,
        /// Whether `b` is added. Default: true.
        #[serde(default = "yes")]
        bias: bool,
    },
    /// 2D convolution (cross-correlation, as in PyTorch) over `[channels, height, width]`.
    Conv2d {
        /// Number of output channels.
        out_channels: usize,
        /// Size of the window.
        kernel_size: HeightWidth,
        /// Distance between windows. Default: 1.
        #[serde(default = "HeightWidth::one")]
        stride: HeightWidth,
        /// Zeros around the input. Default: `valid`, none.
        #[serde(default)]
        padding: Padding,
        /// Whether a learned bias is added to each channel. Default: true.
        #[serde(default = "yes")]
        bias: bool,
    },
    /// Maximum of each window, per channel.
    MaxPool2d {
        /// Size of the window.
        kernel_size: HeightWidth,
        /// Distance between windows. Default: the size of the window.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stride: Option<HeightWidth>,
    },
    /// Mean of each window, per channel.
    AvgPool2d {
        /// Size of the window.
        kernel_size: HeightWidth,
        /// Distance between windows. Default: the size of the window.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stride: Option<HeightWidth>,
    },
    // The braces make serde refuse unknown keys here too; for unit variants it ignores them.
    /// `max(x, 0)`.
    Relu {},
    /// `x Phi(x)`, where `Phi` is the exact normal distribution function (Hendrycks and Gimpel 2016).
    Gelu {},
    /// Hyperbolic tangent.
    Tanh {},
    /// `1 / (1 + exp(-x))`.
    Sigmoid {},
    /// Joins all dimensions into one.
    Flatten {},
    /// In training, sets each value to 0 with a probability p and scales the others by 1 / (1 - p) (Srivastava et al.
    /// 2014).
    Dropout {
        /// p, in `[0, 1)`.
        probability: f64,
    },
    /// Normalises the last dimension of each example to mean 0 and variance 1 (Ba, Kiros and Hinton 2016), then applies
    /// a learned scale and bias.
    LayerNorm {
        /// Added to the variance for numerical stability. Default: 1e-5.
        #[serde(default = "norm_epsilon")]
        epsilon: f64,
    },
    /// Normalises each feature (`[features]`) or channel (`[channels, height, width]`) to mean 0 and variance 1 over
    /// the batch (Ioffe and Szegedy 2015), then applies a learned scale and bias. The running statistics are parameters
    /// too and are averaged like the others.
    BatchNorm {
        /// Added to the variance for numerical stability. Default: 1e-5.
        #[serde(default = "norm_epsilon")]
        epsilon: f64,
        /// Weight of a batch in the running statistics, 0 to 1. Default: 0.1.
        #[serde(default = "batch_norm_momentum")]
        momentum: f64,
    },
    /// A learned vector for each token. It reads token ids, so it can only be the first layer.
    Embedding {
        /// Size of the vocabulary, at most 2^24. Ids are `0..tokens`.
        tokens: usize,
        /// Length of each vector.
        size: usize,
    },
    /// Long short-term memory over `[time, features]` (Hochreiter and Schmidhuber 1997, with forget gates).
    Lstm {
        /// Length of the hidden state.
        hidden_size: usize,
        /// Whether the output is the hidden state after every time step, `[time, hidden_size]`, instead of the last
        /// one. Default: false.
        #[serde(default)]
        return_sequences: bool,
    },
    /// Gated recurrent unit over `[time, features]` (Cho et al. 2014, in cuDNN's form, as in PyTorch).
    Gru {
        /// Length of the hidden state.
        hidden_size: usize,
        /// Whether the output is the hidden state after every time step, `[time, hidden_size]`, instead of the last
        /// one. Default: false.
        #[serde(default)]
        return_sequences: bool,
    },
}

/// A height and a width. Written as `[height, width]`, or as one number for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "OneOrTwo", into = "[usize; 2]")]
pub struct HeightWidth {
    /// Number of rows.
    pub height: usize,
    /// Number of columns.
    pub width: usize,
}

/// Zeros around the input of a convolution. Written as `"valid"`, `"same"`, one number or `[height, width]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "PaddingText", into = "PaddingText")]
pub enum Padding {
    /// No zeros.
    #[default]
    Valid,
    /// As many zeros as keep height and width; requires stride 1. An odd one is at the bottom or right.
    Same,
    /// This number of rows at top and bottom, and of columns at left and right.
    Zeros(HeightWidth),
}

impl Layer {
    /// The value of `kind` in a job file.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Linear { .. } => "linear",
            Self::LowRank { .. } => "low_rank",
            Self::Conv2d { .. } => "conv2d",
            Self::MaxPool2d { .. } => "max_pool2d",
            Self::AvgPool2d { .. } => "avg_pool2d",
            Self::Relu {} => "relu",
            Self::Gelu {} => "gelu",
            Self::Tanh {} => "tanh",
            Self::Sigmoid {} => "sigmoid",
            Self::Flatten {} => "flatten",
            Self::Dropout { .. } => "dropout",
            Self::LayerNorm { .. } => "layer_norm",
            Self::BatchNorm { .. } => "batch_norm",
            Self::Embedding { .. } => "embedding",
            Self::Lstm { .. } => "lstm",
            Self::Gru { .. } => "gru",
        }
    }
}

impl HeightWidth {
    /// The same length in both directions.
    pub const fn square(length: usize) -> Self {
        Self { height: length, width: length }
    }

    fn one() -> Self {
        Self::square(1)
    }
}

impl Padding {
    /// The zeros at top and left, and those at bottom and right, for a kernel of this size: `[height, width]` each.
    pub fn zeros(self, kernel: HeightWidth) -> [[usize; 2]; 2] {
        let kernel: [usize; 2] = kernel.into();
        match self {
            Self::Valid => [[0, 0]; 2],
            Self::Zeros(zeros) => [zeros.into(); 2],
            // With an even kernel PyTorch adds the odd zero after the image.
            Self::Same => [kernel.map(|length| (length - 1) / 2), kernel.map(|length| length / 2)],
        }
    }
}

impl From<HeightWidth> for [usize; 2] {
    fn from(size: HeightWidth) -> Self {
        [size.height, size.width]
    }
}

/// The section `[model]` as it is written, with one of two sets of keys.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelTable {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) input: Option<Vec<usize>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) layers: Option<Vec<Layer>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parameters: Option<Vec<ParameterSpec>>,
}

impl TryFrom<ModelTable> for ModelSpec {
    type Error = &'static str;

    fn try_from(table: ModelTable) -> Result<Self, Self::Error> {
        match table {
            ModelTable { input: Some(input), layers: Some(layers), parameters: None } => {
                Ok(Self::Layers(LayeredModel { input, layers }))
            }
            ModelTable { input: None, layers: None, parameters: Some(parameters) } => Ok(Self::Parameters(parameters)),
            _ => Err("[model] needs either `input` and `layers`, or `parameters`"),
        }
    }
}

impl From<ModelSpec> for ModelTable {
    fn from(spec: ModelSpec) -> Self {
        match spec {
            ModelSpec::Layers(LayeredModel { input, layers }) => {
                Self { input: Some(input), layers: Some(layers), parameters: None }
            }
            ModelSpec::Parameters(parameters) => Self { input: None, layers: None, parameters: Some(parameters) },
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number or a pair [height, width]")]
enum OneOrTwo {
    One(usize),
    Two([usize; 2]),
}

impl From<OneOrTwo> for HeightWidth {
    fn from(size: OneOrTwo) -> Self {
        match size {
            OneOrTwo::One(length) => Self::square(length),
            OneOrTwo::Two([height, width]) => Self { height, width },
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "expected \"valid\", \"same\", a number or a pair [height, width]")]
enum PaddingText {
    Word(PaddingWord),
    Zeros(HeightWidth),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PaddingWord {
    Valid,
    Same,
}

impl From<PaddingText> for Padding {
    fn from(text: PaddingText) -> Self {
        match text {
            PaddingText::Word(PaddingWord::Valid) => Self::Valid,
            PaddingText::Word(PaddingWord::Same) => Self::Same,
            PaddingText::Zeros(zeros) => Self::Zeros(zeros),
        }
    }
}

impl From<Padding> for PaddingText {
    fn from(padding: Padding) -> Self {
        match padding {
            Padding::Valid => Self::Word(PaddingWord::Valid),
            Padding::Same => Self::Word(PaddingWord::Same),
            Padding::Zeros(zeros) => Self::Zeros(zeros),
        }
    }
}

fn yes() -> bool {
    true
}
fn norm_epsilon() -> f64 {
    1e-5
}
fn batch_norm_momentum() -> f64 {
    0.1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<ModelSpec, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn sizes_and_paddings_have_a_long_and_a_short_form() {
        let text = r#"
            input = [1, 28, 28]
            layers = [
              { kind = "conv2d", out_channels = 8, kernel_size = 5, padding = "same" },
              { kind = "conv2d", out_channels = 8, kernel_size = [3, 5], stride = [1, 2], padding = [1, 2], bias = false },
              { kind = "conv2d", out_channels = 8, kernel_size = 3, padding = 1 },
              { kind = "max_pool2d", kernel_size = 2 },
            ]
        "#;
        let Ok(ModelSpec::Layers(model)) = parsed(text) else { panic!("must parse") };
        let conv =
            |kernel_size, stride, padding, bias| Layer::Conv2d { out_channels: 8, kernel_size, stride, padding, bias };
        let square = HeightWidth::square;
        assert_eq!(model.layers[0], conv(square(5), square(1), Padding::Same, true));
        let size = |height, width| HeightWidth { height, width };
        assert_eq!(model.layers[1], conv(size(3, 5), size(1, 2), Padding::Zeros(size(1, 2)), false));
        assert_eq!(model.layers[2], conv(square(3), square(1), Padding::Zeros(square(1)), true));
        assert_eq!(model.layers[3], Layer::MaxPool2d { kernel_size: square(2), stride: None });
    }

    #[test]
    fn what_is_written_can_be_read_back() {
        let text = r#"{"input":[4],"layers":[
            {"kind":"linear","out_features":3},{"kind":"relu"},{"kind":"dropout","probability":0.5},
            {"kind":"batch_norm"},{"kind":"layer_norm","epsilon":1e-3},{"kind":"flatten"}]}"#;
        for text in [text, r#"{"parameters":[{"name":"w","shape":[2,3]}]}"#] {
            let spec: ModelSpec = serde_json::from_str(text).unwrap();
            let json = serde_json::to_string(&spec).unwrap();
            assert_eq!(serde_json::from_str::<ModelSpec>(&json).unwrap(), spec);
            let toml = toml::to_string(&spec).unwrap();
            assert_eq!(parsed(&toml).unwrap(), spec);
        }
    }

    #[test]
    fn unknown_and_mixed_keys_are_refused() {
        for (text, said) in [
            ("input = [4]", "either `input` and `layers`, or `parameters`"),
            ("input = [4]\nlayers = []\nparameters = []", "either `input` and `layers`, or `parameters`"),
            ("inputs = [4]\nlayers = []", "unknown field `inputs`"),
            ("input = [-4]\nlayers = []", "integer"),
            ("input = [4]\nlayers = [{ kind = \"relu\", slope = 0.1 }]", "unknown field `slope`"),
            ("input = [4]\nlayers = [{ kind = \"linear\", out_feature = 1 }]", "unknown field `out_feature`"),
            ("input = [4]\nlayers = [{ kind = \"lineer\" }]", "unknown variant `lineer`"),
            ("input = [4]\nlayers = [{ kind = \"max_pool2d\", kernel_size = [1, 2, 3] }]", "pair [height, width]"),
            ("input = [4]\nlayers = [{ kind = \"max_pool2d\", kernel_size = -1 }]", "pair [height, width]"),
            (
                "input = [4]\nlayers = [{ kind = \"conv2d\", out_channels = 1, kernel_size = 1, padding = \"sane\" }]",
                "\"same\"",
            ),
        ] {
            let error = parsed(text).expect_err(text);
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
