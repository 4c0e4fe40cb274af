//! The device API: enrolment, credentials, check-ins, models, reports.

mod checkin;
mod credentials;
pub(super) mod document;
mod group;
mod held;
mod jobs;
mod leave;
mod link;
mod release;
mod report;
mod ring;
mod shadows;
mod texts;
mod update;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::{delete, get, post, put};
use tributary_engine::job::JobSpec;
use tributary_protocol::download::FormQuery;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::ModelVersion;

use super::auth::Device;
use super::extract::{Path, Query};
use super::models::{ModelFile, Reader, file_response};
use super::problem::{Answer, ApiError};
use crate::app::App;
use crate::db::{ClientRow, Tx};

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/clients", post(credentials::enrol))
        .route("/client", delete(leave::leave))
        .route("/certificate", post(credentials::certificate))
        .route("/secret", post(credentials::secret))
        .route("/checkins", post(checkin::check_in))
        .route("/jobs", get(jobs::open))
        .route("/relay/jobs", put(shadows::ended))
        .route("/jobs/{job}/models/{version}", get(model))
        .route("/jobs/{job}/models/{version}/delta", get(step))
        .route("/jobs/{job}/models/{version}/control", get(control))
        .route("/release", get(release::release))
        .route("/releases/{release}/model", get(release::model))
        .route("/releases/{release}/difference", get(release::difference))
        .route("/assignments/{id}", get(report::status))
        .route(
            "/assignments/{id}/update",
            put(update::put_update).patch(update::patch_update).head(update::upload_offset),
        )
        .route(
            "/assignments/{id}/parts/{part}",
            put(update::put_part).patch(update::patch_part).head(update::part_offset),
        )
        .route("/assignments/{id}/sum", put(update::put_sum).patch(update::patch_sum).head(update::sum_offset))
        .route("/assignments/{id}/group", put(group::join))
        .route("/assignments/{id}/group/shares", put(group::put_shares))
        .route(
            "/assignments/{id}/group/update",
            put(update::put_masked).patch(update::patch_masked).head(update::masked_offset),
        )
        .route("/assignments/{id}/group/survivors", get(group::survivors))
        .route("/assignments/{id}/group/agreement", put(group::put_agreement))
        .route("/assignments/{id}/group/unmask", put(group::unmask))
        .route("/assignments/{id}/ring", put(ring::ready))
        .route("/assignments/{id}/ring/stall", put(ring::stall))
        .route("/assignments/{id}/ring/outcome", put(ring::outcome))
        .route("/groups/{group}/links/{rank}", get(link::link))
        .route("/assignments/{id}/evaluation", put(report::put_evaluation))
        .route("/assignments/{id}/description", put(report::put_description))
        .route("/assignments/{id}/failure", post(report::post_failure))
}

async fn model(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path((job, version)): Path<(JobId, u32)>,
    Query(query): Query<FormQuery>,
    headers: HeaderMap,
) -> Answer<Response> {
    let mut tx = app.db.read().await?;
    let (spec, model) = version_for(&app, &mut tx, &client, job, version).await?;
    let has_work = tx.open_assignment(client.id).await?.is_some();
    let file = ModelFile::in_form(&mut tx, &spec, &model, query.form, true).await?;
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
    let (_, model) = version_for(&app, &mut tx, &client, job, version).await?;
    let work = tx.open_assignment(client.id).await?;
    // All deltas up to the base version count together as one model, so only the last of them counts.
    let is_last = work.as_ref().is_some_and(|work| work.base_version == version);
    let file = ModelFile::step(&mut tx, job, &model, if is_last { model.bytes } else { 0 }).await?;
    drop(tx);
    file_response(&app, file, &headers, Reader { client: Some(client.id), has_work: work.is_some() }).await
}

async fn control(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path((job, version)): Path<(JobId, u32)>,
    headers: HeaderMap,
) -> Answer<Response> {
    let mut tx = app.db.read().await?;
    let (_, model) = version_for(&app, &mut tx, &client, job, version).await?;
    let has_work = tx.open_assignment(client.id).await?.is_some();
    let file = ModelFile::control(&mut tx, job, &model).await?;
    drop(tx);
    file_response(&app, file, &headers, Reader { client: Some(client.id), has_work }).await
}

/// A version that this client may see. A job of another population is answered like one that does not exist.
async fn version_for(
    app: &App,
    tx: &mut Tx,
    client: &ClientRow,
    job: JobId,
    version: u32,
) -> Answer<(Arc<JobSpec>, ModelVersion)> {
    let spec = app.spec(tx, job).await?.filter(|spec| spec.file.population == client.population);
    let spec = spec.ok_or_else(|| ApiError::not_found(job))?;
    let model = tx.model(job, version).await?;
    let model = model.ok_or_else(|| ApiError::not_found(format!("version {version} of {job}")))?;
    Ok((spec, model))
}
