//! The sink against a server that checks requests as strictly as MLflow's documentation, and records them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::extract::{Query, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use tributary_protocol::state::Phase;

use super::*;
use crate::testing::{in_state, job, round, serve};

#[derive(Debug, Default)]
struct Recorded {
    experiments: Vec<String>,
    runs: Vec<HashMap<String, String>>,
    params: BTreeMap<String, String>,
    /// Curve, step, time, value.
    metrics: Vec<(String, u64, i64, f64)>,
    status: String,
    batches: usize,
    /// This many of the next calls are refused with a 503.
    away: usize,
}

type Shared = State<Arc<Mutex<Recorded>>>;

fn refuse(status: StatusCode, code: &str) -> Response {
    (status, Json(json!({ "error_code": code, "message": "by the test" }))).into_response()
}

fn only_keys(value: &Value, keys: &[&str]) {
    let object = value.as_object().unwrap();
    assert!(object.keys().all(|key| keys.contains(&key.as_str())), "{value}: only {keys:?}");
}

async fn fake(token: &'static str) -> (Url, Arc<Mutex<Recorded>>) {
    let recorded = Arc::<Mutex<Recorded>>::default();
    let api = Router::new()
        .route("/experiments/get-by-name", get(find_experiment))
        .route("/experiments/create", post(create_experiment))
        .route("/runs/search", post(search))
        .route("/runs/create", post(create_run))
        .route("/runs/get", get(get_run))
        .route("/runs/log-batch", post(log_batch))
        .route("/runs/update", post(update))
        .layer(middleware::from_fn_with_state(
            Arc::clone(&recorded),
            move |State(recorded): Shared, request: Request, next: Next| async move {
                if recorded.lock().unwrap().away > 0 {
                    recorded.lock().unwrap().away -= 1;
                    return StatusCode::SERVICE_UNAVAILABLE.into_response();
                }
                if request.headers().get(AUTHORIZATION).is_none_or(|given| given != token) {
                    return refuse(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED");
                }
                next.run(request).await
            },
        ))
        .with_state(Arc::clone(&recorded));
    let server = serve(Router::new().nest("/tracking/api/2.0/mlflow", api)).await;
    (server.join("/tracking/").unwrap(), recorded)
}

async fn find_experiment(State(recorded): Shared, Query(pairs): Query<HashMap<String, String>>) -> Response {
    let recorded = recorded.lock().unwrap();
    match recorded.experiments.iter().position(|name| *name == pairs["experiment_name"]) {
        Some(id) => {
            let experiment = json!({ "experiment_id": id.to_string(), "lifecycle_stage": "active", "name": "x" });
            Json(json!({ "experiment": experiment })).into_response()
        }
        None => refuse(StatusCode::NOT_FOUND, "RESOURCE_DOES_NOT_EXIST"),
    }
}

async fn create_experiment(State(recorded): Shared, Json(wanted): Json<Value>) -> Response {
    only_keys(&wanted, &["name"]);
    let mut recorded = recorded.lock().unwrap();
    recorded.experiments.push(wanted["name"].as_str().unwrap().to_owned());
    Json(json!({ "experiment_id": (recorded.experiments.len() - 1).to_string() })).into_response()
}

fn run_of(recorded: &Recorded, number: usize) -> Value {
    let tags: Vec<Value> =
        recorded.runs[number].iter().map(|(key, value)| json!({ "key": key, "value": value })).collect();
    let params: Vec<Value> = recorded.params.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect();
    json!({ "info": { "run_id": format!("run{number}") }, "data": { "tags": tags, "params": params } })
}

async fn search(State(recorded): Shared, Json(wanted): Json<Value>) -> Response {
    only_keys(&wanted, &["experiment_ids", "filter", "run_view_type", "max_results"]);
    let recorded = recorded.lock().unwrap();
    let filter = wanted["filter"].as_str().unwrap();
    let found =
        recorded.runs.iter().position(|tags| filter == format!("tags.`tributary.job` = '{}'", tags["tributary.job"]));
    // MLflow leaves an empty list out.
    Json(found.map_or(json!({}), |number| json!({ "runs": [run_of(&recorded, number)] }))).into_response()
}

async fn create_run(State(recorded): Shared, Json(wanted): Json<Value>) -> Response {
    only_keys(&wanted, &["experiment_id", "run_name", "start_time", "tags"]);
    assert!(wanted["start_time"].is_i64() && wanted["experiment_id"] == "0");
    let tag = |tag: &Value| (tag["key"].as_str().unwrap().to_owned(), tag["value"].as_str().unwrap().to_owned());
    let mut recorded = recorded.lock().unwrap();
    recorded.runs.push(wanted["tags"].as_array().unwrap().iter().map(tag).collect());
    let run = run_of(&recorded, recorded.runs.len() - 1);
    Json(json!({ "run": run })).into_response()
}

async fn get_run(State(recorded): Shared, Query(pairs): Query<HashMap<String, String>>) -> Response {
    assert_eq!(pairs["run_id"], "run0");
    let run = run_of(&recorded.lock().unwrap(), 0);
    Json(json!({ "run": run })).into_response()
}

async fn log_batch(State(recorded): Shared, Json(batch): Json<Value>) -> Response {
    only_keys(&batch, &["run_id", "metrics", "params", "tags"]);
    assert_eq!(batch["run_id"], "run0");
    let list = |name: &str| batch[name].as_array().cloned().unwrap_or_default();
    let (metrics, params, tags) = (list("metrics"), list("params"), list("tags"));
    if metrics.len() > 1000 || params.len() > 100 || tags.len() > 100 {
        return refuse(StatusCode::BAD_REQUEST, "INVALID_PARAMETER_VALUE");
    }
    let mut recorded = recorded.lock().unwrap();
    for metric in &metrics {
        only_keys(metric, &["key", "value", "timestamp", "step"]);
        let (step, at_ms) = (metric["step"].as_u64().unwrap(), metric["timestamp"].as_i64().unwrap());
        recorded.metrics.push((
            metric["key"].as_str().unwrap().to_owned(),
            step,
            at_ms,
            metric["value"].as_f64().unwrap(),
        ));
    }
    for param in &params {
        let (key, value) = (param["key"].as_str().unwrap(), param["value"].as_str().unwrap());
        assert!(key.len() <= 250 && value.len() <= 500);
        if recorded.params.insert(key.to_owned(), value.to_owned()).is_some_and(|old| old != value) {
            return refuse(StatusCode::BAD_REQUEST, "INVALID_PARAMETER_VALUE");
        }
    }
    for tag in &tags {
        let (key, value) = (tag["key"].as_str().unwrap().to_owned(), tag["value"].as_str().unwrap().to_owned());
        recorded.runs[0].insert(key, value);
    }
    recorded.batches += 1;
    Json(json!({})).into_response()
}

async fn update(State(recorded): Shared, Json(wanted): Json<Value>) -> Response {
    only_keys(&wanted, &["run_id", "status", "end_time"]);
    recorded.lock().unwrap().status = wanted["status"].as_str().unwrap().to_owned();
    Json(json!({ "run_info": {} })).into_response()
}

fn rounds(numbers: std::ops::RangeInclusive<u32>) -> Vec<Round> {
    let both = |number| [round(Task::Train, number, Phase::Committed), round(Task::Evaluate, number, Phase::Committed)];
    let mut rounds: Vec<Round> = numbers.flat_map(both).collect();
    for round in &mut rounds {
        (round.training_loss, round.accuracy) = (Some(1.0 / f64::from(round.number)), Some(0.5));
    }
    rounds
}

fn token() -> Sealed<String> {
    "s3cret".into()
}

#[tokio::test]
async fn a_run_is_found_again_and_gets_only_what_is_new() {
    let (server, recorded) = fake("Bearer s3cret").await;
    let job = job(1, "demo", "digits");
    let news =
        |ended: &[Round], state| News { job: in_state(&job, state), ended: ended.to_vec(), open: None, waits: None };
    let all = rounds(1..=300);
    for (known, state) in [(200, JobState::Running), (600, JobState::Running), (600, JobState::Completed)] {
        let mut run = Mlflow::open(&server, Some(&token()), "vision", &job).await.unwrap();
        run.take(&news(&all[..known], state)).await.unwrap();
        assert!(run.place().ends_with("/tracking/#/experiments/0/runs/run0"), "{}", run.place());
    }
    let recorded = recorded.lock().unwrap();
    assert_eq!((recorded.experiments.as_slice(), recorded.runs.len()), (&["vision".to_owned()][..], 1));
    assert_eq!(recorded.status, "FINISHED");
    let losses: Vec<u64> = recorded.metrics.iter().filter(|m| m.0 == "training/loss").map(|m| m.1).collect();
    assert_eq!(losses, (1..=300).collect::<Vec<u64>>());
    assert_eq!(recorded.metrics.iter().filter(|m| m.0 == "evaluation/accuracy").count(), 300);
    assert!(recorded.metrics.contains(&("training/loss".into(), 4, 40, 0.25)));
    assert_eq!(recorded.runs[0][TAG_TRAINED], "300");
    assert_eq!((recorded.params["training.epochs"].as_str(), recorded.params["name"].as_str()), ("1", "digits"));
    assert!(recorded.batches < 10, "{} calls", recorded.batches);
}

#[tokio::test]
async fn a_call_that_failed_is_made_again_and_nothing_is_written_twice() {
    let (server, recorded) = fake("Bearer s3cret").await;
    let job = job(1, "demo", "digits");
    let news = News { job: job.clone(), ended: rounds(1..=2), open: None, waits: None };
    let mut run = Mlflow::open(&server, Some(&token()), "vision", &job).await.unwrap();
    recorded.lock().unwrap().away = 1;
    let error = run.take(&news).await.expect_err("a 503");
    assert_eq!(error.exit_code(), crate::error::exit::UNREACHABLE, "{error}");
    run.take(&news).await.unwrap();
    run.take(&news).await.unwrap();
    assert_eq!(recorded.lock().unwrap().metrics.iter().filter(|m| m.0 == "training/loss").count(), 2);
}

#[tokio::test]
async fn a_policy_that_was_changed_since_does_not_stop_the_export() {
    let (server, recorded) = fake("Bearer s3cret").await;
    let mut job = job(1, "demo", "digits");
    Mlflow::open(&server, Some(&token()), "vision", &job).await.unwrap();
    let goal = job.file.round.updates_goal;
    job.file.round.updates_goal += 1;
    Mlflow::open(&server, Some(&token()), "vision", &job).await.unwrap();
    assert_eq!(recorded.lock().unwrap().params["round.updates_goal"], goal.to_string());
}

#[tokio::test]
async fn a_refusal_names_the_call_and_does_not_show_the_token() {
    let (server, _) = fake("Bearer other").await;
    let opened = Mlflow::open(&server, Some(&token()), "vision", &job(1, "demo", "digits")).await;
    let error = opened.err().expect("the wrong token");
    let text = format!("{error} {error:?}");
    assert!(text.contains("experiments/get-by-name") && text.contains("by the test"), "{text}");
    assert!(!text.contains("s3cret"));
}
