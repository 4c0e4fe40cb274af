//! Goal, minimum and deadline: how a round ends, and how the assignments that are still open do.

use serde_json::json;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AbandonReason, AssignmentState, Phase};

use crate::support::{NOW_MS, WEIGHTS, World, delta_file, figures};

const STEP: [f32; WEIGHTS] = [0.5; WEIGHTS];

#[tokio::test]
async fn a_round_closes_at_its_goal_and_expires_the_rest() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 2, "over_selection": 1.5 } })).await;
    let [a, b, c] = world.devices().await;
    let [first, second, third] = world.assign([&a, &b, &c]).await;
    assert_eq!((first.round, first.model_version, first.deadline_in_ms), (1, 0, 10_000));
    a.contribute(&first, &STEP, 10).await;
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Training, "one of two is not the goal");
    c.contribute(&third, &STEP, 10).await;
    world.drive().await;

    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.reported, round.expired, round.ended_at_ms), (Phase::Committed, 2, 1, Some(NOW_MS)));
    let assignments = world.assignments(job.head.id, 1).await;
    assert_eq!(assignments[1].state, AssignmentState::Expired);
    assert_eq!(assignments[1].id, second.id);
    let refused = b.put_update(second.id, &figures(10), delta_file(&second, &STEP)).await;
    assert!(refused.refused(ProblemType::AssignmentClosed).detail.contains("round 1"));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn between_the_goal_and_the_driver_no_report_slips_in() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 2, "over_selection": 1.5 } })).await;
    let [a, b, c] = world.devices().await;
    let [first, second, third] = world.assign([&a, &b, &c]).await;
    a.contribute(&first, &STEP, 10).await;
    b.contribute(&second, &STEP, 10).await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Aggregating);
    let refused = c.put_update(third.id, &figures(10), delta_file(&third, &STEP)).await;
    refused.refused(ProblemType::AssignmentClosed);
    world.drive().await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.reported, round.expired, round.weight), (Phase::Committed, 2, 1, 20));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn the_deadline_commits_what_reached_the_minimum() {
    let world = World::start().await;
    let policy = json!({ "updates_goal": 3, "updates_min": 2 });
    let job = world.job(json!({ "round": policy })).await;
    let [a, b, c] = world.devices().await;
    let [first, second, _] = world.assign([&a, &b, &c]).await;
    a.contribute(&first, &STEP, 10).await;
    b.contribute(&second, &STEP, 30).await;
    world.pass_ms(9_999).await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Training, "the deadline has not come");
    world.pass_ms(1).await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.reported, round.expired, round.weight), (Phase::Committed, 2, 1, 40));
    assert_eq!(world.job_now(job.head.id).await.head.model_version, Some(1));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_round_below_its_minimum_is_abandoned_and_the_model_stays() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 2, "updates_min": 2 } })).await;
    let before = world.model_file(job.head.id, 0).await;
    let [a, b] = world.devices().await;
    let [first, _] = world.assign([&a, &b]).await;
    a.contribute(&first, &STEP, 10).await;
    world.pass_ms(10_000).await;

    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.reason), (Phase::Abandoned, Some(AbandonReason::TooFewReports)));
    let now = world.job_now(job.head.id).await;
    assert_eq!((now.head.model_version, now.head.rounds_opened, now.head.rounds_committed), (Some(0), 1, 0));
    assert_eq!(world.model_file(job.head.id, 0).await, before);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn after_abandoned_rounds_the_pause_doubles_and_then_the_next_round_opens() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "selection_timeout_ms": 5_000 } })).await;
    world.drive().await;
    for (number, pause_ms) in [(1, 1_000), (2, 2_000), (3, 4_000), (4, 4_000)] {
        world.pass_ms(5_000).await;
        let round = world.round(job.head.id, number).await;
        assert_eq!((round.phase, round.reason), (Phase::Abandoned, Some(AbandonReason::SelectionTimeout)));
        world.pass_ms(pause_ms - 1).await;
        assert_eq!(world.job_now(job.head.id).await.head.rounds_opened, number, "the pause is not over");
        world.pass_ms(1).await;
        assert_eq!(world.job_now(job.head.id).await.head.rounds_opened, number + 1);
    }
    let device = world.device().await;
    let [assignment] = world.assign([&device]).await;
    assert_eq!(assignment.round, 5);
    device.contribute(&assignment, &STEP, 10).await;
    world.drive().await;
    let now = world.job_now(job.head.id).await;
    assert_eq!((now.head.rounds_committed, now.head.rounds_opened), (1, 6), "a committed round needs no pause");
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn clients_that_give_up_do_not_hold_up_a_round() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 3, "updates_min": 1 } })).await;
    let [a, b, c] = world.devices().await;
    let [first, second, third] = world.assign([&a, &b, &c]).await;
    a.contribute(&first, &STEP, 10).await;
    b.fail(second.id, "out_of_memory").await.value();
    c.fail(third.id, "no_data").await.value();
    world.drive().await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.reported, round.failed), (Phase::Committed, 1, 2));
    assert_eq!(round.ended_at_ms, Some(NOW_MS), "without waiting for the deadline");
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_round_that_cannot_reach_its_minimum_ends_at_once() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 2, "updates_min": 2 } })).await;
    let [a, b] = world.devices().await;
    let [first, second] = world.assign([&a, &b]).await;
    a.contribute(&first, &STEP, 10).await;
    b.fail(second.id, "diverged").await.value();
    world.drive().await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.ended_at_ms), (Phase::Abandoned, Some(NOW_MS)));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn when_selection_times_out_whoever_can_reach_the_minimum_is_drawn() {
    let world = World::start().await;
    let job =
        world.job(json!({ "round": { "updates_goal": 3, "updates_min": 2, "selection_timeout_ms": 5_000 } })).await;
    let [a, b] = world.devices().await;
    let waiting = [a.wait(), b.wait()];
    world.until_waiting(2).await;
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Selecting, "two are not three, and time is left");
    world.pass_ms(5_000).await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.cohort), (Phase::Training, 2));
    for waiting in waiting {
        waiting.await.unwrap();
    }
    world.check_books(job.head.id).await;
}
