//! Creating jobs, moving them between their states, and uploading a model to start from.

use reqwest::Method;
use serde_json::json;
use tributary_protocol::operator::{Job, JobDraft, Page};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AbandonReason, JobState, Phase};

use crate::support::{Answer, WEIGHTS, World, bytes_of_tensors, evaluated_job, job_file};

#[tokio::test]
async fn a_job_that_cannot_run_is_refused_and_the_wrong_part_is_named() {
    let world = World::start().await;
    let network = |list: serde_json::Value| {
        let mut file = job_file(&json!({}));
        file["model"] = json!({ "input": [8], "layers": list });
        file
    };
    let linear = json!({ "kind": "linear", "out_features": 4 });
    let pool = json!({ "kind": "max_pool2d", "kernel_size": 2 });
    // (the file, the problem, what its detail must name)
    let cases = [
        (network(json!([linear, { "kind": "rellu" }])), ProblemType::Malformed, "rellu"),
        (network(json!([{ "kind": "relu", "slope": 1 }])), ProblemType::Malformed, "slope"),
        (network(json!([linear, pool])), ProblemType::JobFileInvalid, "layers[1] max_pool2d"),
        (network(json!([{ "kind": "linear", "out_features": 0 }])), ProblemType::JobFileInvalid, "layers[0] linear"),
        (network(json!([])), ProblemType::JobFileInvalid, "at least one layer"),
        (job_file(&json!({ "colour": "red" })), ProblemType::Malformed, "colour"),
        (job_file(&json!({ "round": { "goal": 3 } })), ProblemType::Malformed, "goal"),
        (job_file(&json!({ "round": { "updates_goal": 0 } })), ProblemType::JobFileInvalid, "[round] updates_goal"),
        (job_file(&json!({ "training": { "steps": 3 } })), ProblemType::JobFileInvalid, "epochs"),
        (job_file(&json!({ "name": "two words" })), ProblemType::Malformed, "two words"),
        (job_file(&json!({ "aggregation": { "combine": "guess" } })), ProblemType::Malformed, "guess"),
        (
            job_file(
                &json!({ "update": { "weight_max": 16_777_216, "magnitude_max": 1e6 }, "round": { "updates_goal": 10_000 } }),
            ),
            ProblemType::JobFileInvalid,
            "[update]",
        ),
        (job_file(&json!({ "population": "nobody" })), ProblemType::NotFound, "nobody"),
    ];
    for (file, kind, named) in cases {
        let problem = world.create_job(&file).await.refused(kind);
        assert!(problem.detail.contains(named), "{}: {named}", problem.detail);
    }
    let jobs: Page<Job> = world.look("/jobs").await.ok();
    assert!(jobs.items.is_empty(), "a refused job leaves nothing behind");
}

#[tokio::test]
async fn a_name_is_unique_in_its_population_only() {
    let world = World::start().await;
    world.job(json!({})).await;
    world.create_job(&job_file(&json!({}))).await.refused(ProblemType::NameTaken);
    world.operate(Method::POST, "/populations", &json!({ "name": "others" })).await.value();
    world.job(json!({ "population": "others" })).await;
    let jobs: Page<Job> = world.look("/jobs?population=others").await.ok();
    assert_eq!(jobs.items.len(), 1);
}

#[tokio::test]
async fn a_job_without_a_seed_gets_one_and_keeps_it() {
    let world = World::start().await;
    let job = world.job(json!({ "seed": null })).await;
    assert!(job.file.seed.is_some());
    assert_eq!(world.job_now(job.head.id).await.file.seed, job.file.seed);
}

#[tokio::test]
async fn a_job_moves_only_where_its_state_allows() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let act = |action: &'static str| {
        let path = format!("/jobs/{}/{action}", job.head.id);
        let world = &world;
        async move { world.operate(Method::POST, &path, &json!({})).await }
    };
    for (action, state) in [
        ("resume", JobState::Running),
        ("pause", JobState::Paused),
        ("pause", JobState::Paused),
        ("resume", JobState::Running),
        ("pause", JobState::Paused),
        ("stop", JobState::Stopped),
        ("stop", JobState::Stopped),
    ] {
        assert_eq!(act(action).await.ok::<Job>().head.state, state, "{action}");
    }
    act("pause").await.refused(ProblemType::WrongState);
    act("resume").await.refused(ProblemType::WrongState);
    let unknown = format!("/jobs/job_{}/stop", "0".repeat(32));
    world.operate(Method::POST, &unknown, &json!({})).await.refused(ProblemType::NotFound);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_paused_job_finishes_its_round_and_opens_no_other_until_it_is_resumed() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let device = world.device().await;
    let [assignment] = world.assign([&device]).await;
    world.operate(Method::POST, &format!("/jobs/{}/pause", job.head.id), &json!({})).await.value();
    device.contribute(&assignment, &[0.5; WEIGHTS], 10).await;
    world.drive().await;
    let now = world.job_now(job.head.id).await;
    assert_eq!((now.head.model_version, now.head.rounds_opened), (Some(1), 1));
    world.operate(Method::POST, &format!("/jobs/{}/resume", job.head.id), &json!({})).await.value();
    world.drive().await;
    assert_eq!(world.job_now(job.head.id).await.head.rounds_opened, 2);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_stopped_job_abandons_its_round_and_tells_its_clients() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let device = world.device().await;
    let [assignment] = world.assign([&device]).await;
    world.operate(Method::POST, &format!("/jobs/{}/stop", job.head.id), &json!({})).await.value();
    world.drive().await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.reason, round.expired), (Phase::Abandoned, Some(AbandonReason::JobStopped), 1));
    let refused = device.status(assignment.id).await.refused(ProblemType::AssignmentClosed);
    assert!(refused.detail.contains("abandoned"), "{}", refused.detail);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn an_uploaded_model_is_checked_and_starts_the_job_once() {
    let world = World::start().await;
    let job = world.job(json!({ "initial_model": "upload" })).await;
    assert_eq!((job.head.state, job.head.model_version), (JobState::AwaitingModel, None));
    world.drive().await;
    assert_eq!(world.job_now(job.head.id).await.head.rounds_opened, 0);
    let put = |version: u32, body: Vec<u8>| {
        let path = format!("/jobs/{}/models/{version}", job.head.id);
        Answer::to(world.operator_request(Method::PUT, &path).body(body))
    };
    let (w, b): (&[f32], &[f32]) = (&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0]);
    let right = bytes_of_tensors(&[("b", &[2], b), ("w", &[2, 2], w)], &[]);
    for (wrong, named) in [
        (bytes_of_tensors(&[("w", &[2, 2], w)], &[]), "\"b\""),
        (bytes_of_tensors(&[("w", &[4], w), ("b", &[2], b)], &[]), "\"w\""),
        (bytes_of_tensors(&[("w", &[2, 2], w), ("b", &[2], b), ("c", &[2], b)], &[]), "\"c\""),
        (bytes_of_tensors(&[("w", &[2, 2], w), ("b", &[2], &[f32::NAN, 0.0])], &[]), "\"b\""),
        (right[..right.len() - 1].to_vec(), "missing"),
        (b"not a model".to_vec(), "header"),
        (Vec::new(), "header"),
    ] {
        let problem = put(0, wrong).await.refused(ProblemType::ModelInvalid);
        assert!(problem.detail.contains(named), "{}: {named}", problem.detail);
    }
    put(0, vec![0; 100_000]).await.refused(ProblemType::TooLarge);
    put(1, right.clone()).await.refused(ProblemType::MethodNotAllowed);
    let started: Job = put(0, right.clone()).await.ok();
    assert_eq!((started.head.state, started.head.model_version), (JobState::Running, Some(0)));
    assert_eq!(
        world.weights(job.head.id, 0).await,
        [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        "in the job's order, not the file's"
    );
    put(0, right).await.refused(ProblemType::WrongState);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_random_model_takes_no_upload_and_depends_on_the_seed_alone() {
    let world = World::start().await;
    let files = [("one", 7), ("two", 7), ("three", 8)].map(|(name, seed)| json!({ "name": name, "seed": seed }));
    let mut models = Vec::new();
    for changes in files {
        let job: Job = world.create_job(&evaluated_job(&changes)).await.ok();
        models.push(world.model_file(job.head.id, 0).await);
        let path = format!("/jobs/{}/models/0", job.head.id);
        Answer::to(world.operator_request(Method::PUT, &path).body(models[0].clone()))
            .await
            .refused(ProblemType::WrongState);
    }
    assert_eq!(models[0], models[1]);
    assert_ne!(models[0], models[2]);
}

#[tokio::test]
async fn a_dry_run_lists_the_layers_and_says_what_is_probably_not_meant() {
    let world = World::start().await;
    let mut file = job_file(&json!({}));
    let linear = json!({ "kind": "linear", "out_features": 10 });
    file["model"] = json!({ "input": [8, 8], "layers": [{ "kind": "relu" }, linear] });
    let draft = world.operate(Method::POST, "/jobs?dry_run=true", &json!({ "job": file })).await;
    let draft: JobDraft = draft.ok();
    let rows: Vec<_> = draft.layers.iter().map(|row| (row.kind.as_str(), &row.output[..], row.parameters)).collect();
    assert_eq!(rows, [("relu", &[8, 8][..], 0), ("linear", &[8, 10], 90)]);
    assert_eq!((draft.parameters, draft.remarks.len()), (90, 2));
    assert!(
        draft.remarks[0].starts_with("layers[1] linear reads the 8 values of each of the 8 rows"),
        "{:?}",
        draft.remarks
    );
}
