//! Per-round metrics of a job as one file, CSV or JSON, written while they are read.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::{PAGE_ITEMS_MAX, Round};
use tributary_protocol::state::Task;

use super::rounds::view;
use crate::api::auth::{Operator, Views};
use crate::api::extract::{Path, Query};
use crate::api::problem::Answer;
use crate::app::App;
use crate::db::{DbError, RoundFilter};

/// The columns of the CSV form: the members of a round.
const COLUMNS: [&str; 33] = [
    "number",
    "task",
    "phase",
    "reason",
    "base_version",
    "seed",
    "goal",
    "minimum",
    "cohort",
    "reported",
    "rejected",
    "failed",
    "expired",
    "spare",
    "saved_ms",
    "assigned",
    "opened_at_ms",
    "selected_at_ms",
    "deadline_at_ms",
    "closed_at_ms",
    "ended_at_ms",
    "clients_ms",
    "weight",
    "training_loss",
    "loss",
    "accuracy",
    "bytes_up",
    "bytes_down",
    "raw_bytes_up",
    "raw_bytes_down",
    "step_norm",
    "diversity",
    "folded",
];

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
    operator.job(&mut app.db.read().await?, job).await?;
    let format = query.format;
    let (beginning, end, kind) = match format {
        Format::Json => ("[".to_owned(), "\n]\n", "application/json"),
        Format::Csv => (format!("{}\r\n", COLUMNS.join(",")), "", "text/csv; charset=utf-8"),
    };
    let rounds = stream::try_unfold(Some(0), move |after| {
        let app = Arc::clone(&app);
        async move {
            let Some(after) = after else { return Ok::<_, DbError>(None) };
            let (text, next) = part(&app, job, query.task, format, after).await?;
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
async fn part(app: &App, job: JobId, task: Task, format: Format, after: u32) -> Result<(String, Option<u32>), DbError> {
    let mut tx = app.db.read().await?;
    let rows = tx.rounds(job, task, RoundFilter::default(), after, PAGE_ITEMS_MAX).await?;
    let next = rows.last().filter(|_| rows.len() == PAGE_ITEMS_MAX as usize).map(|row| row.number);
    let mut text = String::new();
    for (index, row) in rows.into_iter().enumerate() {
        let round = view(app, &mut tx, row).await?;
        match format {
            Format::Json => {
                text.push_str(if after == 0 && index == 0 { "\n" } else { ",\n" });
                text.push_str(&json(&round)?.to_string());
            }
            Format::Csv => text.push_str(&line(&json(&round)?)),
        }
    }
    Ok((text, next))
}

fn json(round: &Round) -> Result<serde_json::Value, DbError> {
    serde_json::to_value(round).map_err(|error| DbError::Corrupt(format!("round {}: {error}", round.number)))
}

/// One CSV line. Numbers and enumerations need no quotes; a missing value is an empty field.
fn line(round: &serde_json::Value) -> String {
    let field = |name: &&str| match &round[*name] {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(word) => word.clone(),
        other => other.to_string(),
    };
    let mut line = COLUMNS.iter().map(field).collect::<Vec<_>>().join(",");
    line.push_str("\r\n");
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_member_of_a_round_is_a_column() {
        let mut full = json!({
            "number": 7, "task": "train", "phase": "abandoned", "base_version": 6, "seed": 1, "goal": 10, "minimum": 5,
            "cohort": 13, "reported": 0, "rejected": 0, "failed": 0, "expired": 0, "opened_at_ms": 0, "weight": 0,
            "bytes_up": 0, "bytes_down": 0, "reason": "fault", "folded": 3, "selected_at_ms": 1, "deadline_at_ms": 2,
            "closed_at_ms": 3, "ended_at_ms": 4, "training_loss": 0.5, "loss": 0.25, "accuracy": 1.0, "step_norm": 0.1,
            "diversity": 0.3,
        });
        let round: Round = serde_json::from_value(full.clone()).unwrap();
        full = json(&round).unwrap();
        let mut members: Vec<_> = full.as_object().unwrap().keys().map(String::as_str).collect();
        let mut columns = COLUMNS.to_vec();
        members.sort_unstable();
        columns.sort_unstable();
        assert_eq!(columns, members);
        assert_eq!(
            line(&full),
            "7,train,abandoned,fault,6,1,10,5,13,0,0,0,0,0,0,0,0,1,2,3,4,0,0,0.5,0.25,1.0,0,0,0,0,0.1,0.3,3\r\n"
        );
        full["reason"] = serde_json::Value::Null;
        assert!(line(&full).starts_with("7,train,abandoned,,6,"));
    }
}
