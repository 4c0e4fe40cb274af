//! Evaluations on the coordinator: from an uploaded test set to the accuracy of a version.

use reqwest::Method;
use serde_json::{Value, json};
use tributary_client::ClassCounts;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::operator::{AuditEntry, Job, Node, Page, Round, RoundDetail, TestSet, TestSetState};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::safetensors::{Data, Dtype, Tensor, write};
use tributary_protocol::state::{AbandonReason, HealthKind, JobState, Phase, Task};
use tributary_server::db::{Db, RoundKey};

use crate::support::{Answer, Device, World, job_file, within_reason};

/// Two inputs, two classes: 4 weights, then 2 biases.
fn own_job(changes: &Value) -> Value {
    let mut file = job_file(&json!({
        "evaluation": { "where": "coordinator", "selection_timeout_ms": 20_000 }, "stop": { "rounds": 1 },
    }));
    file["model"] = json!({ "input": [2], "layers": [{ "kind": "linear", "out_features": 2 }] });
    for (key, value) in changes.as_object().unwrap() {
        file[key] = value.clone();
    }
    file
}

/// Three examples; a network that copies its inputs is right about the first two.
fn test_set(last: i64) -> Vec<u8> {
    let labels: Vec<u8> = [0i64, 1, last].iter().flat_map(|class| class.to_le_bytes()).collect();
    let inputs = [9.0, 0.0, 0.0, 9.0, 9.0, 0.0];
    let tensors = [
        Tensor { name: "inputs", shape: &[3, 2], data: Data::F32(&inputs) },
        Tensor { name: "labels", shape: &[3], data: Data::Bytes(Dtype::I64, &labels) },
    ];
    write(&tensors, &Default::default())
}

/// A test set of two megabytes.
fn many_examples(first: i64) -> Vec<u8> {
    const EXAMPLES: usize = 120_000;
    let inputs = vec![first as f32; 2 * EXAMPLES];
    let labels: Vec<u8> = (0..EXAMPLES as i64).flat_map(|number| (number % 2).to_le_bytes()).collect();
    let tensors = [
        Tensor { name: "inputs", shape: &[EXAMPLES, 2], data: Data::F32(&inputs) },
        Tensor { name: "labels", shape: &[EXAMPLES], data: Data::Bytes(Dtype::I64, &labels) },
    ];
    write(&tensors, &Default::default())
}

async fn upload(world: &World, job: &Job, file: Vec<u8>) -> Answer {
    Answer::to(world.operator_request(Method::PUT, &format!("/jobs/{}/test-set", job.head.id)).body(file)).await
}

/// Trains one round that ends in the network which copies its inputs.
async fn train_once(world: &World, job: &Job, device: &Device) {
    let before = world.weights(job.head.id, world.job_now(job.head.id).await.head.model_version.unwrap()).await;
    let wanted = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0];
    let delta: Vec<f32> = wanted.iter().zip(before).map(|(wanted, before)| wanted - before).collect();
    let [assignment] = world.assign([device]).await;
    device.contribute(&assignment, &delta, 10).await;
    world.drive().await;
}

/// Test sets whose bodies the coordinator keeps.
async fn bodies_of_test_sets(world: &World) -> i64 {
    let sql = "select (select count(*) from blob_chunks where blob like 'test_set/%' and chunk = 0) \
               + (select count(*) from staged_bodies where blob like 'test_set/%') \
               + (select count(*) from objects where blob like 'test_set/%')";
    match &world.app().db {
        Db::Sqlite { writer, .. } => {
            sqlx::query_scalar(sql).fetch_one(&mut *writer.acquire().await.unwrap()).await.unwrap()
        }
        Db::Postgres { pool, .. } => sqlx::query_scalar(sql).fetch_one(pool).await.unwrap(),
    }
}

/// Waits until the evaluation of a round has ended.
async fn evaluated(world: &World, job: &Job, number: u32) -> Round {
    let mut changes = world.app().signals.watch();
    let ended = async {
        loop {
            world.drive().await;
            let round = world.evaluation(job.head.id, number).await;
            if !round.phase.is_open() {
                return round;
            }
            changes.changed().await.unwrap();
        }
    };
    within_reason(ended).await
}

#[tokio::test]
async fn a_version_is_measured_on_the_uploaded_test_set_and_the_job_ends_with_it() {
    let world = World::start().await;
    let job: Job = world.create_job(&own_job(&json!({}))).await.ok();
    let empty: TestSetState = world.look(&format!("/jobs/{}/test-set", job.head.id)).await.ok();
    assert_eq!(empty.test_set, None);
    let file = test_set(1);
    let stored: TestSet = upload(&world, &job, file.clone()).await.ok();
    assert_eq!((stored.examples, stored.bytes, stored.sha256), (3, file.len() as u64, Sha256Hash::of(&file)));
    let audit: Page<AuditEntry> = world.look("/audit?limit=1").await.ok();
    assert_eq!(audit.items[0].action.as_str(), "test_set.upload");

    let device = world.device().await;
    train_once(&world, &job, &device).await;
    let round = evaluated(&world, &job, 1).await;
    assert_eq!((round.phase, round.weight, round.cohort, round.reported), (Phase::Committed, 3, 0, 0));
    assert_eq!(round.accuracy, Some(2.0 / 3.0));
    let detail: RoundDetail = world.look(&format!("/jobs/{}/rounds/1?task=evaluate", job.head.id)).await.ok();
    assert_eq!(detail.classes, Some(ClassCounts::Confusion { classes: 2, counts: vec![1, 0, 1, 1] }));
    assert!(detail.explanation.contains("on the coordinator, with 3 examples"), "{}", detail.explanation);
    assert_eq!(world.round(job.head.id, 1).await.accuracy, Some(2.0 / 3.0));
    world.drive().await;
    assert_eq!(world.job_now(job.head.id).await.head.state, JobState::Completed);
    world.check_books(job.head.id).await;

    assert_eq!(bodies_of_test_sets(&world).await, 1);
    assert_eq!(world.operate(Method::DELETE, &format!("/jobs/{}", job.head.id), &json!({})).await.status, 204);
    assert_eq!(bodies_of_test_sets(&world).await, 0);
}

/// Goal: without a test set an evaluation says what it waits for, and waits as long as it takes; no client gets it.
#[tokio::test]
async fn an_evaluation_waits_for_its_test_set_and_calls_no_client() {
    let world = World::start().await;
    let job: Job = world.create_job(&own_job(&json!({ "stop": {} }))).await.ok();
    let device = world.device().await;
    train_once(&world, &job, &device).await;
    let detail: RoundDetail = world.look(&format!("/jobs/{}/rounds/1?task=evaluate", job.head.id)).await.ok();
    assert_eq!(detail.round.phase, Phase::Selecting);
    assert!(detail.explanation.contains("waits for the test set"), "{}", detail.explanation);
    let health = world.job_now(job.head.id).await.health[0].clone();
    assert_eq!(health.kind, HealthKind::WaitingForEvaluators);
    assert!(health.remedy.unwrap().contains("test-set upload"));
    // The device is drawn for training again, never for the evaluation.
    let work = world.gather(&[&device]).await;
    assert_eq!(work[0].as_ref().map(|work| work.round), Some(2));
    world.pass_ms(20_000).await;
    assert_eq!(world.evaluation(job.head.id, 1).await.phase, Phase::Selecting, "no timeout ends it");

    let late: TestSet = upload(&world, &job, test_set(0)).await.ok();
    let replaced: TestSet = upload(&world, &job, test_set(1)).await.ok();
    assert_ne!(late.sha256, replaced.sha256);
    assert_eq!(evaluated(&world, &job, 1).await.phase, Phase::Committed);
    world.check_books(job.head.id).await;
}

/// Goal: a trained job without a test set neither ends without a result nor is silent; an upload ends it, and so does
/// an operator.
#[tokio::test]
async fn a_trained_job_waits_for_its_test_set() {
    let world = World::start().await;
    let job: Job = world.create_job(&own_job(&json!({}))).await.ok();
    let device = world.device().await;
    train_once(&world, &job, &device).await;
    world.pass_ms(3_600_000).await;
    let waits = world.job_now(job.head.id).await;
    assert_eq!((waits.head.state, world.evaluation(job.head.id, 1).await.phase), (JobState::Running, Phase::Selecting));
    let text = waits.health[0].text.clone();
    assert!(text.starts_with("trained; only the evaluation of round 1 waits for the test set"), "{text}");
    upload(&world, &job, test_set(0)).await.ok::<TestSet>();
    assert_eq!(evaluated(&world, &job, 1).await.accuracy, Some(1.0));
    world.drive().await;
    assert_eq!(world.job_now(job.head.id).await.head.state, JobState::Completed);

    let other: Job = world.create_job(&own_job(&json!({ "name": "other" }))).await.ok();
    train_once(&world, &other, &device).await;
    world.operate(Method::POST, &format!("/jobs/{}/stop", other.head.id), &json!({})).await.value();
    world.drive().await;
    let round = world.evaluation(other.head.id, 1).await;
    assert_eq!((round.phase, round.reason), (Phase::Abandoned, Some(AbandonReason::JobStopped)));
    let nodes: Page<Node> = world.look("/nodes").await.ok();
    assert!(nodes.items[0].leases.is_empty(), "both jobs have ended: {:?}", nodes.items[0].leases);
}

/// Goal: an evaluation that a restart interrupted is computed after it. Method: the coordinator stops before it looks
/// at the version, so the evaluation can only be the next one's.
#[tokio::test]
async fn a_restart_evaluates_what_was_open() {
    let mut world = World::start().await;
    let job: Job = world.create_job(&own_job(&json!({ "evaluation": { "where": "coordinator" } }))).await.ok();
    let device = world.device().await;
    train_once(&world, &job, &device).await;
    assert_eq!(world.evaluation(job.head.id, 1).await.phase, Phase::Selecting);
    upload(&world, &job, test_set(1)).await.ok::<TestSet>();
    world.restart().await;
    let round = evaluated(&world, &job, 1).await;
    assert_eq!((round.phase, round.accuracy), (Phase::Committed, Some(2.0 / 3.0)));
    world.drive().await;
    assert_eq!(world.job_now(job.head.id).await.head.state, JobState::Completed);
    world.check_books(job.head.id).await;
}

/// Goal: an evaluation that ends the process does so twice at most, and a stop in good order is no such end.
/// Method: the beginnings are noted as by two coordinators that were killed.
#[tokio::test]
async fn an_evaluation_that_ended_the_process_is_given_up() {
    let world = World::start().await;
    let device = world.device().await;
    for (name, begun, phase) in [("once", 1, Phase::Committed), ("twice", 2, Phase::Abandoned)] {
        let job: Job = world.create_job(&own_job(&json!({ "name": name }))).await.ok();
        train_once(&world, &job, &device).await;
        let key = RoundKey { job: job.head.id, task: Task::Evaluate, number: 1 };
        let mut tx = world.app().db.begin().await.unwrap();
        tx.begin_evaluation(key).await.unwrap();
        tx.end_evaluation(key).await.unwrap();
        for so_often in 1..=begun {
            assert_eq!(tx.begin_evaluation(key).await.unwrap(), so_often);
        }
        tx.commit().await.unwrap();
        upload(&world, &job, test_set(1)).await.ok::<TestSet>();
        let round = evaluated(&world, &job, 1).await;
        let reason = (phase == Phase::Abandoned).then_some(AbandonReason::Fault);
        assert_eq!((round.phase, round.reason), (phase, reason), "{name}");
        world.drive().await;
        assert_eq!(world.job_now(job.head.id).await.head.state, JobState::Completed);
        world.check_books(job.head.id).await;
    }
}

/// Goal: jobs whose layers would fill the memory of the coordinator are refused where they are created.
#[tokio::test]
async fn networks_that_need_too_much_memory_are_refused_when_a_job_is_created() {
    let world = World::start().await;
    let mut file = own_job(&json!({}));
    file["model"] = json!({ "input": [1, 256, 256], "layers": [
        { "kind": "conv2d", "out_channels": 1024, "kernel_size": [1, 1] }, { "kind": "relu" },
        { "kind": "avg_pool2d", "kernel_size": [256, 256] }, { "kind": "flatten" },
        { "kind": "linear", "out_features": 10 },
    ] });
    let problem = world.create_job(&file).await.refused(ProblemType::JobFileInvalid);
    assert!(problem.detail.contains("[evaluation] where must be \"clients\" here"), "{}", problem.detail);
    let dry = world.operate(Method::POST, "/jobs?dry_run=true", &json!({ "job": file })).await;
    assert_eq!(dry.refused(ProblemType::JobFileInvalid).detail, problem.detail);
}

/// Goal: a test set that is replaced leaves nothing, before any scheduled work.
#[tokio::test]
async fn ten_uploads_leave_one_body() {
    let world = World::start().await;
    let job: Job = world.create_job(&own_job(&json!({}))).await.ok();
    for number in 0..10 {
        upload(&world, &job, many_examples(number)).await.ok::<TestSet>();
    }
    let sql = "select (select count(*) from staged_bodies) + (select count(*) from objects) \
               + (select count(distinct blob) from blob_chunks where blob not like 'model/%')";
    let rows: i64 = match &world.app().db {
        Db::Sqlite { writer, .. } => {
            sqlx::query_scalar(sql).fetch_one(&mut *writer.acquire().await.unwrap()).await.unwrap()
        }
        Db::Postgres { pool, .. } => sqlx::query_scalar(sql).fetch_one(pool).await.unwrap(),
    };
    let state: TestSetState = world.look(&format!("/jobs/{}/test-set", job.head.id)).await.ok();
    assert_eq!(state.test_set.unwrap().sha256, Sha256Hash::of(&many_examples(9)));
    assert!(rows <= 3, "{rows} rows");
}

#[tokio::test]
async fn a_job_ends_at_an_accuracy_that_the_coordinator_measured() {
    let world = World::start().await;
    let job: Job = world.create_job(&own_job(&json!({ "stop": { "accuracy": 0.4 } }))).await.ok();
    upload(&world, &job, test_set(0)).await.ok::<TestSet>();
    let device = world.device().await;
    train_once(&world, &job, &device).await;
    assert_eq!(evaluated(&world, &job, 1).await.accuracy, Some(1.0));
    world.drive().await;
    assert_eq!(world.job_now(job.head.id).await.head.state, JobState::Completed);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn test_sets_that_do_not_fit_and_jobs_that_take_none_are_refused() {
    let world = World::start().await;
    let job: Job = world.create_job(&own_job(&json!({}))).await.ok();
    let problem = upload(&world, &job, test_set(2)).await.refused(ProblemType::TestSetInvalid);
    assert!(problem.detail.contains("example 2: 2 is none of the network's 2 classes"), "{}", problem.detail);
    upload(&world, &job, b"a,b\n1,2\n".to_vec()).await.refused(ProblemType::TestSetInvalid);
    let whole = test_set(1);
    upload(&world, &job, whole[..whole.len() - 1].to_vec()).await.refused(ProblemType::TestSetInvalid);
    let state: TestSetState = world.look(&format!("/jobs/{}/test-set", job.head.id)).await.ok();
    assert_eq!(state.test_set, None, "nothing of them is kept");

    let on_clients: Job = world.create_job(&job_file(&json!({ "name": "other", "evaluation": {} }))).await.ok();
    upload(&world, &on_clients, test_set(1)).await.refused(ProblemType::WrongState);
    let foreign = job_file(&json!({ "name": "foreign", "evaluation": { "where": "coordinator" } }));
    let problem = world.create_job(&foreign).await.refused(ProblemType::JobFileInvalid);
    assert!(problem.detail.contains("cannot compute an app's own network"), "{}", problem.detail);
}
