//! Job files as they are sent, in JSON or TOML, and their dry run.

use std::sync::Arc;

use axum::extract::{FromRequest, Request};
use axum::http::header;
use serde::Deserialize;
use tributary_protocol::id::JobId;
use tributary_protocol::job_file::{JobFile, JobFileError};
use tributary_protocol::layers::ModelSpec;
use tributary_protocol::operator::{CreateJob, JobDraft};
use tributary_protocol::plan::GroupTrust;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::Task;

use super::test_sets::is_on_coordinator;
use crate::api::bodies::LARGEST;
use crate::api::extract::{Json, body};
use crate::api::problem::{Answer, ApiError};
use crate::api::story::enrolled::without_set;
use crate::api::story::software::unable;
use crate::api::story::tables::other_tables;
use crate::app::App;
use crate::devices::ClientAuth;
use crate::lifecycle::jobs::JobRefusal;
use crate::lifecycle::{budget, shards};
use crate::masking::certificates::check_cas;
use crate::runtime::offload::blocking;
use tributary_engine::job::{JobSpec, SpecError};
use tributary_engine::privacy::resolve;
use tributary_engine::story::{explained, remarks};

/// How a job is created.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateQuery {
    /// Only says what the coordinator makes of the file.
    #[serde(default)]
    pub(super) dry_run: bool,
}

/// A job file: [`CreateJob`] as JSON, or the file itself as `application/toml`.
pub(super) struct SentJob(pub(super) JobFile);

impl FromRequest<Arc<App>> for SentJob {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.split(';').next().map(str::trim) != Some("application/toml") {
            let Json(CreateJob { job }) = Json::from_request(request, app).await?;
            return job.completed().map(Self).map_err(|error| invalid(&error.into()));
        }
        let body = body(request, LARGEST, &app.guard).await?;
        let text = std::str::from_utf8(&body).map_err(|_| malformed("a job file is UTF-8"))?;
        JobFile::parse(text).map(Self).map_err(|error| match error {
            JobFileError::Toml(_) | JobFileError::Json(_) => malformed(&error.to_string()),
            JobFileError::TooLarge(_) => ApiError::new(ProblemType::TooLarge, error.to_string()),
            error => invalid(&error.into()),
        })
    }
}

fn malformed(detail: &str) -> ApiError {
    ApiError::new(ProblemType::Malformed, detail)
}

pub(super) fn invalid(error: &SpecError) -> ApiError {
    ApiError::new(ProblemType::JobFileInvalid, error.to_string())
}

/// Refuses what only new jobs must satisfy, and a job that the coordinator cannot evaluate.
pub(super) fn check_new(app: &App, file: &JobFile) -> Answer<()> {
    // A file that fails the checks of all jobs is named by them.
    file.check().and_then(|()| file.check_new()).map_err(|error| invalid(&error.into()))?;
    check_peers(app, file)?;
    if app.evaluator.is_some() || !is_on_coordinator(file) {
        return Ok(());
    }
    let detail = "[evaluation] where must be \"clients\": this coordinator was built without an evaluator";
    Err(ApiError::new(ProblemType::JobFileInvalid, detail))
}

/// Refuses groups that sign where nobody has a certificate.
fn check_peers(app: &App, file: &JobFile) -> Answer<()> {
    let Some(secure) = &file.secure_aggregation else { return Ok(()) };
    let refused = |detail: String| ApiError::new(ProblemType::JobFileInvalid, detail);
    match &secure.peers_ca {
        Some(pem) => check_cas(pem).map_err(|error| refused(format!("[secure_aggregation] peers_ca: {error}"))),
        None if secure.trust == Some(GroupTrust::Signed) && !app.devices.client_auth.asks_for_certificates() => {
            let detail = "[secure_aggregation] trust must be \"honest\", or peers_ca given: this coordinator gives its \
                          clients no certificates (serve --client-auth certificate)";
            Err(refused(detail.to_owned()))
        }
        None => Ok(()),
    }
}

/// The job file with what follows from the coordinator's settings and from its privacy budget. Finding the noise takes
/// up to seconds.
pub(super) async fn resolved(app: &App, mut file: JobFile) -> Answer<JobFile> {
    if let Some(secure) = &mut file.secure_aggregation {
        let by_certificate = app.devices.client_auth == ClientAuth::Certificate;
        let signs = by_certificate || secure.peers_ca.is_some();
        secure.trust.get_or_insert(if signs { GroupTrust::Signed } else { GroupTrust::Honest });
    }
    if file.aggregation.shards.is_some() {
        let (mut tx, now_ms) = (app.db.look().await?, app.clock.now_ms());
        file.aggregation.settle_shards(shards::alive(app, &mut tx, now_ms).await?.len());
    }
    if file.privacy.is_none() {
        return Ok(file);
    }
    let resolved = blocking(move || resolve(&mut file).map(|()| file)).await;
    resolved.map_err(|error| invalid(&error.into()))
}

/// What creating a job of this file would store. Refused when creating it would be refused.
pub(super) async fn try_out(app: &App, file: JobFile) -> Answer<Json<JobDraft>> {
    check_new(app, &file)?;
    let file = resolved(app, file).await?;
    // The id is part of what clients receive, and a dry run sends nothing.
    let spec = JobSpec::new(JobId::from_random([0; 16]), file).map_err(|error| invalid(&error))?;
    let (population, name) = (&spec.file.population, &spec.file.name);
    let mut tx = app.db.read().await?;
    let known = tx.population(population).await?;
    known.ok_or_else(|| ApiError::not_found(format!("population {population}; create it first")))?;
    budget::check_new(app, &mut tx, &spec).await.map_err(JobRefusal::from)?;
    if tx.has_job_named(population, name).await? {
        let detail = format!("population {population} has a job called {name}");
        return Err(ApiError::new(ProblemType::NameTaken, detail));
    }
    let unable = unable(&mut tx, population, spec.needs.of(Task::Train)).await?.map(|unable| unable.text);
    let lacking = without_set(&mut tx, &spec.file).await?;
    let tables = other_tables(app, &mut tx, &spec).await?.named();
    let layers = match &spec.file.model.spec {
        ModelSpec::Layers(model) => model.table().map_err(|error| invalid(&JobFileError::from(error).into()))?,
        ModelSpec::Parameters(_) => Vec::new(),
    };
    Ok(Json(JobDraft {
        toml: spec.file.text(),
        parameters: spec.model.total() as u64,
        layers,
        remarks: remarks(&spec.file).into_iter().chain(unable).chain(lacking).chain(tables).collect(),
        privacy: explained(&spec, Vec::new(), None),
        job: spec.file,
    }))
}
