//! How jobs and versions are filed: names, tags, notes, the archive, pins, deletion.

use reqwest::Method;
use serde_json::{Value, json};
use tributary_protocol::id::JobId;
use tributary_protocol::operator::{
    AuditEntry, Client, Curve, Event, Job, ModelVersion, Overview, Page, Population, System,
};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AuditAction, JobState, Phase};
use tributary_server::db::Db;
use tributary_server::scheduled;

use crate::support::{Answer, Device, NOW_MS, WEIGHTS, World, evaluated_job, job_file};

const HOUR_MS: i64 = 3_600_000;

async fn file(world: &World, job: JobId, change: Value) -> Answer {
    world.operate(Method::PATCH, &format!("/jobs/{job}"), &change).await
}

async fn actions(world: &World) -> Vec<AuditAction> {
    let log: Page<AuditEntry> = world.look("/audit").await.ok();
    log.items.iter().map(|entry| entry.action).collect()
}

async fn play_round(world: &World, device: &Device) {
    let [assignment] = world.assign([device]).await;
    device.contribute(&assignment, &[0.5; WEIGHTS], 10).await;
    world.drive().await;
}

/// A round whose model gets this accuracy.
async fn play_measured(world: &World, device: &Device, evaluator: &Device, accuracy: f64) {
    world.hand.advance_ms(1_000);
    play_round(world, device).await;
    let [measure] = world.assign([evaluator]).await;
    let report = json!({ "examples": 50, "loss": 1.0 - accuracy, "accuracy": accuracy, "evaluate_ms": 3 });
    assert_eq!(evaluator.evaluate(measure.id, &report).await.status, 200);
    world.drive().await;
}

async fn versions(world: &World, job: JobId) -> Vec<ModelVersion> {
    let page: Page<ModelVersion> = world.look(&format!("/jobs/{job}/models")).await.ok();
    page.items
}

#[tokio::test]
async fn a_job_is_renamed_tagged_and_noted_while_its_round_goes_on() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let device = world.device().await;
    let [work] = world.assign([&device]).await;
    let change = json!({ "name": "renamed", "tags": ["paper", "baseline", "paper"], "notes": "two\nlines" });
    let filed: Job = file(&world, job.head.id, change).await.ok();
    let tags: Vec<_> = filed.head.tags.iter().map(ToString::to_string).collect();
    assert_eq!((filed.file.name.as_str(), filed.head.notes.as_str()), ("renamed", "two\nlines"));
    assert_eq!(tags, ["baseline", "paper"]);
    assert_eq!(filed.plan_hash, job.plan_hash, "no client notices");
    device.contribute(&work, &[0.5; WEIGHTS], 10).await;
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);

    // What is not named stays, and what changes nothing is not recorded.
    let filed: Job = file(&world, job.head.id, json!({ "notes": "" })).await.ok();
    assert_eq!((filed.head.tags.len(), filed.head.notes.as_str()), (2, ""));
    file(&world, job.head.id, json!({})).await.value();
    file(&world, job.head.id, json!({ "tags": ["paper", "baseline"] })).await.value();
    let recorded = actions(&world).await.into_iter().filter(|action| *action == AuditAction::JobChange).count();
    assert_eq!(recorded, 2);
    let seen: Overview = world.look("/overview").await.ok();
    assert_eq!((seen.jobs[0].job.name.as_str(), seen.jobs[0].job.head.tags.len()), ("renamed", 2));
    world.check_books(job.head.id).await;

    let other = world.job(json!({})).await;
    file(&world, other.head.id, json!({ "name": "renamed" })).await.refused(ProblemType::NameTaken);
    assert_eq!(world.job_now(other.head.id).await.file.name.as_str(), "steps");
    let many: Vec<String> = (0..21).map(|number| format!("tag{number}")).collect();
    for wrong in [json!({ "tags": many }), json!({ "tags": ["with space"] }), json!({ "notes": "x".repeat(4_001) })] {
        file(&world, job.head.id, wrong).await.refused(ProblemType::Malformed);
    }
}

#[tokio::test]
async fn an_archived_job_is_left_out_of_the_overview_until_it_is_asked_for() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let problem = file(&world, job.head.id, json!({ "archived": true })).await.refused(ProblemType::WrongState);
    assert!(problem.detail.contains("stop it first"), "{}", problem.detail);
    world.operate(Method::POST, &format!("/jobs/{}/stop", job.head.id), &json!({})).await.value();
    let archived: Job = file(&world, job.head.id, json!({ "archived": true })).await.ok();
    assert_eq!(archived.head.archived_at_ms, Some(NOW_MS));
    let shown = async |query: &str| -> usize {
        let seen: Overview = world.look(&format!("/overview{query}")).await.ok();
        seen.jobs.len()
    };
    assert_eq!((shown("").await, shown("?archived=true").await), (0, 1));
    let back: Job = file(&world, job.head.id, json!({ "archived": false })).await.ok();
    assert_eq!((back.head.archived_at_ms, shown("").await), (None, 1));
}

/// Rows that bodies of models and updates leave in the database.
async fn bodies(world: &World) -> i64 {
    let sql = "select (select count(*) from blob_chunks) + (select count(*) from staged_bodies where blob is not null) \
               + (select count(*) from objects) + (select count(*) from models) + (select count(*) from rounds) \
               + (select count(*) from assignments) + (select count(*) from events) + (select count(*) from model_files)";
    match &world.app().db {
        Db::Sqlite { writer, .. } => {
            sqlx::query_scalar(sql).fetch_one(&mut *writer.acquire().await.unwrap()).await.unwrap()
        }
        Db::Postgres { pool, .. } => sqlx::query_scalar(sql).fetch_one(pool).await.unwrap(),
    }
}

/// Goal: nothing of a deleted job is left but its entries in the audit log.
/// Method: count the rows of everything that a job has before it is made and after it is deleted.
#[tokio::test]
async fn a_job_that_has_ended_is_deleted_with_everything_it_had() {
    let world = World::start().await;
    let other = world.job(json!({ "name": "other" })).await;
    world.operate(Method::POST, &format!("/jobs/{}/pause", other.head.id), &json!({})).await.value();
    let before = bodies(&world).await;
    let job = world.job(json!({})).await;
    let path = format!("/jobs/{}", job.head.id);
    let device = world.device().await;
    for _ in 0..3 {
        play_round(&world, &device).await;
    }
    world.operate(Method::PUT, &format!("{path}/models/1/pin"), &json!({})).await.value();
    let refused = world.operate(Method::DELETE, &path, &json!({})).await.refused(ProblemType::WrongState);
    assert!(refused.detail.contains("only a job that has ended"), "{}", refused.detail);
    assert_eq!(world.model_file(job.head.id, 1).await.len(), world.model_file(job.head.id, 0).await.len());

    let [work] = world.assign([&device]).await;
    world.operate(Method::POST, &format!("{path}/stop"), &json!({})).await.value();
    if world.round(job.head.id, 4).await.phase.is_open() {
        let refused = world.operate(Method::DELETE, &path, &json!({})).await.refused(ProblemType::WrongState);
        assert!(refused.detail.contains("round 4"), "{}", refused.detail);
        device.fail(work.id, "interrupted").await;
    }
    world.pass_ms(HOUR_MS).await;
    assert_eq!(world.operate(Method::DELETE, &path, &json!({})).await.status, 204);
    world.look(&path).await.refused(ProblemType::NotFound);
    world.operate(Method::DELETE, &path, &json!({})).await.refused(ProblemType::NotFound);
    assert_eq!(bodies(&world).await, before);
    let jobs: Page<Job> = world.look("/jobs").await.ok();
    assert_eq!(jobs.items.iter().map(|job| job.head.id).collect::<Vec<_>>(), [other.head.id]);

    let log: Page<AuditEntry> = world.look("/audit").await.ok();
    let entry = log.items.iter().find(|entry| entry.action == AuditAction::JobDelete).unwrap();
    assert_eq!((entry.subject.clone(), entry.detail.as_deref()), (job.head.id.to_string(), Some("devices/steps")));
    // The client and the name go on.
    let client: Client = world.look(&format!("/clients/{}", device.id)).await.ok();
    assert_eq!(client.reported, 0);
    assert_ne!(world.create_job(&job_file(&json!({}))).await.ok::<Job>().head.id, job.head.id);
}

#[tokio::test]
async fn a_version_tells_its_evaluation_and_the_best_is_marked() {
    let world = World::start().await;
    let job: Job = world.create_job(&evaluated_job(&json!({ "stop": { "rounds": 9 } }))).await.ok();
    let (device, evaluator) = (world.device().await, world.device().await.with("evaluator", "yes"));
    for accuracy in [0.5, 0.8, 0.7] {
        play_measured(&world, &device, &evaluator, accuracy).await;
    }
    let told: Vec<_> = versions(&world, job.head.id).await.iter().map(|model| (model.accuracy, model.best)).collect();
    assert_eq!(told, [(None, false), (Some(0.5), false), (Some(0.8), true), (Some(0.7), false)]);
    let progress = world.job_now(job.head.id).await.progress.unwrap();
    let best = progress.best.unwrap();
    assert_eq!((progress.accuracy, best.accuracy, best.round, best.version), (Some(0.7), Some(0.8), 2, 2));
    assert_eq!(progress.ends_in_ms, Some(6_000), "six rounds at the pace of one a second");
    let seen: Overview = world.look("/overview").await.ok();
    assert_eq!((seen.jobs[0].best_round, seen.jobs[0].ends_in_ms), (Some(2), Some(6_000)));
    world.operate(Method::POST, &format!("/jobs/{}/pause", job.head.id), &json!({})).await.value();
    assert_eq!(world.job_now(job.head.id).await.progress.unwrap().ends_in_ms, None, "nobody knows how long it pauses");
}

#[tokio::test]
async fn a_job_with_its_rounds_says_that_its_last_evaluation_is_waited_for() {
    let world = World::start().await;
    let job: Job = world.create_job(&evaluated_job(&json!({ "stop": { "rounds": 2 } }))).await.ok();
    let (device, evaluator) = (world.device().await, world.device().await.with("evaluator", "yes"));
    play_measured(&world, &device, &evaluator, 0.5).await;
    let progress = async || world.job_now(job.head.id).await.progress.unwrap();
    assert!(!progress().await.awaits_evaluation);
    world.hand.advance_ms(1_000);
    play_round(&world, &device).await;
    let waits = progress().await;
    assert_eq!((waits.awaits_evaluation, waits.ends_in_ms), (true, None), "no time is left, and the job has not ended");
    let [measure] = world.assign([&evaluator]).await;
    let report = json!({ "examples": 50, "loss": 0.4, "accuracy": 0.6, "evaluate_ms": 3 });
    assert_eq!(evaluator.evaluate(measure.id, &report).await.status, 200);
    world.drive().await;
    assert_eq!(world.job_now(job.head.id).await.head.state, JobState::Completed);
    assert!(!progress().await.awaits_evaluation);
}

#[tokio::test]
async fn retention_keeps_a_pinned_version_until_it_is_unpinned() {
    let world = World::start().await;
    let job = world.job(json!({ "retention": { "models": { "last": 1 } } })).await;
    let device = world.device().await;
    for _ in 0..3 {
        play_round(&world, &device).await;
    }
    let pin = async |method: Method, version: u32| {
        world.operate(method, &format!("/jobs/{}/models/{version}/pin", job.head.id), &json!({})).await
    };
    let pinned: ModelVersion = pin(Method::PUT, 1).await.ok();
    assert_eq!(pinned.pinned_at_ms, Some(NOW_MS));
    pin(Method::PUT, 1).await.value();
    let stored = async || -> Vec<u32> {
        scheduled::run_due(world.app()).await.unwrap();
        world.hand.advance_ms(HOUR_MS);
        scheduled::run_due(world.app()).await.unwrap();
        let models = versions(&world, job.head.id).await;
        models.iter().filter(|model| model.deleted_at_ms.is_none()).map(|model| model.version).collect()
    };
    assert_eq!(stored().await, [1, 3]);
    assert_eq!(world.model_file(job.head.id, 1).await.len(), world.model_file(job.head.id, 3).await.len());
    pin(Method::PUT, 0).await.refused(ProblemType::Deleted);
    pin(Method::PUT, 9).await.refused(ProblemType::NotFound);
    let unpinned: ModelVersion = pin(Method::DELETE, 1).await.ok();
    assert_eq!(unpinned.pinned_at_ms, None);
    assert_eq!(stored().await, [3]);
    let recorded = actions(&world).await;
    let count = |wanted| recorded.iter().filter(|action| **action == wanted).count();
    assert_eq!((count(AuditAction::ModelPin), count(AuditAction::ModelUnpin)), (1, 1));
}

#[tokio::test]
async fn a_curve_marks_pauses_and_changes_of_the_policy() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let device = world.device().await;
    play_round(&world, &device).await;
    let post = async |action: &str| {
        world.hand.advance_ms(100);
        world.operate(Method::POST, &format!("/jobs/{}/{action}", job.head.id), &json!({})).await.value();
    };
    post("pause").await;
    post("resume").await;
    file(&world, job.head.id, json!({ "notes": "no mark" })).await.value();
    world
        .operate(Method::PATCH, &format!("/jobs/{}/round-policy", job.head.id), &json!({ "deadline_ms": 9_000 }))
        .await;
    let curve: Curve = world.look(&format!("/jobs/{}/curve", job.head.id)).await.ok();
    let told: Vec<_> = curve
        .marks
        .iter()
        .map(|mark| (mark.round, mark.wall_ms, mark.became.as_str(), mark.cause.as_deref().unwrap()))
        .collect();
    let expected =
        [(1, 100, "paused", "operator"), (1, 200, "running", "operator"), (1, 200, "running", "round_policy")];
    assert_eq!(told, expected);
    let events: Page<Event> = world.look(&format!("/events?job={}&limit=1000", job.head.id)).await.ok();
    assert!(events.items.iter().any(|event| event.cause.as_deref() == Some("filing")), "watchers read the job again");
    assert_eq!(world.job_now(job.head.id).await.head.state, JobState::Running);
}

#[tokio::test]
async fn clients_that_wait_are_online_wherever_they_are_shown() {
    let world = World::start().await;
    let [here, gone] = world.devices().await;
    let online = async || -> (u64, u64, Vec<bool>) {
        let system: System = world.look("/system").await.ok();
        let populations: Page<Population> = world.look("/populations").await.ok();
        let clients: Page<Client> = world.look("/clients?population=devices").await.ok();
        let each = clients.items.iter().map(|client| client.online).collect();
        (system.online_clients, populations.items[0].online, each)
    };
    assert_eq!(online().await, (0, 0, vec![false, false]));
    let held = here.wait();
    world.until_waiting(1).await;
    assert_eq!(online().await, (1, 1, vec![true, false]));
    let client: Client = world.look(&format!("/clients/{}", gone.id)).await.ok();
    assert!(!client.online);
    world.app().fleet.lobby.call([here.id]);
    held.await.unwrap();
    assert_eq!(online().await, (0, 0, vec![false, false]));
}

#[tokio::test]
async fn the_system_tells_the_load_of_the_last_hour() {
    let world = World::start().await;
    world.job(json!({})).await;
    let device = world.device().await;
    tributary_server::load::sample(world.app()).await;
    play_round(&world, &device).await;
    world.hand.advance_ms(30_000);
    tributary_server::load::sample(world.app()).await;
    let system: System = world.look("/system").await.ok();
    let [before, after] = system.history.as_slice() else { panic!("{:?}", system.history) };
    assert_eq!((before.at_ms, after.at_ms), (NOW_MS, NOW_MS + 30_000));
    assert_eq!((before.updates_per_s, before.checkins_per_s), (0.0, 0.0));
    assert!(after.updates_per_s > 0.0 && after.checkins_per_s > 0.0, "{after:?}");
    assert_eq!(after.updates_per_s, system.updates_per_s);
    assert!(after.database_bytes.is_some_and(|bytes| bytes > 0));
    for _ in 0..200 {
        tributary_server::load::sample(world.app()).await;
    }
    let system: System = world.look("/system").await.ok();
    assert_eq!(system.history.len(), 120, "an hour at most");
}
