//! Rounds and their assignments.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::{Assignment, Page, PageQuery, Round};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::Task;

use super::full_page;
use crate::api::auth::Operator;
use crate::api::extract::{Json, Path, Query, page};
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::db::RoundKey;

/// Which rounds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RoundsQuery {
    #[serde(default = "train")]
    task: Task,
    /// Newest first; `after` then means "older than".
    #[serde(default)]
    latest: bool,
    limit: Option<u32>,
    after: Option<String>,
}

fn train() -> Task {
    Task::Train
}

pub(super) async fn list(
    _: Operator,
    State(app): State<Arc<App>>,
    Path(job): Path<JobId>,
    Query(query): Query<RoundsQuery>,
) -> Answer<Json<Page<Round>>> {
    let first = if query.latest { i32::MAX.cast_unsigned() } else { 0 };
    let (limit, after) = page(&PageQuery { limit: query.limit, after: query.after }, first)?;
    let mut tx = app.db.read().await?;
    tx.job(job).await?.ok_or_else(|| ApiError::not_found(job))?;
    let rows = match query.latest {
        true => tx.latest_rounds(job, query.task, after, limit).await?,
        false => tx.rounds(job, query.task, after, limit).await?,
    };
    drop(tx);
    let items = rows.into_iter().map(|row| Round { folded: folded(&app, row.key()), ..Round::from(row) }).collect();
    Ok(Json(full_page(items, limit, |round: &Round| round.number.to_string())))
}

/// Updates in the round's running sum.
fn folded(app: &App, round: RoundKey) -> Option<u32> {
    let sum = app.sums.begun(round)?;
    Some(sum.updates())
}

/// Which assignments.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AssignmentsQuery {
    #[serde(default = "train")]
    task: Task,
    limit: Option<u32>,
    after: Option<String>,
}

pub(super) async fn assignments(
    _: Operator,
    State(app): State<Arc<App>>,
    Path((job, number)): Path<(JobId, u32)>,
    Query(query): Query<AssignmentsQuery>,
) -> Answer<Json<Page<Assignment>>> {
    let (limit, after) = page(&PageQuery { limit: query.limit, after: query.after }, 0)?;
    let key = RoundKey { job, task: query.task, number };
    let mut tx = app.db.read().await?;
    let round = tx.round(key).await?.ok_or_else(|| ApiError::not_found(format!("round {number} of {job}")))?;
    if round.pruned_at_ms.is_some() {
        let detail = format!("the assignments of round {number} were deleted after [retention] history_days");
        return Err(ApiError::new(ProblemType::Deleted, detail));
    }
    let items = tx.assignments(key, after, limit).await?;
    Ok(Json(full_page(items, limit, |assignment| assignment.client_number.to_string())))
}
