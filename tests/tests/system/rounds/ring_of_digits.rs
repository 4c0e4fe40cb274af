//! Eight members that train on the digits and add up among themselves: every version has the bits of the star.

use std::sync::Arc;

use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::examples::Examples;
use tributary_client::{AlwaysOn, Client, LayerTrainer, Outcome};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::Job;
use tributary_protocol::state::{JobState, Phase};

use super::ring_links::NOWHERE;
use crate::support::{World, digits, http, job_file, within_reason};

const MEMBERS: usize = 8;
const ROUNDS: u32 = 2;

/// Every eighth digit.
fn trainer(place: usize) -> LayerTrainer {
    let all = digits();
    // One more example for each next member, so that no two weigh alike.
    let own: Vec<usize> = (place..all.len()).step_by(MEMBERS).take(200 + place).collect();
    LayerTrainer::new(Arc::new(all.subset(&own).unwrap()))
}

/// Takes part until it has contributed to as many rounds.
async fn contribute(client: &Client, trainer: &mut LayerTrainer, rounds: u32) {
    let mut contributed = 0;
    while contributed < rounds {
        let outcome = client.run_once(trainer, &AlwaysOn).await.unwrap();
        contributed += u32::from(matches!(outcome, Outcome::Contributed { .. }));
    }
}

async fn ended(world: &World, job: JobId) {
    let mut changes = world.app().signals.watch();
    while world.job_now(job).await.head.state != JobState::Completed {
        changes.changed().await.unwrap();
    }
}

/// Who adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cast {
    Star {
        members: usize,
    },
    Ring,
    /// The last member is lost in the first group that has formed.
    RingThatLosesOne,
}

/// Waits until a group of the first round has formed.
async fn formed(world: &World, job: JobId) {
    let mut changes = world.app().signals.watch();
    loop {
        let rounds: Value = world.look(&format!("/jobs/{job}/rounds")).await.value();
        if !rounds["items"].as_array().unwrap().is_empty() {
            let detail: Value = world.look(&format!("/jobs/{job}/rounds/1")).await.value();
            if detail["ring"]["attempts"].as_array().is_some_and(|attempts| !attempts.is_empty()) {
                return;
            }
        }
        changes.changed().await.unwrap();
    }
}

/// The hashes of all versions.
async fn versions(changes: &Value, cast: Cast) -> Vec<Sha256Hash> {
    let (is_ring, count) = match cast {
        Cast::Star { members } => (false, members),
        Cast::Ring | Cast::RingThatLosesOne => (true, MEMBERS),
    };
    let world = World::start_driven().await;
    let mut file = job_file(&json!({
        "training": { "epochs": 1, "batch_size": 32, "optimizer": { "kind": "sgd", "learning_rate": 0.1 } },
        "round": { "updates_goal": count, "updates_min": 2, "deadline_ms": 600_000 },
        "stop": { "rounds": ROUNDS },
    }));
    let layers = json!([
        { "kind": "linear", "out_features": 16 }, { "kind": "relu" }, { "kind": "linear", "out_features": 10 },
    ]);
    file["model"] = json!({ "input": [64], "layers": layers });
    if is_ring {
        file["group"] = json!({ "topology": { "kind": "ring" }, "frame_ms": 2_000 });
    }
    for (key, value) in changes.as_object().unwrap() {
        file[key] = value.clone();
    }
    let directories: Vec<TempDir> = (0..count).map(|_| TempDir::new().unwrap()).collect();
    let mut members = Vec::new();
    for (place, directory) in directories.iter().enumerate() {
        let mut builder = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory.path());
        if is_ring {
            // Nobody can connect to the one that is lost, so that the group waits for it.
            let is_lost = cast == Cast::RingThatLosesOne && place + 1 == count;
            builder = builder.listen("127.0.0.1:0", is_lost.then(|| NOWHERE.to_owned()));
        }
        let client = builder.http_client(http()).build().unwrap();
        // One after the other, so that each has the same number in both worlds.
        client.enrol().await.unwrap();
        members.push((client, trainer(place)));
    }
    let job = world.create_job(&file).await.ok::<Job>().head.id;
    let rounds = file["stop"]["rounds"].as_u64().unwrap() as u32;
    let lost = (cast == Cast::RingThatLosesOne).then(|| members.pop().unwrap());
    let plays = join_all(members.iter_mut().map(|(client, trainer)| contribute(client, trainer, rounds)));
    let dies = async {
        if let Some((client, mut trainer)) = lost {
            tokio::select! {
                () = contribute(&client, &mut trainer, rounds) => panic!("it is lost before"),
                () = formed(&world, job) => {}
            }
        }
    };
    within_reason(join(plays, dies)).await;
    let mut hashes = Vec::new();
    within_reason(ended(&world, job)).await;
    for number in 1..=rounds {
        let round = world.round(job, number).await;
        let reported = count - usize::from(cast == Cast::RingThatLosesOne);
        assert_eq!((round.phase, round.reported), (Phase::Committed, reported as u32), "{round:?}");
        hashes.push(Sha256Hash::of(&world.model_file(job, number).await));
    }
    hashes
}

async fn ring_equals_star(changes: Value) {
    let expected = versions(&changes, Cast::Star { members: MEMBERS }).await;
    assert_eq!(versions(&changes, Cast::Ring).await, expected, "{changes}");
}

#[tokio::test]
async fn a_ring_that_loses_a_member_makes_the_model_of_the_star_without_it() {
    for codec in ["f32", "int8"] {
        let changes = json!({ "update": { "codec": codec }, "stop": { "rounds": 1 } });
        let expected = versions(&changes, Cast::Star { members: MEMBERS - 1 }).await;
        assert_eq!(versions(&changes, Cast::RingThatLosesOne).await, expected, "{codec}");
    }
}

#[tokio::test]
async fn a_ring_that_trains_on_digits_makes_the_model_of_the_star() {
    ring_equals_star(json!({})).await;
    ring_equals_star(json!({ "update": { "codec": "int8" }, "aggregation": { "combine": "uniform_mean" } })).await;
}

#[tokio::test]
async fn codecs_that_drop_values_keep_the_bits_of_the_star() {
    ring_equals_star(json!({ "update": { "codec": "ternary" } })).await;
    ring_equals_star(json!({ "update": { "codec": { "name": "top_k", "density": 0.1 } } })).await;
}

#[tokio::test]
async fn scaffold_and_adam_keep_the_bits_of_the_star() {
    let scaffold = json!({
        "epochs": 1, "batch_size": 32, "optimizer": { "kind": "sgd", "learning_rate": 0.1 },
        "algorithm": { "kind": "scaffold", "clients": MEMBERS },
    });
    ring_equals_star(json!({ "training": scaffold, "aggregation": { "combine": "uniform_mean" } })).await;
    let adam = json!({ "optimizer": { "kind": "adam", "learning_rate": 0.01 } });
    ring_equals_star(json!({ "aggregation": adam })).await;
}
