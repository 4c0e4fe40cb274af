//! Test sets for evaluations on the coordinator.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use http_body_util::BodyExt;
use tributary_engine::job::JobSpec;
use tributary_protocol::id::JobId;
use tributary_protocol::job_file::{EvaluationPlace, JobFile};
use tributary_protocol::operator::{TestSet, TestSetState};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::AuditAction;

use crate::api::auth::{Operator, Permit, Steers, Views};
use crate::api::extract::{Json, Path};
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::blob::Workbench;
use crate::central::{NewTestSet, TEST_SET_BYTES_MAX, UploadedTestSet};
use crate::db::{JobCause, Transition};

pub(super) async fn show(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Path(id): Path<JobId>,
) -> Answer<Json<TestSetState>> {
    let mut tx = app.db.read().await?;
    operator.job(&mut tx, id).await?;
    Ok(Json(TestSetState { test_set: tx.test_set(id).await?.map(|row| row.view()) }))
}

pub(super) async fn put(
    operator: Operator<Steers>,
    State(app): State<Arc<App>>,
    Path(id): Path<JobId>,
    body: Body,
) -> Answer<Json<TestSet>> {
    let (row, permit) = operator.job(&mut app.db.read().await?, id).await?;
    let spec = app.specs.of(&row)?;
    if !is_on_coordinator(&spec.file) {
        let detail = "the job's file does not say [evaluation] where = \"coordinator\": nothing would read a test set";
        return Err(ApiError::new(ProblemType::WrongState, detail));
    }
    let bench = app.workbench();
    let stored = receive_and_store(&app, permit, &spec, &bench, body).await;
    bench.clear().await;
    let stored = stored?;
    app.signals.changed(id);
    Ok(Json(stored))
}

/// Whether the coordinator evaluates the models of a job.
pub(super) fn is_on_coordinator(file: &JobFile) -> bool {
    file.evaluation.as_ref().is_some_and(|evaluation| evaluation.place == EvaluationPlace::Coordinator)
}

async fn receive_and_store(
    app: &App,
    permit: Permit<Steers>,
    spec: &JobSpec,
    bench: &Workbench,
    body: Body,
) -> Answer<TestSet> {
    let mut test_set = receive(app, spec, bench, body).await?;
    let mut tx = app.db.begin().await?;
    tx.lock_job(spec.id).await?;
    let former = test_set.store(&mut tx, spec.id).await?;
    let row = tx.job(spec.id).await?.ok_or_else(|| ApiError::not_found(spec.id))?;
    // The state is unchanged; the event wakes the job's driver, wherever it is.
    let uploaded = Transition::Job { job: spec.id, state: row.state, cause: Some(JobCause::TestSet) };
    tx.record(uploaded, app.clock.now_ms()).await?;
    let view = test_set.view();
    let detail = format!("{} examples, SHA-256 {}", view.examples, view.sha256);
    permit.audits(&mut tx, AuditAction::TestSetUpload, &spec.id, Some(detail), app.clock.now_ms()).await?;
    tx.commit().await?;
    app.blobs.delete(former.into_iter().collect()).await;
    // Otherwise the bodies of many uploads would lie there until the next scheduled run.
    app.blobs.clear_some(&app.db).await;
    Ok(view)
}

/// Reads an uploaded test set, up to [`TEST_SET_BYTES_MAX`].
async fn receive(app: &App, spec: &JobSpec, bench: &Workbench, mut body: Body) -> Answer<NewTestSet> {
    let mut test_set = UploadedTestSet::begin(bench, &app.clock, spec)?;
    while let Some(frame) = body.frame().await {
        let broken = |error| ApiError::new(ProblemType::Malformed, format!("the body was interrupted: {error}"));
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        if test_set.bytes() + data.len() as u64 > TEST_SET_BYTES_MAX {
            let detail = format!("a test set has at most {TEST_SET_BYTES_MAX} bytes");
            return Err(ApiError::new(ProblemType::TooLarge, detail));
        }
        test_set.push(&data).await?;
    }
    Ok(test_set.finish(app.clock.now_ms()).await?)
}
