//! Clients with several example sets: which jobs draw them, and in which order.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::examples::{MemoryExamples, Targets};
use tributary_client::{AlwaysOn, Client, LayerTrainer, Outcome, Sets, WaitsFor};
use tributary_protocol::operator::{self, Job, JobDraft, Page};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{AssignmentState, JobState};

use crate::support::{Adds, Answer, World, http, job_file, within_reason};

/// A job that learns on which side of a line points of this many numbers are.
fn line_job(name: &str, data: &str, inputs: usize, rounds: u32) -> Value {
    let mut file = job_file(&json!({
        "name": name, "data": data,
        "training": { "epochs": 2, "batch_size": 5, "optimizer": { "learning_rate": 0.5 } },
        "round": { "updates_goal": 2, "updates_min": 2, "deadline_ms": 3_600_000, "selection_timeout_ms": 3_600_000 },
        "stop": { "rounds": rounds },
    }));
    file["model"] = json!({ "input": [inputs], "layers": [{ "kind": "linear", "out_features": 2 }] });
    file
}

fn line_trainer(inputs: usize, seed: u64) -> LayerTrainer {
    let mut stream = Seed(seed).stream();
    let values: Vec<f32> = (0..30 * inputs).map(|_| stream.uniform(-1.0, 1.0)).collect();
    let classes = values.chunks(inputs).map(|point| u32::from(point[0] > 0.0)).collect();
    LayerTrainer::new(Arc::new(MemoryExamples::new(vec![inputs], values, Targets::Classes(classes)).unwrap()))
}

/// A client with these sets that runs until the task is aborted.
fn running(world: &World, directory: &TempDir, mut sets: Sets) -> tokio::task::JoinHandle<()> {
    let client = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory.path());
    let client = client.http_client(http()).wait(Duration::from_secs(20)).build().unwrap();
    tokio::spawn(async move { client.run(&mut sets, &AlwaysOn, std::future::pending()).await })
}

/// Returns once a job has these many committed rounds at least.
async fn committed(world: &World, job: &Job, rounds: u32) -> Job {
    let mut changes = world.app().signals.watch();
    loop {
        let now = world.job_now(job.head.id).await;
        if now.head.rounds_committed >= rounds {
            return now;
        }
        changes.changed().await.unwrap();
    }
}

/// Goal: two models of one app learn side by side, also where some devices have examples for one alone. Method: a
/// client with two sets, two clients with one each, and a job for each set, whose networks read inputs of different
/// shapes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_jobs_learn_from_the_sets_of_their_names() {
    const ROUNDS: u32 = 4;
    let world = World::start_driven().await;
    let models = [("keyboard", "typing", 3), ("gallery", "photos", 5)];
    let mut jobs: Vec<Job> = Vec::new();
    for (name, set, inputs) in models {
        jobs.push(world.create_job(&line_job(name, set, inputs, ROUNDS)).await.ok());
    }
    let directories: Vec<TempDir> = (0..3).map(|_| TempDir::new().unwrap()).collect();
    let typing = |seed| line_trainer(3, seed);
    let photos = |seed| line_trainer(5, seed);
    let both = Sets::new().with("typing", typing(1)).unwrap().with("photos", photos(2)).unwrap();
    let one = [Sets::new().with("typing", typing(3)).unwrap(), Sets::new().with("photos", photos(4)).unwrap()];
    let mut clients = vec![running(&world, &directories[0], both)];
    clients.extend(one.into_iter().zip(&directories[1..]).map(|(sets, directory)| running(&world, directory, sets)));
    for job in &jobs {
        let ended = within_reason(committed(&world, job, ROUNDS)).await;
        let rounds: Page<operator::Round> = world.look(&format!("/jobs/{}/rounds?task=train", job.head.id)).await.ok();
        assert_eq!(rounds.items.len() as u32, ROUNDS, "{:?}: no round was lost", ended.file.name);
        let mut losses: Vec<(u32, f64)> =
            rounds.items.iter().map(|round| (round.number, round.training_loss.unwrap())).collect();
        losses.sort_by_key(|(number, _)| *number);
        assert!(losses[3].1 < losses[0].1, "{:?}: {losses:?}", ended.file.name);
        for round in 1..=ROUNDS {
            let path = format!("/jobs/{}/rounds/{round}/assignments", job.head.id);
            let cohort: Page<operator::Assignment> = world.look(&path).await.ok();
            assert_eq!(cohort.items.len(), 2);
            for assignment in cohort.items {
                assert_eq!(assignment.state, AssignmentState::Reported, "{assignment:?}");
                assert_eq!(assignment.weight, Some(30), "the size of the set");
            }
        }
        world.check_books(job.head.id).await;
    }
    clients.iter().for_each(tokio::task::JoinHandle::abort);
    let enrolled: Page<operator::Client> = world.look("/clients?population=devices").await.ok();
    assert_eq!(enrolled.items.len(), 3);
}

/// Goal: no job starves another one. Method: one job needs a single client and takes each as it comes, the other one
/// needs both clients at a time. When the first of them has all its rounds, the other one has a third of all rounds at
/// least.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_needs_one_client_leaves_both_to_one_that_needs_two() {
    const ROUNDS: u32 = 14;
    let world = World::start_driven().await;
    let file = |name: &str, data: &str, clients: u32| {
        job_file(&json!({
            "name": name, "data": data, "stop": { "rounds": ROUNDS },
            "round": {
                "updates_goal": clients, "updates_min": clients, "deadline_ms": 3_600_000,
                "selection_timeout_ms": 3_600_000,
            },
        }))
    };
    let greedy: Job = world.create_job(&file("greedy", "typing", 1)).await.ok();
    let patient: Job = world.create_job(&file("patient", "photos", 2)).await.ok();
    let directories: Vec<TempDir> = (0..2).map(|_| TempDir::new().unwrap()).collect();
    let sets = || Sets::new().with("typing", Adds::new(0.1)).unwrap().with("photos", Adds::new(0.1)).unwrap();
    let clients: Vec<_> = directories.iter().map(|directory| running(&world, directory, sets())).collect();
    within_reason(async {
        tokio::select! {
            _ = committed(&world, &greedy, ROUNDS) => {}
            _ = committed(&world, &patient, ROUNDS) => {}
        }
    })
    .await;
    clients.iter().for_each(tokio::task::JoinHandle::abort);
    for job in [&greedy, &patient] {
        let now = world.job_now(job.head.id).await;
        assert!(now.head.rounds_committed >= ROUNDS / 2, "{}: {}", now.file.name, now.head.rounds_committed);
    }
}

/// Goal: who lacks a set is told so, and so is the operator. Method: a client with photos alone, a job for a set that
/// it lacks and one for examples without a name.
#[tokio::test]
async fn a_client_without_the_set_is_not_drawn_and_both_sides_are_told() {
    let world = World::start().await;
    let wanted: Job = world.create_job(&job_file(&json!({ "name": "keyboard", "data": "typing" }))).await.ok();
    world.drive().await;
    let directory = TempDir::new().unwrap();
    let client = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory.path());
    let client = client.http_client(http()).wait(Duration::ZERO).build().unwrap();
    let mut sets = Sets::new().with("photos", Adds::new(0.1)).unwrap();
    let outcome = client.run_once(&mut sets, &AlwaysOn).await.unwrap();
    let Outcome::NothingToDo { waits_for: Some(WaitsFor::Admission { job, reason }), .. } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!((job.as_str(), reason.as_str()), ("keyboard", "it has no example set typing"));

    let wanted = world.job_now(wanted.head.id).await;
    let text = &wanted.health[0].text;
    assert!(text.contains("0 of 1 enrolled clients have the example set typing (photos 1)"), "{text}");
    let draft = async |file: &Value| world.operate(Method::POST, "/jobs?dry_run=true", &json!({ "job": file })).await;
    let named: JobDraft = draft(&job_file(&json!({ "name": "other", "data": "typing" }))).await.ok();
    let lacking = "1 of 1 enrolled clients have not the example set typing, and no round draws them";
    assert!(named.remarks.iter().any(|remark| remark == lacking), "{:?}", named.remarks);
    let unnamed: JobDraft = draft(&job_file(&json!({ "name": "other" }))).await.ok();
    assert!(unnamed.remarks.iter().all(|remark| !remark.contains("example set")), "{:?}", unnamed.remarks);

    let plain: Job = world.create_job(&job_file(&json!({ "name": "plain" }))).await.ok();
    assert_eq!(plain.head.state, JobState::Running);
    world.drive().await;
    let outcome = client.run_once(&mut sets, &AlwaysOn).await.unwrap();
    let Outcome::NothingToDo { waits_for: Some(WaitsFor::Admission { reason, .. }), .. } = outcome else {
        panic!("{outcome:?}")
    };
    assert!(["it has no example set typing", "0 examples, where the job requires 1"].contains(&&*reason), "{reason}");
}

/// Goal: a relay plays a job that names a set with its clients that have the set, and brings as many updates. Method:
/// three clients behind it, of which two have the set and none has examples without a name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_offers_its_clients_that_have_the_set() {
    const ROUNDS: u32 = 2;
    let root = World::start_driven().await;
    let relay = root.relay().await;
    let job: Job = root.create_job(&line_job("keyboard", "typing", 3, ROUNDS)).await.ok();
    let directories: Vec<TempDir> = (0..3).map(|_| TempDir::new().unwrap()).collect();
    let both = Sets::new().with("typing", line_trainer(3, 1)).unwrap().with("photos", line_trainer(5, 2)).unwrap();
    let typing = Sets::new().with("typing", line_trainer(3, 3)).unwrap();
    let photos = Sets::new().with("photos", line_trainer(5, 4)).unwrap();
    let sets = [both, typing, photos].into_iter().zip(&directories);
    let clients: Vec<_> = sets.map(|(sets, directory)| running(&relay, directory, sets)).collect();
    within_reason(committed(&root, &job, ROUNDS)).await;
    clients.iter().for_each(tokio::task::JoinHandle::abort);
    for number in 1..=ROUNDS {
        let round = root.round(job.head.id, number).await;
        assert_eq!((round.cohort, round.reported, round.weight), (2, 2, 60), "{round:?}");
    }
}

#[tokio::test]
async fn more_sets_than_a_client_may_have_are_refused() {
    let world = World::start().await;
    let device = world.device().await;
    let check_in = async |sets: usize| {
        let sets: serde_json::Map<String, Value> =
            (0..sets).map(|set| (format!("set{set}"), json!({ "examples": 1 }))).collect();
        let body = json!({ "state": { "examples": 1 }, "sdk_version": "1", "codecs": ["f32"], "sets": sets });
        Answer::to(device.request(Method::POST, "/checkins").json(&body)).await
    };
    assert_eq!(check_in(32).await.status, 200);
    let detail = check_in(33).await.refused(ProblemType::Malformed).detail;
    assert!(detail.contains("at most 32 named example sets"), "{detail}");
}
