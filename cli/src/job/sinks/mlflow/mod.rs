//! A run in MLflow, over its REST API (2.0).
//!
//! A tag with the job's id identifies the run. Two more tags hold the last round and the last evaluation whose metrics
//! it has, so that a repeated export adds only new ones. One call writes metrics and then tags: if its answer is lost,
//! the same metrics are written again.

mod error;
mod params;

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::{Client, Method, StatusCode, Url, redirect};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tributary_protocol::operator::{Job, Round};
use tributary_protocol::sealed::Sealed;
use tributary_protocol::state::{JobState, Task};

use super::curve::{Point, points};
use crate::error::CliError;
use crate::http::{self, causes};
use crate::job::watch::News;
use error::MlflowError;
use params::params_of;

/// Values, parameters and tags that one call may carry (MLflow's REST documentation, "Log Batch").
const BATCH_METRICS_MAX: usize = 1000;
const BATCH_PARAMS_MAX: usize = 100;
const ANSWER_BYTES_MAX: usize = 4 << 20;
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Tags that make an export repeatable.
const TAG_JOB: &str = "tributary.job";
const TAG_TRAINED: &str = "tributary.rounds_exported";
const TAG_EVALUATED: &str = "tributary.evaluations_exported";

/// The run of a job.
pub(super) struct Mlflow {
    http: Client,
    server: Url,
    token: Option<Sealed<String>>,
    experiment_id: String,
    run_id: String,
    /// The last training round and the last evaluation whose metrics it has.
    has: BTreeMap<Task, u32>,
}

#[derive(Deserialize)]
struct Experiment {
    experiment_id: String,
    #[serde(default)]
    lifecycle_stage: String,
}

#[derive(Deserialize)]
struct Run {
    info: RunInfo,
    #[serde(default)]
    data: RunData,
}

#[derive(Deserialize)]
struct RunInfo {
    run_id: String,
}

#[derive(Default, Deserialize)]
struct RunData {
    #[serde(default)]
    tags: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    key: String,
    value: String,
}

impl Mlflow {
    /// Opens the run of a job in an experiment; creates what does not exist.
    pub(super) async fn open(
        server: &Url,
        token: Option<&Sealed<String>>,
        experiment: &str,
        job: &Job,
    ) -> Result<Self, CliError> {
        let http = http::client(server, redirect::Policy::none()).map_err(CliError::http)?;
        let (server, token) = (server.clone(), token.cloned());
        let mut mlflow =
            Self { http, server, token, experiment_id: String::new(), run_id: String::new(), has: BTreeMap::new() };
        mlflow.experiment_id = mlflow.experiment_named(experiment).await?;
        match mlflow.run_of(job).await? {
            Some(run) => {
                let number = |key: &str| {
                    let tag = run.data.tags.iter().find(|tag| tag.key == key);
                    tag.and_then(|tag| tag.value.parse().ok()).unwrap_or(0)
                };
                mlflow.has =
                    BTreeMap::from([(Task::Train, number(TAG_TRAINED)), (Task::Evaluate, number(TAG_EVALUATED))]);
                mlflow.run_id = run.info.run_id;
            }
            None => mlflow.run_id = mlflow.create_run(job).await?,
        }
        mlflow.log_params(job).await?;
        Ok(mlflow)
    }

    /// The page that shows the run.
    pub(super) fn place(&self) -> String {
        let path = self.server.path().trim_end_matches('/');
        format!("{}{path}/#/experiments/{}/runs/{}", self.shown(), self.experiment_id, self.run_id)
    }

    /// Writes the metrics that the run does not have yet, and the final state of the job. After an error, the next call
    /// continues where this one failed.
    pub(super) async fn take(&mut self, news: &News) -> Result<(), CliError> {
        let has = |round: &Round| self.has.get(&round.task).is_some_and(|has| round.number <= *has);
        let new: Vec<&Round> = news.ended.iter().filter(|round| !has(round)).collect();
        let mut batch = Vec::new();
        let mut reached = self.has.clone();
        for round in new {
            let points = points(round);
            if batch.len() + points.len() > BATCH_METRICS_MAX {
                self.log(std::mem::take(&mut batch), &reached).await?;
            }
            batch.extend(points);
            reached.insert(round.task, round.number);
        }
        if !batch.is_empty() {
            self.log(batch, &reached).await?;
        }
        let status = match news.job.head.state {
            JobState::Completed => "FINISHED",
            JobState::Stopped => "KILLED",
            JobState::AwaitingModel | JobState::Running | JobState::Relaying | JobState::Paused => return Ok(()),
        };
        let update = json!({ "run_id": self.run_id, "status": status, "end_time": news.job.head.ended_at_ms });
        self.post::<Value>("runs/update", &update).await.map(drop)
    }

    async fn log(&mut self, points: Vec<Point>, reached: &BTreeMap<Task, u32>) -> Result<(), CliError> {
        let metrics: Vec<Value> = points
            .iter()
            .map(|point| json!({ "key": point.name, "value": point.value, "timestamp": point.at_ms, "step": point.step }))
            .collect();
        let number = |task| reached.get(&task).copied().unwrap_or(0).to_string();
        let tags = json!([
            { "key": TAG_TRAINED, "value": number(Task::Train) },
            { "key": TAG_EVALUATED, "value": number(Task::Evaluate) },
        ]);
        self.post::<Value>("runs/log-batch", &json!({ "run_id": self.run_id, "metrics": metrics, "tags": tags }))
            .await?;
        self.has.clone_from(reached);
        Ok(())
    }

    /// The id of an experiment, which is created if it does not exist.
    async fn experiment_named(&self, name: &str) -> Result<String, CliError> {
        #[derive(Deserialize)]
        struct Found {
            experiment: Experiment,
        }
        #[derive(Deserialize)]
        struct Created {
            experiment_id: String,
        }
        let find = "experiments/get-by-name";
        let pairs = [("experiment_name", name)];
        if let Some(Found { experiment }) = self.get(find, &pairs).await? {
            if experiment.lifecycle_stage == "deleted" {
                return Err(failed(
                    find,
                    format!("the experiment {name:?} was deleted; restore it or name another one"),
                ));
            }
            return Ok(experiment.experiment_id);
        }
        match self.post::<Created>("experiments/create", &json!({ "name": name })).await {
            Ok(created) => Ok(created.experiment_id),
            // Another export may have created it a moment ago.
            Err(error) => match self.get::<Found>(find, &pairs).await? {
                Some(found) => Ok(found.experiment.experiment_id),
                None => Err(error),
            },
        }
    }

    /// The run that an earlier export created for the job.
    async fn run_of(&self, job: &Job) -> Result<Option<Run>, CliError> {
        #[derive(Deserialize)]
        struct Found {
            #[serde(default)]
            runs: Vec<Run>,
        }
        let wanted = json!({
            "experiment_ids": [self.experiment_id],
            "filter": format!("tags.`{TAG_JOB}` = '{}'", job.head.id),
            "run_view_type": "ACTIVE_ONLY",
            "max_results": 1,
        });
        Ok(self.post::<Found>("runs/search", &wanted).await?.runs.into_iter().next())
    }

    async fn create_run(&self, job: &Job) -> Result<String, CliError> {
        #[derive(Deserialize)]
        struct Created {
            run: Run,
        }
        let tag = |key: &str, value: &str| json!({ "key": key, "value": value });
        let wanted = json!({
            "experiment_id": self.experiment_id,
            "run_name": job.file.name,
            "start_time": job.head.created_at_ms,
            "tags": [
                tag(TAG_JOB, &job.head.id.to_string()),
                tag("tributary.population", job.file.population.as_str()),
                tag("tributary.plan", &job.plan_hash.to_string()),
                tag("tributary.parameters", &job.head.parameters.to_string()),
            ],
        });
        Ok(self.post::<Created>("runs/create", &wanted).await?.run.info.run_id)
    }

    /// Writes the job file's settings. MLflow's parameters are immutable: a setting that an operator has changed keeps
    /// the value of the first export.
    async fn log_params(&self, job: &Job) -> Result<(), CliError> {
        #[derive(Deserialize)]
        struct Found {
            run: Stored,
        }
        #[derive(Deserialize)]
        struct Stored {
            #[serde(default)]
            data: Params,
        }
        #[derive(Default, Deserialize)]
        struct Params {
            #[serde(default)]
            params: Vec<Tag>,
        }
        let stored: Option<Found> = self.get("runs/get", &[("run_id", &self.run_id)]).await?;
        let known = stored.map(|found| found.run.data.params).unwrap_or_default();
        let mut params = params_of(job);
        params.retain(|(key, _)| known.iter().all(|known| known.key != *key));
        for batch in params.chunks(BATCH_PARAMS_MAX) {
            let batch: Vec<Value> = batch.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect();
            self.post::<Value>("runs/log-batch", &json!({ "run_id": self.run_id, "params": batch })).await?;
        }
        Ok(())
    }

    /// `None` where MLflow answers that the resource does not exist.
    async fn get<T: DeserializeOwned>(&self, call: &str, pairs: &[(&str, &str)]) -> Result<Option<T>, CliError> {
        let mut url = self.url(call);
        url.query_pairs_mut().extend_pairs(pairs);
        let (status, body) = self.send(call, self.http.request(Method::GET, url)).await?;
        match status {
            StatusCode::NOT_FOUND if error_code(&body) == "RESOURCE_DOES_NOT_EXIST" => Ok(None),
            _ => read(call, status, &body).map(Some),
        }
    }

    async fn post<T: DeserializeOwned>(&self, call: &str, body: &Value) -> Result<T, CliError> {
        let (status, body) = self.send(call, self.http.request(Method::POST, self.url(call)).json(body)).await?;
        read(call, status, &body)
    }

    async fn send(&self, call: &str, request: reqwest::RequestBuilder) -> Result<(StatusCode, Vec<u8>), CliError> {
        let request = match &self.token {
            Some(token) => request.bearer_auth(token.expose()),
            None => request,
        };
        let unreachable = |cause| MlflowError::Unreachable { server: self.shown(), cause };
        let response = request.timeout(CALL_TIMEOUT).send().await.map_err(|error| unreachable(causes(&error)))?;
        let status = response.status();
        if matches!(status, StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT) {
            return Err(unreachable(format!("it answers {status}")).into());
        }
        let body = http::read_body(response, ANSWER_BYTES_MAX).await;
        Ok((status, body.map_err(|error| failed(call, error.to_string()))?))
    }

    fn url(&self, call: &str) -> Url {
        let mut url = self.server.clone();
        // MLflow may be served below a path of a larger site.
        url.path_segments_mut()
            .expect("the command line takes only http and https URLs, which have a path")
            .pop_if_empty()
            .extend(["api", "2.0", "mlflow"])
            .extend(call.split('/'));
        url
    }

    /// The server's address without user and password.
    fn shown(&self) -> String {
        let host = self.server.host_str().unwrap_or_default();
        let port = self.server.port().map_or(String::new(), |port| format!(":{port}"));
        format!("{}://{host}{port}", self.server.scheme())
    }
}

fn read<T: DeserializeOwned>(call: &str, status: StatusCode, body: &[u8]) -> Result<T, CliError> {
    if !status.is_success() {
        let answer: Value = serde_json::from_slice(body).unwrap_or_default();
        let message: String = answer["message"].as_str().unwrap_or("no message").chars().take(300).collect();
        return Err(failed(call, format!("{status}: {} {message}", error_code(body)).trim().to_owned()));
    }
    serde_json::from_slice(body).map_err(|error| failed(call, format!("not an answer of MLflow: {error}")))
}

fn error_code(body: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    answer["error_code"].as_str().unwrap_or_default().to_owned()
}

fn failed(call: &str, cause: String) -> CliError {
    MlflowError::Refused { call: call.to_owned(), cause }.into()
}

#[cfg(test)]
mod tests;
