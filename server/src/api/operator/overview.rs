//! An overview of all jobs: the dashboard's first page.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use tributary_protocol::operator::{JobOverview, JobSummary, OpenRound, Overview, PAGE_ITEMS_MAX};
use tributary_protocol::state::Task;

use super::jobs::head;
use super::rounds::view;
use crate::api::auth::{Operator, Views};
use crate::api::extract::{Json, Query};
use crate::api::problem::Answer;
use crate::api::story::disk::Disk;
use crate::api::story::{health, progress};
use crate::app::App;
use crate::db::{DbError, JobRow, RoundFilter, Tx};
use crate::fleet::online::Online;

const JOBS_MAX: u32 = 100;
/// Clients of one cohort that are shown.
const CELLS_MAX: u32 = 500;
const SPARK_POINTS_MAX: u32 = 60;

/// Which jobs.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct OverviewQuery {
    /// Archived jobs too.
    #[serde(default)]
    archived: bool,
}

pub(super) async fn show(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Query(query): Query<OverviewQuery>,
) -> Answer<Json<Overview>> {
    let permit = operator.may_within();
    let mut tx = app.db.read().await?;
    let mut populations = tx.populations(permit.population(), "", PAGE_ITEMS_MAX).await?;
    let online = Online::read(&app.fleet, &mut tx, app.clock.now_ms()).await?;
    for population in &mut populations {
        (population.online, population.working) = online.of(&population.name);
    }
    let disk = Disk::read(&app, &mut tx).await?;
    let mut jobs = Vec::new();
    for row in tx.jobs_at_a_glance(permit.population(), query.archived, JOBS_MAX).await? {
        jobs.push(job(&app, &mut tx, row, disk).await?);
    }
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Ok(Json(Overview { version, now_at_ms: app.clock.now_ms(), populations, jobs }))
}

async fn job(app: &App, tx: &mut Tx, row: JobRow, disk: Disk) -> Result<JobOverview, DbError> {
    let id = row.id;
    let mut open_rounds = Vec::new();
    for round in tx.open_rounds(id).await? {
        let cells = tx.cells(round.key(), CELLS_MAX).await?;
        open_rounds.push(OpenRound { round: view(app, tx, round).await?, cells });
    }
    // The newest round is open or the last ended one. If it is open, the one before it has ended.
    let newest = tx.latest_rounds(id, Task::Train, RoundFilter::default(), i32::MAX.cast_unsigned(), 2).await?;
    let last_round = newest.into_iter().find(|round| !round.phase.is_open());
    let last_round = match last_round {
        Some(round) => Some(view(app, tx, round).await?),
        None => None,
    };
    let progress = progress::of_job(tx, &row, app.clock.now_ms()).await?;
    let spark = tx.spark(id, row.rounds_opened.div_ceil(SPARK_POINTS_MAX)).await?;
    Ok(JobOverview {
        health: health::of_job(app, tx, &row, disk).await?,
        job: summary(app, row)?,
        open_rounds,
        last_round,
        best_accuracy: progress.best.and_then(|best| best.accuracy),
        best_measured_on: progress.best.and_then(|best| best.measured_on),
        best_round: progress.best.map(|best| best.round),
        ends_in_ms: progress.ends_in_ms,
        accuracy: progress.accuracy,
        measured_on: progress.measured_on,
        loss: progress.loss,
        bytes_up: progress.bytes_up,
        bytes_down: progress.bytes_down,
        spark,
    })
}

fn summary(app: &App, row: JobRow) -> Result<JobSummary, DbError> {
    let (head, file) = (head(app, &row)?, row.file.0);
    Ok(JobSummary {
        head,
        name: file.name,
        population: file.population,
        codec: file.update.codec,
        learning_rate: file.training.optimizer.learning_rate(),
        stop: file.stop,
    })
}
