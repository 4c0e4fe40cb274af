//! Two drivers at once: in one coordinator, and in two on one database.

use std::sync::Arc;

use serde_json::json;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{JobState, Phase};
use tributary_server::app::App;

use crate::support::{Device, WEIGHTS, World, delta_file, figures};

/// Plays rounds in which two drivers act at the same time at every step.
async fn play(world: &World, one: &Arc<App>, other: &Arc<App>) {
    let job = world.job(json!({ "round": { "updates_goal": 3 }, "stop": { "rounds": 3 } })).await;
    let devices: [_; 3] = world.devices().await;
    let both = || async {
        let (one, other) = (Arc::clone(one), Arc::clone(other));
        let drivers = (
            tokio::spawn(async move { one.driver().run_once().await }),
            tokio::spawn(async move { other.driver().run_once().await }),
        );
        drivers.0.await.unwrap().unwrap();
        drivers.1.await.unwrap().unwrap();
    };
    let mut expected = world.weights(job.head.id, 0).await;
    for round in 1..=3 {
        let waiting = devices.each_ref().map(Device::wait);
        world.until_waiting(3).await;
        both().await;
        for (waiting, device) in waiting.into_iter().zip(&devices) {
            waiting.await.unwrap();
            let assignment = device.work().await;
            assert_eq!(assignment.round, round);
            device.contribute(&assignment, &[0.5; WEIGHTS], 10).await;
        }
        both().await;
        let closed = world.round(job.head.id, round).await;
        assert_eq!((closed.phase, closed.cohort, closed.reported), (Phase::Committed, 3, 3));
        expected.iter_mut().for_each(|weight| *weight += 0.5);
        assert_eq!(world.weights(job.head.id, round).await, expected, "each update counts once");
    }
    let now = world.job_now(job.head.id).await;
    assert_eq!((now.head.state, now.head.rounds_opened, now.head.rounds_committed), (JobState::Completed, 3, 3));
    world.check_books(job.head.id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_drivers_of_one_coordinator_commit_each_round_once() {
    let world = World::start().await;
    play(&world, world.app(), world.app()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_coordinators_on_one_database_commit_each_round_once() {
    let world = World::start().await;
    let other = world.open_coordinator().await;
    play(&world, world.app(), other.app()).await;
    other.app().db.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_that_arrive_together_are_each_counted_once() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 8 } })).await;
    let devices: [_; 8] = world.devices().await;
    let work = world.gather(&devices.each_ref()).await;
    let before = world.weights(job.head.id, 0).await;
    let uploads: Vec<_> = devices
        .iter()
        .zip(work)
        .map(|(device, assignment)| {
            let (device, assignment) = (device.clone(), assignment.expect("drawn"));
            // Each sends its update twice at the same time, as a client does whose first answer was slow.
            let send = move || {
                let (device, body) = (device.clone(), delta_file(&assignment, &[0.25; WEIGHTS]));
                tokio::spawn(async move { device.put_update(assignment.id, &figures(10), body).await })
            };
            [send(), send()]
        })
        .collect();
    for pair in uploads {
        let answers = futures_util::future::join_all(pair).await;
        let answers: Vec<_> = answers.into_iter().map(|answer| answer.unwrap()).collect();
        assert!(answers.iter().any(|answer| answer.status == 200), "the newest one is never ended by another");
        for answer in answers.into_iter().filter(|answer| answer.status != 200) {
            answer.refused(ProblemType::UploadSuperseded);
        }
    }
    world.drive().await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.reported, round.weight), (Phase::Committed, 8, 80));
    let expected: Vec<f32> = before.iter().map(|weight| weight + 0.25).collect();
    assert_eq!(world.weights(job.head.id, 1).await, expected);
    world.check_books(job.head.id).await;
}
