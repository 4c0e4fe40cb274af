//! A coordinator that answers from lists, for the tests of commands, and the tests of the calls themselves.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post, put};
use axum::{Json, Router};
use serde_json::json;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{JobId, SecretKind};
use tributary_protocol::operator::PAGE_ITEMS_DEFAULT;
use tributary_protocol::problem::{self, ProblemType};
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{JobState, Phase};

use super::*;
use crate::output::{Output, Sink};

/// A small job.
pub(crate) const JOB_FILE: &str = r#"
    name = "digits"
    population = "demo"
    [model]
    input = [64]
    layers = [{ kind = "linear", out_features = 10 }]
    [training]
    epochs = 1
    optimizer = { kind = "sgd", learning_rate = 0.1 }
"#;

/// A running job of this number and name.
pub(crate) fn job(number: u8, population: &str, name: &str) -> Job {
    let mut file = JobFile::parse(JOB_FILE).unwrap();
    file.population = population.parse().unwrap();
    file.name = name.parse().unwrap();
    Job {
        id: JobId::from_random([number; 16]),
        file,
        plan_hash: Sha256Hash::of(b"plan"),
        state: JobState::Running,
        model_version: Some(0),
        parameters: 650,
        rounds_opened: 0,
        rounds_committed: 0,
        created_at_ms: 0,
        ended_at_ms: None,
        rounds_not_before_ms: None,
    }
}

/// A round of 13 clients of which nobody reported yet.
pub(crate) fn round(task: Task, number: u32, phase: Phase) -> Round {
    // Evaluations end a moment after their round.
    let ended_at_ms = i64::from(number) * 10 + i64::from(task == Task::Evaluate);
    Round {
        number,
        task,
        phase,
        reason: None,
        base_version: number - 1,
        seed: Seed(7),
        goal: 10,
        minimum: 5,
        cohort: 13,
        reported: 0,
        rejected: 0,
        failed: 0,
        expired: 0,
        opened_at_ms: 0,
        selected_at_ms: None,
        deadline_at_ms: None,
        closed_at_ms: None,
        assigned: 0,
        clients_ms: 0,
        ended_at_ms: (!phase.is_open()).then_some(ended_at_ms),
        weight: 0,
        folded: None,
        training_loss: None,
        loss: None,
        accuracy: None,
        bytes_up: 0,
        bytes_down: 0,
        raw_bytes_up: 0,
        raw_bytes_down: 0,
        step_norm: None,
        diversity: None,
    }
}

/// An output in no terminal, and what was printed to it.
pub(crate) fn output(json: bool) -> (Output, Arc<Mutex<String>>) {
    let printed = Arc::default();
    let sink = Sink::Kept(Arc::clone(&printed));
    (Output { sink, json, width: None, interactive: false, now_ms: 0 }, printed)
}

/// What a coordinator knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fake {
    pub(crate) jobs: Vec<Job>,
    pub(crate) rounds: Vec<Round>,
    pub(crate) versions: Vec<ModelVersion>,
    pub(crate) model: Vec<u8>,
    /// What becomes of it: each long poll plays the next one and rings.
    pub(crate) scenes: Vec<Scene>,
    pub(crate) log: Arc<Mutex<Log>>,
}

/// A job and its rounds at a later time.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) job: Job,
    pub(crate) rounds: Vec<Round>,
}

/// What was asked of a coordinator.
#[derive(Debug, Default)]
pub(crate) struct Log {
    calls: Vec<String>,
    uploaded: Vec<u8>,
}

impl Fake {
    /// Answers from now on, to the client that is returned.
    pub(crate) async fn start(&self) -> Api {
        let scenes = self.scenes.clone().into();
        let state = Stage { fake: Arc::new(Mutex::new(self.clone())), scenes: Arc::new(Mutex::new(scenes)) };
        let routes = Router::new()
            .route("/jobs", get(list_jobs).post(create_job))
            .route("/jobs/{id}", get(show_job))
            .route("/jobs/{id}/round-policy", patch(change_policy))
            .route("/jobs/{id}/rounds", get(list_rounds))
            .route("/jobs/{id}/rounds/{number}", get(show_round))
            .route("/jobs/{id}/rounds/{number}/assignments", get(list_assignments))
            .route("/jobs/{id}/models", get(list_versions))
            .route("/jobs/{id}/models/{version}", put(upload).get(download))
            .route("/events", get(events))
            .layer(middleware::from_fn_with_state(Arc::clone(&self.log), write_log))
            .with_state(state);
        let server = serve(Router::new().nest("/operator/v1", routes)).await;
        Api::new(server, None).unwrap()
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

/// Serves these routes on a free port for as long as the test runs.
pub(crate) async fn serve(routes: Router) -> Url {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    format!("http://{address}").parse().unwrap()
}

async fn write_log(State(log): State<Arc<Mutex<Log>>>, request: Request, next: Next) -> Response {
    log.lock().unwrap().calls.push(format!("{} {}", request.method(), request.uri().path()));
    next.run(request).await
}

fn refuse(kind: ProblemType) -> Response {
    let status = StatusCode::from_u16(kind.status()).unwrap();
    (status, [(CONTENT_TYPE, problem::CONTENT_TYPE)], Json(Problem::new(kind, "by the test"))).into_response()
}

async fn list_jobs(State(stage): State<Stage>, Query(pairs): Pairs) -> Response {
    let jobs = stage.fake.lock().unwrap().jobs.clone();
    let wanted = pairs.get("population");
    let jobs = jobs.into_iter().filter(|job| wanted.is_none_or(|name| job.file.population.as_str() == name));
    Json(Page { items: jobs.collect::<Vec<_>>(), next: None }).into_response()
}

async fn create_job(State(stage): State<Stage>, Json(wanted): Json<CreateJob>) -> Response {
    let created = Job { file: wanted.job, ..job(1, "any", "any") };
    stage.fake.lock().unwrap().jobs.push(created.clone());
    (StatusCode::CREATED, Json(created)).into_response()
}

async fn show_job(State(stage): State<Stage>, Path(id): Path<JobId>) -> Response {
    let found = stage.fake.lock().unwrap().jobs.iter().find(|job| job.id == id).cloned();
    found.map_or_else(|| refuse(ProblemType::NotFound), |job| Json(job).into_response())
}

async fn change_policy(
    State(stage): State<Stage>,
    Path(id): Path<JobId>,
    Json(change): Json<RoundPolicyChange>,
) -> Response {
    let mut fake = stage.fake.lock().unwrap();
    let job = fake.jobs.iter_mut().find(|job| job.id == id).unwrap();
    job.file.round = change.applied_to(&job.file.round);
    Json(job.clone()).into_response()
}

async fn show_round(State(stage): State<Stage>, Path((_, number)): Path<(JobId, u32)>) -> Response {
    let found = stage.fake.lock().unwrap().rounds.iter().find(|round| round.number == number).cloned();
    let Some(round) = found else { return refuse(ProblemType::NotFound) };
    let explanation = format!("Round {number} has its reasons.");
    Json(RoundDetail { round, phases: vec![], explanation, evaluation: None, what_if: vec![] }).into_response()
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

async fn list_versions(State(stage): State<Stage>) -> Response {
    Json(Page { items: stage.fake.lock().unwrap().versions.clone(), next: None }).into_response()
}

async fn upload(State(stage): State<Stage>, body: Bytes) -> Response {
    stage.fake.lock().unwrap().log.lock().unwrap().uploaded = body.to_vec();
    StatusCode::NO_CONTENT.into_response()
}

async fn download(State(stage): State<Stage>) -> Response {
    stage.fake.lock().unwrap().model.clone().into_response()
}

async fn events(State(stage): State<Stage>, Query(pairs): Pairs) -> Response {
    let after: u64 = pairs["after"].parse().unwrap();
    let scene = if pairs["wait_ms"] == "0" { None } else { stage.scenes.lock().unwrap().pop_front() };
    let items: Vec<_> = scene
        .map(|Scene { job, rounds }| {
            let event = json!({ "sequence": after + 1, "at_ms": 0, "job": job.id, "became": "something" });
            let mut fake = stage.fake.lock().unwrap();
            fake.jobs = vec![job];
            fake.rounds = rounds;
            event
        })
        .into_iter()
        .collect();
    Json(json!({ "items": items })).into_response()
}

fn some_job() -> JobId {
    JobId::from_random([9; 16])
}

#[tokio::test]
async fn a_call_carries_the_token_and_keeps_the_path_of_the_site() {
    let echo = |request: Request| async move {
        let token = request.headers()[AUTHORIZATION].to_str().unwrap().to_owned();
        Json(Page { items: Vec::<Job>::new(), next: Some(format!("{} {token}", request.uri())) })
    };
    let server = serve(Router::new().route("/fl/operator/v1/jobs", get(echo))).await;
    let token = Secret::from_random(SecretKind::Operator, [1; 32]);
    let api = Api::new(server.join("/fl/").unwrap(), Some(token.clone())).unwrap();
    let population = "demo".parse().unwrap();
    let page = PageQuery { limit: Some(5), after: Some("a&b".into()) };
    let echoed = api.jobs(Some(&population), page).await.unwrap().next.unwrap();
    let uri = "/fl/operator/v1/jobs?limit=5&after=a%26b&population=demo";
    assert_eq!(echoed, format!("{uri} Bearer {}", token.expose()));
}

#[tokio::test]
async fn a_problem_document_becomes_a_typed_error() {
    let routes = Router::new().route("/operator/v1/jobs/{id}/stop", post(async || refuse(ProblemType::WrongState)));
    let api = Api::new(serve(routes).await, None).unwrap();
    let Err(ApiError::Problem(problem)) = api.change_job(some_job(), JobChange::Stop).await else {
        panic!("must be a problem");
    };
    assert_eq!(*problem, Problem::new(ProblemType::WrongState, "by the test"));
}

#[tokio::test]
async fn answers_of_something_else_are_told_apart_from_no_answer() {
    let page = "<html>not a coordinator</html>";
    let routes = Router::new()
        .route("/other/operator/v1/jobs", get(async move || page))
        .route("/gateway/operator/v1/jobs", get(async move || (StatusCode::BAD_GATEWAY, page)));
    let server = serve(routes).await;
    let ask = async |server: Url| Api::new(server, None).unwrap().jobs(None, PageQuery::default()).await.unwrap_err();
    for (path, is_unreachable) in [("/other", false), ("/missing", false), ("/gateway", true)] {
        let error = ask(server.join(path).unwrap()).await;
        assert_eq!(matches!(error, ApiError::Unreachable { .. }), is_unreachable, "{path}: {error}");
    }
    // A port that was free a moment ago.
    let closed = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let error = ask(closed.parse().unwrap()).await.to_string();
    assert!(error.contains(&closed) && error.to_lowercase().contains("refused"), "{error}");
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_token() {
    let routes = Router::new().fallback(async || (StatusCode::TEMPORARY_REDIRECT, [("location", "/elsewhere")]));
    let api = Api::new(serve(routes).await, Some(Secret::from_random(SecretKind::Operator, [1; 32]))).unwrap();
    let error = api.job(some_job()).await.unwrap_err();
    assert!(matches!(error, ApiError::BadAnswer { .. }), "{error}");
}
