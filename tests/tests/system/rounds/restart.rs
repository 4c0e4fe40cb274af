//! Restarts: whatever was in memory is gone, and the result is the same to the last bit.

use serde_json::json;
use tributary_protocol::operator;
use tributary_protocol::state::Phase;

use crate::support::{WEIGHTS, World};

/// When the coordinator is restarted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Restart {
    Never,
    WhileSelecting,
    WithSomeUpdates,
    WhileAggregating,
}

/// Plays one round of three clients and answers the file of version 1.
async fn play(restart: Restart) -> Vec<u8> {
    let mut world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 3 } })).await;
    let devices: [_; 3] = world.devices().await;
    let [a, b, c] = &devices;
    world.drive().await;
    if restart == Restart::WhileSelecting {
        world.restart().await;
        assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Selecting);
    }
    let assignments = world.assign([a, b, c]).await;
    for (place, (device, assignment)) in devices.iter().zip(&assignments).enumerate() {
        if restart == Restart::WithSomeUpdates && place == 1 {
            world.restart().await;
            world.drive().await;
            assert_eq!(device.work().await.id, assignment.id, "the same work goes on");
        }
        let delta: Vec<f32> = (0..WEIGHTS).map(|index| 0.1 * (index + 3 * place) as f32 - 0.77).collect();
        device.contribute(assignment, &delta, 7 + place as u32).await;
    }
    if restart == Restart::WhileAggregating {
        // The last update closed the round; the driver has not come yet.
        world.restart().await;
        assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Aggregating);
    }
    world.drive().await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.reported), (Phase::Committed, 3));
    world.check_books(job.head.id).await;
    world.model_file(job.head.id, 1).await
}

#[tokio::test]
async fn a_restart_at_any_moment_gives_the_same_model_as_none() {
    let undisturbed = play(Restart::Never).await;
    for restart in [Restart::WhileSelecting, Restart::WithSomeUpdates, Restart::WhileAggregating] {
        assert_eq!(play(restart).await, undisturbed, "{restart:?}");
    }
}

#[tokio::test]
async fn a_deadline_that_passed_while_the_coordinator_was_away_is_kept() {
    let mut world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 2 } })).await;
    let [a, b] = world.devices().await;
    let [first, _] = world.assign([&a, &b]).await;
    a.contribute(&first, &[0.5; WEIGHTS], 10).await;
    world.stop().await;
    world.hand.advance_ms(10_000);
    world.resume().await;
    world.drive().await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.reported, round.expired), (Phase::Committed, 1, 1));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn tokens_jobs_and_models_outlive_a_restart() {
    let mut world = World::start().await;
    let job = world.job(json!({})).await;
    let device = world.device().await;
    let model = world.model_file(job.head.id, 0).await;
    world.restart().await;
    assert_eq!(operator::Job { health: vec![], progress: None, ..world.job_now(job.head.id).await }, job);
    assert_eq!(world.model_file(job.head.id, 0).await, model);
    let [assignment] = world.assign([&device]).await;
    assert_eq!(assignment.job, job.head.id);
    assert!(world.open_coordinator().await.first_operator_token().is_none(), "an operator token is made only once");
}
