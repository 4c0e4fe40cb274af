//! Reports that come after their round closed.

use serde_json::json;
use tributary_protocol::operator::{Client, Page};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AssignmentState, Phase};

use crate::support::{NOW_MS, WEIGHTS, World, delta_file, evaluated_job, figures};

const STEP: [f32; WEIGHTS] = [0.5; WEIGHTS];

#[tokio::test]
async fn a_late_update_is_refused_with_the_reason_and_changes_nothing_but_its_own_time() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 2, "updates_min": 1 } })).await;
    let [a, b] = world.devices().await;
    let [first, second] = world.assign([&a, &b]).await;
    a.contribute(&first, &STEP, 10).await;
    world.pass_ms(10_000).await;
    let (round, model) = (world.round(job.head.id, 1).await, world.model_file(job.head.id, 1).await);

    world.hand.advance_ms(500);
    let refused = b.put_update(second.id, &figures(10), delta_file(&second, &STEP)).await;
    let refused = refused.refused(ProblemType::AssignmentClosed);
    assert!(refused.detail.contains("round 1"), "{}", refused.detail);
    assert!(refused.retry_after_ms.is_some(), "a straggler is told when to come back");
    world.hand.advance_ms(500);
    b.status(second.id).await.refused(ProblemType::AssignmentClosed);
    b.fail(second.id, "other").await.refused(ProblemType::AssignmentClosed);
    world.drive().await;

    let straggler = &world.assignments(job.head.id, 1).await[1];
    assert_eq!((straggler.state, straggler.late_at_ms), (AssignmentState::Expired, Some(NOW_MS + 10_500)));
    assert_eq!(world.round(job.head.id, 1).await, round);
    assert_eq!(world.model_file(job.head.id, 1).await, model);
    let clients: Page<Client> = world.look("/clients?population=devices").await.ok();
    let counts: Vec<_> = clients.items.iter().map(|client| (client.reported, client.expired, client.failed)).collect();
    assert_eq!(counts, [(1, 0, 0), (0, 1, 0)]);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn at_the_deadline_nothing_more_is_taken_even_if_the_driver_is_slow() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 2, "updates_min": 1 } })).await;
    let [a, b] = world.devices().await;
    let [first, second] = world.assign([&a, &b]).await;
    world.hand.advance_ms(9_999);
    a.contribute(&first, &STEP, 10).await;
    world.hand.advance_ms(1);
    let late = b.put_update(second.id, &figures(10), delta_file(&second, &STEP)).await;
    assert!(late.refused(ProblemType::AssignmentClosed).detail.contains("deadline"));
    world.drive().await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.reported, round.expired), (Phase::Committed, 1, 1));
    let answer = a.put_update(first.id, &figures(10), delta_file(&first, &STEP)).await;
    assert_eq!(answer.status, 200, "what was in time stays accepted");
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_late_evaluation_is_refused_and_not_counted() {
    let world = World::start().await;
    let changes = json!({ "evaluation": { "reports_goal": 2, "reports_min": 1 } });
    let job: tributary_protocol::operator::Job = world.create_job(&evaluated_job(&changes)).await.ok();
    let [trainer, x, y] = world.devices().await;
    let (x, y) = (x.with("evaluator", "yes"), y.with("evaluator", "yes"));
    let [assignment] = world.assign([&trainer]).await;
    trainer.contribute(&assignment, &STEP, 10).await;
    world.drive().await;
    let [first, second] = world.assign([&x, &y]).await;
    let report = |loss| json!({ "examples": 10, "loss": loss, "accuracy": 0.5, "evaluate_ms": 1 });
    x.evaluate(first.id, &report(1.0)).await.value();
    world.pass_ms(10_000).await;
    y.evaluate(second.id, &report(9.0)).await.refused(ProblemType::AssignmentClosed);
    assert_eq!(x.evaluate(first.id, &report(1.0)).await.status, 200, "the same report again");
    x.evaluate(first.id, &report(2.0)).await.refused(ProblemType::UpdateConflict);
    let round = world.evaluation(job.head.id, 1).await;
    assert_eq!((round.phase, round.loss, round.expired), (Phase::Committed, Some(1.0), 1));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_cohort_that_does_nothing_is_marked_expired_and_may_work_again() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let device = world.device().await;
    world.assign([&device]).await;
    world.pass_ms(10_000).await;
    world.pass_ms(1_000).await;
    let [assignment] = world.assign([&device]).await;
    assert_eq!(assignment.round, 2);
    device.contribute(&assignment, &STEP, 10).await;
    world.drive().await;
    assert_eq!(world.job_now(job.head.id).await.head.model_version, Some(1));
    world.check_books(job.head.id).await;
}
