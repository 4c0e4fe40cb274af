//! Changing the round policy of a job that runs.

use reqwest::Method;
use serde_json::json;
use tributary_protocol::job_file::JobFile;
use tributary_protocol::operator::Job;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::Phase;

use crate::support::{WEIGHTS, World};

const STEP: [f32; WEIGHTS] = [0.5; WEIGHTS];

async fn change(world: &World, job: &Job, change: serde_json::Value) -> crate::support::Answer {
    world.operate(Method::PATCH, &format!("/jobs/{}/round-policy", job.head.id), &change).await
}

/// Goal: an open round keeps what it was opened with, across a restart too; the next one follows the new policy.
/// Method: shrink and grow goal and deadline while a round trains, restart, finish it, and look at the next.
#[tokio::test]
async fn an_open_round_keeps_its_policy_and_the_next_one_has_the_new_one() {
    let mut world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 3, "updates_min": 2, "deadline_ms": 10_000 } })).await;
    let [a, b, c] = world.devices().await;
    let work = world.assign([&a, &b, &c]).await;
    a.contribute(&work[0], &STEP, 10).await;
    let changed: Job =
        change(&world, &job, json!({ "updates_goal": 1, "updates_min": 1, "deadline_ms": 500 })).await.ok();
    assert_eq!((changed.file.round.updates_goal, changed.file.round.deadline_ms), (1, 500));
    assert_eq!(changed.file.round.backoff_ms, job.file.round.backoff_ms, "what was not named stays");
    assert_eq!(changed.plan_hash, job.plan_hash, "clients notice nothing");
    world.restart().await;
    world.pass_ms(2_000).await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.goal, round.reported), (Phase::Training, 3, 1));
    b.contribute(&work[1], &STEP, 10).await;
    c.contribute(&work[2], &STEP, 20).await;
    world.drive().await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.reported), (Phase::Committed, 3), "its sum has room for all of them");
    let [again] = world.assign([&a]).await;
    assert!(again.deadline_in_ms <= 500);
    assert_eq!((world.round(job.head.id, 2).await.goal, again.round), (1, 2));
    a.contribute(&again, &STEP, 10).await;
    world.drive().await;
    assert_eq!(world.job_now(job.head.id).await.head.model_version, Some(2));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn the_sum_of_an_open_round_is_the_same_whenever_the_policy_changes() {
    let mut models = Vec::new();
    for when in ["never", "before the restart", "after the restart"] {
        let mut world = World::start().await;
        let job = world.job(json!({ "round": { "updates_goal": 3, "updates_min": 2 } })).await;
        let [a, b, c] = world.devices().await;
        let work = world.assign([&a, &b, &c]).await;
        a.contribute(&work[0], &[0.1; WEIGHTS], 7).await;
        let grown = json!({ "updates_goal": 900, "over_selection": 2.0 });
        if when == "before the restart" {
            change(&world, &job, grown.clone()).await.value();
        }
        world.restart().await;
        b.contribute(&work[1], &[0.3; WEIGHTS], 3).await;
        if when == "after the restart" {
            change(&world, &job, grown).await.value();
        }
        c.contribute(&work[2], &[-0.7; WEIGHTS], 11).await;
        world.drive().await;
        models.push(world.model_file(job.head.id, 1).await);
    }
    assert!(models.windows(2).all(|pair| pair[0] == pair[1]), "the same bits");
}

#[tokio::test]
async fn a_policy_that_no_round_could_follow_changes_nothing() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    for (wrong, kind) in [
        (json!({ "updates_min": 2 }), ProblemType::JobFileInvalid),
        (json!({ "updates_goal": 0 }), ProblemType::JobFileInvalid),
        (json!({ "deadline_ms": 0 }), ProblemType::JobFileInvalid),
        (json!({ "over_selection": 0.5 }), ProblemType::JobFileInvalid),
        (json!({ "updates_goal": -1 }), ProblemType::Malformed),
        (json!({ "goal": 3 }), ProblemType::Malformed),
        (json!(7), ProblemType::Malformed),
    ] {
        change(&world, &job, wrong).await.refused(kind);
    }
    assert_eq!(change(&world, &job, json!({})).await.ok::<Job>(), job);
    assert_eq!(Job { health: vec![], progress: None, ..world.job_now(job.head.id).await }, job);
    world.operate(Method::POST, &format!("/jobs/{}/stop", job.head.id), &json!({})).await.value();
    change(&world, &job, json!({ "updates_goal": 2 })).await.refused(ProblemType::WrongState);
}

#[tokio::test]
async fn the_file_of_a_job_makes_the_same_job_again() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    change(&world, &job, json!({ "deadline_ms": 777 })).await.value();
    let answer = world.look(&format!("/jobs/{}/file", job.head.id)).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/toml; charset=utf-8"));
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    assert_eq!(JobFile::parse(&text).unwrap(), world.job_now(job.head.id).await.file);
    assert!(text.contains("deadline_ms = 777"), "{text}");

    let again = text.replace("\"steps\"", "\"again\"");
    let send = |path: &str, kind: &'static str, body: String| {
        let request = world.operator_request(Method::POST, path).header("content-type", kind).body(body);
        crate::support::Answer::to(request)
    };
    let draft = send("/jobs?dry_run=true", "application/toml", again.clone()).await;
    let draft: tributary_protocol::operator::JobDraft = draft.ok();
    assert_eq!((draft.parameters, draft.job.name.as_str()), (WEIGHTS as u64, "again"));
    assert_eq!(JobFile::parse(&draft.toml).unwrap(), draft.job);
    assert!(draft.layers.is_empty() && draft.remarks.is_empty(), "an app's own network");
    let made = send("/jobs", "application/toml; charset=utf-8", again.clone()).await;
    assert_eq!(made.status, 201, "trying it out did not take the name");
    assert_eq!(made.ok::<Job>().file, draft.job);
    for path in ["/jobs", "/jobs?dry_run=true"] {
        send(path, "application/toml", again.clone()).await.refused(ProblemType::NameTaken);
        send(path, "application/toml", "name = ".into()).await.refused(ProblemType::Malformed);
        send(path, "application/toml", again.replace("epochs = 1", "epochs = 0"))
            .await
            .refused(ProblemType::JobFileInvalid);
        let elsewhere = again.replace("\"devices\"", "\"nowhere\"");
        send(path, "application/toml", elsewhere).await.refused(ProblemType::NotFound);
        send(path, "application/toml", "x".repeat(300_000)).await.refused(ProblemType::TooLarge);
        send(path, "text/plain", again.clone()).await.refused(ProblemType::Malformed);
    }
}
