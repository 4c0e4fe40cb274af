//! The device API: enrolment, check-ins, models, reports.

mod checkin;
pub(super) mod document;
mod report;
mod texts;
mod update;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::{get, post, put};
use tributary_protocol::device::{EnrolRequest, EnrolResponse};
use tributary_protocol::download::FormQuery;
use tributary_protocol::id::{ClientId, JobId, SecretKind};
use tributary_protocol::operator::ModelVersion;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AuditAction, Standing};

use super::auth::{Device, Enroller, stored_hash};
use super::extract::{Json, Path, Query};
use super::models::{ModelFile, Reader, file_response};
use super::problem::{Answer, ApiError};
use crate::app::App;
use crate::db::{ClientRow, Enrolment, JobRow, Json as Stored, NewAudit, Tx};
use crate::runtime::entropy;
use texts::require_text;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/clients", post(enrol))
        .route("/checkins", post(checkin::check_in))
        .route("/jobs/{job}/models/{version}", get(model))
        .route("/jobs/{job}/models/{version}/delta", get(step))
        .route("/assignments/{id}", get(report::status))
        .route(
            "/assignments/{id}/update",
            put(update::put_update).patch(update::patch_update).head(update::upload_offset),
        )
        .route("/assignments/{id}/evaluation", put(report::put_evaluation))
        .route("/assignments/{id}/failure", post(report::post_failure))
}

async fn enrol(
    State(app): State<Arc<App>>,
    enroller: Enroller,
    Json(request): Json<EnrolRequest>,
) -> Answer<Json<EnrolResponse>> {
    require_text(&request.attributes)?;
    let now_ms = app.clock.now_ms();
    let secret = entropy::secret(SecretKind::Client);
    let mut tx = app.db.begin().await?;
    let token = match tx.count_enrolment(enroller.token, now_ms).await? {
        Enrolment::Counted(token) => token,
        refused => return Err(refused_enrolment(&refused)),
    };
    let client = ClientRow {
        id: ClientId::from_random(entropy::random()),
        number: tx.next_client_number(&enroller.population).await?,
        population: enroller.population,
        attributes: Stored(request.attributes.with_granted(&token.attributes)),
        granted: Stored(token.attributes),
        standing: Standing::Active,
        examples: 0,
        created_at_ms: now_ms,
        last_seen_at_ms: now_ms,
    };
    tx.insert_client(&client, token.id, &stored_hash(&secret)).await?;
    let enrolled = NewAudit {
        actor: token.id.to_string(),
        label: token.label,
        action: AuditAction::ClientEnrol,
        subject: client.id.to_string(),
        population: Some(client.population.clone()),
        detail: None,
    };
    tx.append_audit(enrolled, now_ms).await?;
    tx.commit().await?;
    Ok(Json(EnrolResponse { client: client.id, secret, population: client.population }))
}

fn refused_enrolment(refused: &Enrolment) -> ApiError {
    match refused {
        Enrolment::UsedUp { uses_max } => ApiError::new(
            ProblemType::Unauthorized,
            format!("this enrolment token has enrolled {uses_max} clients, as many as it may"),
        ),
        Enrolment::TooSoon { per_minute_max, retry_after_ms } => ApiError::new(
            ProblemType::TooManyRequests,
            format!("this enrolment token enrols at most {per_minute_max} clients in a minute"),
        )
        .retry_after_ms(*retry_after_ms),
        Enrolment::Unknown | Enrolment::Counted(_) => {
            ApiError::new(ProblemType::Unauthorized, "this enrolment token is unknown, expired or revoked")
        }
    }
}

async fn model(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path((job, version)): Path<(JobId, u32)>,
    Query(query): Query<FormQuery>,
    headers: HeaderMap,
) -> Answer<Response> {
    let mut tx = app.db.read().await?;
    let (job, model) = version_for(&mut tx, &client, job, version).await?;
    let has_work = tx.open_assignment(client.id).await?.is_some();
    let file = ModelFile::in_form(&app, &mut tx, &job, &model, query.form, true).await?;
    drop(tx);
    file_response(&app, file, &headers, Reader { client: Some(client.id), has_work }).await
}

async fn step(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path((job, version)): Path<(JobId, u32)>,
    headers: HeaderMap,
) -> Answer<Response> {
    let mut tx = app.db.read().await?;
    let (job, model) = version_for(&mut tx, &client, job, version).await?;
    let work = tx.open_assignment(client.id).await?;
    // All deltas up to the base version count together as one model, so only the last of them counts.
    let is_last = work.as_ref().is_some_and(|work| work.base_version == version);
    let file = ModelFile::step(&mut tx, job.id, &model, if is_last { model.bytes } else { 0 }).await?;
    drop(tx);
    file_response(&app, file, &headers, Reader { client: Some(client.id), has_work: work.is_some() }).await
}

/// A version that this client may see. A job of another population is answered like one that does not exist.
async fn version_for(tx: &mut Tx, client: &ClientRow, job: JobId, version: u32) -> Answer<(JobRow, ModelVersion)> {
    let row = tx.job(job).await?.filter(|row| row.file.0.population == client.population);
    let row = row.ok_or_else(|| ApiError::not_found(job))?;
    let model = tx.model(job, version).await?;
    let model = model.ok_or_else(|| ApiError::not_found(format!("version {version} of {job}")))?;
    Ok((row, model))
}
