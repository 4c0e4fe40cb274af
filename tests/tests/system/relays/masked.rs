//! Masked jobs with relays: the clients of a relay form groups there, and the relay sends what their sums come to.

use futures_util::future::join_all;
use serde_json::json;
use tempfile::TempDir;
use tributary_client::{AlwaysOn, Client, Outcome};
use tributary_protocol::operator::{Job, Page, RoundDetail};
use tributary_protocol::state::{GroupStage, Phase};

use super::tree::{ended, relays};
use crate::support::{Adds, World, http, job_file, within_reason};

/// Clients of each coordinator.
const CLIENTS: usize = 4;
const ROUNDS: u32 = 2;

/// Plays a client that adds this to each weight, until it has contributed to all rounds.
async fn play(world: &World, step: f32) {
    let directory = TempDir::new().unwrap();
    let client = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory.path());
    let client = client.http_client(http()).build().unwrap();
    let mut rounds = 0;
    while rounds < ROUNDS {
        let outcome = client.run_once(&mut Adds::new(step), &AlwaysOn).await.unwrap();
        rounds += u32::from(matches!(outcome, Outcome::Contributed { .. }));
    }
}

/// Goal: the model is the mean of the clients behind all these coordinators, and each sum is that of a group.
async fn groups_form_where_clients_are(root: &World, leaves: &[&World]) {
    let clients = CLIENTS * leaves.len();
    let mut file = job_file(&json!({
        "round": { "updates_goal": clients, "updates_min": clients, "deadline_ms": 600_000 },
        "aggregation": { "combine": "uniform_mean" },
        "secure_aggregation": { "clip": 2.0, "levels": 4_096 },
        "stop": { "rounds": ROUNDS },
    }));
    file.as_object_mut().unwrap().remove("update");
    let job: Job = root.create_job(&file).await.ok();
    let step = |client: usize| 0.05 * (client + 1) as f32;
    let sessions = (0..clients).map(|client| play(leaves[client / CLIENTS], step(client)));
    within_reason(join_all(sessions)).await;
    within_reason(ended(root, job.head.id)).await;
    let mean = (0..clients).map(step).sum::<f32>() / clients as f32;
    for version in 1..=ROUNDS {
        let (before, after) = (root.weights(job.head.id, version - 1).await, root.weights(job.head.id, version).await);
        assert!(before.iter().zip(&after).all(|(before, after)| (after - before - mean).abs() < 1e-3), "{after:?}");
        let round = root.round(job.head.id, version).await;
        assert_eq!((round.phase, round.reported), (Phase::Committed, clients as u32), "{round:?}");
    }
    for world in leaves {
        let played: Page<Job> = world.look("/jobs").await.ok();
        let path = format!("/jobs/{}/rounds/1", played.items[0].head.id);
        let RoundDetail { groups, .. } = world.look(&path).await.ok();
        assert!(!groups.is_empty() && groups.iter().all(|group| group.stage == GroupStage::Summed), "{groups:?}");
    }
}

#[tokio::test]
async fn the_clients_of_relays_form_groups_there() {
    let root = World::start_driven().await;
    let [one, two] = relays::<2>(&root).await;
    groups_form_where_clients_are(&root, &[&one, &two]).await;
}

/// Those that wait for a group at the root do not wait for the relay.
#[tokio::test]
async fn clients_of_the_parent_form_groups_beside_a_relay() {
    let root = World::start_driven().await;
    let [relay] = relays::<1>(&root).await;
    groups_form_where_clients_are(&root, &[&root, &relay]).await;
}
