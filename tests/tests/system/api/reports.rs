//! Failure reports and evaluation reports.

use reqwest::Method;
use serde_json::json;
use tributary_protocol::operator::Job;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AssignmentState, Phase};

use crate::support::{Answer, WEIGHTS, World, delta_file, evaluated_job, figures};

const STEP: [f32; WEIGHTS] = [0.5; WEIGHTS];

#[tokio::test]
async fn a_failure_is_stored_with_its_reason_and_may_be_told_twice() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 2 } })).await;
    let [a, b] = world.devices().await;
    let [first, _] = world.assign([&a, &b]).await;
    let path = format!("/assignments/{}/failure", first.id);
    let tell = |report| Answer::to(a.request(Method::POST, &path).json(&report));
    let long = json!({ "reason": "other", "detail": "x".repeat(1025) });
    tell(long).await.refused(ProblemType::Malformed);
    tell(json!({ "reason": 7 })).await.refused(ProblemType::Malformed);
    let report = json!({ "reason": "out_of_memory", "detail": "512 MiB were not enough" });
    tell(report.clone()).await.value();
    tell(report).await.value();
    let failed = &world.assignments(job.head.id, 1).await[0];
    let reason = Some("out_of_memory: 512 MiB were not enough");
    assert_eq!((failed.state, failed.reason.as_deref()), (AssignmentState::Failed, reason));
    let late = a.put_update(first.id, &figures(10), delta_file(&first, &STEP)).await;
    assert!(late.refused(ProblemType::AssignmentClosed).detail.contains("given up"));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_reason_of_a_newer_client_counts_as_another_one() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let device = world.device().await;
    let [work] = world.assign([&device]).await;
    let report = json!({ "reason": "too_hot", "detail": "61 C", "sensor": "battery" });
    device.fail_with(work.id, &report).await.value();
    let failed = &world.assignments(job.head.id, 1).await[0];
    assert_eq!((failed.state, failed.reason.as_deref()), (AssignmentState::Failed, Some("other: 61 C")));
}

#[tokio::test]
async fn a_failure_after_the_report_does_not_take_it_back() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 2 } })).await;
    let [a, b] = world.devices().await;
    let [first, _] = world.assign([&a, &b]).await;
    a.contribute(&first, &STEP, 10).await;
    a.fail(first.id, "other").await.refused(ProblemType::AssignmentClosed);
    assert_eq!(world.round(job.head.id, 1).await.reported, 1);
    world.check_books(job.head.id).await;
}

/// Goal: impossible figures reject the report, as they do an update; what does not even parse changes nothing.
/// Method: one evaluation per wrong report.
#[tokio::test]
async fn an_evaluation_with_impossible_figures_is_rejected_by_name() {
    let world = World::start().await;
    let job: Job = world.create_job(&evaluated_job(&json!({ "evaluation": { "reports_goal": 1 } }))).await.ok();
    let [trainer, evaluator] = world.devices().await;
    let evaluator = evaluator.with("evaluator", "yes");
    let report = |examples: u64, loss: f64, accuracy: f64| json!({ "examples": examples, "loss": loss, "accuracy": accuracy, "evaluate_ms": 1 });
    let wrong = [
        (report(0, 1.0, 0.5), "examples"),
        (report(u64::MAX, 1.0, 0.5), "examples"),
        (report(10, 1e300, 0.5), "loss"),
        (report(10, 1.0, 1.01), "accuracy"),
        (report(10, 1.0, -0.1), "accuracy"),
    ];
    for (number, (wrong, named)) in (1..).zip(wrong) {
        let [assignment] = world.assign([&trainer]).await;
        trainer.contribute(&assignment, &STEP, 10).await;
        world.drive().await;
        let [measuring] = world.assign([&evaluator]).await;
        let problem = evaluator.evaluate(measuring.id, &wrong).await.refused(ProblemType::UpdateRejected);
        assert!(problem.detail.contains(named), "{wrong}: {}", problem.detail);
        evaluator.evaluate(measuring.id, &report(10, 1.0, 0.5)).await.refused(ProblemType::UpdateRejected);
        world.drive().await;
        let round = world.evaluation(job.head.id, number).await;
        assert_eq!((round.phase, round.rejected), (Phase::Abandoned, 1));
        assert_eq!(world.round(job.head.id, number).await.accuracy, None, "nothing of it is kept");
        world.release(&evaluator).await;
    }
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn an_evaluation_that_does_not_parse_can_be_sent_again() {
    let world = World::start().await;
    let job: Job = world.create_job(&evaluated_job(&json!({}))).await.ok();
    let [trainer, evaluator] = world.devices().await;
    let evaluator = evaluator.with("evaluator", "yes");
    let [assignment] = world.assign([&trainer]).await;
    trainer.contribute(&assignment, &STEP, 10).await;
    world.drive().await;
    let [measuring] = world.assign([&evaluator]).await;
    // JSON has no NaN and no infinity.
    for wrong in [
        r#"{"examples": 10, "loss": NaN, "evaluate_ms": 1}"#,
        r#"{"examples": 10, "loss": 1e999, "evaluate_ms": 1}"#,
        r#"{"examples": 10, "loss": null, "evaluate_ms": 1}"#,
        r#"{"examples": -1, "loss": 1.0, "evaluate_ms": 1}"#,
        r#"{"examples": 10}"#,
    ] {
        let put = evaluator.request(Method::PUT, &format!("/assignments/{}/evaluation", measuring.id));
        let put = put.header("content-type", "application/json").body(wrong);
        Answer::to(put).await.refused(ProblemType::Malformed);
    }
    let update = evaluator.put_update(measuring.id, &figures(10), delta_file(&measuring, &STEP)).await;
    update.refused(ProblemType::WrongState);
    let right = json!({ "examples": 10, "loss": 1.0, "accuracy": 1.0, "evaluate_ms": 1 });
    evaluator.evaluate(measuring.id, &right).await.value();
    world.drive().await;
    assert_eq!(world.evaluation(job.head.id, 1).await.accuracy, Some(1.0));
    world.check_books(job.head.id).await;
}
