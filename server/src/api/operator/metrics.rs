//! Per-round metrics of a job as one file, CSV or JSON, written while they are read.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use tributary_protocol::id::JobId;
use tributary_protocol::metrics::MetricName;
use tributary_protocol::operator::{PAGE_ITEMS_MAX, Round};
use tributary_protocol::state::Task;

use super::rounds::{attach_metrics, view};
use crate::api::auth::{Operator, Views};
use crate::api::extract::{Path, Query};
use crate::api::problem::Answer;
use crate::app::App;
use crate::db::{DbError, RoundFilter, Tx};

/// Named scalars with columns of their own in the CSV form: those of the most rounds.
const METRIC_COLUMNS_MAX: u32 = 64;
/// The columns of a named scalar.
const METRIC_FIGURES: [&str; 7] = ["mean", "reports", "min", "p10", "p50", "p90", "max"];
/// Members of a round that are lists, and no columns: named scalars have columns of their own, and classes are in JSON.
#[cfg(test)]
const LISTS: [&str; 3] = ["metrics", "evaluation_metrics", "classes"];
/// The columns of the CSV form: the other members of a round.
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
    let mut tx = app.db.read().await?;
    operator.job(&mut tx, job).await?;
    let names = Arc::new(names(&mut tx, job, query.task).await?);
    drop(tx);
    let format = query.format;
    let (beginning, end, kind) = match format {
        Format::Json => ("[".to_owned(), "\n]\n", "application/json"),
        Format::Csv => (heading(&names), "", "text/csv; charset=utf-8"),
    };
    let rounds = stream::try_unfold(Some(0), move |after| {
        let (app, names) = (Arc::clone(&app), Arc::clone(&names));
        async move {
            let Some(after) = after else { return Ok::<_, DbError>(None) };
            let (text, next) = part(&app, job, query.task, (format, &names), after).await?;
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
    (format, names): (Format, &[MetricColumn]),
    after: u32,
) -> Result<(String, Option<u32>), DbError> {
    let mut tx = app.db.read().await?;
    let rows = tx.rounds(job, task, RoundFilter::default(), after, PAGE_ITEMS_MAX).await?;
    let next = rows.last().filter(|_| rows.len() == PAGE_ITEMS_MAX as usize).map(|row| row.number);
    let (mut text, mut rounds) = (String::new(), Vec::with_capacity(rows.len()));
    for row in rows {
        rounds.push(view(app, &mut tx, row).await?);
    }
    attach_metrics(&mut tx, job, &mut rounds).await?;
    for (index, round) in rounds.into_iter().enumerate() {
        match format {
            Format::Json => {
                text.push_str(if after == 0 && index == 0 { "\n" } else { ",\n" });
                text.push_str(&json(&round)?.to_string());
            }
            Format::Csv => text.push_str(&line(&json(&round)?, names)),
        }
    }
    Ok((text, next))
}

fn json(round: &Round) -> Result<serde_json::Value, DbError> {
    serde_json::to_value(round).map_err(|error| DbError::Corrupt(format!("round {}: {error}", round.number)))
}

/// The columns of a named scalar: the member of a round that it is in, and its name.
type MetricColumn = (&'static str, MetricName);

/// The named scalars of a job that a table of this task has columns for.
async fn names(tx: &mut Tx, job: JobId, task: Task) -> Result<Vec<MetricColumn>, DbError> {
    let found = tx.metric_names(job, METRIC_COLUMNS_MAX).await?;
    let columns = found.into_iter().filter_map(|(of, name)| match (task, of) {
        _ if task == of => Some(("metrics", name)),
        (Task::Train, Task::Evaluate) => Some(("evaluation_metrics", name)),
        _ => None,
    });
    let mut columns: Vec<MetricColumn> = columns.collect();
    columns.sort();
    Ok(columns)
}

fn heading(names: &[MetricColumn]) -> String {
    let metrics = names
        .iter()
        .flat_map(|(member, name)| METRIC_FIGURES.iter().map(move |figure| format!("{member}.{name}.{figure}")));
    let columns: Vec<String> = COLUMNS.iter().map(ToString::to_string).chain(metrics).collect();
    format!("{}\r\n", columns.join(","))
}

/// One CSV line. Numbers, enumerations and names of metrics need no quotes; a missing value is an empty field.
fn line(round: &serde_json::Value, names: &[MetricColumn]) -> String {
    let mut fields: Vec<String> = COLUMNS.iter().map(|name| field(&round[*name])).collect();
    for (member, name) in names {
        let metrics = round[*member].as_array().map(Vec::as_slice).unwrap_or_default();
        let metric = metrics.iter().find(|metric| metric["name"] == name.as_str());
        fields.extend(
            METRIC_FIGURES.iter().map(|figure| metric.map_or_else(String::new, |metric| field(&metric[*figure]))),
        );
    }
    fields.join(",") + "\r\n"
}

fn field(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(word) => word.clone(),
        other => other.to_string(),
    }
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
        let members = full.as_object().unwrap().keys().map(String::as_str);
        let mut members: Vec<_> = members.filter(|member| !LISTS.contains(member)).collect();
        let mut columns = COLUMNS.to_vec();
        members.sort_unstable();
        columns.sort_unstable();
        assert_eq!(columns, members);
        assert_eq!(
            line(&full, &[]),
            "7,train,abandoned,fault,6,1,10,5,13,0,0,0,0,0,0,0,0,1,2,3,4,0,0,0.5,0.25,1.0,0,0,0,0,0.1,0.3,3\r\n"
        );
        full["reason"] = serde_json::Value::Null;
        assert!(line(&full, &[]).starts_with("7,train,abandoned,,6,"));
    }
    #[test]
    fn a_named_scalar_has_a_column_for_each_of_its_figures() {
        let names = [("evaluation_metrics", "auc".parse().unwrap()), ("metrics", "f1".parse().unwrap())];
        let auc = json!({ "name": "auc", "mean": 0.5, "reports": 3, "min": 0, "p10": 1, "p50": 2, "p90": 3, "max": 4 });
        let round = json!({ "number": 7, "evaluation_metrics": [auc], "metrics": [] });
        let (heading, line) = (heading(&names), line(&round, &names));
        assert!(heading.contains(",evaluation_metrics.auc.mean,evaluation_metrics.auc.reports,"), "{heading}");
        assert!(heading.ends_with(",metrics.f1.p90,metrics.f1.max\r\n"), "{heading}");
        assert!(line.starts_with("7,") && line.ends_with(",0.5,3,0,1,2,3,4,,,,,,,\r\n"), "{line}");
        assert_eq!(line.matches(',').count(), heading.matches(',').count());
    }
}
