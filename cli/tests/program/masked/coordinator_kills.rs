//! A coordinator of a masked job that is killed again and again.
//!
//! Goal: every group ends, no update counts twice, and no group has a second set of survivors. Method: as in
//! [`killed`](crate::killed), at seeded pieces of traffic. Each client adds a step to a weight of its own, so that a
//! version says whose updates are in it. In most rounds one member gives up, each time before another call. Triggers in
//! the database note what was written, and the clients' transports what was said.

use std::sync::Arc;

use serde_json::{Value, json};
use tributary_protocol::seed::Seed;

use super::exchanges::Exchanges;
use super::fleet::Fleet;
use super::{CLIENTS, audit, outcome};
use crate::killed::fleet::OWN_STEP;
use crate::support;
use crate::support::operator::Operator;
use crate::support::postgres::postgres;
use crate::support::process::{Process, Setup};
use crate::support::proxy::Proxy;

const ROUNDS: u32 = 8;
/// Kills in a run.
const KILLS: u32 = 15;

/// Who drives the job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Drivers {
    /// The process that is killed.
    One,
    /// Another process beside it, under the same name: each believes that the lease is its own. Every other client
    /// speaks to that one.
    Two,
}

/// 30 kills under CI, else 15.
fn runs() -> u64 {
    support::runs(KILLS, 2)
}

fn sections() -> Value {
    json!({
        "round": {
            "updates_goal": CLIENTS, "updates_min": 3, "over_selection": 1.0, "available_min": CLIENTS,
            "selection_timeout_ms": 86_400_000, "deadline_ms": 2_592_000_000_u64,
        },
        "aggregation": { "combine": "uniform_mean" },
        // The step of the grid is 4e-5.
        "secure_aggregation": { "clip": 2.0, "levels": 4_096 },
    })
}

/// The update of a client, by its place.
fn delta(client: usize, values: usize) -> Vec<f32> {
    (0..values).map(|index| if index == client { OWN_STEP } else { 0.0 }).collect()
}

async fn play(database: &str, drivers: Drivers, seed: Seed) {
    let setup = Setup::new(database);
    let proxy = Proxy::start(setup.clone()).await;
    let beside = match drivers {
        Drivers::One => None,
        Drivers::Two => Some(Process::start(setup.clone()).await),
    };
    audit::begin(database).await;
    let operator = Operator::new(proxy.url(), &setup.token);
    let token = operator.population().await;
    let record = Arc::new(Exchanges::default());
    let server = |client: usize| match &beside {
        Some(process) if client % 2 == 1 => format!("http://{}", process.address),
        _ => proxy.url(),
    };
    let servers: Vec<String> = (0..CLIENTS).map(server).collect();
    let fleet = Fleet::enrol(&servers, &token, &record).await;
    proxy.kill_at_seeded_moments(KILLS, seed);
    let job = operator.create_job(ROUNDS, &sections(), None).await;
    fleet.run_until(operator.completed(&job)).await;
    assert_eq!(proxy.kills(), KILLS, "the run was too short for all its kills");

    let survivors = audit::check(database).await;
    for (group, told) in record.check() {
        assert_eq!(survivors.get(&group), Some(&told), "{group}: what members were told is what is stored");
    }
    let rounds = outcome::check(&operator, &job, Some(delta)).await;
    assert!(rounds.committed >= ROUNDS && rounds.lost > 0, "members were lost, and rounds committed: {rounds:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_on_sqlite_that_is_killed_again_and_again_opens_each_sum_for_one_set_of_survivors() {
    let directory = tempfile::tempdir().unwrap();
    for seed in 1..=runs() {
        let database = directory.path().join(format!("{seed}.db")).display().to_string();
        play(&database, Drivers::One, Seed(seed)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_on_postgres_that_is_killed_again_and_again_opens_each_sum_for_one_set_of_survivors() {
    for seed in 1..=runs() {
        let Some(database) = postgres().await else { return };
        play(&database.url, Drivers::One, Seed(seed)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_drivers_on_postgres_one_of_them_killed_again_and_again_open_each_sum_for_one_set_of_survivors() {
    for seed in 1..=runs() {
        let Some(database) = postgres().await else { return };
        play(&database.url, Drivers::Two, Seed(seed)).await;
    }
}
