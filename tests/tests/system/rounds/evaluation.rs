//! Evaluations, and the ends of jobs.

use serde_json::json;
use tributary_protocol::operator::Job;
use tributary_protocol::state::{JobState, Phase};

use crate::support::{Device, WEIGHTS, World, evaluated_job};

const STEP: [f32; WEIGHTS] = [0.5; WEIGHTS];

/// Runs one training round of one client.
async fn train_once(world: &World, device: &Device) {
    let [assignment] = world.assign([device]).await;
    device.contribute(&assignment, &STEP, 10).await;
    world.drive().await;
}

#[tokio::test]
async fn an_evaluation_stores_weighted_means_with_the_round_that_made_the_model() {
    let world = World::start().await;
    let changes = json!({ "evaluation": { "reports_goal": 2 }, "stop": { "rounds": 1 } });
    let job: Job = world.create_job(&evaluated_job(&changes)).await.ok();
    let [trainer, x, y] = world.devices().await;
    let (x, y) = (x.with("evaluator", "yes"), y.with("evaluator", "yes"));
    train_once(&world, &trainer).await;
    assert_eq!(world.job_now(job.head.id).await.head.state, JobState::Running, "its last model is not measured yet");

    let [first, second] = world.assign([&x, &y]).await;
    assert_eq!((first.model_version, first.round), (1, 1));
    let report = |examples, loss, accuracy| json!({ "examples": examples, "loss": loss, "accuracy": accuracy, "evaluate_ms": 5 });
    x.evaluate(first.id, &report(30, 1.0, 0.5)).await.value();
    y.evaluate(second.id, &report(10, 2.0, 0.9)).await.value();
    world.drive().await;

    let (training, evaluation) = (world.round(job.head.id, 1).await, world.evaluation(job.head.id, 1).await);
    assert_eq!((evaluation.phase, evaluation.weight), (Phase::Committed, 40));
    for round in [&training, &evaluation] {
        assert_eq!(round.loss, Some(1.25));
        assert!((round.accuracy.unwrap() - 0.6).abs() < 1e-12);
        let on = round.measured_on.unwrap();
        assert_eq!((on.examples, on.clients, on.worst, on.p10), (40, 2, Some(0.5), Some(0.5)));
        assert!((on.low - 0.446_0).abs() < 1e-3 && (on.high - 0.736_5).abs() < 1e-3, "{on:?}");
    }
    assert_eq!(training.training_loss, Some(0.5));
    let now = world.job_now(job.head.id).await;
    assert_eq!((now.head.state, now.head.rounds_opened), (JobState::Completed, 1));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn an_evaluator_counts_for_the_examples_that_it_told_when_it_was_drawn() {
    let world = World::start().await;
    let changes = json!({ "evaluation": { "reports_goal": 2 }, "stop": { "rounds": 1 } });
    let job: Job = world.create_job(&evaluated_job(&changes)).await.ok();
    let [trainer, x, y] = world.devices().await;
    let (x, y) = (x.with("evaluator", "yes").holding(100), y.with("evaluator", "yes").holding(25));
    train_once(&world, &trainer).await;
    let [first, second] = world.assign([&x, &y]).await;
    x.evaluate(first.id, &json!({ "examples": 75, "loss": 1.0, "accuracy": 0.5, "evaluate_ms": 5 })).await.value();
    let boasting = y.clone().holding(1 << 40);
    assert_eq!(boasting.work().await.id, second.id);
    let claimed = json!({ "examples": 1_u64 << 40, "loss": 1.0, "accuracy": 1.0, "evaluate_ms": 5 });
    boasting.evaluate(second.id, &claimed).await.value();
    world.drive().await;
    let round = world.evaluation(job.head.id, 1).await;
    assert_eq!((round.weight, round.accuracy), (100, Some(0.625)));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn evaluators_without_an_accuracy_do_not_weigh_on_it() {
    let world = World::start().await;
    let changes = json!({ "evaluation": { "reports_goal": 2 }, "stop": { "rounds": 1 } });
    let job: Job = world.create_job(&evaluated_job(&changes)).await.ok();
    let [trainer, x, y] = world.devices().await;
    let (x, y) = (x.with("evaluator", "yes"), y.with("evaluator", "yes"));
    train_once(&world, &trainer).await;
    let [first, second] = world.assign([&x, &y]).await;
    x.evaluate(first.id, &json!({ "examples": 30, "loss": 1.0, "evaluate_ms": 5 })).await.value();
    y.evaluate(second.id, &json!({ "examples": 10, "loss": 2.0, "accuracy": 0.75, "evaluate_ms": 5 })).await.value();
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.accuracy, Some(0.75));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_job_is_complete_after_its_rounds_and_draws_nobody_more() {
    let world = World::start().await;
    let job = world.job(json!({ "stop": { "rounds": 2 } })).await;
    let device = world.device().await;
    train_once(&world, &device).await;
    assert_eq!(world.job_now(job.head.id).await.head.state, JobState::Running);
    train_once(&world, &device).await;
    let now = world.job_now(job.head.id).await;
    assert_eq!((now.head.state, now.head.rounds_committed, now.head.model_version), (JobState::Completed, 2, Some(2)));
    assert!(now.head.ended_at_ms.is_some());
    assert!(world.gather(&[&device]).await[0].is_none());
    assert_eq!(world.job_now(job.head.id).await, now);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_job_is_complete_when_a_measurement_makes_sure_of_its_accuracy() {
    let world = World::start().await;
    let job: Job = world.create_job(&evaluated_job(&json!({ "stop": { "accuracy": 0.8 } }))).await.ok();
    let [trainer, evaluator] = world.devices().await;
    let evaluator = evaluator.with("evaluator", "yes");
    // 10 right answers of 10 make sure of 72 % only, and 93 of 100 of 86 %.
    let results = [(1.0, 10, JobState::Running), (0.87, 100, JobState::Running), (0.93, 100, JobState::Completed)];
    for (accuracy, examples, state) in results {
        train_once(&world, &trainer).await;
        let [measuring] = world.assign([&evaluator]).await;
        let report = json!({ "examples": examples, "loss": 1.0, "accuracy": accuracy, "evaluate_ms": 5 });
        evaluator.evaluate(measuring.id, &report).await.value();
        world.drive().await;
        assert_eq!(world.job_now(job.head.id).await.head.state, state, "accuracy {accuracy}");
    }
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn an_evaluation_without_evaluators_ends_and_does_not_keep_the_job_from_its_end() {
    let world = World::start().await;
    let job: Job = world.create_job(&evaluated_job(&json!({ "stop": { "rounds": 1 } }))).await.ok();
    let trainer = world.device().await;
    train_once(&world, &trainer).await;
    assert_eq!(world.job_now(job.head.id).await.head.state, JobState::Running);
    world.pass_ms(20_000).await;
    assert_eq!(world.evaluation(job.head.id, 1).await.phase, Phase::Abandoned);
    assert_eq!(world.job_now(job.head.id).await.head.state, JobState::Completed);
    assert_eq!(world.round(job.head.id, 1).await.accuracy, None);
    world.check_books(job.head.id).await;
}
