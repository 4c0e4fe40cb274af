//! A coordinator that answers from lists and records what it was asked.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, put};
use axum::{Json, Router};
use reqwest::Url;
use serde_json::json;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::job_file::RoundPolicyChange;
use tributary_protocol::operator::{
    Assignment, ChangeJob, CreateJob, Job, ModelVersion, PAGE_ITEMS_DEFAULT, Page, Round, RoundDetail, TestSet,
};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::Task;

use super::samples::job;
use super::server::{refuse, serve};
use crate::api::Api;

/// The lists of the coordinator.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fake {
    pub(crate) jobs: Vec<Job>,
    pub(crate) rounds: Vec<Round>,
    pub(crate) versions: Vec<ModelVersion>,
    pub(crate) model: Vec<u8>,
    pub(crate) scalar_curves: serde_json::Value,
    /// Each long poll replaces job and rounds by those of the next scene and returns an event.
    pub(crate) scenes: Vec<Scene>,
    pub(crate) log: Arc<Mutex<Log>>,
}

/// A job and its rounds at a later time.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) job: Job,
    pub(crate) rounds: Vec<Round>,
}

#[derive(Debug, Default)]
pub(crate) struct Log {
    calls: Vec<String>,
    uploaded: Vec<u8>,
}

impl Fake {
    /// Serves until the test ends; returns a client.
    pub(crate) async fn start(&self) -> Api {
        Api::new(self.start_at().await, None).unwrap()
    }

    /// Serves until the test ends; returns the address.
    pub(crate) async fn start_at(&self) -> Url {
        let scenes = self.scenes.clone().into();
        let state = Stage { fake: Arc::new(Mutex::new(self.clone())), scenes: Arc::new(Mutex::new(scenes)) };
        let routes = Router::new()
            .route("/populations", get(list_populations))
            .route("/nodes", get(list_nodes))
            .route("/clients", get(list_clients))
            .route("/jobs", get(list_jobs).post(create_job))
            .route("/jobs/{id}", get(show_job).patch(file_job).delete(delete_job))
            .route("/jobs/{id}/round-policy", patch(change_policy))
            .route("/jobs/{id}/rounds", get(list_rounds))
            .route("/jobs/{id}/rounds/{number}", get(show_round))
            .route("/jobs/{id}/rounds/{number}/assignments", get(list_assignments))
            .route("/jobs/{id}/test-set", put(upload_test_set).get(no_test_set))
            .route("/jobs/{id}/metric-curves", get(scalar_curves))
            .route("/jobs/{id}/models", get(list_versions))
            .route("/jobs/{id}/models/{version}", put(upload).get(download))
            .route("/events", get(events))
            .layer(middleware::from_fn_with_state(Arc::clone(&self.log), write_log))
            .with_state(state);
        serve(Router::new().nest("/operator/v1", routes)).await
    }

    /// Method and path of every call.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.log.lock().unwrap().calls.clone()
    }

    /// The bytes of the last upload.
    pub(crate) fn uploaded(&self) -> Vec<u8> {
        self.log.lock().unwrap().uploaded.clone()
    }
}

#[derive(Clone)]
struct Stage {
    fake: Arc<Mutex<Fake>>,
    scenes: Arc<Mutex<VecDeque<Scene>>>,
}

type Pairs = Query<HashMap<String, String>>;

async fn write_log(State(log): State<Arc<Mutex<Log>>>, request: Request, next: Next) -> Response {
    log.lock().unwrap().calls.push(format!("{} {}", request.method(), request.uri().path()));
    next.run(request).await
}

/// One population, without clients.
async fn list_populations() -> Response {
    Json(json!({ "items": [{ "name": "demo", "clients": 0, "created_at_ms": 0 }] })).into_response()
}

/// One coordinator, which drives every job.
async fn list_nodes(State(stage): State<Stage>) -> Response {
    let jobs = stage.fake.lock().unwrap().jobs.clone();
    let leases: Vec<_> =
        jobs.iter().map(|job| json!({ "job": job.head.id, "token": 1, "expires_at_ms": 9_000 })).collect();
    let node = json!({ "id": "north", "version": "0.1.0", "started_at_ms": 0, "seen_at_ms": 0, "leases": leases });
    Json(json!({ "items": [node] })).into_response()
}

async fn list_clients() -> Response {
    Json(json!({ "items": [] })).into_response()
}

async fn list_jobs(State(stage): State<Stage>, Query(pairs): Pairs) -> Response {
    let jobs = stage.fake.lock().unwrap().jobs.clone();
    let wanted = pairs.get("population");
    let jobs = jobs.into_iter().filter(|job| wanted.is_none_or(|name| job.file.population.as_str() == name));
    // As a coordinator does: only the job alone has its progress.
    let items: Vec<Job> = jobs.map(|job| Job { progress: None, ..job }).collect();
    Json(Page { items, next: None }).into_response()
}

async fn create_job(State(stage): State<Stage>, Json(wanted): Json<CreateJob>) -> Response {
    let created = Job { file: wanted.job, ..job(1, "any", "any") };
    stage.fake.lock().unwrap().jobs.push(created.clone());
    (StatusCode::CREATED, Json(created)).into_response()
}

async fn show_job(State(stage): State<Stage>, Path(id): Path<JobId>) -> Response {
    let found = stage.fake.lock().unwrap().jobs.iter().find(|job| job.head.id == id).cloned();
    found.map_or_else(|| refuse(ProblemType::NotFound), |job| Json(job).into_response())
}

async fn file_job(State(stage): State<Stage>, Path(id): Path<JobId>, Json(change): Json<ChangeJob>) -> Response {
    let mut fake = stage.fake.lock().unwrap();
    let job = fake.jobs.iter_mut().find(|job| job.head.id == id).unwrap();
    let tags = change.ordered_tags();
    job.file.name = change.name.unwrap_or_else(|| job.file.name.clone());
    job.head.tags = tags.unwrap_or_else(|| job.head.tags.clone());
    job.head.notes = change.notes.unwrap_or_else(|| job.head.notes.clone());
    job.head.archived_at_ms = change.archived.map_or(job.head.archived_at_ms, |archived| archived.then_some(1));
    Json(job.clone()).into_response()
}

async fn delete_job(State(stage): State<Stage>, Path(id): Path<JobId>) -> StatusCode {
    stage.fake.lock().unwrap().jobs.retain(|job| job.head.id != id);
    StatusCode::NO_CONTENT
}

async fn change_policy(
    State(stage): State<Stage>,
    Path(id): Path<JobId>,
    Json(change): Json<RoundPolicyChange>,
) -> Response {
    let mut fake = stage.fake.lock().unwrap();
    let job = fake.jobs.iter_mut().find(|job| job.head.id == id).unwrap();
    job.file.round = change.applied_to(&job.file.round);
    Json(job.clone()).into_response()
}

async fn show_round(State(stage): State<Stage>, Path((_, number)): Path<(JobId, u32)>) -> Response {
    let found = stage.fake.lock().unwrap().rounds.iter().find(|round| round.number == number).cloned();
    let Some(round) = found else { return refuse(ProblemType::NotFound) };
    let explanation = format!("Round {number} has its reasons.");
    Json(RoundDetail {
        round,
        phases: vec![],
        explanation,
        evaluation: None,
        classes: None,
        classes_measured_on: None,
        what_if: vec![],
        staleness: vec![],
        clocks: vec![],
        groups: vec![],
        ring: None,
        waiting_for_group: 0,
    })
    .into_response()
}

async fn list_assignments() -> Response {
    Json(Page::<Assignment> { items: vec![], next: None }).into_response()
}

async fn list_rounds(State(stage): State<Stage>, Query(pairs): Pairs) -> Response {
    let number = |name: &str| pairs.get(name).map(|text| text.parse::<u32>().unwrap());
    let task: Task = pairs["task"].parse().unwrap();
    let mut rounds = stage.fake.lock().unwrap().rounds.clone();
    rounds.retain(|round| round.task == task && round.number > number("after").unwrap_or(0));
    if pairs.contains_key("latest") {
        rounds.reverse();
    }
    let limit = number("limit").unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let is_cut = rounds.len() > limit;
    rounds.truncate(limit);
    let next = rounds.last().filter(|_| is_cut).map(|round| round.number.to_string());
    Json(Page { items: rounds, next }).into_response()
}

async fn scalar_curves(State(stage): State<Stage>) -> Response {
    Json(stage.fake.lock().unwrap().scalar_curves.clone()).into_response()
}

async fn list_versions(State(stage): State<Stage>) -> Response {
    Json(Page { items: stage.fake.lock().unwrap().versions.clone(), next: None }).into_response()
}

async fn upload(State(stage): State<Stage>, body: Bytes) -> Response {
    stage.fake.lock().unwrap().log.lock().unwrap().uploaded = body.to_vec();
    StatusCode::NO_CONTENT.into_response()
}

async fn upload_test_set(State(stage): State<Stage>, body: Bytes) -> Response {
    stage.fake.lock().unwrap().log.lock().unwrap().uploaded = body.to_vec();
    let sha256 = Sha256Hash::of(&body);
    Json(TestSet { sha256, bytes: body.len() as u64, examples: 2, uploaded_at_ms: 0 }).into_response()
}

async fn no_test_set() -> Response {
    Json(json!({})).into_response()
}

async fn download(State(stage): State<Stage>) -> Response {
    stage.fake.lock().unwrap().model.clone().into_response()
}

async fn events(State(stage): State<Stage>, Query(pairs): Pairs) -> Response {
    let after: u64 = pairs["after"].parse().unwrap();
    let scene = if pairs["wait_ms"] == "0" { None } else { stage.scenes.lock().unwrap().pop_front() };
    let items: Vec<_> = scene
        .map(|Scene { job, rounds }| {
            let event = json!({ "sequence": after + 1, "at_ms": 0, "job": job.head.id, "became": "something" });
            let mut fake = stage.fake.lock().unwrap();
            fake.jobs = vec![job];
            fake.rounds = rounds;
            event
        })
        .into_iter()
        .collect();
    Json(json!({ "items": items })).into_response()
}
