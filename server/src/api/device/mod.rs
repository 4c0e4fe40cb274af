//! The device API: enrolment, check-ins, models, reports.

mod checkin;
pub(super) mod document;
mod report;
mod update;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::{get, post, put};
use tributary_protocol::device::{EnrolRequest, EnrolResponse};
use tributary_protocol::id::{ClientId, JobId, SecretKind};

use super::auth::{Device, Enroller, stored_hash};
use super::extract::{Json, Path};
use super::models::model_response;
use super::problem::{Answer, ApiError};
use crate::app::App;
use crate::db::{ClientRow, Json as Stored};
use crate::entropy;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/clients", post(enrol))
        .route("/checkins", post(checkin::check_in))
        .route("/jobs/{job}/models/{version}", get(model))
        .route("/assignments/{id}", get(report::status))
        .route("/assignments/{id}/update", put(update::put_update))
        .route("/assignments/{id}/evaluation", put(report::put_evaluation))
        .route("/assignments/{id}/failure", post(report::post_failure))
}

async fn enrol(
    State(app): State<Arc<App>>,
    enroller: Enroller,
    Json(request): Json<EnrolRequest>,
) -> Answer<Json<EnrolResponse>> {
    let now_ms = app.clock.now_ms();
    let secret = entropy::secret(SecretKind::Client);
    let mut tx = app.db.begin().await?;
    let client = ClientRow {
        id: ClientId::from_random(entropy::random()),
        number: tx.next_client_number(&enroller.population).await?,
        population: enroller.population,
        attributes: Stored(request.attributes),
        examples: 0,
        created_at_ms: now_ms,
        last_seen_at_ms: now_ms,
    };
    tx.insert_client(&client, enroller.token, &stored_hash(&secret)).await?;
    tx.commit().await?;
    Ok(Json(EnrolResponse { client: client.id, secret, population: client.population }))
}

async fn model(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path((job, version)): Path<(JobId, u32)>,
    headers: HeaderMap,
) -> Answer<Response> {
    let mut tx = app.db.read().await?;
    // A job of another population is as unknown to this client as one that does not exist.
    let job_row = tx.job(job).await?.filter(|row| row.file.0.population == client.population);
    job_row.ok_or_else(|| ApiError::not_found(job))?;
    let model = tx.model(job, version).await?;
    let model = model.ok_or_else(|| ApiError::not_found(format!("version {version} of {job}")))?;
    let has_work = tx.open_assignment(client.id).await?.is_some();
    drop(tx);
    let (response, bytes) = model_response(&app, job, &model, &headers).await?;
    if has_work && bytes > 0 {
        app.count_download(client.id, bytes).await?;
    }
    Ok(response)
}
