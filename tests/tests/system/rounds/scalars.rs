//! Metrics of one's own: named scalars and counts by class, from a client's report to the operator's eyes.

use reqwest::Method;
use serde_json::{Value, json};
use tributary_client::{
    AlwaysOn, ClassCounts, EvaluateTask, Evaluated, Outcome, Scalars, TrainError, TrainTask, Trained, Trainer,
};
use tributary_protocol::operator::{Job, RoundDetail, ScalarCurve};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{JobState, Phase, Task};

use crate::support::{
    Adds, Answer, Device, WEIGHTS, World, delta_file, evaluated_job, figures, job_file, sdk_client, within_reason,
};

const STEP: [f32; WEIGHTS] = [0.5; WEIGHTS];

/// Runs one training round of one client.
pub(super) async fn train_once(world: &World, device: &Device) {
    let [assignment] = world.assign([device]).await;
    device.contribute(&assignment, &STEP, 10).await;
    world.drive().await;
}

/// A report of 10 examples with these members more.
pub(super) fn report(more: &Value) -> Value {
    let mut report = json!({ "examples": 10, "loss": 1.0, "evaluate_ms": 5 });
    report.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    report
}

/// Trains like [`Adds`], and reports metrics.
struct Measures(Adds);

impl Trainer for Measures {
    fn examples(&self) -> u64 {
        self.0.examples()
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        let metrics = Scalars::new().with("grad-norm", 0.125).unwrap().with("f1.macro_avg", 1e-9).unwrap();
        Ok(self.0.train(task, should_stop)?.with_metrics(metrics))
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        let mut counts = ClassCounts::of_classes(2).unwrap();
        (0..8).for_each(|index| counts.count(index % 2, if index < 6 { index % 2 } else { 0 }));
        let metrics = Scalars::new().with("auc", 0.75).unwrap();
        let accuracy = Some(7.0 / 8.0);
        let measured = Evaluated::new(8, self.0.evaluate(task, should_stop)?.loss);
        Ok(measured.with_accuracy(accuracy).with_metrics(metrics).with_classes(counts))
    }
}

/// Goal: what a trainer reports arrives, from training and from an evaluation. Method: the SDK does both.
#[tokio::test]
async fn the_metrics_of_a_trainer_reach_the_operator() {
    let world = World::start().await;
    let job: Job = world.create_job(&job_file(&json!({ "evaluation": {}, "stop": { "rounds": 1 } }))).await.ok();
    let directory = tempfile::tempdir().unwrap();
    let client = sdk_client(&world, directory.path());
    for expected in ["contributed", "evaluated"] {
        let session = async { client.run_once(&mut Measures(Adds::new(0.5)), &AlwaysOn).await.unwrap() };
        let driving = async {
            world.until_waiting(1).await;
            world.drive().await;
        };
        let (outcome, ()) = within_reason(async { tokio::join!(session, driving) }).await;
        let is_expected = match outcome {
            Outcome::Contributed { .. } => expected == "contributed",
            Outcome::Evaluated { .. } => expected == "evaluated",
            _ => false,
        };
        assert!(is_expected, "{outcome:?}");
        world.drive().await;
    }

    let trained = world.round(job.head.id, 1).await;
    let names: Vec<&str> = trained.metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(names, ["f1.macro_avg", "grad-norm"]);
    assert_eq!((trained.metrics[0].mean, trained.metrics[1].p50), (1e-9, 0.125));
    assert_eq!(trained.evaluation_metrics[0].mean, 0.75);
    let assignments = world.assignments(job.head.id, 1).await;
    assert_eq!(assignments[0].metrics.get("grad-norm"), Some(0.125));
    let detail: RoundDetail = world.look(&format!("/jobs/{}/rounds/1", job.head.id)).await.ok();
    let counts = ClassCounts::Confusion { classes: 2, counts: vec![4, 0, 1, 3] };
    assert_eq!(detail.classes, Some(counts));
    assert_eq!(detail.evaluation.unwrap().classes.unwrap().right, [4, 3]);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn metrics_are_weighted_by_examples_with_their_quantiles_over_clients() {
    let world = World::start().await;
    let changes = json!({ "evaluation": { "reports_goal": 3 }, "stop": { "rounds": 1 } });
    let job: Job = world.create_job(&evaluated_job(&changes)).await.ok();
    let [trainer, x, y, z] = world.devices().await;
    let [x, y, z] = [x, y, z].map(|device| device.with("evaluator", "yes"));
    train_once(&world, &trainer).await;
    let work = world.assign([&x, &y, &z]).await;
    let confusion = |counts: [u64; 4]| json!({ "kind": "confusion", "classes": 2, "counts": counts });
    let reports = [
        json!({ "examples": 10, "loss": 1.0, "accuracy": 0.9, "evaluate_ms": 5, "metrics": { "auc": 0.9, "f1": 0.5 },
                "classes": confusion([5, 1, 0, 4]) }),
        json!({ "examples": 30, "loss": 1.0, "accuracy": 0.5, "evaluate_ms": 5, "metrics": { "auc": 0.5 },
                "classes": confusion([0, 15, 0, 15]) }),
        json!({ "examples": 20, "loss": 1.0, "evaluate_ms": 5 }),
    ];
    for ((device, assignment), report) in [&x, &y, &z].into_iter().zip(&work).zip(&reports) {
        device.evaluate(assignment.id, report).await.value();
        // Told twice, counted once.
        device.evaluate(assignment.id, report).await.value();
    }
    world.drive().await;

    let round = world.evaluation(job.head.id, 1).await;
    let [auc, f1] = round.metrics.as_slice() else { panic!("{:?}", round.metrics) };
    assert_eq!((auc.name.as_str(), auc.reports, auc.min, auc.p50, auc.max), ("auc", 2, 0.5, 0.5, 0.9));
    assert!((auc.mean - 0.6).abs() < 1e-12);
    assert_eq!((f1.reports, f1.mean), (1, 0.5));
    let detail: RoundDetail = world.look(&format!("/jobs/{}/rounds/1?task=evaluate", job.head.id)).await.ok();
    assert_eq!(detail.classes, Some(ClassCounts::Confusion { classes: 2, counts: vec![5, 16, 0, 19] }));
    assert_eq!(round.classes.unwrap().examples, [21, 19]);

    let curves: Vec<ScalarCurve> = world.look(&format!("/jobs/{}/metric-curves", job.head.id)).await.ok();
    let listed: Vec<_> = curves.iter().map(|curve| (curve.name.as_str(), curve.task, curve.points.len())).collect();
    assert_eq!(listed, [("auc", Task::Evaluate, 1), ("f1", Task::Evaluate, 1)]);
    assert_eq!(curves[0].points[0].summary, *auc);
    let export = world.look(&format!("/jobs/{}/metrics?format=csv", job.head.id)).await;
    let export = String::from_utf8(export.body.to_vec()).unwrap();
    let (heading, line) = export.split_once("\r\n").unwrap();
    let column = heading.split(',').position(|name| name == "evaluation_metrics.auc.p90").unwrap();
    assert_eq!(line.split(',').nth(column), Some("0.9"));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_job_is_complete_when_its_metric_is_reached() {
    let world = World::start().await;
    let stop = json!({ "stop": { "metric": "perplexity", "at_most": 12.0 } });
    let job: Job = world.create_job(&evaluated_job(&stop)).await.ok();
    let [trainer, evaluator] = world.devices().await;
    let evaluator = evaluator.with("evaluator", "yes");
    let running = JobState::Running;
    let perplexity = |value: f64| json!({ "metrics": { "perplexity": value } });
    let cases = [
        (perplexity(40.0), running),
        (json!({ "metrics": { "auc": 0.1 } }), running),
        (perplexity(12.0), JobState::Completed),
    ];
    for (more, state) in cases {
        train_once(&world, &trainer).await;
        let [measuring] = world.assign([&evaluator]).await;
        evaluator.evaluate(measuring.id, &report(&more)).await.value();
        world.drive().await;
        assert_eq!(world.job_now(job.head.id).await.head.state, state, "{more}");
    }
    world.check_books(job.head.id).await;
}

/// Goal: metrics that no report may carry are refused by name and change nothing.
#[tokio::test]
async fn metrics_that_no_report_may_carry_can_be_sent_again_without_them() {
    let world = World::start().await;
    let job: Job = world.create_job(&evaluated_job(&json!({}))).await.ok();
    let [trainer, evaluator] = world.devices().await;
    let evaluator = evaluator.with("evaluator", "yes");
    let [assignment] = world.assign([&trainer]).await;
    let many: Vec<String> = (0..33).map(|index| format!("m{index}:1")).collect();
    for (metrics, named) in [
        ("AUC:1", "AUC"),
        ("loss:1", "loss"),
        ("auc:NaN", "auc"),
        ("auc:inf", "auc"),
        ("auc", "auc"),
        (many.join(",").as_str(), "at most 32"),
    ] {
        let mut query = figures(10);
        query["metrics"] = metrics.into();
        let answer = trainer.put_update(assignment.id, &query, delta_file(&assignment, &STEP)).await;
        let problem = answer.refused(ProblemType::Malformed);
        assert!(problem.detail.contains(named), "{metrics}: {}", problem.detail);
    }
    trainer.contribute(&assignment, &STEP, 10).await;
    world.drive().await;
    let [measuring] = world.assign([&evaluator]).await;
    let long = "n".repeat(65);
    for metrics in [json!({ "Auc": 1 }), json!({ long: 1 }), json!({ "auc": null }), json!({ "auc": 1e300 })] {
        let answer = evaluator.evaluate(measuring.id, &report(&json!({ "metrics": metrics }))).await;
        answer.refused(ProblemType::Malformed);
    }
    evaluator.evaluate(measuring.id, &report(&json!({ "metrics": { "auc": 1 } }))).await.value();
    world.drive().await;
    assert_eq!(world.evaluation(job.head.id, 1).await.metrics[0].mean, 1.0);
    world.check_books(job.head.id).await;
}

/// Goal: counts by class that cannot be those of the report, of the model or of the round reject the report.
#[tokio::test]
async fn counts_that_contradict_the_report_reject_it() {
    let world = World::start().await;
    let model = json!({ "input": [4], "layers": [{ "kind": "linear", "out_features": 2 }] });
    let mut file = evaluated_job(&json!({ "round": { "updates_goal": 1 }, "evaluation": { "reports_goal": 1 } }));
    file["model"] = model;
    let job: Job = world.create_job(&file).await.ok();
    let [trainer, evaluator] = world.devices().await;
    let evaluator = evaluator.with("evaluator", "yes");
    let confusion = |classes: u32, counts: &[u64]| json!({ "kind": "confusion", "classes": classes, "counts": counts });
    let wrong = [
        (confusion(2, &[10, 0, 0]), "3 counts"),
        (confusion(2, &[5, 0, 0, 4]), "add up to 9"),
        (confusion(2, &[10, 5, 0, 5]), "add up to 20"),
        (confusion(3, &[10, 0, 0, 0, 0, 0, 0, 0, 0]), "3 classes"),
        (confusion(2, &[5, 5, 0, 0]), "accuracy"),
        (json!({ "kind": "per_class", "examples": [5, 5], "right": [6, 4] }), "class 0"),
    ];
    for (number, (classes, named)) in (1..).zip(wrong) {
        let [assignment] = world.assign([&trainer]).await;
        trainer.contribute(&assignment, &[0.5; 10], 10).await;
        world.drive().await;
        let [measuring] = world.assign([&evaluator]).await;
        let more = json!({ "accuracy": 1.0, "classes": classes });
        let problem = evaluator.evaluate(measuring.id, &report(&more)).await.refused(ProblemType::UpdateRejected);
        assert!(problem.detail.contains(named), "{classes}: {}", problem.detail);
        world.drive().await;
        let round = world.evaluation(job.head.id, number).await;
        assert_eq!((round.phase, round.rejected, round.classes), (Phase::Abandoned, 1, None));
        world.release(&evaluator).await;
    }
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_report_with_other_classes_than_its_round_is_rejected_and_the_sum_stays() {
    let world = World::start().await;
    let job: Job = world.create_job(&evaluated_job(&json!({ "evaluation": { "reports_goal": 2 } }))).await.ok();
    let [trainer, x, y] = world.devices().await;
    let [x, y] = [x, y].map(|device| device.with("evaluator", "yes"));
    train_once(&world, &trainer).await;
    let [first, second] = world.assign([&x, &y]).await;
    let per_class = |examples: &[u64]| json!({ "accuracy": 1.0, "classes": { "kind": "per_class", "examples": examples, "right": examples } });
    x.evaluate(first.id, &report(&per_class(&[4, 6]))).await.value();
    let problem = y.evaluate(second.id, &report(&per_class(&[4, 5, 1]))).await.refused(ProblemType::UpdateRejected);
    assert!(problem.detail.contains("3 classes, where the round counts 2"), "{}", problem.detail);
    world.drive().await;
    let round = world.evaluation(job.head.id, 1).await;
    assert_eq!((round.phase, round.reported, round.rejected), (Phase::Committed, 1, 1));
    assert_eq!(round.classes.unwrap().examples, [4, 6]);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_stop_criterion_that_cannot_be_measured_is_refused_with_the_job() {
    let world = World::start().await;
    for stop in
        [json!({ "metric": "auc" }), json!({ "metric": "auc", "at_least": 0.9, "at_most": 1 }), json!({ "at_most": 1 })]
    {
        let answer = world.create_job(&evaluated_job(&json!({ "stop": stop }))).await;
        assert!(answer.refused(ProblemType::JobFileInvalid).detail.contains("[stop] metric"));
    }
    let answer = world.create_job(&job_file(&json!({ "stop": { "metric": "auc", "at_least": 0.9 } }))).await;
    assert!(answer.refused(ProblemType::JobFileInvalid).detail.contains("[evaluation]"));
    let request = world
        .operator_request(Method::GET, &format!("/jobs/{}/metric-curves?points=1", world.job(json!({})).await.head.id));
    Answer::to(request).await.refused(ProblemType::Malformed);
}
