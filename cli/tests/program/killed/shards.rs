//! Three coordinators that share the sum of a model: the one that drives the job, or one that only adds up, is killed
//! again and again.
//!
//! Goal: the model after ten rounds is that of one coordinator that adds up everything and is not disturbed, and no
//! client trains twice for one round. Method: clients reach each coordinator through its own proxy, whose address the
//! coordinator tells. A victim dies at a seeded piece of its traffic, and is started again.

use std::sync::Arc;

use serde_json::{Value, json};
use tributary_protocol::seed::Seed;

use super::fleet::{Fleet, Learns};
use super::{CLIENTS, Played, ROUNDS, assert_no_client_trained_twice, cohorts, play_job};
use crate::support;
use crate::support::host::Host;
use crate::support::operator::Operator;
use crate::support::postgres;
use crate::support::process::{Node, Setup};
use crate::support::proxy::Proxy;

const NODES: usize = 3;
/// Four sections of a codec: three shards, whose borders are within the tensor.
const PARAMETERS: u32 = 1_048_579;
/// Kills in a run.
const KILLS: u32 = 3;
/// Most pieces of traffic before a kill: about those of a round.
const GAP_MAX: u64 = 400;

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    Driver,
    /// A coordinator that adds up a shard, and does not drive.
    Owner,
}

fn sections(shards: Option<usize>) -> Value {
    let mut aggregation = json!({ "optimizer": { "kind": "adam", "learning_rate": 0.01 } });
    if let Some(shards) = shards {
        aggregation["shards"] = json!(shards);
    }
    json!({
        "model": { "parameters": [{ "name": "w", "shape": [PARAMETERS] }] },
        "update": { "codec": "int8" }, "round": cohorts(), "aggregation": aggregation,
    })
}

/// A coordinator that may be killed, and the way to it.
async fn nodes(database: &str) -> Vec<(Arc<Host>, Proxy)> {
    let mut nodes = Vec::new();
    for number in 0..NODES {
        let host = Host::new();
        let proxy = Proxy::between(&host, &host).await;
        let node = Node { name: number.to_string(), url: Some(proxy.url()) };
        host.start(Setup { node, ..Setup::new(database) }).await;
        nodes.push((host, proxy));
    }
    nodes
}

/// Plays the job with shards to its end on an empty database.
async fn play_sharded(database: &str, victim: Victim, seed: Seed) -> Played {
    let nodes = nodes(database).await;
    let urls: Vec<_> = nodes.iter().map(|(_, proxy)| proxy.url()).collect();
    let operator = Operator::new(urls[0].clone(), &Setup::new(database).token);
    operator.meets(&urls).await;
    let enrolment = operator.population().await;
    let fleet = Fleet::enrol_at(&urls, &enrolment, CLIENTS, Learns::Drawn).await;
    let job = operator.create_job(ROUNDS, &sections(Some(NODES)), None).await;
    let kills = async {
        let mut stream = seed.stream();
        for _ in 0..KILLS {
            let driver = loop {
                if let Some(driver) = operator.driver(&job).await {
                    break driver.parse::<usize>().unwrap();
                }
            };
            let place = match victim {
                Victim::Driver => driver,
                Victim::Owner => (driver + 1 + stream.below(NODES as u64 - 1) as usize) % NODES,
            };
            nodes[place].0.kill_within(GAP_MAX, Seed(stream.next_u64())).await;
        }
    };
    let ended = async {
        tokio::join!(kills, operator.completed(&job));
    };
    let (trained, acknowledged) = fleet.run_until(ended).await;
    let killed: u32 = nodes.iter().map(|(host, _)| host.kills()).sum();
    assert_eq!(killed, KILLS);
    let model = operator.model(&job, ROUNDS).await;
    for (_, proxy) in &nodes {
        proxy.stop().await;
    }
    Played { model, trained, acknowledged }
}

async fn outlive(victim: Victim) {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.db").display().to_string();
    let whole = play_job(&whole, (0, Seed(0)), &sections(None), None).await;
    assert_no_client_trained_twice(&whole);
    for seed in 1..=support::runs(KILLS, 2) {
        let Some(database) = postgres::postgres().await else { return };
        let played = play_sharded(&database.url, victim, Seed(seed)).await;
        assert_no_client_trained_twice(&played);
        assert_eq!(played.model, whole.model, "{victim:?}, seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_outlive_a_driver_that_is_killed_again_and_again() {
    outlive(Victim::Driver).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_outlive_an_owner_that_is_killed_again_and_again() {
    outlive(Victim::Owner).await;
}
