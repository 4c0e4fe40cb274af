//! How jobs and versions are filed: names, tags, notes, the archive, pins, deletion.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use tracing::Instrument;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::{ChangeJob, Job, ModelVersion, NOTES_BYTES_MAX, TAGS_MAX};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::AuditAction;

use super::jobs::view;
use crate::api::auth::{Administers, Operator, Steers};
use crate::api::extract::{Json, Path, text};
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::db::{DbError, JobCause, JobRow, Transition};
use crate::lifecycle::jobs::JobRefusal;
use crate::lifecycle::removal;

/// Changes name, tags, notes and archive. Rounds that are open go on: nothing that clients see depends on them.
pub(super) async fn change(
    operator: Operator<Steers>,
    State(app): State<Arc<App>>,
    Path(id): Path<JobId>,
    Json(change): Json<ChangeJob>,
) -> Answer<Json<Job>> {
    text("notes", change.notes.as_deref().unwrap_or_default(), NOTES_BYTES_MAX)?;
    let now_ms = app.clock.now_ms();
    let mut tx = app.db.begin().await?;
    tx.lock_job(id).await?;
    let (row, permit) = operator.job(&mut tx, id).await?;
    let wanted = changed(&row, &change, now_ms)?;
    if is_filed_alike(&row, &wanted) {
        return Ok(Json(view(&app, row)?));
    }
    match tx.set_job_file(id, &wanted.file.0).await {
        Err(DbError::Duplicate) => {
            let (population, name) = (wanted.file.0.population.to_string(), wanted.file.0.name.to_string());
            return Err(JobRefusal::NameTaken { population, name }.into());
        }
        stored => stored?,
    }
    tx.file_job(id, &wanted.tags.0, &wanted.notes, wanted.archived_at_ms).await?;
    // The state is unchanged; the event makes watchers read the job again.
    tx.record(Transition::Job { job: id, state: row.state, cause: Some(JobCause::Filing) }, now_ms).await?;
    let detail = serde_json::to_string(&change).map_err(ApiError::internal)?;
    permit.audits(&mut tx, AuditAction::JobChange, &id, Some(detail), now_ms).await?;
    tx.commit().await?;
    app.signals.changed(id);
    Ok(Json(view(&app, wanted)?))
}

/// The job as the change wants it.
fn changed(row: &JobRow, change: &ChangeJob, now_ms: i64) -> Answer<JobRow> {
    let mut wanted = row.clone();
    if let Some(name) = &change.name {
        wanted.file.0.name = name.clone();
    }
    if let Some(tags) = change.ordered_tags() {
        if tags.len() > TAGS_MAX {
            return Err(ApiError::new(ProblemType::Malformed, format!("a job has at most {TAGS_MAX} tags")));
        }
        wanted.tags.0 = tags;
    }
    if let Some(notes) = &change.notes {
        wanted.notes.clone_from(notes);
    }
    match change.archived {
        Some(true) if !row.state.is_final() => {
            let detail = format!("a job that is {} cannot be archived: stop it first", row.state);
            return Err(ApiError::new(ProblemType::WrongState, detail));
        }
        Some(true) => wanted.archived_at_ms = row.archived_at_ms.or(Some(now_ms)),
        Some(false) => wanted.archived_at_ms = None,
        None => {}
    }
    Ok(wanted)
}

fn is_filed_alike(row: &JobRow, wanted: &JobRow) -> bool {
    row.file.0.name == wanted.file.0.name
        && row.tags == wanted.tags
        && row.notes == wanted.notes
        && row.archived_at_ms == wanted.archived_at_ms
}

/// Deletes a job that has ended. The audit log and the counters of `/metrics` keep what they have of it.
pub(super) async fn delete(
    operator: Operator<Administers>,
    State(app): State<Arc<App>>,
    Path(id): Path<JobId>,
) -> Answer<StatusCode> {
    let now_ms = app.clock.now_ms();
    let mut tx = app.db.begin().await?;
    let (_, permit) = operator.job(&mut tx, id).await?;
    let row = removal::begin(&mut tx, id, now_ms).await?;
    let detail = format!("{}/{}", row.file.0.population, row.file.0.name);
    permit.audits(&mut tx, AuditAction::JobDelete, &id, Some(detail), now_ms).await?;
    tx.commit().await?;
    app.signals.changed(id);
    // A task of its own: if the caller leaves, the deletion goes on.
    let services = app.services.clone();
    let finished = tokio::spawn(async move { removal::finish(&services, id).await }.in_current_span());
    finished.await.map_err(ApiError::internal)??;
    Ok(StatusCode::NO_CONTENT)
}

/// Pins a version: retention keeps it.
pub(super) async fn pin(
    operator: Operator<Steers>,
    State(app): State<Arc<App>>,
    Path(place): Path<(JobId, u32)>,
) -> Answer<Json<ModelVersion>> {
    set_pin(&app, &operator, place, true).await
}

/// Unpins a version.
pub(super) async fn unpin(
    operator: Operator<Steers>,
    State(app): State<Arc<App>>,
    Path(place): Path<(JobId, u32)>,
) -> Answer<Json<ModelVersion>> {
    set_pin(&app, &operator, place, false).await
}

async fn set_pin(
    app: &App,
    operator: &Operator<Steers>,
    (id, version): (JobId, u32),
    pinned: bool,
) -> Answer<Json<ModelVersion>> {
    let now_ms = app.clock.now_ms();
    let missing = || ApiError::not_found(format!("version {version} of {id}"));
    let mut tx = app.db.begin().await?;
    // Retention holds this lock while it deletes a version.
    tx.lock_job(id).await?;
    let (row, permit) = operator.job(&mut tx, id).await?;
    let model = tx.model(id, version).await?.ok_or_else(missing)?;
    if pinned && model.deleted_at_ms.is_some() {
        let detail = format!("the file of version {version} was deleted under the job's retention policy");
        return Err(ApiError::new(ProblemType::Deleted, detail));
    }
    if tx.pin_version(id, version, pinned.then_some(now_ms)).await? {
        let action = if pinned { AuditAction::ModelPin } else { AuditAction::ModelUnpin };
        tx.record(Transition::Job { job: id, state: row.state, cause: Some(JobCause::Filing) }, now_ms).await?;
        permit.audits(&mut tx, action, &id, Some(format!("version {version}")), now_ms).await?;
    }
    let best = tx.best_version(id).await?.is_some_and(|best| best.version == version);
    let model = tx.model(id, version).await?.ok_or_else(missing)?;
    tx.commit().await?;
    app.signals.changed(id);
    Ok(Json(ModelVersion { best, ..model }))
}
