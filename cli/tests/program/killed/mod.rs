//! Nothing is lost when the coordinator is killed: real processes, SIGKILL at seeded moments.
//!
//! Goal: the model after ten rounds is bit-identical to that of an undisturbed run, and no client trains twice for one
//! round. Method: SDK clients reach the coordinator through a proxy that counts pieces of traffic. At counts drawn from
//! a seed it kills the coordinator's process while a request or an answer is in transit, and starts it again on the
//! same database.

mod buffered;
mod coded;
mod coded_tree;
pub(crate) mod fleet;
mod members;
mod private;
mod ring;
mod shards;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::seed::Seed;

use crate::support;
use crate::support::operator::Operator;
use crate::support::postgres;
use crate::support::process::Setup;
use crate::support::proxy::Proxy;
use fleet::{Fleet, Learns};

const ROUNDS: u32 = 10;
/// Every round selects all of them.
const CLIENTS: u32 = 4;
/// The rule without companions.
const AVERAGING: &str = "mean";
/// Kills in a disturbed run.
const KILLS: u32 = 10;

/// Disturbed runs of averaging: 20 kills under CI, else 10.
fn runs() -> u64 {
    support::runs(KILLS, 2)
}

/// Disturbed runs with companions: at most 20 kills. What they do apart from averaging is storing and reading
/// more files.
fn runs_of(name: &str) -> u64 {
    if name == AVERAGING { runs() } else { runs().min(2) }
}

/// The outcome of a run.
#[derive(Debug, PartialEq)]
struct Played {
    model: Sha256Hash,
    /// How often each client trained with the seed of one of its rounds.
    trained: BTreeMap<(u32, u64), u32>,
    /// Client and round of every acknowledged update, sorted.
    acknowledged: Vec<(u32, u32)>,
}

/// Plays the job with these rules to its end on an empty database.
async fn play(database: &str, kills: u32, seed: Seed, rules: &Value) -> Played {
    let sections = json!({ "round": cohorts(), "aggregation": rules.get("aggregation").unwrap_or(&json!({})) });
    play_job(database, (kills, seed), &sections, rules.get("algorithm")).await
}

/// Plays a job to its end on an empty database.
async fn play_job(database: &str, (kills, seed): (u32, Seed), sections: &Value, algorithm: Option<&Value>) -> Played {
    let setup = Setup::new(database);
    let proxy = Proxy::start(setup.clone()).await;
    let operator = Operator::new(proxy.url(), &setup.token);
    let enrolment = operator.population().await;
    let fleet = Fleet::enrol(&proxy.url(), &enrolment, CLIENTS, Learns::Drawn).await;
    proxy.kill_at_seeded_moments(kills, seed);
    let job = operator.create_job(ROUNDS, sections, algorithm).await;
    let (trained, acknowledged) = fleet.run_until(operator.completed(&job)).await;
    assert_eq!(proxy.kills(), kills, "the run was too short for all its kills");
    Played { model: operator.model(&job, ROUNDS).await, trained, acknowledged }
}

/// Rounds whose cohort is all clients.
fn cohorts() -> Value {
    json!({
        "updates_goal": CLIENTS, "updates_min": CLIENTS, "over_selection": 1.0, "available_min": CLIENTS,
        "selection_timeout_ms": 86_400_000, "deadline_ms": 2_592_000_000_u64,
    })
}

/// Federated averaging; an optimiser whose moments are files beside the model; and SCAFFOLD, whose clients download
/// such a file and keep a vector of their own.
fn rules() -> [(&'static str, Value); 3] {
    let scaffold = json!({ "kind": "scaffold", "clients": CLIENTS });
    [
        (AVERAGING, json!({})),
        ("adam", json!({ "aggregation": { "optimizer": { "kind": "adam" } } })),
        ("scaffold", json!({ "algorithm": scaffold, "aggregation": { "combine": "uniform_mean" } })),
    ]
}

fn assert_no_client_trained_twice(played: &Played) {
    assert_eq!(played.trained.len() as u32, CLIENTS * ROUNDS);
    assert!(played.trained.values().all(|times| *times == 1), "{:?}", played.trained);
    let all: Vec<_> = (0..CLIENTS).flat_map(|client| (1..=ROUNDS).map(move |round| (client, round))).collect();
    assert_eq!(played.acknowledged, all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_on_sqlite_that_is_killed_again_and_again_makes_the_same_model() {
    let directory = tempfile::tempdir().unwrap();
    let database = |name: &str| directory.path().join(name).display().to_string();
    for (name, rules) in rules() {
        let undisturbed = play(&database(&format!("{name}.db")), 0, Seed(0), &rules).await;
        assert_no_client_trained_twice(&undisturbed);
        for seed in 1..=runs_of(name) {
            let played = play(&database(&format!("{name}-{seed}.db")), KILLS, Seed(seed), &rules).await;
            assert_no_client_trained_twice(&played);
            assert_eq!(played.model, undisturbed.model, "{name}, seed {seed}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_on_postgres_that_is_killed_again_and_again_makes_the_same_model() {
    for (name, rules) in rules() {
        let Some(database) = postgres::postgres().await else { return };
        let undisturbed = play(&database.url, 0, Seed(0), &rules).await;
        assert_no_client_trained_twice(&undisturbed);
        for seed in 1..=runs_of(name) {
            let Some(database) = postgres::postgres().await else { return };
            let played = play(&database.url, KILLS, Seed(seed), &rules).await;
            assert_no_client_trained_twice(&played);
            assert_eq!(played.model, undisturbed.model, "{name}, seed {seed}");
        }
    }
}
