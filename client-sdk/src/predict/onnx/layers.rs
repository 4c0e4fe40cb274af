//! The nodes of each kind of layer.

use tributary_protocol::layers::{HeightWidth, Layer, LayeredModel, Padding};
use tributary_protocol::model::Model;

use super::graph::{Attribute, Graph};

/// Gates of ONNX's LSTM (input, output, forget, cell) and GRU (update, reset, hidden), as places in PyTorch's order
/// (input, forget, cell, output; reset, update, new).
const LSTM_GATES: [usize; 4] = [0, 3, 1, 2];
const GRU_GATES: [usize; 3] = [1, 0, 2];

/// Writes the layers of a network whose first one reads `input`. Returns the name of the last one's output.
pub(super) fn write(
    graph: &mut Graph,
    network: &LayeredModel,
    shapes: &[Vec<usize>],
    model: &Model,
    input: String,
) -> String {
    let inputs = std::iter::once(&network.input).chain(shapes);
    let mut writer = Writer { graph, model, next: 0, x: input };
    for (index, (layer, shape)) in network.layers.iter().zip(inputs).enumerate() {
        writer.graph.layer = format!("layers.{index}");
        writer.layer(layer, shape);
    }
    writer.x
}

struct Writer<'a> {
    graph: &'a mut Graph,
    model: &'a Model,
    /// Index of the model's parameter that comes next.
    next: usize,
    /// The value that the next layer reads.
    x: String,
}

impl Writer<'_> {
    /// `shape` is that of one example before the layer.
    fn layer(&mut self, layer: &Layer, shape: &[usize]) {
        match *layer {
            Layer::Dropout { .. } => {}
            Layer::Linear { bias, .. } => {
                let weight = self.parameter();
                let bias = bias.then(|| self.parameter());
                self.linear(shape, &weight, bias);
            }
            Layer::LowRank { rank, alpha, bias, .. } => self.low_rank(shape, rank, alpha, bias),
            Layer::Conv2d { kernel_size, stride, padding, bias, .. } => {
                self.convolution([kernel_size, stride], padding, bias);
            }
            Layer::MaxPool2d { kernel_size, stride } => self.pool("MaxPool", kernel_size, stride),
            Layer::AvgPool2d { kernel_size, stride } => self.pool("AveragePool", kernel_size, stride),
            Layer::Relu {} => self.apply("Relu", &[], &[]),
            Layer::Gelu {} => self.gelu(),
            Layer::Tanh {} => self.apply("Tanh", &[], &[]),
            Layer::Sigmoid {} => self.apply("Sigmoid", &[], &[]),
            Layer::Flatten {} => self.apply("Flatten", &[], &[Attribute::Integer("axis", 1)]),
            Layer::LayerNorm { epsilon } => {
                let (weight, bias) = (self.parameter(), self.parameter());
                let attributes = [Attribute::LastAxis, Attribute::Float("epsilon", epsilon)];
                self.apply("LayerNormalization", &[&weight, &bias], &attributes);
            }
            Layer::BatchNorm { epsilon, .. } => {
                let [weight, bias, mean] = [(); 3].map(|()| self.parameter());
                // Averaging and compression can make a variance slightly negative.
                let variance = self.parameter_as(|variance| variance.max(0.0));
                let attributes = [Attribute::Float("epsilon", epsilon)];
                self.apply("BatchNormalization", &[&weight, &bias, &mean, &variance], &attributes);
            }
            Layer::Embedding { .. } => {
                let weight = self.parameter();
                self.x = self.graph.node("Gather", &[&weight, &self.x], &[]);
            }
            Layer::Lstm { hidden_size, return_sequences } => {
                self.recurrent("LSTM", &LSTM_GATES, hidden_size, return_sequences);
            }
            Layer::Gru { hidden_size, return_sequences } => {
                self.recurrent("GRU", &GRU_GATES, hidden_size, return_sequences);
            }
        }
    }

    /// A node that reads the last value and these.
    fn apply(&mut self, kind: &str, others: &[&str], attributes: &[Attribute<'_>]) {
        let inputs: Vec<&str> = std::iter::once(self.x.as_str()).chain(others.iter().copied()).collect();
        self.x = self.graph.node(kind, &inputs, attributes);
    }

    /// The model's next parameter as an initializer.
    fn parameter(&mut self) -> String {
        self.parameter_as(|value| value)
    }

    fn parameter_as(&mut self, change: impl Fn(f32) -> f32) -> String {
        let spec = &self.model.parameters().specs()[self.next];
        let values = self.model.tensor(self.next).iter().map(|value| change(*value));
        self.next += 1;
        self.graph.floats(&spec.name, &spec.shape, values)
    }

    /// A constant of this layer.
    fn number(&mut self, name: &str, value: f64) -> String {
        let name = format!("{}.{name}", self.graph.layer);
        self.graph.floats(&name, &[], std::iter::once(value as f32))
    }

    /// `Gemm` reads matrices alone.
    fn linear(&mut self, shape: &[usize], weight: &str, bias: Option<String>) {
        if let [_] = shape {
            let others: Vec<&str> = std::iter::once(weight).chain(bias.as_deref()).collect();
            return self.apply("Gemm", &others, &[Attribute::Integer("transB", 1)]);
        }
        let transposed = self.graph.node("Transpose", &[weight], &[Attribute::Integers("perm", &[1, 0])]);
        self.apply("MatMul", &[&transposed], &[]);
        if let Some(bias) = bias {
            self.apply("Add", &[&bias], &[]);
        }
    }

    /// The sum of the weight and the scaled product, which are constants, and a linear layer.
    fn low_rank(&mut self, shape: &[usize], rank: usize, alpha: Option<f64>, bias: bool) {
        let weight = self.parameter();
        let bias = bias.then(|| self.parameter());
        let (a, b) = (self.parameter(), self.parameter());
        let scale = self.number("scale", alpha.map_or(1.0, |alpha| alpha / rank as f64));
        let product = self.graph.node("MatMul", &[&b, &a], &[]);
        let scaled = self.graph.node("Mul", &[&product, &scale], &[]);
        let merged = self.graph.node("Add", &[&weight, &scaled], &[]);
        self.linear(shape, &merged, bias);
    }

    fn convolution(&mut self, [kernel, stride]: [HeightWidth; 2], padding: Padding, bias: bool) {
        let weight = self.parameter();
        let bias = bias.then(|| self.parameter());
        let pads = padding.zeros(kernel).concat();
        let (kernel, stride): ([usize; 2], [usize; 2]) = (kernel.into(), stride.into());
        let attributes = [
            Attribute::Integers("kernel_shape", &kernel),
            Attribute::Integers("strides", &stride),
            Attribute::Integers("pads", &pads),
        ];
        let others: Vec<&str> = std::iter::once(weight.as_str()).chain(bias.as_deref()).collect();
        self.apply("Conv", &others, &attributes);
    }

    fn pool(&mut self, kind: &str, kernel: HeightWidth, stride: Option<HeightWidth>) {
        let (stride, kernel): ([usize; 2], [usize; 2]) = (stride.unwrap_or(kernel).into(), kernel.into());
        self.apply(kind, &[], &[Attribute::Integers("kernel_shape", &kernel), Attribute::Integers("strides", &stride)]);
    }

    /// `x (1 + erf(x / sqrt 2)) / 2`: a node of its own came with opset 20.
    fn gelu(&mut self) {
        let [root, one, half] =
            [("sqrt2", 2f64.sqrt()), ("one", 1.0), ("half", 0.5)].map(|(name, value)| self.number(name, value));
        let x = self.x.clone();
        self.apply("Div", &[&root], &[]);
        self.apply("Erf", &[], &[]);
        self.apply("Add", &[&one], &[]);
        self.apply("Mul", &[&x], &[]);
        self.apply("Mul", &[&half], &[]);
    }

    /// The parameters are in PyTorch's order of the gates; nodes of constants put them in that of ONNX.
    fn recurrent(&mut self, kind: &str, gates: &[usize], hidden: usize, sequences: bool) {
        let layer = self.graph.layer.clone();
        let rows: Vec<usize> = gates.iter().flat_map(|gate| gate * hidden..(gate + 1) * hidden).collect();
        let rows = self.graph.integers(&format!("{layer}.gates"), rows.into_iter());
        let first = self.graph.integers(&format!("{layer}.axis0"), [0].into_iter());
        let [of_input, of_state, input_bias, state_bias] = [(); 4].map(|()| {
            let parameter = self.parameter();
            self.graph.node("Gather", &[&parameter, &rows], &[])
        });
        let biases = self.graph.node("Concat", &[&input_bias, &state_bias], &[Attribute::Integer("axis", 0)]);
        let [of_input, of_state, biases] =
            [of_input, of_state, biases].map(|tensor| self.graph.node("Unsqueeze", &[&tensor, &first], &[]));
        self.apply("Transpose", &[], &[Attribute::Integers("perm", &[1, 0, 2])]);
        let before_reset = [Attribute::Integer("linear_before_reset", 1)];
        let attributes = [Attribute::Integer("hidden_size", hidden)];
        let attributes = if kind == "GRU" { [&attributes[..], &before_reset].concat() } else { attributes.to_vec() };
        let inputs = [&self.x, &of_input, &of_state, &biases].map(String::as_str);
        self.x = self.graph.node_with_output(kind, &inputs, &attributes, usize::from(!sequences));
        if sequences {
            let second = self.graph.integers(&format!("{layer}.axis1"), [1].into_iter());
            self.apply("Squeeze", &[&second], &[]);
            self.apply("Transpose", &[], &[Attribute::Integers("perm", &[1, 0, 2])]);
        } else {
            self.apply("Squeeze", &[&first], &[]);
        }
    }
}
