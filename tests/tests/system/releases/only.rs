//! Jobs that only evaluate, and gates.

use reqwest::Method;
use serde_json::{Value, json};
use tributary_protocol::device::{Assignment, CheckInResponse};
use tributary_protocol::id::JobId;
use tributary_protocol::operator::{self, Job, ModelVersion, Page, Release};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AssignmentState, JobState, ReleaseState, Task};

use super::{asked, release, releases, trained, updated};
use crate::support::{Device, World, job_file, within_reason};

/// A file of a job that only evaluates these versions.
fn only(name: &str, models: &[String]) -> Value {
    job_file(&json!({
        "name": name,
        "evaluation": { "only": true, "models": models, "deadline_ms": 10_000, "selection_timeout_ms": 20_000 },
    }))
}

/// Everybody waits, and each gets work.
async fn evaluators(world: &World, devices: &[Device]) -> Vec<Assignment> {
    let waiting: Vec<_> = devices.iter().map(Device::wait).collect();
    world.until_waiting(devices.len()).await;
    world.drive().await;
    let mut work = Vec::new();
    for answer in waiting {
        match within_reason(answer).await.unwrap() {
            CheckInResponse::Assigned(assignment) => work.push(*assignment),
            CheckInResponse::Retry { .. } => panic!("nothing to evaluate"),
        }
    }
    work
}

async fn report(device: &Device, work: &Assignment, accuracy: f64) {
    let report = json!({ "examples": 40, "loss": 0.5, "accuracy": accuracy, "evaluate_ms": 1 });
    device.evaluate(work.id, &report).await.value();
}

async fn results(world: &World, job: JobId, round: u32) -> Vec<operator::Assignment> {
    let path = format!("/jobs/{job}/rounds/{round}/assignments?task=evaluate&limit=100");
    world.look(&path).await.ok::<Page<operator::Assignment>>().items
}

/// Goal: fixed models are measured at each site, without any training, and what a site lacks has its reason. Method:
/// three versions, 20 sites; in the second evaluation one dies and one is late.
#[tokio::test]
async fn three_models_are_evaluated_at_twenty_sites_and_no_version_is_made() {
    let world = World::start().await;
    let source = trained(&world, json!({}), 2).await.head.id;
    world.operate(Method::POST, &format!("/jobs/{source}/stop"), &json!({})).await.value();
    world.drive().await;
    let mut devices = Vec::new();
    for _ in 0..20 {
        devices.push(world.device().await);
    }
    // So long ago that nobody expects the one that trained.
    world.hand.advance_ms(3_600_000);
    let models: Vec<_> = (0..3).map(|version| format!("steps:{version}")).collect();
    let job: Job = world.create_job(&only("study", &models)).await.ok();
    let id = job.head.id;
    assert_eq!((job.head.state, job.head.model_version), (JobState::Running, Some(2)));
    for version in 0..3u32 {
        assert_eq!(world.model_file(id, version).await, world.model_file(source, version).await);
        let work = evaluators(&world, &devices).await;
        assert!(work.iter().all(|work| (work.task, work.model_version) == (Task::Evaluate, version)));
        for (site, (device, work)) in devices.iter().zip(&work).enumerate() {
            match (version, site) {
                (1, 3) => {
                    device.fail(work.id, "out_of_memory").await.value();
                }
                (1, 4) => {}
                _ => report(device, work, 0.25 * f64::from(version)).await,
            }
        }
        if version == 1 {
            world.pass_ms(10_000).await;
        }
        world.drive().await;
    }
    let job = world.job_now(id).await;
    assert_eq!((job.head.state, job.head.rounds_opened, job.head.model_version), (JobState::Completed, 0, Some(2)));
    let versions = world.look(&format!("/jobs/{id}/models")).await.ok::<Page<ModelVersion>>().items;
    let measured: Vec<_> = versions.iter().map(|model| (model.accuracy, model.measured_on.unwrap().clients)).collect();
    assert_eq!(measured, [(Some(0.0), 20), (Some(0.25), 18), (Some(0.5), 20)]);
    let second = results(&world, id, 2).await;
    let lost: Vec<_> = second.iter().filter(|one| one.state != AssignmentState::Reported).collect();
    assert_eq!(lost.len(), 2);
    assert!(lost.iter().any(|one| one.reason.as_deref() == Some("out_of_memory")), "{lost:?}");
    assert!(lost.iter().any(|one| one.state == AssignmentState::Expired), "{lost:?}");
    let (low, high) = (second[0].accuracy_low.unwrap(), second[0].accuracy_high.unwrap());
    // statsmodels proportion_confint(10, 40, method="wilson").
    assert!((low - 0.141_871).abs() < 1e-5 && (high - 0.401_940).abs() < 1e-5, "{low} {high}");
}

/// Goal: a job that only evaluates names what it cannot evaluate, and takes no setting of what trains.
#[tokio::test]
async fn what_cannot_be_evaluated_alone_is_refused() {
    let world = World::start().await;
    trained(&world, json!({}), 0).await;
    let refused = async |file: Value, words: &str| {
        let detail = world.create_job(&file).await.refused(ProblemType::JobFileInvalid).detail;
        assert!(detail.contains(words), "{detail}");
    };
    refused(only("a", &["steps:9".into()]), "has no steps:9").await;
    refused(only("a", &["other:0".into()]), "has no other:0").await;
    refused(only("a", &[]), "[evaluation] models").await;
    let mut file = only("a", &["steps:0".into()]);
    file["model"] = json!({ "parameters": [{ "name": "w", "shape": [3] }] });
    refused(file, "other parameters").await;
    let mut file = only("a", &["steps:0".into()]);
    file["stop"] = json!({ "rounds": 3 });
    refused(file, "[stop]").await;
    let file = job_file(&json!({ "name": "a", "evaluation": { "models": ["steps:0"] } }));
    refused(file, "[evaluation] models").await;
}

/// Goal: a release with a gate goes out once its evaluation passes, and not otherwise. Method: two releases with the
/// same gate; the clients measure 0.95 of the first and 0.5 of the second.
#[tokio::test]
async fn a_gate_holds_a_release_until_its_evaluation_passes() {
    let world = World::start().await;
    let job = trained(&world, json!({ "evaluation": { "deadline_ms": 10_000 }, "stop": { "rounds": 2 } }), 0).await;
    let maker = world.device().await;
    for _ in 0..2 {
        let [work] = world.assign([&maker]).await;
        maker.contribute(&work, &[1.0; 6], 10).await;
        world.drive().await;
        let [work] = world.assign([&maker]).await;
        report(&maker, &work, 0.9).await;
        world.drive().await;
    }
    world.hand.advance_ms(3_600_000);
    let devices = [world.device().await, world.device().await];
    for (version, accuracy, state) in [(1, 0.95, ReleaseState::Out), (2, 0.5, ReleaseState::Refused)] {
        let gate = json!({ "gate": "accuracy >= 0.8 on evaluators" });
        let held: Release = release(&world, job.head.id, version, gate).await.ok();
        assert_eq!(held.state, ReleaseState::Held);
        let gate_job = world.job_now(held.gate_job.unwrap()).await;
        assert!(gate_job.file.only_evaluates() && gate_job.head.state == JobState::Running);
        let before = asked(&devices[0], None).await.ok::<tributary_protocol::release::ChannelAnswer>().release;
        assert_eq!(before.map(|before| before.number), (version == 2).then_some(1), "it is held");
        for (device, work) in devices.iter().zip(&evaluators(&world, &devices).await) {
            assert_eq!(work.model_sha256, held.sha256, "they measure what clients would get");
            report(device, work, accuracy).await;
        }
        world.drive().await;
        let decided = releases(&world).await[0].clone();
        assert_eq!(decided.state, state, "{:?}", decided.verdict);
        assert!(decided.verdict.unwrap().starts_with("accuracy >= 0.8: lower bound of the accuracy 0."));
    }
    world.hand.advance_ms(1_000);
    assert_eq!(updated(&devices[0], None).await.unwrap().number, 1, "the refused one went to nobody");
}

/// Goal: a gate whose evaluation is stopped refuses its release.
#[tokio::test]
async fn a_gate_without_a_result_refuses() {
    let world = World::start().await;
    let job = trained(&world, json!({}), 1).await.head.id;
    let held: Release = release(&world, job, 1, json!({ "gate": "loss <= 0.5" })).await.ok();
    let gate_job = held.gate_job.unwrap();
    world.operate(Method::POST, &format!("/jobs/{gate_job}/stop"), &json!({})).await.value();
    let refused = releases(&world).await[0].clone();
    assert_eq!(refused.state, ReleaseState::Refused);
    assert_eq!(refused.verdict.unwrap(), "loss <= 0.5: no client has evaluated it");
}
