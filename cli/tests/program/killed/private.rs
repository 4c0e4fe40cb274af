//! A private job on a coordinator that is killed: each sum is released with one noise, and charged once.
//!
//! Goal: no sum is released twice with different noise, which would average it away, and none without a charge. Method:
//! with a `test_key` each version has the bits of the undisturbed run. After the run the ledger has one entry for each
//! round, and no key of a round is left. On PostgreSQL a second process drives the same job all the time.

use serde_json::{Value, json};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::{JobPrivacyState, check_ledger};
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{Phase, Task};
use tributary_server::db::{Db, RoundKey};

use super::fleet::{Fleet, Learns};
use super::{CLIENTS, KILLS, ROUNDS, cohorts, runs};
use crate::support::operator::Operator;
use crate::support::postgres;
use crate::support::process::{Process, Setup};
use crate::support::proxy::Proxy;

/// Who drives the job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Drivers {
    /// The process that is killed.
    One,
    /// Another process beside it, under the same name: each believes that the lease is its own.
    Two,
}

/// Plays the job to its end on an empty database; returns all of its versions.
async fn play(database: &str, drivers: Drivers, kills: u32, seed: Seed) -> Vec<Sha256Hash> {
    let setup = Setup::new(database);
    let proxy = Proxy::start(setup.clone()).await;
    let beside = match drivers {
        Drivers::One => None,
        Drivers::Two => Some(Process::start(setup.clone()).await),
    };
    let operator = Operator::new(proxy.url(), &setup.token);
    let enrolment = operator.population().await;
    // What a client learns must not follow from the seed of its work, which differs between the runs of a private job.
    let fleet = Fleet::enrol(&proxy.url(), &enrolment, CLIENTS, Learns::OwnWeight).await;
    proxy.kill_at_seeded_moments(kills, seed);
    let job = operator.create_job(ROUNDS, &sections(), None).await;
    let (trained, _) = fleet.run_until(operator.completed(&job)).await;
    assert_eq!(proxy.kills(), kills, "the run was too short for all its kills");
    assert!(trained.values().all(|times| *times == 1), "nobody trains twice for one assignment: {trained:?}");
    assert_each_round_is_charged_once(&operator, &job).await;
    let mut versions = Vec::new();
    for version in 0..=ROUNDS {
        versions.push(operator.model(&job, version).await);
    }
    proxy.stop().await;
    drop(beside);
    assert_no_key_is_left(database, job.parse().unwrap()).await;
    versions
}

/// Without what follows from the seeds of clients, such as the rounding of a codec.
fn sections() -> Value {
    json!({
        "round": cohorts(), "update": { "codec": "f32" }, "aggregation": { "combine": "uniform_mean" },
        "privacy": {
            "epsilon": 8.0, "delta": 1e-6, "separation": 1, "participations_max": ROUNDS,
            "test_key": Sha256Hash([9; 32]).to_string(),
        },
    })
}

async fn assert_each_round_is_charged_once(operator: &Operator, job: &str) {
    let history = operator.history(job).await;
    let rounds: Vec<_> = history.iter().map(|(round, _)| (round.number, round.phase, round.reported)).collect();
    assert_eq!(rounds, (1..=ROUNDS).map(|number| (number, Phase::Committed, CLIENTS)).collect::<Vec<_>>());
    let privacy: JobPrivacyState = serde_json::from_value(operator.privacy(job).await).unwrap();
    let ledger = privacy.privacy.unwrap().ledger;
    let charged: Vec<_> = ledger.iter().map(|entry| (entry.round, entry.participations)).collect();
    assert_eq!(charged, (1..=ROUNDS).map(|number| (number, number)).collect::<Vec<_>>());
    assert_eq!(check_ledger(&ledger), Ok(()));
}

async fn assert_no_key_is_left(database: &str, job: JobId) {
    let db = Db::open(database).await.unwrap();
    let mut tx = db.read().await.unwrap();
    for number in 1..=ROUNDS {
        let key = RoundKey { job, task: Task::Train, number };
        assert_eq!(tx.round_key(key).await.unwrap(), None, "round {number}");
    }
    drop(tx);
    db.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_on_sqlite_that_is_killed_again_and_again_releases_each_private_sum_with_one_noise() {
    let directory = tempfile::tempdir().unwrap();
    let database = |seed: u64| directory.path().join(format!("{seed}.db")).display().to_string();
    let undisturbed = play(&database(0), Drivers::One, 0, Seed(0)).await;
    for seed in 1..=runs() {
        assert_eq!(play(&database(seed), Drivers::One, KILLS, Seed(seed)).await, undisturbed, "seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_drivers_on_postgres_one_of_them_killed_again_and_again_release_each_private_sum_with_one_noise() {
    let Some(database) = postgres::postgres().await else { return };
    let undisturbed = play(&database.url, Drivers::One, 0, Seed(0)).await;
    for seed in 1..=runs() {
        let Some(database) = postgres::postgres().await else { return };
        assert_eq!(play(&database.url, Drivers::Two, KILLS, Seed(seed)).await, undisturbed, "seed {seed}");
    }
}
