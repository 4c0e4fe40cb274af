//! Accuracies of small clients: on whom they are measured, and what follows from them.

use serde_json::{Value, json};
use tributary_protocol::device::{Assignment, CheckInResponse};
use tributary_protocol::operator::{Curve, Job, ModelVersion, Page, RoundDetail};
use tributary_protocol::state::{JobState, Phase, Task};

use crate::support::{Device, WEIGHTS, World, job_file, within_reason};

fn report(examples: u64, accuracy: f64) -> Value {
    json!({ "examples": examples, "loss": 1.0 - accuracy, "accuracy": accuracy, "evaluate_ms": 3 })
}

/// Three clients train a model.
async fn train(world: &World, devices: [&Device; 3]) {
    let works = world.assign(devices).await;
    for (device, work) in devices.iter().zip(&works) {
        device.contribute(work, &[0.1; WEIGHTS], 10).await;
    }
    world.drive().await;
}

async fn evaluation_of(world: &World, device: &Device) -> Assignment {
    let [work] = world.assign([device]).await;
    assert_eq!(work.task, Task::Evaluate);
    work
}

/// Goal: without any setting, an accuracy is that of every client that is here, those that come a moment later too, and
/// it says so wherever it is shown.
/// Method: of five clients three train; four wait when the evaluation is drawn, and the fifth comes afterwards.
#[tokio::test]
async fn every_client_that_is_here_evaluates_and_the_result_says_how_many_they_were() {
    let world = World::start().await;
    let round = json!({ "updates_goal": 3, "updates_min": 3 });
    let job: Job = world.create_job(&job_file(&json!({ "round": round, "evaluation": {} }))).await.ok();
    let job = job.head.id;
    let [a, b, c, d, e] = world.devices().await;
    train(&world, [&a, &b, &c]).await;
    let works = world.assign([&a, &b, &d, &e]).await;
    assert!(works.iter().all(|work| work.task == Task::Evaluate), "training waits for them meanwhile");
    let sizes = [(&a, 18, 1.0), (&b, 17, 1.0), (&d, 19, 0.5), (&e, 18, 1.0)];
    for ((device, examples, accuracy), work) in sizes.iter().zip(&works) {
        device.evaluate(work.id, &report(*examples, *accuracy)).await.value();
    }
    world.drive().await;
    assert_eq!(world.evaluation(job, 1).await.phase, Phase::Training, "the third that trained is on its way back");
    let late = evaluation_of(&world, &c).await;
    c.evaluate(late.id, &report(18, 1.0)).await.value();
    world.drive().await;

    let evaluation = world.evaluation(job, 1).await;
    assert_eq!((evaluation.phase, evaluation.reported, evaluation.goal, evaluation.spare), (Phase::Committed, 5, 5, 0));
    let on = evaluation.measured_on.unwrap();
    assert_eq!((on.examples, on.clients, on.worst, on.p10), (90, 5, Some(0.5), Some(0.5)));
    let accuracy = 80.5 / 90.0;
    assert!((evaluation.accuracy.unwrap() - accuracy).abs() < 1e-12);
    assert!(on.low > 0.81 && on.low < accuracy && accuracy < on.high && on.high < 0.95, "{on:?}");
    assert_eq!(world.round(job, 1).await.measured_on, Some(on), "the round that made the model says the same");
    let progress = world.job_now(job).await.progress.unwrap();
    assert_eq!((progress.measured_on, progress.best.unwrap().measured_on), (Some(on), Some(on)));
    let curve: Curve = world.look(&format!("/jobs/{job}/curve")).await.ok();
    assert_eq!(curve.points[0].measured_on, Some(on));
    let models: Page<ModelVersion> = world.look(&format!("/jobs/{job}/models")).await.ok();
    assert_eq!(models.items[1].measured_on, Some(on));
    let overview = world.look("/overview").await.value();
    assert_eq!(overview["jobs"][0]["measured_on"]["examples"], 90);
    let table = world.look(&format!("/jobs/{job}/metrics?format=csv")).await;
    let table = String::from_utf8(table.body.to_vec()).unwrap();
    assert!(table.lines().next().unwrap().contains("measured_on.examples,measured_on.clients,measured_on.low"));
    assert!(table.lines().nth(1).unwrap().contains(",90,5,0.8"), "{table}");
    world.check_books(job).await;
}

/// Goal: a client that has gone for good holds an evaluation up for as long as the training took, and not longer.
#[tokio::test]
async fn a_client_that_has_gone_holds_no_evaluation_up_until_its_deadline() {
    let world = World::start().await;
    let round = json!({ "updates_goal": 3, "updates_min": 3 });
    let job: Job = world.create_job(&job_file(&json!({ "round": round, "evaluation": {} }))).await.ok();
    let job = job.head.id;
    let [a, b, c] = world.devices().await;
    let works = world.assign([&a, &b, &c]).await;
    world.hand.advance_ms(7_000);
    for (device, work) in [&a, &b, &c].iter().zip(&works) {
        device.contribute(work, &[0.1; WEIGHTS], 10).await;
    }
    world.drive().await;
    let works = world.assign([&a, &b]).await;
    for (device, work) in [&a, &b].iter().zip(&works) {
        device.evaluate(work.id, &report(20, 0.5)).await.value();
    }
    world.pass_ms(6_999).await;
    assert_eq!(world.evaluation(job, 1).await.phase, Phase::Training);
    world.pass_ms(1).await;
    let evaluation = world.evaluation(job, 1).await;
    assert_eq!((evaluation.phase, evaluation.reported, evaluation.goal), (Phase::Committed, 2, 2));
    world.check_books(job).await;
}

/// Goal: neither the best version nor the end of a job follows from an accuracy that few examples do not make sure of.
/// Method: the second version is measured by a single client of 19 examples, all of them right.
#[tokio::test]
async fn a_perfect_result_of_nineteen_examples_is_neither_the_best_nor_the_end() {
    let world = World::start().await;
    let changes = json!({ "evaluation": {}, "stop": { "accuracy": 0.9 } });
    let job: Job = world.create_job(&job_file(&changes)).await.ok();
    let job = job.head.id;
    let device = world.device().await;
    let measured = [(0.95, 100, JobState::Running), (1.0, 19, JobState::Running), (0.95, 900, JobState::Completed)];
    for (accuracy, examples, state) in measured {
        let [work] = world.assign([&device]).await;
        assert_eq!(work.task, Task::Train);
        device.contribute(&work, &[0.1; WEIGHTS], 10).await;
        world.drive().await;
        let work = evaluation_of(&world, &device).await;
        device.evaluate(work.id, &report(examples, accuracy)).await.value();
        world.drive().await;
        let now = world.job_now(job).await;
        assert_eq!(now.head.state, state, "{accuracy} of {examples}");
        let best = now.progress.unwrap().best.unwrap();
        let expected = if state == JobState::Completed { 3 } else { 1 };
        assert_eq!(best.version, expected, "19 of 19 make sure of 83 %, 95 of 100 of 89 %");
    }
    world.check_books(job).await;
}

/// Goal: the counts of the classes say of how many examples and clients they are.
#[tokio::test]
async fn a_confusion_matrix_says_of_whom_it_is() {
    let world = World::start().await;
    let job: Job = world.create_job(&job_file(&json!({ "evaluation": {}, "stop": { "rounds": 1 } }))).await.ok();
    let job = job.head.id;
    let [a, b] = world.devices().await;
    let [work] = world.assign([&a]).await;
    a.contribute(&work, &[0.1; WEIGHTS], 10).await;
    world.drive().await;
    for (device, work) in [&a, &b].iter().zip(world.assign([&a, &b]).await) {
        let classes = json!({ "kind": "confusion", "classes": 2, "counts": [4, 1, 1, 4] });
        let mut report = report(10, 0.8);
        report["classes"] = classes;
        device.evaluate(work.id, &report).await.value();
    }
    world.drive().await;
    for task in ["train", "evaluate"] {
        let detail: RoundDetail = world.look(&format!("/jobs/{job}/rounds/1?task={task}")).await.ok();
        let on = detail.classes_measured_on.unwrap();
        assert_eq!((on.examples, on.clients), (20, 2), "{task}");
    }
    world.check_books(job).await;
}

/// Goal: in a job whose clients never wait together, an evaluation takes each of them once.
/// Method: two clients of a buffered job come back one after the other.
#[tokio::test]
async fn an_evaluation_of_a_buffered_job_takes_each_client_once_as_it_comes() {
    let world = World::start().await;
    let mode = json!({ "kind": "buffered", "buffer": 2, "concurrency": 4, "staleness_max": 4 });
    let mut file = job_file(&json!({ "evaluation": { "deadline_ms": 60_000 } }));
    file["round"] = json!({ "mode": mode, "deadline_ms": 60_000 });
    let job: Job = world.create_job(&file).await.ok();
    let job = job.head.id;
    let [a, b] = world.devices().await;
    let works = world.assign([&a, &b]).await;
    for (device, work) in [&a, &b].iter().zip(&works) {
        device.contribute(work, &[0.1; WEIGHTS], 10).await;
    }
    world.drive().await;
    for device in [&a, &b] {
        let work = evaluation_of(&world, device).await;
        device.evaluate(work.id, &report(10, 0.5)).await.value();
        // It has evaluated this version: its next work is training.
        let waiting = device.wait();
        world.until_waiting(1).await;
        world.drive().await;
        let CheckInResponse::Assigned(next) = within_reason(waiting).await.unwrap() else { panic!("no work") };
        assert_eq!(next.task, Task::Train);
    }
    world.drive().await;
    let evaluation = world.evaluation(job, 1).await;
    assert_eq!((evaluation.phase, evaluation.reported), (Phase::Committed, 2));
    world.check_books(job).await;
}
