//! Per-round metrics of a job as one file, CSV or JSON, written while they are read.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::{PAGE_ITEMS_MAX, Round, RoundTable, ScalarsOf};
use tributary_protocol::state::Task;

use super::rounds::{attach_scalars, view};
use crate::api::auth::{Operator, Views};
use crate::api::extract::{Path, Query};
use crate::api::problem::Answer;
use crate::app::App;
use crate::db::{DbError, RoundFilter, Tx};

/// Named scalars with columns of their own in the CSV form: those of the most rounds.
const SCALAR_COLUMNS_MAX: u32 = 64;

/// Which form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Format {
    /// A JSON array of rounds.
    #[default]
    Json,
    /// A line of column names, then a line per round (RFC 4180).
    Csv,
}

/// Which metrics.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct MetricsQuery {
    #[serde(default)]
    format: Format,
    #[serde(default = "train")]
    task: Task,
}

fn train() -> Task {
    Task::Train
}

pub(super) async fn export(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Path(job): Path<JobId>,
    Query(query): Query<MetricsQuery>,
) -> Answer<Response> {
    let mut tx = app.db.read().await?;
    operator.job(&mut tx, job).await?;
    let table = Arc::new(table(&mut tx, job, query.task).await?);
    drop(tx);
    let format = query.format;
    let (beginning, end, kind) = match format {
        Format::Json => ("[".to_owned(), "\n]\n", "application/json"),
        Format::Csv => (format!("{}\r\n", table.columns()), "", "text/csv; charset=utf-8"),
    };
    let rounds = stream::try_unfold(Some(0), move |after| {
        let (app, table) = (Arc::clone(&app), Arc::clone(&table));
        async move {
            let Some(after) = after else { return Ok::<_, DbError>(None) };
            let (text, next) = part(&app, job, query.task, (format, &table), after).await?;
            Ok(Some((Bytes::from(text), next)))
        }
    });
    let whole = stream::once(std::future::ready(Ok(Bytes::from(beginning)))).chain(rounds);
    let whole = whole.chain(stream::once(std::future::ready(Ok(Bytes::from_static(end.as_bytes())))));
    let mut response = Body::from_stream(whole).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

/// The rounds after one, as text, and the number after which the next page begins; none at the end.
async fn part(
    app: &App,
    job: JobId,
    task: Task,
    (format, table): (Format, &RoundTable),
    after: u32,
) -> Result<(String, Option<u32>), DbError> {
    let mut tx = app.db.read().await?;
    let rows = tx.rounds(job, task, RoundFilter::default(), after, PAGE_ITEMS_MAX).await?;
    let next = rows.last().filter(|_| rows.len() == PAGE_ITEMS_MAX as usize).map(|row| row.number);
    let (mut text, mut rounds) = (String::new(), Vec::with_capacity(rows.len()));
    for row in rows {
        rounds.push(view(app, &mut tx, row).await?);
    }
    attach_scalars(&mut tx, job, &mut rounds).await?;
    for (index, round) in rounds.into_iter().enumerate() {
        match format {
            Format::Json => {
                text.push_str(if after == 0 && index == 0 { "\n" } else { ",\n" });
                text.push_str(&written(&round, serde_json::to_string(&round))?);
            }
            Format::Csv => text.push_str(&(written(&round, table.line(&round))? + "\r\n")),
        }
    }
    Ok((text, next))
}

fn written(round: &Round, text: Result<String, serde_json::Error>) -> Result<String, DbError> {
    text.map_err(|error| DbError::Corrupt(format!("round {}: {error}", round.number)))
}

/// The table of a job's rounds with this task.
async fn table(tx: &mut Tx, job: JobId, task: Task) -> Result<RoundTable, DbError> {
    let found = tx.scalar_names(job, SCALAR_COLUMNS_MAX).await?;
    Ok(RoundTable::new(found.into_iter().filter_map(|(of, name)| match (task, of) {
        _ if task == of => Some((ScalarsOf::Round, name)),
        (Task::Train, Task::Evaluate) => Some((ScalarsOf::Evaluation, name)),
        _ => None,
    })))
}
