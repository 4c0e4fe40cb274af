//! What rounding on the way down costs: nothing that shows.

use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::examples::{MemoryExamples, Targets};
use tributary_client::{Client, LayerTrainer};
use tributary_protocol::operator::Job;
use tributary_protocol::seed::Seed;

use crate::sdk::session;
use crate::support::{World, evaluated_job, http};

/// Inputs of one example.
const INPUTS: usize = 8;
const ROUNDS: u32 = 8;

/// Examples of two classes that a curve tells apart.
fn examples(seed: u64, count: usize) -> Arc<MemoryExamples> {
    let mut stream = Seed(seed).stream();
    let inputs: Vec<f32> = (0..count * INPUTS).map(|_| stream.uniform(-1.0, 1.0)).collect();
    let labels = inputs.chunks(INPUTS).map(|x| u32::from(x[0] + x[1] * x[2] - 0.5 * x[3] > 0.0)).collect();
    Arc::new(MemoryExamples::new(vec![INPUTS], inputs, Targets::Classes(labels)).unwrap())
}

/// Loss and accuracy after the last round.
async fn train(download: Value) -> (f64, f64) {
    let world = World::start().await;
    let mut file = evaluated_job(&json!({
        "training": { "epochs": 3, "batch_size": 10, "optimizer": { "learning_rate": 0.2 } },
        "download": download,
    }));
    let layers = json!([
        { "kind": "linear", "out_features": 16 }, { "kind": "relu" }, { "kind": "linear", "out_features": 2 },
    ]);
    file["model"] = json!({ "input": [INPUTS], "layers": layers });
    let job: Job = world.create_job(&file).await.ok();
    let (one, two) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let trains = Client::builder(world.server(), world.enrolment.clone()).state_dir(one.path());
    let trains = trains.http_client(http()).build().unwrap();
    let measures = Client::builder(world.server(), world.enrolment.clone()).state_dir(two.path());
    let measures = measures.attribute("evaluator", "yes").http_client(http()).build().unwrap();
    let (mut trainer, mut evaluator) = (LayerTrainer::new(examples(1, 300)), LayerTrainer::new(examples(2, 1_000)));
    for _ in 0..ROUNDS {
        session(&world, &trains, &mut trainer).await.unwrap();
        session(&world, &measures, &mut evaluator).await.unwrap();
    }
    let round = world.round(job.head.id, ROUNDS).await;
    (round.loss.unwrap(), round.accuracy.unwrap())
}

#[tokio::test]
async fn rounding_on_the_way_down_costs_no_accuracy() {
    let (loss, accuracy) = train(json!({})).await;
    assert!(accuracy > 0.9, "{accuracy}");
    for download in [json!({ "delta": true }), json!({ "codec": "f16" }), json!({ "codec": "int8" })] {
        let (rounded_loss, rounded) = train(download.clone()).await;
        let close = (rounded - accuracy).abs() <= 0.01 && (rounded_loss - loss).abs() <= 0.02;
        assert!(close, "{download}: accuracy {rounded} and {accuracy}, loss {rounded_loss} and {loss}");
    }
}
