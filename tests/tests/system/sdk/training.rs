//! Training of a network as data, end to end.

use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::examples::{MemoryExamples, Targets};
use tributary_client::trainer::BurnTrainer;
use tributary_client::{AlwaysOn, Client, Gpu, LayerTrainer, Outcome, Trainer};
use tributary_protocol::safetensors::model_from_bytes;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::Phase;

use crate::support::{World, draw_everybody, http, job_file, within_reason};

/// Inputs of one example.
const INPUTS: usize = 8;
/// Clients, each with examples of its own.
const CLIENTS: usize = 3;

/// A small network with dropout, for examples of two classes that a line tells apart.
fn job(name: &str) -> Value {
    let mut file = job_file(&json!({
        "name": name,
        "training": { "epochs": 2, "batch_size": 5, "optimizer": { "learning_rate": 0.2, "momentum": 0.5 } },
        // A driver compiles its first kernels for many seconds, by the clock on the wall.
        "round": { "updates_goal": CLIENTS, "updates_min": CLIENTS, "deadline_ms": 3_600_000 },
        "stop": { "rounds": 2 },
    }));
    let layers = json!([
        { "kind": "linear", "out_features": 6 }, { "kind": "relu" },
        { "kind": "dropout", "probability": 0.25 }, { "kind": "linear", "out_features": 2 },
    ]);
    file["model"] = json!({ "input": [INPUTS], "layers": layers });
    file
}

fn examples(client: usize) -> MemoryExamples {
    let mut stream = Seed(99).derive("client", client as u64).stream();
    let count = 20 + 7 * client;
    let inputs: Vec<f32> = (0..count * INPUTS).map(|_| stream.uniform(-1.0, 1.0)).collect();
    let labels = inputs.chunks(INPUTS).map(|example| u32::from(example[0] + example[1] > 0.0)).collect();
    MemoryExamples::new(vec![INPUTS], inputs, Targets::Classes(labels)).unwrap()
}

type MakeTrainer = dyn Fn(MemoryExamples) -> Box<dyn Trainer>;

fn on_the_processor(examples: MemoryExamples) -> Box<dyn Trainer> {
    Box::new(LayerTrainer::new(Arc::new(examples)))
}

/// Trains the job to its end; in each round the clients report in this order. Answers the last model's file.
async fn train(order: [usize; CLIENTS], trainer: &MakeTrainer) -> Vec<u8> {
    let world = World::start().await;
    let job: tributary_protocol::operator::Job = world.create_job(&job("line")).await.ok();
    let directories: Vec<_> = (0..CLIENTS).map(|_| TempDir::new().unwrap()).collect();
    let mut clients = Vec::new();
    for (number, directory) in directories.iter().enumerate() {
        let client = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory.path());
        let client = client.http_client(http()).wait(std::time::Duration::ZERO).build().unwrap();
        // Enrolled one after another: a client's number decides what it draws.
        client.run_once(&mut *trainer(examples(number)), &AlwaysOn).await.unwrap();
        clients.push(client);
    }
    for round in 1..=2 {
        draw_everybody(&world).await;
        for place in order {
            let mut trainer = trainer(examples(place));
            let outcome = within_reason(clients[place].run_once(&mut *trainer, &AlwaysOn)).await.unwrap();
            assert!(matches!(outcome, Outcome::Contributed { .. }), "{outcome:?}");
        }
        world.drive().await;
        assert_eq!(world.round(job.head.id, round).await.phase, Phase::Committed);
    }
    world.check_books(job.head.id).await;
    world.model_file(job.head.id, 2).await
}

#[tokio::test]
async fn the_same_seed_gives_the_same_bits_whatever_the_order_of_arrival() {
    let first = train([0, 1, 2], &on_the_processor).await;
    assert_eq!(train([0, 1, 2], &on_the_processor).await, first, "again");
    assert_eq!(train([2, 0, 1], &on_the_processor).await, first, "in another order");
}

/// Goal: clients with and without a GPU can share a job. Method: the same rounds of clients that train on a driver of
/// Vulkan for the processor; their model is within rounding of that of [`LayerTrainer`].
#[tokio::test]
async fn clients_on_a_gpu_end_at_the_model_of_the_processor() {
    let Some(gpu) = Gpu::software() else {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "there is no driver of Vulkan for the CPU");
        return;
    };
    let on_the_gpu =
        move |examples| -> Box<dyn Trainer> { Box::new(BurnTrainer::new(Arc::new(examples)).on_gpu(gpu.clone())) };
    let gpu = model_from_bytes(&train([0, 1, 2], &on_the_gpu).await).unwrap();
    let processor = model_from_bytes(&train([0, 1, 2], &on_the_processor).await).unwrap();
    let error = gpu.values().iter().zip(processor.values()).map(|(gpu, cpu)| (gpu - cpu).abs()).fold(0.0, f32::max);
    assert!(error < 1e-5, "{error} away");
}
