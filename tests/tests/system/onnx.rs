//! ONNX files of layer lists, run by ONNX Runtime: their outputs must be those of our predictions.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::predict::Predictor;
use tributary_client::predict::onnx::{self, OnnxSettings, Prologue};
use tributary_protocol::layers::{Layer, LayeredModel, ModelSpec};
use tributary_protocol::model::Model;
use tributary_protocol::seed::Seed;

use crate::support::python;

const EXAMPLES: usize = 3;
const TOKENS: u64 = 7;
/// Largest difference, relative to outputs above 1.
const TOLERANCE: f64 = 1e-5;

/// Networks with every kind of layer, and with each of its settings that changes a formula or a shape.
fn networks() -> Vec<(&'static str, Value)> {
    let dense = json!([
        { "kind": "batch_norm", "epsilon": 0.01 }, { "kind": "linear", "out_features": 9 }, { "kind": "gelu" },
        { "kind": "low_rank", "out_features": 6, "rank": 2, "alpha": 3.0 }, { "kind": "dropout", "probability": 0.5 },
        { "kind": "sigmoid" }, { "kind": "layer_norm", "epsilon": 0.01 }, { "kind": "linear", "out_features": 2, "bias": false },
    ]);
    let image = json!([
        { "kind": "conv2d", "out_channels": 5, "kernel_size": [4, 3], "padding": "same", "bias": false },
        { "kind": "batch_norm" }, { "kind": "relu" },
        { "kind": "avg_pool2d", "kernel_size": [2, 3], "stride": [1, 2] },
        { "kind": "conv2d", "out_channels": 3, "kernel_size": [2, 1], "stride": [2, 1], "padding": [1, 2] },
        { "kind": "tanh" }, { "kind": "max_pool2d", "kernel_size": 2, "stride": 1 },
        { "kind": "linear", "out_features": 4 },
        { "kind": "low_rank", "out_features": 3, "rank": 2, "bias": false }, { "kind": "layer_norm" },
        { "kind": "flatten" }, { "kind": "linear", "out_features": 2 },
    ]);
    let tokens = json!([
        { "kind": "embedding", "tokens": TOKENS, "size": 4 },
        { "kind": "lstm", "hidden_size": 6, "return_sequences": true }, { "kind": "linear", "out_features": 5 },
        { "kind": "gru", "hidden_size": 5, "return_sequences": true }, { "kind": "lstm", "hidden_size": 3 },
    ]);
    let sequence = json!([{ "kind": "gru", "hidden_size": 5 }, { "kind": "linear", "out_features": 2 }]);
    vec![
        ("dense", json!({ "input": [8], "layers": dense })),
        ("image", json!({ "input": [2, 9, 8], "layers": image })),
        ("tokens", json!({ "input": [7], "layers": tokens })),
        ("sequence", json!({ "input": [6, 3], "layers": sequence })),
    ]
}

/// A model with random values, whose running variances are positive.
fn model(network: &LayeredModel) -> Model {
    let parameters = ModelSpec::Layers(network.clone()).parameters().unwrap();
    let mut stream = Seed(5).stream();
    let mut values = Vec::new();
    for (index, spec) in parameters.specs().iter().enumerate() {
        let least = if spec.name.ends_with("running_var") { 0.5 } else { -0.5 };
        values.extend(parameters.range(index).map(|_| stream.uniform(least, least + 1.0)));
    }
    Model::new(Arc::new(parameters), values).unwrap()
}

/// Writes the network, and the task of the script: raw inputs, and our outputs for prepared ones.
fn write(folder: &TempDir, name: &str, network: &LayeredModel) {
    let model = model(network);
    let mut stream = Seed(6).stream();
    let is_tokens = matches!(network.layers[0], Layer::Embedding { .. });
    let each: usize = network.input.iter().product();
    let mut draw = |least, most| (0..each).map(|_| stream.uniform(least, most)).collect::<Vec<f32>>();
    let prologue = (!is_tokens).then(|| Prologue { mean: draw(-3.0, 3.0), deviation: draw(0.5, 2.0) });
    let mut stream = Seed(7).stream();
    let count = EXAMPLES * each;
    let raw: Vec<f32> = match is_tokens {
        true => (0..count).map(|_| stream.below(TOKENS) as f32).collect(),
        false => (0..count).map(|_| stream.uniform(-4.0, 4.0)).collect(),
    };
    let predictor = Predictor::new(network, &model).unwrap();
    let mut outputs = vec![0.0; EXAMPLES * predictor.output_shape().iter().product::<usize>()];
    let size = outputs.len() / EXAMPLES;
    for (raw, outputs) in raw.chunks(each).zip(outputs.chunks_mut(size)) {
        let mut inputs = raw.to_vec();
        if let Some(Prologue { mean, deviation }) = &prologue {
            let numbers = mean.iter().zip(deviation);
            inputs.iter_mut().zip(numbers).for_each(|(x, (mean, deviation))| *x = (*x - mean) / deviation);
        }
        predictor.predict(&inputs, outputs).unwrap();
    }
    let file = onnx::write(network, &model, &OnnxSettings { prologue, ..OnnxSettings::default() }).unwrap();
    std::fs::write(folder.path().join(format!("{name}.onnx")), file).unwrap();
    let inputs: Vec<&[f32]> = raw.chunks(each).collect();
    let task = json!({ "inputs": inputs, "outputs": outputs, "tokens": is_tokens });
    std::fs::write(folder.path().join(format!("{name}.json")), task.to_string()).unwrap();
}

#[test]
fn onnx_runtime_computes_what_we_predict_for_every_kind_of_layer() {
    let Some(python) = python("onnxruntime") else { return };
    let folder = TempDir::new().unwrap();
    let mut kinds = BTreeSet::new();
    for (name, value) in networks() {
        let ModelSpec::Layers(network) = serde_json::from_value(value).unwrap() else { panic!("layers") };
        kinds.extend(network.layers.iter().map(Layer::kind));
        write(&folder, name, &network);
    }
    assert_eq!(kinds.len(), 16, "{kinds:?}");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/onnx_outputs.py");
    let output = Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found.as_object().unwrap().len(), networks().len());
    for (name, difference) in found.as_object().unwrap() {
        assert!(difference.as_f64().unwrap() < TOLERANCE, "{name}: {difference}");
    }
}
