//! Jobs and their models.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use serde::Deserialize;
use tributary_engine::job::{JobSpec, plan_of};
use tributary_engine::privacy::check_rounds;
use tributary_protocol::download::ModelForm;
use tributary_protocol::id::{JobId, Name};
use tributary_protocol::job_file::{InitialModel, RoundPolicyChange};
use tributary_protocol::operator::{Job, JobHead, ModelVersion, Page, PageQuery, Progress};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AuditAction, JobState};
use tributary_protocol::update::bytes_max;

use super::draft::{CreateQuery, SentJob, check_new, invalid, resolved, try_out};
use crate::api::auth::{Operator, Permit, Steers, Views};
use crate::api::extract::{Json, Path, Query, full_page, page};
use crate::api::models::{ModelFile, Reader, file_response};
use crate::api::problem::{Answer, ApiError};
use crate::api::story::disk::Disk;
use crate::api::story::{health, progress, rounds_not_before_ms};
use crate::app::App;
use crate::blob::Workbench;
use crate::db::{DbError, JobCause, JobRow, Transition, Tx};
use crate::lifecycle::jobs;
use crate::models::first::{UploadedModel, draw_first};
use crate::models::fixed::fixed_models;
use crate::models::version::NewVersion;
use crate::runtime::entropy;

pub(super) async fn create(
    operator: Operator<Steers>,
    State(app): State<Arc<App>>,
    Query(query): Query<CreateQuery>,
    SentJob(file): SentJob,
) -> Answer<Response> {
    let permit = operator.may(&file.population)?;
    if query.dry_run {
        return Ok(try_out(&app, file).await?.into_response());
    }
    check_new(&app, &file)?;
    let mut file = resolved(&app, file).await?;
    file.seed = Some(file.seed.unwrap_or_else(entropy::seed));
    let id = JobId::from_random(entropy::random());
    let spec = JobSpec::new(id, file).map_err(|error| invalid(&error))?;
    let bench = app.workbench();
    let created = create_with_model(&app, permit, &spec, &bench).await;
    bench.clear().await;
    let row = created?;
    app.signals.changed(id);
    Ok((StatusCode::CREATED, Json(view(&app, row)?)).into_response())
}

/// Stores a job, with its first model if that is drawn from the seed, or with the models that it only evaluates.
async fn create_with_model(app: &App, permit: Permit<Steers>, spec: &JobSpec, bench: &Workbench) -> Answer<JobRow> {
    let mut models = match spec.file.initial_model {
        InitialModel::Upload => Vec::new(),
        InitialModel::Random if spec.file.only_evaluates() => fixed_models(app, bench, spec).await?,
        InitialModel::Random => vec![draw_first(bench, &app.clock, spec).await?],
    };
    let (id, now_ms) = (spec.id, app.clock.now_ms());
    let mut tx = app.db.begin().await?;
    jobs::create(app, &mut tx, spec, &mut models, now_ms).await?;
    let detail = format!("{}/{}", spec.file.population, spec.file.name);
    let row = tx.job(id).await?.ok_or_else(|| ApiError::internal("a job that was stored is gone"))?;
    permit.audits(&mut tx, AuditAction::JobCreate, &id, Some(detail), now_ms).await?;
    tx.commit().await?;
    Ok(row)
}

pub(super) async fn put_initial_model(
    operator: Operator<Steers>,
    State(app): State<Arc<App>>,
    Path((id, version)): Path<(JobId, u32)>,
    body: Body,
) -> Answer<Json<Job>> {
    if version != 0 {
        let detail = format!("only version 0 is uploaded; version {version} is made by a round");
        return Err(ApiError::new(ProblemType::MethodNotAllowed, detail));
    }
    let (row, permit) = operator.job(&mut app.db.read().await?, id).await?;
    let spec = app.specs.of(&row)?;
    jobs::require_awaiting(&row)?;
    let bench = app.workbench();
    let started = start_with_model(&app, permit, &spec, &bench, body).await;
    bench.clear().await;
    let row = started?;
    app.signals.changed(id);
    Ok(Json(view(&app, row)?))
}

async fn start_with_model(
    app: &App,
    permit: Permit<Steers>,
    spec: &JobSpec,
    bench: &Workbench,
    body: Body,
) -> Answer<JobRow> {
    let mut model = read_model(app, spec, bench, body).await?;
    let (id, now_ms) = (spec.id, app.clock.now_ms());
    let mut tx = app.db.begin().await?;
    jobs::start(&mut tx, id, &mut model, now_ms).await?;
    let row = tx.job(id).await?.ok_or_else(|| ApiError::not_found(id))?;
    permit.audits(&mut tx, AuditAction::ModelUpload, &id, None, now_ms).await?;
    tx.commit().await?;
    Ok(row)
}

/// Reads an uploaded model, up to the largest length of this job's model.
async fn read_model(app: &App, spec: &JobSpec, bench: &Workbench, mut body: Body) -> Answer<NewVersion> {
    // A model file has the tensors of an f32 update, so the same limit holds.
    let limit = bytes_max(&spec.model, tributary_protocol::update::Codec::F32);
    let mut model = UploadedModel::begin(bench, &app.clock, spec, 0);
    while let Some(frame) = body.frame().await {
        let broken = |error| ApiError::new(ProblemType::Malformed, format!("the body was interrupted: {error}"));
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        if model.bytes() + data.len() as u64 > limit {
            let detail = format!("a model of this job has at most {limit} bytes");
            return Err(ApiError::new(ProblemType::TooLarge, detail));
        }
        model.push(&data).await?;
    }
    Ok(model.finish(spec).await?)
}

/// Which jobs.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct JobsQuery {
    population: Option<Name>,
    limit: Option<u32>,
    after: Option<String>,
}

pub(super) async fn list(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Query(query): Query<JobsQuery>,
) -> Answer<Json<Page<Job>>> {
    let permit = match &query.population {
        Some(population) => operator.may(population)?,
        None => operator.may_within(),
    };
    let (limit, after) = page(&PageQuery { limit: query.limit, after: query.after }, String::new())?;
    let mut tx = app.db.read().await?;
    let disk = Disk::read(&app, &mut tx).await?;
    let mut items = Vec::new();
    for row in tx.jobs(permit.population(), &after, limit).await? {
        items.push(healthy(&app, &mut tx, row, disk).await?);
    }
    Ok(Json(full_page(items, limit, |job| job.head.id.to_string())))
}

pub(super) async fn show(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Path(id): Path<JobId>,
) -> Answer<Json<Job>> {
    let mut tx = app.db.read().await?;
    let (row, _) = operator.job(&mut tx, id).await?;
    let disk = Disk::read(&app, &mut tx).await?;
    let progress = progress::of_job(&mut tx, &row, app.clock.now_ms()).await?;
    let useful_updates = progress::useful_updates(&mut tx, &row).await?;
    let job = healthy(&app, &mut tx, row, disk).await?;
    Ok(Json(Job { progress: Some(Progress { useful_updates, ..progress }), ..job }))
}

/// A job with its health.
async fn healthy(app: &App, tx: &mut Tx, row: JobRow, disk: Disk) -> Result<Job, DbError> {
    let health = health::of_job(app, tx, &row, disk).await?;
    Ok(Job { health, ..view(app, row)? })
}

pub(super) async fn pause(
    operator: Operator<Steers>,
    State(app): State<Arc<App>>,
    Path(id): Path<JobId>,
) -> Answer<Json<Job>> {
    move_to(&app, &operator, id, JobState::Paused, AuditAction::JobPause).await
}

pub(super) async fn resume(
    operator: Operator<Steers>,
    State(app): State<Arc<App>>,
    Path(id): Path<JobId>,
) -> Answer<Json<Job>> {
    move_to(&app, &operator, id, JobState::Running, AuditAction::JobResume).await
}

pub(super) async fn stop(
    operator: Operator<Steers>,
    State(app): State<Arc<App>>,
    Path(id): Path<JobId>,
) -> Answer<Json<Job>> {
    move_to(&app, &operator, id, JobState::Stopped, AuditAction::JobStop).await
}

/// Moves a job to a state. A job that is in that state already is unchanged.
async fn move_to(
    app: &App,
    operator: &Operator<Steers>,
    id: JobId,
    state: JobState,
    action: AuditAction,
) -> Answer<Json<Job>> {
    let now_ms = app.clock.now_ms();
    let mut tx = app.db.begin().await?;
    let (_, permit) = operator.job(&mut tx, id).await?;
    let moved = jobs::move_to(&mut tx, id, state, now_ms).await?;
    let row = tx.job(id).await?.ok_or_else(|| ApiError::not_found(id))?;
    if moved {
        permit.audits(&mut tx, action, &id, None, now_ms).await?;
        tx.commit().await?;
        if state.is_final() {
            app.specs.forget(id);
        }
        app.signals.changed(id);
    }
    Ok(Json(view(app, row)?))
}

/// The job file as text, to read it or to start another job from it.
pub(super) async fn file(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Path(id): Path<JobId>,
) -> Answer<Response> {
    let (row, _) = operator.job(&mut app.db.read().await?, id).await?;
    Ok(([(header::CONTENT_TYPE, "application/toml; charset=utf-8")], row.file.0.text()).into_response())
}

/// Changes the round policy. Every coordinator reads the stored file, so all follow the change. An open round keeps the
/// policy that it was opened with.
pub(super) async fn change_round_policy(
    operator: Operator<Steers>,
    State(app): State<Arc<App>>,
    Path(id): Path<JobId>,
    Json(change): Json<RoundPolicyChange>,
) -> Answer<Json<Job>> {
    let now_ms = app.clock.now_ms();
    let mut tx = app.db.begin().await?;
    tx.lock_job(id).await?;
    let (row, permit) = operator.job(&mut tx, id).await?;
    if row.state.is_final() {
        let detail = format!("a job that is {} has no further rounds", row.state);
        return Err(ApiError::new(ProblemType::WrongState, detail));
    }
    let mut file = row.file.0.clone();
    file.round = change.applied_to(&file.round);
    if file.round == row.file.0.round {
        return Ok(Json(view(&app, row)?));
    }
    let spec = JobSpec::new(id, file).map_err(|error| invalid(&error))?;
    check_rounds(&spec.file).map_err(|error| invalid(&error.into()))?;
    tx.set_job_file(id, &spec.file).await?;
    // The state is unchanged; the event makes watchers read the file again.
    let changed = Transition::Job { job: id, state: row.state, cause: Some(JobCause::RoundPolicy) };
    tx.record(changed, now_ms).await?;
    let detail = serde_json::to_string(&change).map_err(ApiError::internal)?;
    let row = tx.job(id).await?.ok_or_else(|| ApiError::not_found(id))?;
    permit.audits(&mut tx, AuditAction::JobRoundPolicy, &id, Some(detail), now_ms).await?;
    tx.commit().await?;
    app.signals.changed(id);
    Ok(Json(view(&app, row)?))
}

pub(super) async fn models(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Path(id): Path<JobId>,
    Query(query): Query<PageQuery>,
) -> Answer<Json<Page<ModelVersion>>> {
    let (limit, from) = page(&query, 0)?;
    let mut tx = app.db.read().await?;
    operator.job(&mut tx, id).await?;
    let mut items = tx.models(id, from, limit).await?;
    let best = tx.best_version(id).await?.map(|best| best.version);
    for model in &mut items {
        model.best = best == Some(model.version);
    }
    Ok(Json(full_page(items, limit, |model| (model.version + 1).to_string())))
}

/// The form of a model for an operator: a typo in its name must not be the plain form.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelQuery {
    #[serde(default)]
    form: ModelForm,
}

pub(super) async fn model(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Path((id, version)): Path<(JobId, u32)>,
    Query(query): Query<ModelQuery>,
    headers: HeaderMap,
) -> Answer<Response> {
    let mut tx = app.db.read().await?;
    let (job, _) = operator.job(&mut tx, id).await?;
    let model = tx.model(id, version).await?;
    let model = model.ok_or_else(|| ApiError::not_found(format!("version {version} of {id}")))?;
    // Never packed, because operators open the file with other tools.
    let file = ModelFile::in_form(&mut tx, &*app.specs.of(&job)?, &model, query.form, false).await?;
    drop(tx);
    file_response(&app, file, &headers, Reader::default()).await
}

pub(super) fn view(app: &App, row: JobRow) -> Result<Job, DbError> {
    let (head, file) = (head(app, &row)?, row.file.0);
    Ok(Job { head, plan_hash: plan_of(&file).hash(), file, health: Vec::new(), progress: None })
}

/// What lists and details say of a job.
pub(super) fn head(app: &App, row: &JobRow) -> Result<JobHead, DbError> {
    Ok(JobHead {
        id: row.id,
        state: row.state,
        model_version: row.version()?,
        parameters: row.parameters,
        rounds_opened: row.rounds_opened,
        rounds_committed: row.rounds_committed,
        created_at_ms: row.created_at_ms,
        ended_at_ms: row.ended_at_ms,
        rounds_not_before_ms: rounds_not_before_ms(row, app.clock.now_ms())?,
        tags: row.tags.0.clone(),
        notes: row.notes.clone(),
        archived_at_ms: row.archived_at_ms,
    })
}
