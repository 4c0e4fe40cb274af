//! A buffered or stale-synchronous job on a coordinator that is killed: its history says which updates are in which
//! version and with what weight, and replaying it gives the same bits.
//!
//! Goal: no acknowledged update is lost or counted twice. Method: each client adds a known step to a weight of its own.
//! After the run, each version is computed again from the version before and the history.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tributary_protocol::operator::{Assignment, Round};
use tributary_protocol::safetensors::model_from_bytes;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{AssignmentState, Phase};

use super::fleet::{Fleet, Learns, OWN_STEP};
use super::{CLIENTS, KILLS, runs};
use crate::support::operator::Operator;
use crate::support::postgres;
use crate::support::process::Setup;
use crate::support::proxy::Proxy;

/// Updates of a run.
const UPDATES: u32 = 48;

/// When updates meet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tempo {
    Buffered,
    StaleSynchronous,
}

impl Tempo {
    /// Updates of a version: the buffer, or the members.
    fn updates(self) -> u32 {
        match self {
            Self::Buffered => 2,
            Self::StaleSynchronous => CLIENTS,
        }
    }

    fn round(self) -> Value {
        let updates = self.updates();
        let deadline_ms = 2_592_000_000_u64;
        match self {
            Self::Buffered => {
                let mode = json!({
                    "kind": "buffered", "buffer": updates, "concurrency": CLIENTS, "staleness_max": 1_000,
                    "per_client": updates,
                });
                json!({ "mode": mode, "deadline_ms": deadline_ms })
            }
            Self::StaleSynchronous => {
                let mode = json!({ "kind": "stale_synchronous", "members": updates, "slack": 1 });
                json!({ "mode": mode, "deadline_ms": deadline_ms, "selection_timeout_ms": 86_400_000 })
            }
        }
    }

    /// The factor of an update's weight that is this many versions behind.
    fn factor(self, staleness: u32) -> f64 {
        match self {
            Self::Buffered => f64::from(1 + staleness).sqrt().recip(),
            Self::StaleSynchronous => 1.0,
        }
    }
}

async fn play(tempo: Tempo, database: &str, seed: Seed) {
    let setup = Setup::new(database);
    let proxy = Proxy::start(setup.clone()).await;
    let operator = Operator::new(proxy.url(), &setup.token);
    let enrolment = operator.population().await;
    let fleet = Fleet::enrol(&proxy.url(), &enrolment, CLIENTS, Learns::OwnWeight).await;
    proxy.kill_at_seeded_moments(KILLS, seed);
    // A codec that loses nothing: the replay knows the steps.
    let sections = json!({ "round": tempo.round(), "update": { "codec": "f32" } });
    let versions_wanted = UPDATES / tempo.updates();
    let job = operator.create_job(versions_wanted, &sections, None).await;
    let (trained, acknowledged) = fleet.run_until(operator.completed(&job)).await;
    assert_eq!(proxy.kills(), KILLS, "the run was too short for all its kills");
    assert!(trained.values().all(|times| *times == 1), "nobody trains twice for one assignment: {trained:?}");

    let history = operator.history(&job).await;
    let mut reported: BTreeMap<u64, u32> = BTreeMap::new();
    let mut versions = vec![weights(&operator, &job, 0).await];
    for (round, assignments) in &history {
        assert_eq!((round.phase, round.reported), (Phase::Committed, tempo.updates()), "{round:?}");
        let after = weights(&operator, &job, round.base_version + 1).await;
        assert_eq!(after, replayed(tempo, &versions, round, assignments), "round {}", round.number);
        for counted in counted(assignments) {
            *reported.entry(counted.client_number).or_default() += 1;
        }
        versions.push(after);
    }
    assert_eq!(history.len() as u32, versions_wanted);
    for client in 0..CLIENTS {
        let told = acknowledged.iter().filter(|(number, _)| *number == client).count() as u32;
        let counted = reported.get(&u64::from(client + 1)).copied().unwrap_or(0);
        // The last acknowledgement may have been on its way when the run ended.
        assert!((told..=told + 1).contains(&counted), "client {client}: {told} acknowledged, {counted} counted");
    }
}

async fn weights(operator: &Operator, job: &str, version: u32) -> Vec<f32> {
    model_from_bytes(&operator.model_file(job, version).await).unwrap().into_values()
}

fn counted(assignments: &[Assignment]) -> impl Iterator<Item = &Assignment> {
    assignments.iter().filter(|assignment| assignment.state == AssignmentState::Reported)
}

/// The version that a round makes of those before.
fn replayed(tempo: Tempo, versions: &[Vec<f32>], round: &Round, assignments: &[Assignment]) -> Vec<f32> {
    let before = &versions[round.base_version as usize];
    let mut sums = vec![0.0; before.len()];
    let mut divisor = 0.0;
    for update in counted(assignments) {
        assert_eq!(update.staleness, round.base_version - update.base_version, "{update:?}");
        let examples = update.weight.unwrap() as f64;
        // The nearest multiple of 2^-16 examples.
        let weight = (examples * tempo.factor(update.staleness) * 65536.0).round() / 65536.0;
        let own = update.client_number as usize - 1;
        let from = versions[update.base_version as usize][own];
        // As the client computes it, in f32.
        sums[own] += f64::from((from + OWN_STEP) - from) * weight;
        divisor += examples;
    }
    before.iter().zip(sums).map(|(before, sum)| (f64::from(*before) + sum / divisor) as f32).collect()
}

async fn on_sqlite(tempo: Tempo) {
    let directory = tempfile::tempdir().unwrap();
    for seed in 1..=runs() {
        play(tempo, &directory.path().join(format!("{seed}.db")).display().to_string(), Seed(seed)).await;
    }
}

async fn on_postgres(tempo: Tempo) {
    for seed in 1..=runs() {
        let Some(database) = postgres::postgres().await else { return };
        play(tempo, &database.url, Seed(seed)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_buffered_job_on_sqlite_that_is_killed_again_and_again_counts_every_update_once() {
    on_sqlite(Tempo::Buffered).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_buffered_job_on_postgres_that_is_killed_again_and_again_counts_every_update_once() {
    on_postgres(Tempo::Buffered).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_synchronous_job_on_sqlite_that_is_killed_again_and_again_counts_every_update_once() {
    on_sqlite(Tempo::StaleSynchronous).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_synchronous_job_on_postgres_that_is_killed_again_and_again_counts_every_update_once() {
    on_postgres(Tempo::StaleSynchronous).await;
}
