//! Predictions against the trainer's forward pass.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_protocol::layers::{HeightWidth, Layer, LayeredModel, ModelSpec, Padding};
use tributary_protocol::model::Model;
use tributary_protocol::seed::Seed;

use super::{PredictError, Predictor};
use crate::networks::{any_inputs, any_network};
use crate::trainer::evaluated;

const NETWORKS: u64 = 400;
const EXAMPLES: usize = 3;

/// A model with random values, whose running variances are positive.
fn any_model(network: &LayeredModel, seed: u64) -> Model {
    let parameters = ModelSpec::Layers(network.clone()).parameters().unwrap();
    let mut stream = Seed(seed).derive("values", 0).stream();
    let specs = parameters.specs().iter().enumerate();
    let values = specs.flat_map(|(index, spec)| {
        let least = if spec.name.ends_with("running_var") { 0.5 } else { -0.5 };
        let draw = |_| stream.uniform(least, least + 1.0);
        (0..parameters.range(index).len()).map(draw).collect::<Vec<f32>>()
    });
    let values = values.collect();
    Model::new(Arc::new(parameters), values).unwrap()
}

fn predicted(predictor: &Predictor, inputs: &[f32]) -> Vec<f32> {
    let mut outputs = vec![f32::NAN; predictor.output_shape().iter().product()];
    predictor.predict(inputs, &mut outputs).unwrap();
    outputs
}

/// Each example alone, compared with the trainer's batch.
#[track_caller]
fn assert_predicts_as_trained(network: &LayeredModel, seed: u64) {
    let model = any_model(network, seed);
    let inputs = any_inputs(network, EXAMPLES, &mut Seed(seed).derive("inputs", 0).stream());
    let expected = evaluated(&ModelSpec::Layers(network.clone()), &model, &inputs);
    let predictor = Predictor::new(network, &model).unwrap();
    let values = inputs.len() / EXAMPLES;
    for (example, expected) in inputs.chunks(values).zip(expected.chunks(expected.len() / EXAMPLES)) {
        let got = predicted(&predictor, example);
        for (place, (got, expected)) in got.iter().zip(expected).enumerate() {
            let allowed = 1e-5 * expected.abs().max(1.0);
            assert!((got - expected).abs() <= allowed, "output {place} is {got}, not {expected}: {network:?}");
        }
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&predicted(&predictor, example)), bits(&got), "{network:?}");
    }
}

#[test]
fn a_prediction_is_the_trainers_forward_pass_and_repeats_its_bits() {
    let mut kinds = BTreeSet::new();
    for seed in 0..NETWORKS {
        let network = any_network(&mut Seed(seed).derive("network", 0).stream());
        kinds.extend(network.layers.iter().map(Layer::kind));
        assert_predicts_as_trained(&network, seed);
    }
    assert_eq!(kinds.len(), 16, "{kinds:?}");
}

#[test]
fn long_sequences_and_wide_layers_are_predicted_as_trained() {
    let gru = Layer::Gru { hidden_size: 21, return_sequences: true };
    let lstm = Layer::Lstm { hidden_size: 19, return_sequences: false };
    let wide = Layer::Linear { out_features: 77, bias: true };
    let sequence = LayeredModel { input: vec![70, 9], layers: vec![gru, lstm, Layer::Relu {}, wide] };
    assert_predicts_as_trained(&sequence, 1);
    let padding = Padding::Zeros(HeightWidth { height: 3, width: 0 });
    let (kernel_size, stride) = (HeightWidth { height: 4, width: 3 }, HeightWidth { height: 2, width: 3 });
    let first = Layer::Conv2d { out_channels: 37, kernel_size, stride, padding, bias: true };
    let second = Layer::Conv2d { padding: Padding::Valid, out_channels: 5, kernel_size, stride, bias: false };
    let layers = vec![first, Layer::Relu {}, second, Layer::Relu {}, Layer::Relu {}];
    assert_predicts_as_trained(&LayeredModel { input: vec![3, 17, 19], layers }, 2);
}

#[test]
fn what_is_left_of_one_prediction_does_not_change_the_next() {
    let (kernel_size, padding) = (HeightWidth::square(3), Padding::Same);
    let conv = |out_channels| {
        let stride = HeightWidth::square(1);
        Layer::Conv2d { out_channels, kernel_size, stride, padding, bias: true }
    };
    let layers =
        vec![conv(4), Layer::Relu {}, conv(2), Layer::Flatten {}, Layer::Linear { out_features: 3, bias: true }];
    let network = LayeredModel { input: vec![1, 6, 6], layers };
    let predictor = Predictor::new(&network, &any_model(&network, 5)).unwrap();
    let [one, other] = [1, 2].map(|seed| any_inputs(&network, 1, &mut Seed(seed).stream()));
    let first = predicted(&predictor, &one);
    assert_ne!(predicted(&predictor, &other), first);
    assert_eq!(predicted(&predictor, &one), first);
}

#[test]
fn threads_share_a_predictor() {
    let network = any_network(&mut Seed(11).derive("network", 0).stream());
    let predictor = Predictor::new(&network, &any_model(&network, 11)).unwrap();
    let inputs = any_inputs(&network, 8, &mut Seed(12).stream());
    let values = inputs.len() / 8;
    let alone: Vec<Vec<f32>> = inputs.chunks(values).map(|example| predicted(&predictor, example)).collect();
    let (predictor, alone) = (&predictor, &alone);
    std::thread::scope(|scope| {
        for (example, expected) in inputs.chunks(values).zip(alone) {
            scope.spawn(move || {
                for _ in 0..50 {
                    assert_eq!(predicted(predictor, example), *expected);
                }
            });
        }
    });
}

#[test]
fn wrong_lengths_tokens_and_parameters_are_refused_and_leave_the_outputs() {
    let layers = vec![Layer::Embedding { tokens: 4, size: 2 }, Layer::Flatten {}];
    let network = LayeredModel { input: vec![3], layers };
    let predictor = Predictor::new(&network, &any_model(&network, 1)).unwrap();
    assert_eq!((predictor.input_shape(), predictor.output_shape()), (&[3][..], &[6][..]));
    let mut outputs = [7.0; 6];
    let mut refused = |inputs: &[f32]| predictor.predict(inputs, &mut outputs).unwrap_err().to_string();
    assert_eq!(refused(&[1.0]), "1 input values, and the network reads 3: one example of the shape [3]");
    for (id, shown) in [(4.0, "4"), (-1.0, "-1"), (0.5, "0.5"), (f32::NAN, "NaN")] {
        assert_eq!(refused(&[0.0, id, 0.0]), format!("{shown} is not a token id: those are 0 to 3"));
    }
    assert_eq!(outputs, [7.0; 6]);
    let error = predictor.predict(&[0.0; 3], &mut [0.0; 5]).unwrap_err();
    assert_eq!(error, PredictError::Outputs { expected: 6, got: 5 });
    let other = LayeredModel { input: vec![3], layers: vec![Layer::Linear { out_features: 2, bias: false }] };
    let error = Predictor::new(&other, &any_model(&network, 1)).unwrap_err().to_string();
    let expected = "parameter 0 is \"layers.0.weight\" of the shape [4, 2] in the model, and \"layers.0.weight\" of the \
                    shape [2, 3] in the network";
    assert_eq!(error, expected);
    let none = LayeredModel { input: vec![3], layers: Vec::new() };
    assert!(matches!(Predictor::new(&none, &any_model(&network, 1)), Err(PredictError::Network(_))));
}

#[test]
fn a_divergence_is_not_hidden() {
    let layers = vec![Layer::Linear { out_features: 3, bias: true }, Layer::Relu {}];
    let network = LayeredModel { input: vec![2], layers };
    let predictor = Predictor::new(&network, &any_model(&network, 1)).unwrap();
    assert!(predicted(&predictor, &[f32::NAN, 0.0]).iter().all(|output| output.is_nan()));
}
