//! Clients that send the wrong sign: robust rules learn the digits nevertheless, the mean does not.

use std::sync::Arc;

use serde_json::{Value, json};
use tributary_client::examples::{Examples, MemoryExamples};
use tributary_client::{EvaluateTask, LayerTrainer, TrainTask, Trainer};
use tributary_protocol::device::Assignment;
use tributary_protocol::model::Model;
use tributary_protocol::plan::Loss;
use tributary_protocol::seed::Seed;

use crate::support::{Device, World};

const CLIENTS: usize = 10;
/// A fifth of the clients.
const ATTACKERS: usize = 2;
const ROUNDS: u32 = 6;

/// The digits of each client, and those that nobody trains on.
fn digits() -> (Vec<MemoryExamples>, MemoryExamples) {
    let all = crate::support::digits();
    let mut order: Vec<usize> = (0..all.len()).collect();
    Seed(11).stream().shuffle(&mut order);
    let (test, train) = order.split_at(all.len() / 5);
    let clients = train.chunks(train.len() / CLIENTS).take(CLIENTS).map(|part| all.subset(part).unwrap()).collect();
    (clients, all.subset(test).unwrap())
}

fn model(assignment: &Assignment, values: Vec<f32>) -> Model {
    Model::new(Arc::new(assignment.plan.model.parameters().unwrap()), values).unwrap()
}

/// What a client learnt.
fn learnt(assignment: &Assignment, start: &[f32], examples: &MemoryExamples) -> Vec<f32> {
    let (model, plan) = (model(assignment, start.to_vec()), &assignment.plan);
    let task = TrainTask::new(&model, &plan.model.spec, &plan.training, assignment.seed);
    let trained = LayerTrainer::new(Arc::new(examples.clone())).train(&task, &|| false).unwrap();
    trained.values.iter().zip(start).map(|(after, before)| after - before).collect()
}

/// The accuracy after six rounds in which this many clients send minus ten times what they learnt.
async fn accuracy(combine: &Value, attackers: usize) -> f64 {
    let (clients, test) = digits();
    let world = World::start().await;
    let mut file = crate::support::job_file(&json!({
        "update": { "magnitude_max": 32.0 },
        "training": { "epochs": 2, "batch_size": 10, "optimizer": { "learning_rate": 0.2 } },
        "round": { "updates_goal": CLIENTS, "updates_min": CLIENTS },
        "aggregation": { "combine": combine },
    }));
    file["model"] = json!({ "input": [64], "layers": [{ "kind": "linear", "out_features": 10 }] });
    let job: tributary_protocol::operator::Job = world.create_job(&file).await.ok();
    let devices: [Device; CLIENTS] = world.devices().await;
    let mut last = None;
    for version in 0..ROUNDS {
        let assignments = world.assign(devices.each_ref()).await;
        let start = world.weights(job.head.id, version).await;
        for (place, (device, assignment)) in devices.iter().zip(&assignments).enumerate() {
            let mut delta = learnt(assignment, &start, &clients[place]);
            if place < attackers {
                delta.iter_mut().for_each(|value| *value *= -10.0);
            }
            device.contribute(assignment, &delta, clients[place].len() as u32).await;
        }
        world.drive().await;
        last = assignments.into_iter().next();
    }
    let assignment = last.unwrap();
    let model = model(&assignment, world.weights(job.head.id, ROUNDS).await);
    let task = EvaluateTask::new(&model, &assignment.plan.model.spec, Loss::CrossEntropy);
    LayerTrainer::new(Arc::new(test)).evaluate(&task, &|| false).unwrap().accuracy.unwrap()
}

/// Goal: with a fifth of the clients sending minus ten times their delta, the robust rules stay within 3 points of the
/// run without attackers, and the mean does not. Method: six rounds of ten clients on the digits, with one seed.
#[tokio::test]
async fn a_fifth_of_sign_flippers_ruins_the_mean_and_no_robust_rule() {
    let clean = accuracy(&json!("weighted_mean"), 0).await;
    assert!(clean > 0.85, "{clean}");
    let ruined = accuracy(&json!("weighted_mean"), ATTACKERS).await;
    assert!(ruined < clean - 0.3, "{ruined} beside {clean}");
    for combine in [
        json!("median"),
        json!({ "kind": "trimmed_mean", "trim": 0.2 }),
        json!({ "kind": "krum", "byzantine": ATTACKERS }),
        json!({ "kind": "multi_krum", "byzantine": ATTACKERS }),
        json!("geometric_median"),
        json!({ "kind": "centered_clipping", "radius": 1.0 }),
    ] {
        let robust = accuracy(&combine, ATTACKERS).await;
        assert!(robust > clean - 0.03, "{combine}: {robust} beside {clean}");
    }
}
