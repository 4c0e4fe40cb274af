//! Groups that add up among themselves, on a coordinator that is killed: rings go on, and what the coordinator stored
//! of them is enough.
//!
//! Goal: the model after ten rounds is that of a star that nobody disturbed, and no client trains twice for one round.

use serde_json::json;
use tributary_protocol::seed::Seed;

use super::fleet::Fleet;
use super::{AVERAGING, CLIENTS, KILLS, Played, ROUNDS, assert_no_client_trained_twice, cohorts, play, runs};
use crate::support::operator::Operator;
use crate::support::postgres;
use crate::support::process::Setup;
use crate::support::proxy::Proxy;

/// Plays a job with groups to its end on an empty database.
async fn play_rings(database: &str, kills: u32, seed: Seed) -> Played {
    let setup = Setup::new(database);
    let proxy = Proxy::start(setup.clone()).await;
    let operator = Operator::new(proxy.url(), &setup.token);
    let enrolment = operator.population().await;
    let fleet = Fleet::listening(&proxy.url(), &enrolment, CLIENTS).await;
    proxy.kill_at_seeded_moments(kills, seed);
    let sections = json!({ "round": cohorts(), "group": { "topology": { "kind": "ring" }, "attempts": 8 } });
    let job = operator.create_job(ROUNDS, &sections, None).await;
    let (trained, acknowledged) = fleet.run_until(operator.completed(&job)).await;
    assert_eq!(proxy.kills(), kills, "the run was too short for all its kills");
    Played { model: operator.model(&job, ROUNDS).await, trained, acknowledged }
}

async fn rings_equal_the_star(star: &str, database: impl AsyncFn(u64) -> Option<String>) {
    let undisturbed = play(star, 0, Seed(0), &json!({})).await;
    assert_no_client_trained_twice(&undisturbed);
    for seed in 0..=runs() {
        let Some(database) = database(seed).await else { return };
        let played = play_rings(&database, if seed == 0 { 0 } else { KILLS }, Seed(seed)).await;
        assert_no_client_trained_twice(&played);
        assert_eq!(played.model, undisturbed.model, "{AVERAGING}, seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rings_outlive_a_coordinator_on_sqlite_that_is_killed_again_and_again() {
    let directory = tempfile::tempdir().unwrap();
    let database = |name: &str| directory.path().join(name).display().to_string();
    rings_equal_the_star(&database("star.db"), async |seed| Some(database(&format!("ring-{seed}.db")))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rings_outlive_a_coordinator_on_postgres_that_is_killed_again_and_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut databases = Vec::new();
    for _ in 0..=runs() {
        let Some(database) = postgres::postgres().await else { return };
        databases.push(database);
    }
    let star = directory.path().join("star.db").display().to_string();
    rings_equal_the_star(&star, async |seed| Some(databases[seed as usize].url.clone())).await;
}
