//! Releases of models to the apps of a population.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tributary_engine::job::JobSpec;
use tributary_protocol::attributes::Attributes;
use tributary_protocol::card::ModelCard;
use tributary_protocol::id::{JobId, Name, ReleaseId};
use tributary_protocol::job_file::{EvaluationPlace, EvaluationPolicy, InitialModel, JobFile, StopPolicy};
use tributary_protocol::operator::{CreateRelease, Page, Release, WidenRelease};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AuditAction, ReleaseState};

use super::draft::{check_new, invalid};
use crate::api::auth::{Operator, Permit, Steers, Views};
use crate::api::extract::{Json, Path, Query};
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::blob::{Workbench, model_key};
use crate::db::{NewRelease, ReleaseRow, Tx, release_key};
use crate::lifecycle::{jobs, releases};
use crate::releases::make::{BaseRelease, MadeFiles, StoredFile, Target, make};
use crate::runtime::entropy;

/// Longest channel in the name of a gate's job.
const CHANNEL_CHARS: usize = 40;

/// Whose releases.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ReleasesQuery {
    population: Name,
}

pub(super) async fn list(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Query(query): Query<ReleasesQuery>,
) -> Answer<Json<Page<Release>>> {
    operator.may(&query.population)?;
    let mut tx = app.db.read().await?;
    let known = tx.population(&query.population).await?;
    known.ok_or_else(|| ApiError::not_found(format!("population {}", query.population)))?;
    let clients = tx.release_holders(&query.population).await?;
    let rows = tx.releases(&query.population).await?;
    let seen = |row: ReleaseRow| {
        let clients = clients.get(&row.id).copied().unwrap_or(0);
        row.seen(clients)
    };
    let items = rows.into_iter().map(seen).collect::<Result<_, _>>()?;
    Ok(Json(Page { items, next: None }))
}

pub(super) async fn create(
    operator: Operator<Steers>,
    State(app): State<Arc<App>>,
    Json(wanted): Json<CreateRelease>,
) -> Answer<Response> {
    let (row, permit) = operator.job(&mut app.db.read().await?, wanted.job).await?;
    let spec = app.specs.of(&row)?;
    let bench = app.workbench();
    let created = store(&app, permit, &bench, (&spec, wanted)).await;
    bench.clear().await;
    let (release, gate_job) = created?;
    app.releases.forget(&spec.file.population);
    if let Some(job) = gate_job {
        app.signals.changed(job);
    }
    Ok((StatusCode::CREATED, Json(release)).into_response())
}

async fn store(
    app: &App,
    permit: Permit<Steers>,
    bench: &Workbench,
    (spec, wanted): (&Arc<JobSpec>, CreateRelease),
) -> Answer<(Release, Option<JobId>)> {
    let Source { file, number, base, card } = source(app, spec, &wanted).await?;
    let gate = match wanted.gate {
        Some(_) => Some(gate_job(app, spec, (&wanted.channel, number))?),
        None => None,
    };
    let target = Target { id: ReleaseId::from_random(entropy::random()), number, gate: gate.as_ref() };
    let mut made = make(app, bench, target, (&file, &spec.model), base.as_ref()).await?;
    let now_ms = app.clock.now_ms();
    let MadeFiles { sha256, bytes, difference, bodies, gated } = &mut made;
    let new = NewRelease {
        id: target.id,
        population: spec.file.population.clone(),
        channel: wanted.channel,
        number,
        job: spec.id,
        card,
        state: if gate.is_some() { ReleaseState::Held } else { ReleaseState::Out },
        share: wanted.share,
        attributes: wanted.attributes,
        gate: wanted.gate,
        gate_job: gate.as_ref().map(|gate| gate.id),
        sha256: *sha256,
        bytes: *bytes,
        difference: *difference,
    };
    let mut tx = app.db.begin().await?;
    if let Some((gate, model)) = gate.as_ref().zip(gated.as_mut()) {
        jobs::create(app, &mut tx, gate, std::slice::from_mut(model), now_ms).await?;
    }
    releases::create(&mut tx, &new, bodies, now_ms).await?;
    let stored = tx.release(new.id).await?.ok_or_else(|| ApiError::internal("a release that was stored is gone"))?;
    let release = stored.seen(0)?;
    permit.audits(&mut tx, AuditAction::ReleaseCreate, &release.id, Some(described(&release)), now_ms).await?;
    tx.commit().await?;
    Ok((release, new.gate_job))
}

/// What the audit log says of a release.
fn described(release: &Release) -> String {
    let Release { channel, number, job_name, version, share, .. } = release;
    format!("{channel} {number}: {job_name} version {version} to {share}")
}

/// What a release is made from.
struct Source {
    /// The version's file.
    file: StoredFile,
    number: u32,
    base: Option<BaseRelease>,
    card: ModelCard,
}

async fn source(app: &App, spec: &JobSpec, wanted: &CreateRelease) -> Answer<Source> {
    let refused = |detail: &str| Err(ApiError::new(ProblemType::WrongState, detail));
    if spec.file.analysis.is_some() {
        return refused("the model of an analysis is the vector of its answers, which no app can use");
    }
    if spec.file.model.lacks_statistics() {
        return refused("the means and deviations of the job's columns are not fixed yet");
    }
    Attributes::try_from(wanted.attributes.clone())
        .map_err(|error| ApiError::new(ProblemType::Malformed, error.to_string()))?;
    let mut tx = app.db.read().await?;
    let missing = || ApiError::not_found(format!("version {} of {}", wanted.version, spec.id));
    let version = tx.model(spec.id, wanted.version).await?.ok_or_else(missing)?;
    if version.deleted_at_ms.is_some() {
        let detail = format!("version {} was deleted under the job's retention policy", wanted.version);
        return Err(ApiError::new(ProblemType::Deleted, detail));
    }
    let rows = tx.releases(&spec.file.population).await?;
    let in_channel = || rows.iter().filter(|row| row.channel == wanted.channel);
    let number = in_channel().next().map_or(0, |newest| newest.number) + 1;
    let newest_out = in_channel().find(|row| row.state == ReleaseState::Out && row.deleted_at_ms.is_none());
    let has_same = |row: &&ReleaseRow| row.card.0.model.parameters().is_ok_and(|model| model == *spec.model);
    let base = newest_out.filter(|_| !wanted.exact).filter(has_same).map(|row| BaseRelease {
        number: row.number,
        file: StoredFile { name: release_key(row.id), sha256: row.sha256 },
    });
    let card = ModelCard {
        job: spec.file.name.clone(),
        version: version.version,
        sha256: version.sha256,
        plan_sha256: spec.plan_hash,
        loss: spec.file.training.loss,
        model: spec.file.model.clone(),
    };
    let file = StoredFile { name: model_key(spec.id, version.version), sha256: version.sha256 };
    Ok(Source { file, number, base, card })
}

/// The job that evaluates a release for its gate, as the job that made it evaluates.
fn gate_job(app: &App, spec: &JobSpec, (channel, number): (&Name, u32)) -> Answer<JobSpec> {
    let channel: String = channel.as_str().chars().take(CHANNEL_CHARS).collect();
    let name = format!("gate-{channel}-{number}").parse().map_err(ApiError::internal)?;
    let evaluation = spec.file.evaluation.clone().unwrap_or_default();
    let file = JobFile {
        name,
        seed: Some(entropy::seed()),
        initial_model: InitialModel::Upload,
        evaluation: Some(EvaluationPolicy { only: true, every_rounds: 1, models: Vec::new(), ..evaluation }),
        stop: StopPolicy::default(),
        schedule: None,
        ..spec.file.clone()
    };
    if file.evaluation.as_ref().is_some_and(|evaluation| evaluation.place == EvaluationPlace::Coordinator) {
        let detail = "the job evaluates on the coordinator, and a gate needs clients: evaluate the version there, and \
                      release it without a gate";
        return Err(ApiError::new(ProblemType::WrongState, detail));
    }
    check_new(app, &file)?;
    JobSpec::new(JobId::from_random(entropy::random()), file).map_err(|error| invalid(&error))
}

/// Lets a release reach a larger share of the clients.
pub(super) async fn widen(
    operator: Operator<Steers>,
    State(app): State<Arc<App>>,
    Path(id): Path<ReleaseId>,
    Json(WidenRelease { share }): Json<WidenRelease>,
) -> Answer<Json<Release>> {
    let mut tx = app.db.begin().await?;
    let (before, permit) = of_release(&operator, &mut tx, id).await?;
    let now_ms = app.clock.now_ms();
    if releases::widen(&mut tx, id, share, now_ms).await? {
        let detail = format!("{} {}: to {share}", before.channel, before.number);
        return changed(&app, tx, permit, (AuditAction::ReleaseWiden, id, detail), now_ms).await;
    }
    seen(tx, id).await
}

/// Takes a release back: its clients go back to the one before.
pub(super) async fn withdraw(
    operator: Operator<Steers>,
    State(app): State<Arc<App>>,
    Path(id): Path<ReleaseId>,
) -> Answer<Json<Release>> {
    let mut tx = app.db.begin().await?;
    let (before, permit) = of_release(&operator, &mut tx, id).await?;
    let now_ms = app.clock.now_ms();
    if releases::withdraw(&mut tx, id, now_ms).await? {
        let detail = format!("{} {}", before.channel, before.number);
        return changed(&app, tx, permit, (AuditAction::ReleaseWithdraw, id, detail), now_ms).await;
    }
    seen(tx, id).await
}

async fn of_release(operator: &Operator<Steers>, tx: &mut Tx, id: ReleaseId) -> Answer<(ReleaseRow, Permit<Steers>)> {
    let row = tx.release(id).await?.filter(|row| operator.reaches(Some(&row.population)));
    let row = row.ok_or_else(|| ApiError::not_found(id))?;
    let permit = operator.may(&row.population)?;
    Ok((row, permit))
}

/// Commits a change of a release, and writes it to the audit log.
async fn changed(
    app: &App,
    mut tx: Tx,
    permit: Permit<Steers>,
    (action, id, detail): (AuditAction, ReleaseId, String),
    now_ms: i64,
) -> Answer<Json<Release>> {
    let row = tx.release(id).await?.ok_or_else(|| ApiError::not_found(id))?;
    permit.audits(&mut tx, action, &id, Some(detail), now_ms).await?;
    tx.commit().await?;
    app.releases.forget(&row.population);
    seen(app.db.read().await?, id).await
}

async fn seen(mut tx: Tx, id: ReleaseId) -> Answer<Json<Release>> {
    let row = tx.release(id).await?.ok_or_else(|| ApiError::not_found(id))?;
    let clients = tx.release_holders(&row.population).await?;
    let clients = clients.get(&id).copied().unwrap_or(0);
    Ok(Json(row.seen(clients)?))
}
