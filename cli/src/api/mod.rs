//! The operator API as typed calls: one method per route.

mod error;
mod paging;
mod query;
mod releases;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::{Body, Client, Method, RequestBuilder, Response, StatusCode, Url, redirect};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio_util::io::ReaderStream;
use tributary_client::Trust;
use tributary_protocol::download::ModelForm;
use tributary_protocol::id::{ClientId, JobId, Name, Secret, TokenId};
use tributary_protocol::job_file::{JobFile, RoundPolicyChange};
use tributary_protocol::operator::{
    self, Account, Assignment, AuditQuery, AuditRow, ChangeJob, ChangeStanding, ClientAssignment, ClientOrder,
    CreateJob, CreatePopulation, CreateToken, CreatedToken, Event, Job, JobDraft, ModelVersion, Order, Page, PageQuery,
    Population, PopulationBudget, Round, RoundDetail, RoundSort, ScalarCurve, ScheduledWork, Session, SharedBudget,
    StaleClient, TestSet, TestSetState, Token,
};
use tributary_protocol::problem::Problem;
use tributary_protocol::sealed::Sealed;
use tributary_protocol::state::{Role, Task};

use crate::error::CliError;
use crate::http::{self, causes};
use query::{audit_pairs, page_pairs};

pub use error::ApiError;
pub use paging::{collect, collect_from, collect_newest, collect_sorted};

/// A page of 1000 jobs with large job files fits.
const JSON_BYTES_MAX: usize = 64 << 20;
/// From the request to the last byte of the answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// A job of many thousand rounds is deleted in many transactions, and a release is made of two large models.
const LONG_TIMEOUT: Duration = Duration::from_secs(600);
/// How long a long poll may be held. Proxies commonly allow 30 s or more.
pub const EVENT_WAIT_MS: u32 = 25_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobChange {
    Pause,
    Resume,
    Stop,
}

/// A client of the operator API.
#[derive(Clone, Debug)]
pub struct Api {
    server: Url,
    token: Option<Secret>,
    http: Client,
}

impl Api {
    /// Trusts the system's CAs. Without a token the coordinator refuses every call.
    pub fn new(server: Url, token: Option<Secret>) -> Result<Self, ApiError> {
        Self::trusting(server, token, &Trust::System)
    }

    /// The same with other CAs.
    pub fn trusting(server: Url, token: Option<Secret>, trust: &Trust) -> Result<Self, ApiError> {
        let http = http::client_trusting(&server, redirect::Policy::none(), trust)
            .map_err(|error| ApiError::Unreachable { server: server.to_string(), cause: error.to_string() })?;
        Ok(Self { server, token, http })
    }

    /// `GET /operator/v1/populations`
    pub async fn populations(&self, page: PageQuery) -> Result<Page<Population>, ApiError> {
        self.get(&["populations"], &page_pairs(&page)).await
    }

    /// `POST /operator/v1/populations`
    pub async fn create_population(&self, name: Name, budget: Option<SharedBudget>) -> Result<Population, ApiError> {
        self.post(&["populations"], &CreatePopulation { name, budget }).await
    }

    /// `GET /operator/v1/populations/{name}/budget`
    pub async fn population_budget(&self, name: &Name) -> Result<PopulationBudget, ApiError> {
        self.get(&["populations", name.as_str(), "budget"], &[]).await
    }

    /// `PUT /operator/v1/populations/{name}/budget`
    pub async fn set_population_budget(
        &self,
        name: &Name,
        budget: &SharedBudget,
    ) -> Result<PopulationBudget, ApiError> {
        let call = self.call(Method::PUT, &["populations", name.as_str(), "budget"], &[]).json(budget);
        self.send_json(call.timeout(CALL_TIMEOUT)).await
    }

    /// `GET /operator/v1/tokens`
    pub async fn tokens(&self, page: PageQuery) -> Result<Page<Token>, ApiError> {
        self.get(&["tokens"], &page_pairs(&page)).await
    }

    /// `POST /operator/v1/tokens`
    pub async fn create_token(&self, wanted: &CreateToken) -> Result<CreatedToken, ApiError> {
        self.post(&["tokens"], wanted).await
    }

    /// `DELETE /operator/v1/tokens/{id}`
    pub async fn revoke_token(&self, id: TokenId, with_clients: bool) -> Result<(), ApiError> {
        let query = [("with_clients", with_clients.to_string())];
        let call = self.call(Method::DELETE, &["tokens", &id.to_string()], &query);
        self.send(call.timeout(CALL_TIMEOUT)).await.map(drop)
    }

    /// `GET /operator/v1/accounts`
    pub async fn accounts(&self, page: PageQuery) -> Result<Page<Account>, ApiError> {
        self.get(&["accounts"], &page_pairs(&page)).await
    }

    /// `POST /operator/v1/accounts`
    pub async fn create_account(
        &self,
        name: &Name,
        role: Role,
        population: Option<&Name>,
        password: &Sealed<String>,
    ) -> Result<Account, ApiError> {
        let mut wanted = json!({ "name": name, "role": role, "password": password.expose() });
        if let Some(population) = population {
            wanted["population"] = json!(population);
        }
        self.post(&["accounts"], &wanted).await
    }

    /// `PUT /operator/v1/accounts/{name}/password`
    pub async fn change_password(&self, name: &Name, password: &Sealed<String>) -> Result<(), ApiError> {
        let call = self.call(Method::PUT, &["accounts", name.as_str(), "password"], &[]);
        let call = call.json(&json!({ "password": password.expose() }));
        self.send(call.timeout(CALL_TIMEOUT)).await.map(drop)
    }

    /// `DELETE /operator/v1/accounts/{name}`
    pub async fn revoke_account(&self, name: &Name) -> Result<(), ApiError> {
        let call = self.call(Method::DELETE, &["accounts", name.as_str()], &[]);
        self.send(call.timeout(CALL_TIMEOUT)).await.map(drop)
    }

    /// `GET /operator/v1/accounts/{name}/sessions`
    pub async fn sessions(&self, name: &Name) -> Result<Vec<Session>, ApiError> {
        self.get(&["accounts", name.as_str(), "sessions"], &[]).await
    }

    /// `DELETE /operator/v1/accounts/{name}/sessions`
    pub async fn end_sessions(&self, name: &Name) -> Result<(), ApiError> {
        let call = self.call(Method::DELETE, &["accounts", name.as_str(), "sessions"], &[]);
        self.send(call.timeout(CALL_TIMEOUT)).await.map(drop)
    }

    /// `GET /operator/v1/sessions`
    pub async fn provider_sessions(&self, actor: &str) -> Result<Vec<Session>, ApiError> {
        self.get(&["sessions"], &[("actor", actor.to_owned())]).await
    }

    /// `DELETE /operator/v1/sessions`
    pub async fn end_provider_sessions(&self, actor: &str) -> Result<(), ApiError> {
        let call = self.call(Method::DELETE, &["sessions"], &[("actor", actor.to_owned())]);
        self.send(call.timeout(CALL_TIMEOUT)).await.map(drop)
    }

    /// `GET /operator/v1/audit`
    pub async fn audit(&self, query: &AuditQuery) -> Result<Page<AuditRow>, ApiError> {
        self.get(&["audit"], &audit_pairs(query)).await
    }

    /// `GET /operator/v1/audit/export`: JSON lines, which the caller reads
    pub async fn export_audit(&self) -> Result<Response, ApiError> {
        self.send(self.call(Method::GET, &["audit", "export"], &[])).await
    }

    /// The error of an answer that broke off while its body was read.
    pub fn interrupted(&self, error: &reqwest::Error) -> ApiError {
        self.unreachable(causes(error))
    }

    /// `GET /operator/v1/clients?population=`
    pub async fn clients(
        &self,
        population: &Name,
        (order, direction): (ClientOrder, Order),
        page: PageQuery,
    ) -> Result<Page<operator::Client>, ApiError> {
        let mut pairs = page_pairs(&page);
        pairs.push(("population", population.to_string()));
        pairs.push(("order", order.as_str().to_owned()));
        pairs.push(("direction", direction.as_str().to_owned()));
        self.get(&["clients"], &pairs).await
    }

    /// `GET /operator/v1/clients/{id}`
    pub async fn client(&self, id: ClientId) -> Result<operator::Client, ApiError> {
        self.get(&["clients", &id.to_string()], &[]).await
    }

    /// `GET /operator/v1/clients/{id}/assignments`, the newest first
    pub async fn client_assignments(&self, id: ClientId, page: PageQuery) -> Result<Page<ClientAssignment>, ApiError> {
        self.get(&["clients", &id.to_string(), "assignments"], &page_pairs(&page)).await
    }

    /// `PUT /operator/v1/clients/{id}/standing`
    pub async fn change_standing(&self, id: ClientId, change: &ChangeStanding) -> Result<operator::Client, ApiError> {
        let call = self.call(Method::PUT, &["clients", &id.to_string(), "standing"], &[]).json(change);
        self.send_json(call.timeout(CALL_TIMEOUT)).await
    }

    /// `DELETE /operator/v1/clients/{id}`
    pub async fn erase_client(&self, id: ClientId) -> Result<(), ApiError> {
        let call = self.call(Method::DELETE, &["clients", &id.to_string()], &[]);
        self.send(call.timeout(CALL_TIMEOUT)).await.map(drop)
    }

    /// `GET /operator/v1/jobs`, of one population or of all populations
    pub async fn jobs(&self, population: Option<&Name>, page: PageQuery) -> Result<Page<Job>, ApiError> {
        let mut pairs = page_pairs(&page);
        pairs.extend(population.map(|population| ("population", population.to_string())));
        self.get(&["jobs"], &pairs).await
    }

    /// `POST /operator/v1/jobs`
    pub async fn create_job(&self, job: JobFile) -> Result<Job, ApiError> {
        self.post(&["jobs"], &CreateJob { job }).await
    }

    /// `POST /operator/v1/jobs?dry_run=true`
    pub async fn try_job(&self, job: JobFile) -> Result<JobDraft, ApiError> {
        let call = self.call(Method::POST, &["jobs"], &[("dry_run", "true".into())]).json(&CreateJob { job });
        self.send_json(call.timeout(CALL_TIMEOUT)).await
    }

    /// `PATCH /operator/v1/jobs/{id}/round-policy`
    pub async fn change_round_policy(&self, id: JobId, change: &RoundPolicyChange) -> Result<Job, ApiError> {
        let call = self.call(Method::PATCH, &["jobs", &id.to_string(), "round-policy"], &[]).json(change);
        self.send_json(call.timeout(CALL_TIMEOUT)).await
    }

    /// `GET /operator/v1/jobs/{id}`
    pub async fn job(&self, id: JobId) -> Result<Job, ApiError> {
        self.get(&["jobs", &id.to_string()], &[]).await
    }

    /// `PATCH /operator/v1/jobs/{id}`: name, tags, notes, archive
    pub async fn file_job(&self, id: JobId, change: &ChangeJob) -> Result<Job, ApiError> {
        let call = self.call(Method::PATCH, &["jobs", &id.to_string()], &[]).json(change);
        self.send_json(call.timeout(CALL_TIMEOUT)).await
    }

    /// `DELETE /operator/v1/jobs/{id}`
    pub async fn delete_job(&self, id: JobId) -> Result<(), ApiError> {
        let call = self.call(Method::DELETE, &["jobs", &id.to_string()], &[]);
        self.send(call.timeout(LONG_TIMEOUT)).await.map(drop)
    }

    /// `PUT` or `DELETE /operator/v1/jobs/{id}/models/{version}/pin`
    pub async fn pin_version(&self, id: JobId, version: u32, pinned: bool) -> Result<ModelVersion, ApiError> {
        let method = if pinned { Method::PUT } else { Method::DELETE };
        let call = self.call(method, &["jobs", &id.to_string(), "models", &version.to_string(), "pin"], &[]);
        self.send_json(call.timeout(CALL_TIMEOUT)).await
    }

    /// `POST /operator/v1/jobs/{id}/pause`, `/resume` or `/stop`
    pub async fn change_job(&self, id: JobId, change: JobChange) -> Result<Job, ApiError> {
        let action = match change {
            JobChange::Pause => "pause",
            JobChange::Resume => "resume",
            JobChange::Stop => "stop",
        };
        let call = self.call(Method::POST, &["jobs", &id.to_string(), action], &[]);
        self.send_json(call.timeout(CALL_TIMEOUT)).await
    }

    /// `PUT /operator/v1/jobs/{id}/models/0`: the initial model, read from the file while it is sent
    pub async fn upload_initial_model(&self, id: JobId, file: &Path) -> Result<(), CliError> {
        let failed = |error| CliError::file("read", file)(error);
        let source = tokio::fs::File::open(file).await.map_err(failed)?;
        let bytes = source.metadata().await.map_err(failed)?.len();
        let call = self
            .call(Method::PUT, &["jobs", &id.to_string(), "models", "0"], &[])
            .header(CONTENT_TYPE, "application/octet-stream")
            .header(CONTENT_LENGTH, bytes)
            .body(Body::wrap_stream(ReaderStream::new(source)));
        self.send(call).await?;
        Ok(())
    }

    /// `GET /operator/v1/jobs/{id}/test-set`
    pub async fn test_set(&self, id: JobId) -> Result<TestSetState, ApiError> {
        self.get(&["jobs", &id.to_string(), "test-set"], &[]).await
    }

    /// `PUT /operator/v1/jobs/{id}/test-set`: a safetensors file, read while it is sent
    pub async fn upload_test_set(&self, id: JobId, file: &Path) -> Result<TestSet, CliError> {
        let failed = |error| CliError::file("read", file)(error);
        let source = tokio::fs::File::open(file).await.map_err(failed)?;
        let bytes = source.metadata().await.map_err(failed)?.len();
        let body = Body::wrap_stream(ReaderStream::new(source));
        Ok(self.put_test_set(id, body, bytes).await?)
    }

    /// The same with a file in memory
    pub async fn upload_test_set_file(&self, id: JobId, file: Vec<u8>) -> Result<TestSet, ApiError> {
        let bytes = file.len() as u64;
        self.put_test_set(id, file.into(), bytes).await
    }

    async fn put_test_set(&self, id: JobId, body: Body, bytes: u64) -> Result<TestSet, ApiError> {
        let call = self
            .call(Method::PUT, &["jobs", &id.to_string(), "test-set"], &[])
            .header(CONTENT_TYPE, "application/octet-stream")
            .header(CONTENT_LENGTH, bytes)
            .body(body);
        self.send_json(call).await
    }

    /// `GET /operator/v1/jobs/{id}/models`
    pub async fn model_versions(&self, id: JobId, page: PageQuery) -> Result<Page<ModelVersion>, ApiError> {
        self.get(&["jobs", &id.to_string(), "models"], &page_pairs(&page)).await
    }

    /// `GET /operator/v1/jobs/{id}/models/{version}`: the safetensors file, whose body the caller reads
    pub async fn model(&self, id: JobId, version: u32, form: ModelForm) -> Result<Response, ApiError> {
        let segments = ["jobs", &id.to_string(), "models", &version.to_string()];
        self.send(self.call(Method::GET, &segments, &[("form", form.as_str().to_owned())])).await
    }

    /// `GET /operator/v1/jobs/{id}/stale-clients`
    pub async fn stale_clients(&self, id: JobId) -> Result<Vec<StaleClient>, ApiError> {
        self.get(&["jobs", &id.to_string(), "stale-clients"], &[]).await
    }

    /// `GET /operator/v1/jobs/{id}/metric-curves`
    pub async fn scalar_curves(&self, id: JobId, points: u32) -> Result<Vec<ScalarCurve>, ApiError> {
        self.get(&["jobs", &id.to_string(), "metric-curves"], &[("points", points.to_string())]).await
    }

    /// `GET /operator/v1/jobs/{id}/rounds` in ascending order; `after` is a round's number
    pub async fn rounds(&self, id: JobId, task: Task, page: PageQuery) -> Result<Page<Round>, ApiError> {
        let mut pairs = page_pairs(&page);
        pairs.push(("task", task.to_string()));
        self.get(&["jobs", &id.to_string(), "rounds"], &pairs).await
    }

    /// `GET /operator/v1/jobs/{id}/rounds?sort=`
    pub async fn sorted_rounds(
        &self,
        id: JobId,
        task: Task,
        (sort, order): (RoundSort, Order),
        page: PageQuery,
    ) -> Result<Page<Round>, ApiError> {
        let mut pairs = page_pairs(&page);
        pairs.push(("task", task.to_string()));
        pairs.push(("sort", sort.as_str().to_owned()));
        pairs.push(("order", order.as_str().to_owned()));
        self.get(&["jobs", &id.to_string(), "rounds"], &pairs).await
    }

    /// `GET /operator/v1/jobs/{id}/rounds/{n}`
    pub async fn round(&self, id: JobId, number: u32, task: Task) -> Result<RoundDetail, ApiError> {
        let segments = ["jobs", &id.to_string(), "rounds", &number.to_string()];
        self.get(&segments, &[("task", task.to_string())]).await
    }

    /// `GET /operator/v1/jobs/{id}/answers`
    pub async fn answers(&self, id: JobId) -> Result<operator::JobAnswers, ApiError> {
        self.get(&["jobs", &id.to_string(), "answers"], &[]).await
    }

    /// `GET /operator/v1/jobs/{id}/privacy`
    #[cfg(feature = "coordinator")]
    pub async fn privacy(&self, id: JobId) -> Result<operator::JobPrivacyState, ApiError> {
        self.get(&["jobs", &id.to_string(), "privacy"], &[]).await
    }

    /// `GET /operator/v1/jobs/{id}/rounds?latest=true`: the newest rounds, newest first
    pub async fn latest_rounds(&self, id: JobId, task: Task, limit: u32) -> Result<Vec<Round>, ApiError> {
        let pairs = [("task", task.to_string()), ("latest", "true".into()), ("limit", limit.to_string())];
        let page: Page<Round> = self.get(&["jobs", &id.to_string(), "rounds"], &pairs).await?;
        Ok(page.items)
    }

    /// `GET /operator/v1/jobs/{id}/rounds/{n}/assignments`
    pub async fn assignments(
        &self,
        id: JobId,
        round: u32,
        task: Task,
        page: PageQuery,
    ) -> Result<Page<Assignment>, ApiError> {
        let mut pairs = page_pairs(&page);
        pairs.push(("task", task.to_string()));
        self.get(&["jobs", &id.to_string(), "rounds", &round.to_string(), "assignments"], &pairs).await
    }

    /// `GET /operator/v1/nodes`
    pub async fn nodes(&self, page: PageQuery) -> Result<Page<operator::Node>, ApiError> {
        self.get(&["nodes"], &page_pairs(&page)).await
    }

    /// `GET /operator/v1/events`: events of a job after a sequence number; waits up to `wait_ms` for the first one
    pub async fn events(&self, job: JobId, after: u64, wait_ms: u32, limit: u32) -> Result<Page<Event>, ApiError> {
        let pairs = [
            ("job", job.to_string()),
            ("after", after.to_string()),
            ("wait_ms", wait_ms.to_string()),
            ("limit", limit.to_string()),
        ];
        let call = self.call(Method::GET, &["events"], &pairs);
        self.send_json(call.timeout(CALL_TIMEOUT + Duration::from_millis(wait_ms.into()))).await
    }

    /// `GET /operator/v1/schedules`
    pub async fn schedules(&self, page: PageQuery) -> Result<Page<ScheduledWork>, ApiError> {
        self.get(&["schedules"], &page_pairs(&page)).await
    }

    /// `GET /readyz`: the coordinator can serve. Needs no token.
    pub async fn ready(&self) -> Result<(), ApiError> {
        let mut url = self.server.clone();
        let path = url.path_segments_mut();
        path.expect("the command line takes only http and https URLs, which have a path").pop_if_empty().push("readyz");
        self.send(self.http.get(url).timeout(CALL_TIMEOUT)).await?;
        Ok(())
    }

    async fn get<T: DeserializeOwned>(&self, segments: &[&str], pairs: &[(&str, String)]) -> Result<T, ApiError> {
        self.send_json(self.call(Method::GET, segments, pairs).timeout(CALL_TIMEOUT)).await
    }

    async fn post<T: DeserializeOwned>(&self, segments: &[&str], body: &impl Serialize) -> Result<T, ApiError> {
        self.send_json(self.call(Method::POST, segments, &[]).json(body).timeout(CALL_TIMEOUT)).await
    }

    fn call(&self, method: Method, segments: &[&str], pairs: &[(&str, String)]) -> RequestBuilder {
        let mut url = self.server.clone();
        // The coordinator may be served below a path of a larger site.
        url.path_segments_mut()
            .expect("the command line takes only http and https URLs, which have a path")
            .pop_if_empty()
            .extend(["operator", "v1"])
            .extend(segments);
        if !pairs.is_empty() {
            url.query_pairs_mut().extend_pairs(pairs);
        }
        let call = self.http.request(method, url);
        match &self.token {
            Some(token) => call.bearer_auth(token.expose()),
            None => call,
        }
    }

    async fn send_json<T: DeserializeOwned>(&self, call: RequestBuilder) -> Result<T, ApiError> {
        let name = name_of(&call);
        let body = http::read_body(self.send(call).await?, JSON_BYTES_MAX).await;
        let body = body.map_err(|error| match error {
            http::BodyError::Connection(error) => self.unreachable(causes(&error)),
            error @ http::BodyError::TooLong(_) => ApiError::BadAnswer { call: name.clone(), cause: error.to_string() },
        })?;
        serde_json::from_slice(&body).map_err(|error| ApiError::BadAnswer { call: name, cause: error.to_string() })
    }

    /// Turns every status but 2xx into an error.
    async fn send(&self, call: RequestBuilder) -> Result<Response, ApiError> {
        const PROBLEM_BYTES_MAX: usize = 64 << 10;
        let name = name_of(&call);
        let response = call.send().await.map_err(|error| self.unreachable(causes(&error)))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        // An unreadable body leaves the status, which says more than the failure of reading it.
        let body = http::read_body(response, PROBLEM_BYTES_MAX).await.unwrap_or_default();
        if let Ok(problem) = serde_json::from_slice::<Problem>(&body) {
            return Err(problem.into());
        }
        match status {
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
                Err(self.unreachable(format!("the gateway before it says {status}")))
            }
            _ => Err(ApiError::BadAnswer { call: name, cause: format!("{status} without a problem document") }),
        }
    }

    fn unreachable(&self, cause: String) -> ApiError {
        ApiError::Unreachable { server: self.server.to_string(), cause }
    }
}

/// Method and path, for error messages.
fn name_of(call: &RequestBuilder) -> String {
    let request = call.try_clone().and_then(|call| call.build().ok());
    request.map_or_else(|| "an upload".into(), |request| format!("{} {}", request.method(), request.url().path()))
}
