//! Exported models, read by the `safetensors` package of Python and computed in numpy: they must measure as the
//! evaluator measured them.

use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::examples::{MemoryExamples, Targets};
use tributary_client::{AlwaysOn, Client, LayerTrainer};
use tributary_protocol::operator::Job;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{JobState, Phase};

use crate::support::{World, evaluated_job, http, python, within_reason};

/// Classes that the networks tell apart.
const CLASSES: usize = 3;

/// Examples of one client.
struct Data {
    shape: Vec<usize>,
    inputs: Vec<f32>,
    labels: Vec<u32>,
}

impl Data {
    /// `count` examples; the class is where the largest of three sums is, so that there is something to learn.
    fn draw(shape: &[usize], count: usize, seed: u64) -> Self {
        let each: usize = shape.iter().product();
        let mut stream = Seed(seed).stream();
        let inputs: Vec<f32> = (0..count * each).map(|_| stream.uniform(-1.0, 1.0)).collect();
        let class = |example: &[f32]| {
            let sums = [0, 1, 2].map(|class| example.iter().skip(class).step_by(CLASSES).sum::<f32>());
            (0..CLASSES as u32).max_by(|a, b| sums[*a as usize].total_cmp(&sums[*b as usize])).expect("three classes")
        };
        let labels = inputs.chunks(each).map(class).collect();
        Self { shape: shape.to_vec(), inputs, labels }
    }

    fn trainer(&self) -> LayerTrainer {
        let labels = Targets::Classes(self.labels.clone());
        LayerTrainer::new(Arc::new(MemoryExamples::new(self.shape.clone(), self.inputs.clone(), labels).unwrap()))
    }
}

/// One session of a client that has these examples.
async fn session(world: &World, attribute: Option<&str>, data: &Data) {
    let directory = TempDir::new().unwrap();
    let client = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory.path());
    let client = attribute.into_iter().fold(client, |client, name| client.attribute(name, "yes"));
    let client = client.http_client(http()).build().unwrap();
    let mut trainer = data.trainer();
    let helped = async {
        world.until_waiting(1).await;
        world.drive().await;
    };
    within_reason(async { tokio::join!(client.run_once(&mut trainer, &AlwaysOn), helped).0 }).await.unwrap();
    world.drive().await;
}

/// Trains one round, evaluates, exports; answers what Python finds when it agrees with the evaluator.
async fn compare(shape: &[usize], layers: Value) -> Option<Value> {
    let python = python("numpy, safetensors")?;
    let world = World::start().await;
    let training = json!({ "epochs": 3, "batch_size": 10, "optimizer": { "kind": "sgd", "learning_rate": 0.1 } });
    let mut file = evaluated_job(&json!({ "training": training, "stop": { "rounds": 1 } }));
    file["model"] = json!({ "input": shape, "layers": layers });
    let job: Job = world.create_job(&file).await.ok();
    let test = Data::draw(shape, 97, 2);
    session(&world, None, &Data::draw(shape, 120, 1)).await;
    session(&world, Some("evaluator"), &test).await;
    assert_eq!(world.job_now(job.head.id).await.head.state, JobState::Completed);
    let round = world.round(job.head.id, 1).await;
    assert_eq!(round.phase, Phase::Committed);

    let directory = TempDir::new().unwrap();
    let (model, task) = (directory.path().join("model.safetensors"), directory.path().join("task.json"));
    std::fs::write(&model, world.model_file(job.head.id, 1).await).unwrap();
    let question = json!({ "layers": layers, "shape": shape, "inputs": test.inputs, "labels": test.labels });
    std::fs::write(&task, question.to_string()).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/forward.py");
    let output = Command::new(python).arg(script).arg(model).arg(task).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["accuracy"].as_f64(), round.accuracy);
    let (theirs, ours) = (found["loss"].as_f64().unwrap(), round.loss.unwrap());
    assert!((theirs - ours).abs() < 1e-5, "the loss is {theirs} in Python and {ours} here");
    Some(found["shapes"].clone())
}

#[tokio::test]
async fn a_multi_layer_perceptron_measures_the_same_in_python() {
    let layers = json!([
        { "kind": "linear", "out_features": 16 }, { "kind": "relu" }, { "kind": "linear", "out_features": CLASSES },
    ]);
    let Some(shapes) = compare(&[12], layers).await else { return };
    let expected = json!({
        "layers.0.weight": [16, 12], "layers.0.bias": [16], "layers.2.weight": [3, 16], "layers.2.bias": [3],
    });
    assert_eq!(shapes, expected, "the names and shapes of nn.Sequential");
}

#[tokio::test]
async fn a_convolutional_network_measures_the_same_in_python() {
    let layers = json!([
        { "kind": "conv2d", "out_channels": 4, "kernel_size": [3, 2], "padding": 1 }, { "kind": "relu" },
        { "kind": "max_pool2d", "kernel_size": 2 },
        { "kind": "conv2d", "out_channels": 5, "kernel_size": 2, "stride": [1, 2] }, { "kind": "tanh" },
        { "kind": "flatten" }, { "kind": "linear", "out_features": CLASSES },
    ]);
    let Some(shapes) = compare(&[2, 6, 7], layers).await else { return };
    assert_eq!(shapes["layers.0.weight"], json!([4, 2, 3, 2]));
    assert_eq!(shapes["layers.3.weight"], json!([5, 4, 2, 2]));
    assert_eq!(shapes.as_object().unwrap().len(), 6);
}

#[tokio::test]
async fn recurrent_networks_measure_the_same_in_python() {
    for (kind, gates) in [("lstm", 4), ("gru", 3)] {
        let layers = json!([
            { "kind": kind, "hidden_size": 6, "return_sequences": true }, { "kind": kind, "hidden_size": 5 },
            { "kind": "linear", "out_features": CLASSES },
        ]);
        let Some(shapes) = compare(&[5, 3], layers).await else { return };
        assert_eq!(shapes["layers.0.weight_ih_l0"], json!([gates * 6, 3]), "{kind}");
        assert_eq!(shapes["layers.1.weight_hh_l0"], json!([gates * 5, 5]), "{kind}");
        assert_eq!(shapes["layers.1.bias_hh_l0"], json!([gates * 5]), "{kind}");
    }
}

#[tokio::test]
async fn a_low_rank_layer_measures_the_same_in_python() {
    let layers = json!([
        { "kind": "low_rank", "out_features": 16, "rank": 3, "alpha": 4.5 }, { "kind": "relu" },
        { "kind": "linear", "out_features": CLASSES },
    ]);
    let Some(shapes) = compare(&[12], layers).await else { return };
    let of = |name: &str| shapes[format!("layers.0.{name}")].clone();
    let expected = [json!([16, 12]), json!([16]), json!([3, 12]), json!([16, 3])];
    assert_eq!(["weight", "bias", "lora_A", "lora_B"].map(of), expected, "the names and shapes of loralib");
}
