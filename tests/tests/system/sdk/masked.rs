//! Masked jobs with the SDK, which does all of the exchange by itself.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::examples::{MemoryExamples, Targets};
use tributary_client::{AlwaysOn, Builder, Client, FileStore, LayerTrainer, Outcome, StoredKey};
use tributary_protocol::operator::Job;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{AssignmentState, Phase};

use crate::support::{Adds, Authority, World, draw_everybody, http, job_file};

const CLIENTS: usize = 5;
const INPUTS: usize = 4;

fn trainer(client: usize) -> LayerTrainer {
    let mut stream = Seed(5).derive("client", client as u64).stream();
    let inputs: Vec<f32> = (0..40 * INPUTS).map(|_| stream.uniform(-1.0, 1.0)).collect();
    let labels = inputs.chunks(INPUTS).map(|example| u32::from(example[0] > 0.0)).collect();
    LayerTrainer::new(Arc::new(MemoryExamples::new(vec![INPUTS], inputs, Targets::Classes(labels)).unwrap()))
}

/// Plays two rounds of a job with this secure aggregation, with clients whose builders are changed so.
async fn play(secure: Value, change: impl Fn(Builder, &Path) -> Builder) {
    let world = World::start().await;
    let mut file = job_file(&json!({
        "training": { "epochs": 2 },
        "round": { "updates_goal": CLIENTS, "updates_min": 3 },
        "aggregation": { "combine": "uniform_mean" },
        "secure_aggregation": secure,
    }));
    file["model"] = json!({ "input": [INPUTS], "layers": [{ "kind": "linear", "out_features": 2 }] });
    file.as_object_mut().unwrap().remove("update");
    let job: Job = world.create_job(&file).await.ok();
    let directories: Vec<_> = (0..CLIENTS).map(|_| TempDir::new().unwrap()).collect();
    let mut clients = Vec::new();
    for (number, directory) in directories.iter().enumerate() {
        let client = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory.path());
        let client = client.http_client(http()).wait(Duration::ZERO);
        let client = change(client, directory.path()).build().unwrap();
        client.run_once(&mut trainer(number), &AlwaysOn).await.unwrap();
        clients.push(client);
    }
    for round in 1..=2 {
        draw_everybody(&world).await;
        let sessions = clients
            .iter()
            .enumerate()
            .map(async |(number, client)| client.run_once(&mut trainer(number), &AlwaysOn).await.unwrap());
        let outcomes = world.driven(join_all(sessions)).await;
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Contributed { .. })), "{outcomes:?}");
        world.drive().await;
        let done = world.round(job.head.id, round).await;
        assert_eq!((done.phase, done.reported), (Phase::Committed, CLIENTS as u32));
        assert!(done.training_loss.is_some_and(|loss| loss > 0.0 && loss < 2.0), "{done:?}");
    }
    for directory in &directories {
        assert!(!directory.path().join("member.json").exists(), "the keys of a group end with it");
    }
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn sdk_clients_train_a_masked_job() {
    play(json!({ "levels": 64 }), |builder, _| builder).await;
}

/// Goal: an operator cannot invent members, because the app trusts an authority of its own.
#[tokio::test]
async fn sdk_clients_sign_with_certificates_of_their_apps_authority() {
    let authority = Authority::new();
    play(json!({ "levels": 64, "peers_ca": authority.pem() }), |builder, directory| {
        let keys = StoredKey::new(Arc::new(FileStore::new(directory)));
        builder.peers_ca(authority.pem()).peers_certificate(authority.certificate(&keys))
    })
    .await;
}

/// Goal: what an installed app demands counts, whatever the operator configures.
#[tokio::test]
async fn a_client_that_demands_signatures_takes_part_in_no_group_without() {
    let (world, authority) = (World::start().await, Authority::new());
    let mut file = job_file(&json!({
        "round": { "updates_goal": 3, "updates_min": 3 },
        "aggregation": { "combine": "uniform_mean" },
        "secure_aggregation": {},
    }));
    file.as_object_mut().unwrap().remove("update");
    let job: Job = world.create_job(&file).await.ok();
    let directories: Vec<_> = (0..3).map(|_| TempDir::new().unwrap()).collect();
    for directory in &directories {
        let client = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory.path());
        let client = client.http_client(http()).wait(Duration::ZERO).peers_ca(authority.pem()).build().unwrap();
        client.run_once(&mut Adds::new(0.5), &AlwaysOn).await.unwrap();
    }
    draw_everybody(&world).await;
    let client = Client::builder(world.server(), world.enrolment.clone()).state_dir(directories[0].path());
    let client = client.http_client(http()).wait(Duration::ZERO).peers_ca(authority.pem()).build().unwrap();
    let refused = client.run_once(&mut Adds::new(0.5), &AlwaysOn).await.unwrap_err();
    assert!(refused.to_string().contains("the members of its groups do not sign"), "{refused}");
    let assignments = world.assignments(job.head.id, 1).await;
    let failed: Vec<_> = assignments.iter().filter(|row| row.state == AssignmentState::Failed).collect();
    assert!(failed.len() == 1 && failed[0].reason.as_ref().unwrap().contains("privacy"), "{failed:?}");
}
