//! Several coordinators on one PostgreSQL.

use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tributary_client::{AlwaysOn, Client};
use tributary_protocol::operator::{Client as Enrolled, Job, Page};
use tributary_protocol::state::{JobState, Phase};

use crate::support::{Adds, WEIGHTS, World, postgres, within_reason};

/// A daemon that trains for a coordinator until `stop`.
fn daemon(world: &World, stop: &CancellationToken) -> JoinHandle<()> {
    let directory = TempDir::new().unwrap();
    let client = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory.path());
    let client = Arc::new(client.http_client(world.http.clone()).build().unwrap());
    let stopped = stop.clone();
    tokio::spawn(async move {
        client.run(&mut Adds::new(0.25), &AlwaysOn, stopped.cancelled()).await;
        drop(directory);
    })
}

/// Waits until the job has this event, asking a coordinator by long polls.
async fn until_event(world: &World, job: &Job, wanted: impl Fn(&serde_json::Value) -> bool) {
    let mut after = 0;
    loop {
        let path = format!("/events?job={}&after={after}&wait_ms=60000", job.head.id);
        let page = within_reason(world.look(&path)).await.value();
        let events = page["items"].as_array().unwrap();
        after += events.len();
        if events.iter().any(&wanted) {
            return;
        }
    }
}

#[tokio::test]
async fn rounds_and_restarts_are_the_same_on_postgresql() {
    let Some(database) = postgres().await else { return };
    let mut world = World::start_on(database).await;
    let job = world.job(json!({ "round": { "updates_goal": 2 }, "stop": { "rounds": 2 } })).await;
    let mut expected = world.weights(job.head.id, 0).await;
    let [a, b] = world.devices().await;
    for round in 1..=2 {
        let [first, second] = world.assign([&a, &b]).await;
        a.contribute(&first, &[0.5; WEIGHTS], 30).await;
        world.restart().await;
        b.contribute(&second, &[-0.5; WEIGHTS], 10).await;
        world.drive().await;
        let closed = world.round(job.head.id, round).await;
        assert_eq!((closed.phase, closed.reported), (Phase::Committed, 2));
        expected.iter_mut().for_each(|weight| *weight += 0.25);
        let weights = world.weights(job.head.id, round).await;
        assert!(weights.iter().zip(&expected).all(|(weight, expected)| (weight - expected).abs() < 1e-6));
    }
    assert_eq!(world.job_now(job.head.id).await.head.state, JobState::Completed);
    world.check_books(job.head.id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_two_coordinators_take_part_in_the_same_rounds() {
    let Some(database) = postgres().await else { return };
    let mut one = World::start_driven_on(database).await;
    let mut other = one.beside().await;
    // A round needs all four, so it needs the clients of both.
    let policy = json!({ "updates_goal": 4, "updates_min": 4, "deadline_ms": 60_000 });
    let job = one.job(json!({ "round": policy, "stop": { "rounds": 3 } })).await;
    let stop = CancellationToken::new();
    let daemons = [&one, &one, &other, &other].map(|world| daemon(world, &stop));
    until_event(&other, &job, |event| event["became"] == "completed").await;
    stop.cancel();
    for daemon in daemons {
        within_reason(daemon).await.unwrap();
    }
    let clients: Page<Enrolled> = one.look("/clients?population=devices").await.ok();
    assert_eq!(clients.items.iter().map(|client| client.reported).collect::<Vec<_>>(), [3; 4]);
    one.check_books(job.head.id).await;
    other.check_books(job.head.id).await;
    one.stop().await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_a_coordinator_stops_the_other_goes_on_with_its_jobs() {
    let Some(database) = postgres().await else { return };
    let mut one = World::start_driven_on(database).await;
    let policy = json!({ "updates_goal": 2, "deadline_ms": 2_000 });
    let job = one.job(json!({ "round": policy, "stop": { "rounds": 4 } })).await;
    let stop = CancellationToken::new();
    let leaving = [daemon(&one, &stop), daemon(&one, &stop)];
    until_event(&one, &job, |event| event["became"] == "committed").await;
    let mut other = one.beside().await;
    stop.cancel();
    for daemon in leaving {
        within_reason(daemon).await.unwrap();
    }
    one.stop().await;
    let stop = CancellationToken::new();
    let staying = [daemon(&other, &stop), daemon(&other, &stop)];
    // An assignment of a client that left may hold a round up to its deadline; then it continues without.
    until_event(&other, &job, |event| event["became"] == "completed").await;
    stop.cancel();
    for daemon in staying {
        within_reason(daemon).await.unwrap();
    }
    assert_eq!(other.job_now(job.head.id).await.head.rounds_committed, 4);
    other.check_books(job.head.id).await;
    other.stop().await;
}
