//! Algorithms against client drift: control variates are handed down, and their changes are added up with the updates.

use futures_util::future::join_all;
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::{AlwaysOn, Client, LayerTrainer, Outcome};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::operator::Job;

use super::tree::{ended, relays};
use crate::rounds::lockstep::{examples, model};
use crate::support::{World, http, job_file, within_reason};

const CLIENTS: usize = 6;
const ROUNDS: u32 = 3;

/// Steps with all examples of a client, so that no seed matters.
fn job(algorithm: &Value) -> Value {
    let mut file = job_file(&json!({
        "training": {
            "epochs": null, "steps": 3, "batch_size": 64, "optimizer": { "kind": "sgd", "learning_rate": 0.2 },
            "algorithm": algorithm,
        },
        "aggregation": { "combine": "uniform_mean" },
        "round": { "updates_goal": CLIENTS, "updates_min": CLIENTS, "deadline_ms": 600_000 },
        "stop": { "rounds": ROUNDS },
    }));
    file["model"] = model();
    file
}

async fn contribute(place: usize, leaf: &World) {
    let directory = TempDir::new().unwrap();
    let builder = Client::builder(leaf.server(), leaf.enrolment.clone()).state_dir(directory.path());
    let client = builder.http_client(http()).build().unwrap();
    let (mut trainer, mut contributed) = (LayerTrainer::new(examples(place)), 0);
    while contributed < ROUNDS {
        let outcome = client.run_once(&mut trainer, &AlwaysOn).await.unwrap();
        contributed += u32::from(matches!(outcome, Outcome::Contributed { .. }));
    }
}

/// The hashes of all versions.
async fn versions(root: &World, leaves: &[&World], algorithm: &Value) -> Vec<Sha256Hash> {
    let job = root.create_job(&job(algorithm)).await.ok::<Job>().head.id;
    let each = CLIENTS / leaves.len();
    within_reason(join_all((0..CLIENTS).map(|place| contribute(place, leaves[place / each])))).await;
    within_reason(ended(root, job)).await;
    let mut hashes = Vec::new();
    for version in 0..=ROUNDS {
        hashes.push(Sha256Hash::of(&root.model_file(job, version).await));
    }
    hashes
}

/// Goal: the model of a tree is that of the flat rounds. From the second round on it depends on the control variate,
/// which clients get from their relay, and on the vectors that they keep. The relays of one tree have relays.
async fn tree_equals_flat(algorithm: Value) {
    let flat = World::start_driven().await;
    let expected = versions(&flat, &[&flat], &algorithm).await;
    let root = World::start_driven().await;
    let [one, two] = relays::<2>(&root).await;
    assert_eq!(versions(&root, &[&one, &two], &algorithm).await, expected, "{algorithm}");
    let root = World::start_driven().await;
    let [middle] = relays::<1>(&root).await;
    let [one, two, three] = relays::<3>(&middle).await;
    assert_eq!(versions(&root, &[&one, &two, &three], &algorithm).await, expected, "{algorithm}");
}

#[tokio::test]
async fn scaffold_below_relays_makes_the_model_of_the_flat_rounds() {
    tree_equals_flat(json!({ "kind": "scaffold", "clients": CLIENTS })).await;
}

#[tokio::test]
async fn fed_dyn_below_relays_makes_the_model_of_the_flat_rounds() {
    tree_equals_flat(json!({ "kind": "fed_dyn", "alpha": 0.1, "clients": CLIENTS })).await;
}
