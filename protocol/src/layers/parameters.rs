//! The parameters of a network as data: names, shapes and order as in `torch.nn`.

use serde::{Deserialize, Serialize};

use super::{Layer, LayeredModel, ModelSpec, ModelSpecError};
use crate::model::{ParameterList, ParameterSpec};

/// A layer of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LayerRow {
    /// Kind of the layer in the job file.
    pub kind: String,
    /// Shape of its output for one example.
    pub output: Vec<usize>,
    /// Number of its parameters, with the running statistics of batch norm.
    pub parameters: u64,
}

impl ModelSpec {
    /// The parameters in order. Those of layers have the names `layers.<index>.<parameter>` and include the running
    /// statistics of batch norm.
    ///
    /// # Errors
    /// [`ModelSpecError`] for the first layer or parameter that is invalid.
    pub fn parameters(&self) -> Result<ParameterList, ModelSpecError> {
        let specs = match self {
            Self::Layers(model) => model.parameter_specs()?,
            Self::Parameters(parameters) => parameters.clone(),
        };
        Ok(ParameterList::new(specs)?)
    }
}

impl LayeredModel {
    /// The layers in order, with their sizes.
    ///
    /// # Errors
    /// [`ModelSpecError`] for the first layer that is invalid.
    pub fn table(&self) -> Result<Vec<LayerRow>, ModelSpecError> {
        let outputs = self.shapes()?;
        let inputs: Vec<&Vec<usize>> = std::iter::once(&self.input).chain(&outputs).collect();
        let rows = self.layers.iter().zip(inputs).zip(&outputs).map(|((layer, input), output)| {
            let sizes = layer.parameters(input).into_iter().map(|(_, shape)| shape.iter().product::<usize>() as u64);
            LayerRow { kind: layer.kind().to_owned(), output: output.clone(), parameters: sizes.sum() }
        });
        Ok(rows.collect())
    }

    fn parameter_specs(&self) -> Result<Vec<ParameterSpec>, ModelSpecError> {
        let outputs = self.shapes()?;
        let inputs = std::iter::once(&self.input).chain(&outputs);
        let named = self.layers.iter().zip(inputs).enumerate().flat_map(|(index, (layer, input))| {
            let named = move |(name, shape)| ParameterSpec::new(format!("layers.{index}.{name}"), shape);
            layer.parameters(input).into_iter().map(named)
        });
        Ok(named.collect())
    }
}

impl Layer {
    /// Names and shapes of the layer's parameters for an input that shape inference has accepted.
    fn parameters(&self, input: &[usize]) -> Vec<(&'static str, Vec<usize>)> {
        let first = input.first().copied().unwrap_or_default();
        let last = input.last().copied().unwrap_or_default();
        match *self {
            Self::Linear { out_features, bias } => with_bias(vec![out_features, last], bias),
            Self::LowRank { out_features, rank, bias, .. } => {
                let mut parameters = with_bias(vec![out_features, last], bias);
                // The names of loralib, whose modules have them in this order.
                parameters.extend([("lora_A", vec![rank, last]), ("lora_B", vec![out_features, rank])]);
                parameters
            }
            Self::Conv2d { out_channels, kernel_size, bias, .. } => {
                with_bias(vec![out_channels, first, kernel_size.height, kernel_size.width], bias)
            }
            Self::LayerNorm { .. } => vec![("weight", vec![last]), ("bias", vec![last])],
            Self::BatchNorm { .. } => {
                ["weight", "bias", "running_mean", "running_var"].map(|name| (name, vec![first])).into()
            }
            Self::Embedding { tokens, size } => vec![("weight", vec![tokens, size])],
            Self::Lstm { hidden_size, .. } => recurrent(4, hidden_size, last),
            Self::Gru { hidden_size, .. } => recurrent(3, hidden_size, last),
            Self::MaxPool2d { .. }
            | Self::AvgPool2d { .. }
            | Self::Relu {}
            | Self::Gelu {}
            | Self::Tanh {}
            | Self::Sigmoid {}
            | Self::Flatten {}
            | Self::Dropout { .. } => vec![],
        }
    }
}

/// A weight, and a bias of the length of its first dimension.
fn with_bias(weight: Vec<usize>, bias: bool) -> Vec<(&'static str, Vec<usize>)> {
    let mut parameters = vec![("weight", weight)];
    if bias {
        let outputs = parameters[0].1[0];
        parameters.push(("bias", vec![outputs]));
    }
    parameters
}

/// The matrices of the gates, stacked by rows: input, forget, cell, output (LSTM) or reset, update, new (GRU).
fn recurrent(gates: usize, hidden: usize, features: usize) -> Vec<(&'static str, Vec<usize>)> {
    // Shape inference has bounded `hidden` by 2^26, so the product cannot overflow, not even with 32 bits.
    let rows = gates * hidden;
    vec![
        ("weight_ih_l0", vec![rows, features]),
        ("weight_hh_l0", vec![rows, hidden]),
        ("bias_ih_l0", vec![rows]),
        ("bias_hh_l0", vec![rows]),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::{HeightWidth, Padding};
    use super::*;

    fn linear(out_features: usize) -> Layer {
        Layer::Linear { out_features, bias: true }
    }

    /// The CNN of McMahan et al. (2017), Communication-Efficient Learning of Deep Networks from Decentralized Data.
    fn mcmahan_cnn() -> LayeredModel {
        let conv = |out_channels| Layer::Conv2d {
            out_channels,
            kernel_size: HeightWidth::square(5),
            stride: HeightWidth::square(1),
            padding: Padding::Same,
            bias: true,
        };
        let pool = || Layer::MaxPool2d { kernel_size: HeightWidth::square(2), stride: None };
        let relu = || Layer::Relu {};
        let layers = vec![conv(32), relu(), pool(), conv(64), relu(), pool(), Layer::Flatten {}];
        let head = [linear(512), relu(), linear(10)];
        LayeredModel { input: vec![1, 28, 28], layers: layers.into_iter().chain(head).collect() }
    }

    #[test]
    fn mcmahans_networks_have_as_many_parameters_as_in_his_paper() {
        let layers = vec![linear(200), Layer::Relu {}, linear(200), Layer::Relu {}, linear(10)];
        let mlp = ModelSpec::Layers(LayeredModel { input: vec![784], layers });
        assert_eq!(mlp.parameters().unwrap().total(), 199_210);
        assert_eq!(ModelSpec::Layers(mcmahan_cnn()).parameters().unwrap().total(), 1_663_370);
        let table = mcmahan_cnn().table().unwrap();
        assert_eq!(table.iter().map(|row| row.parameters).sum::<u64>(), 1_663_370);
        assert_eq!(table[0], LayerRow { kind: "conv2d".to_owned(), output: vec![32, 28, 28], parameters: 832 });
    }

    #[test]
    fn names_shapes_and_order_are_those_of_pytorch() {
        let layers = vec![
            Layer::Embedding { tokens: 90, size: 8 },
            Layer::Lstm { hidden_size: 5, return_sequences: true },
            Layer::Dropout { probability: 0.5 },
            Layer::Gru { hidden_size: 6, return_sequences: false },
            Layer::BatchNorm { epsilon: 1e-5, momentum: 0.1 },
            Layer::LayerNorm { epsilon: 1e-5 },
            Layer::Linear { out_features: 3, bias: false },
            Layer::LowRank { out_features: 2, rank: 4, alpha: None, bias: true },
        ];
        let spec = ModelSpec::Layers(LayeredModel { input: vec![80], layers });
        let listed: Vec<(String, Vec<usize>)> =
            spec.parameters().unwrap().specs().iter().map(|spec| (spec.name.clone(), spec.shape.clone())).collect();
        let expected: &[(&str, &[usize])] = &[
            ("layers.0.weight", &[90, 8]),
            ("layers.1.weight_ih_l0", &[20, 8]),
            ("layers.1.weight_hh_l0", &[20, 5]),
            ("layers.1.bias_ih_l0", &[20]),
            ("layers.1.bias_hh_l0", &[20]),
            ("layers.3.weight_ih_l0", &[18, 5]),
            ("layers.3.weight_hh_l0", &[18, 6]),
            ("layers.3.bias_ih_l0", &[18]),
            ("layers.3.bias_hh_l0", &[18]),
            ("layers.4.weight", &[6]),
            ("layers.4.bias", &[6]),
            ("layers.4.running_mean", &[6]),
            ("layers.4.running_var", &[6]),
            ("layers.5.weight", &[6]),
            ("layers.5.bias", &[6]),
            ("layers.6.weight", &[3, 6]),
            ("layers.7.weight", &[2, 3]),
            ("layers.7.bias", &[2]),
            ("layers.7.lora_A", &[4, 3]),
            ("layers.7.lora_B", &[2, 4]),
        ];
        let expected: Vec<_> = expected.iter().map(|(name, shape)| ((*name).to_owned(), shape.to_vec())).collect();
        assert_eq!(listed, expected);
    }

    #[test]
    fn models_without_or_with_too_many_parameters_are_refused() {
        let parameters = |input, layers| ModelSpec::Layers(LayeredModel { input, layers }).parameters();
        assert!(matches!(parameters(vec![4], vec![Layer::Relu {}]), Err(ModelSpecError::Parameters(_))));
        let wide = vec![linear(1 << 20), linear(1 << 20)];
        assert!(matches!(parameters(vec![4], wide), Err(ModelSpecError::Parameters(_))));
        let wide = vec![Layer::Lstm { hidden_size: 1 << 26, return_sequences: false }];
        assert!(matches!(parameters(vec![1, 1], wide), Err(ModelSpecError::Parameters(_))));
    }

    #[test]
    fn an_apps_own_parameters_are_taken_as_they_are() {
        let own = vec![ParameterSpec::new("encoder.w", [2, 3]), ParameterSpec::new("scale", [])];
        let list = ModelSpec::Parameters(own.clone()).parameters().unwrap();
        assert_eq!(list.specs(), own);
        let twice = vec![own[0].clone(), own[0].clone()];
        assert!(ModelSpec::Parameters(twice).parameters().is_err());
    }
}
