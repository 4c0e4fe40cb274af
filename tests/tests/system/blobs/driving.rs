//! The driver: one job's trouble delays no other job's cohort, deadline, commit or lease.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::json;
use tokio::task::JoinHandle;
use tributary_protocol::device::CheckInResponse;
use tributary_protocol::id::JobId;
use tributary_protocol::state::Phase;

use super::faulty;
use super::faulty::Fault;
use crate::support::{Device, WEIGHTS, World, within_reason};

/// Length of a lease in milliseconds, as the world's coordinator has it.
const LEASE_MS: i64 = 10_000;

/// Runs the driver and the lease keeper of a world whose clock stands still.
fn drive(world: &World) -> [JoinHandle<()>; 2] {
    let (driver, app) = (world.app().driver(), Arc::clone(world.app()));
    [tokio::spawn(async move { driver.run().await }), tokio::spawn(async move { app.leases.keep(&app).await })]
}

async fn stop(world: &World, tasks: [JoinHandle<()>; 2]) {
    world.app().stopping.cancel();
    for task in tasks {
        within_reason(task).await.unwrap();
    }
}

/// A job for clients with the attribute `job = <name>`, and such a client.
async fn job(world: &World, name: &str) -> (JobId, Device) {
    let changes = json!({ "name": name, "eligibility": { "attributes": { "job": name } } });
    (world.job(changes).await.head.id, world.device().await.with("job", name))
}

/// Waits for something that the coordinator does by itself.
async fn until(mut happened: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !happened().await {
            tokio::task::yield_now().await;
        }
    };
    within_reason(waiting).await;
}

async fn until_version(world: &World, job: JobId, version: u32) {
    until(async || world.job_now(job).await.head.model_version == Some(version)).await;
}

/// Waits until the device is drawn, then sends an update.
async fn contribute(device: &Device, value: f32) {
    match within_reason(device.wait()).await.unwrap() {
        CheckInResponse::Assigned(work) => device.contribute(&work, &[value; WEIGHTS], 10).await,
        retry => panic!("no work: {retry:?}"),
    }
}

async fn moved_by(world: &World, job: JobId, version: u32, value: f32) -> bool {
    let expected: Vec<f32> = world.weights(job, version - 1).await.iter().map(|weight| weight + value).collect();
    world.weights(job, version).await == expected
}

#[tokio::test]
async fn a_commit_that_blocks_delays_no_other_job() {
    let (faulty, store) = faulty();
    let world = World::start_with_blobs(Some(store)).await;
    let tasks = drive(&world);
    let (blocked, slow) = job(&world, "blocked").await;
    let (other, device) = job(&world, "other").await;
    faulty.set(Fault::HoldsModel(blocked));
    contribute(&slow, 0.25).await;
    until(async || faulty.struck() == 1).await;

    // The other job's cohort, commit, deadline and next round.
    contribute(&device, 0.5).await;
    until_version(&world, other, 1).await;
    let CheckInResponse::Assigned(late) = within_reason(device.wait()).await.unwrap() else { panic!("no work") };
    assert_eq!(late.round, 2);
    world.hand.advance_ms(10_000);
    until(async || world.round(other, 2).await.phase == Phase::Abandoned).await;
    // Its next round opens after the pause that an abandoned round costs.
    world.hand.advance_ms(1_000);
    contribute(&device, 0.5).await;
    until_version(&world, other, 2).await;

    // The leases of both jobs are renewed all the while.
    for _ in 0..3 {
        world.hand.advance_ms(LEASE_MS / 2);
        let now_ms = world.app().clock.now_ms();
        until(async || {
            let leases = world.app().db.read().await.unwrap().leases().await.unwrap();
            leases.iter().filter(|(_, lease)| lease.expires_at_ms >= now_ms + LEASE_MS).count() == 2
        })
        .await;
    }
    assert_eq!(world.job_now(blocked).await.head.model_version, Some(0));
    assert_eq!(faulty.struck(), 1, "one attempt, which still waits");
    faulty.set(Fault::None);
    until_version(&world, blocked, 1).await;
    assert!(moved_by(&world, blocked, 1, 0.25).await && moved_by(&world, other, 2, 0.5).await);
    stop(&world, tasks).await;
    world.check_books(blocked).await;
    world.check_books(other).await;
}

#[tokio::test]
async fn a_job_that_panics_each_time_is_tried_again_ever_later_and_delays_no_other_job() {
    let (faulty, store) = faulty();
    let world = World::start_with_blobs(Some(store)).await;
    let tasks = drive(&world);
    let (broken, unlucky) = job(&world, "broken").await;
    let (other, device) = job(&world, "other").await;
    faulty.set(Fault::PanicsAtModel(broken));
    contribute(&unlucky, 0.25).await;
    until(async || faulty.struck() == 1).await;
    let mut version = 0;
    for (attempts, pause_ms) in [(1, 1_000), (2, 2_000), (3, 4_000)] {
        world.hand.advance_ms(pause_ms - 1);
        contribute(&device, 0.5).await;
        version += 1;
        until_version(&world, other, version).await;
        assert_eq!(faulty.struck(), attempts, "no attempt before the pause of {pause_ms} ms is over");
        world.hand.advance_ms(1);
        until(async || faulty.struck() == attempts + 1).await;
    }
    faulty.set(Fault::None);
    world.hand.advance_ms(8_000);
    until_version(&world, broken, 1).await;
    assert!(moved_by(&world, broken, 1, 0.25).await && moved_by(&world, other, version, 0.5).await);
    stop(&world, tasks).await;
    world.check_books(broken).await;
}

#[tokio::test]
async fn two_hundred_jobs_of_one_coordinator_all_move_on() {
    let world = World::start_on_sqlite().await;
    let tasks = drive(&world);
    let mut jobs = Vec::new();
    for number in 0..200 {
        jobs.push(job(&world, &format!("job-{number}")).await);
    }
    join_all(jobs.iter().map(|(_, device)| contribute(device, 0.5))).await;
    for (job, _) in &jobs {
        until_version(&world, *job, 1).await;
    }
    assert_eq!(world.app().leases.count(world.app().clock.now_ms()), 200);
    // Time goes on for all of them: each opened its next round, which nobody joins.
    world.hand.advance_ms(60_000);
    for (job, _) in &jobs {
        until(async || world.round(*job, 2).await.phase == Phase::Abandoned).await;
    }
    stop(&world, tasks).await;
    assert!(moved_by(&world, jobs[199].0, 1, 0.5).await);
}
