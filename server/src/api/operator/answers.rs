//! The answers of an analysis.

use std::sync::Arc;

use axum::extract::State;
use tributary_engine::analysis::answers;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::JobAnswers;
use tributary_protocol::state::Task;

use crate::api::auth::{Operator, Views};
use crate::api::extract::{Json, Path};
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::db::RoundKey;
use crate::models::whole::whole_model;
use crate::runtime::offload::blocking;

pub(super) async fn show(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Path(id): Path<JobId>,
) -> Answer<Json<JobAnswers>> {
    let mut tx = app.db.read().await?;
    let (row, _) = operator.job(&mut tx, id).await?;
    let spec = app.specs.of(&row)?;
    let Some(analysis) = spec.file.analysis.clone() else { return Ok(Json(JobAnswers::default())) };
    let rounds = row.version()?.unwrap_or_default();
    let newest = tx.model(id, rounds).await?;
    let first = tx.model(id, 1).await?.and_then(|first| first.round);
    let first = match first {
        Some(number) => tx.round(RoundKey { job: id, task: Task::Train, number }).await?,
        None => None,
    };
    drop(tx);
    // The noise of a test is known to all, so it hides nothing.
    let delta = spec.file.privacy.as_ref().filter(|privacy| privacy.test_key.is_none()).map(|privacy| privacy.delta);
    let rounds_needed = analysis.rounds();
    // Answers are read whole, one job's at a time.
    let made = async || {
        let values = match newest {
            Some(newest) if rounds > 0 => {
                let model = whole_model(&app, &spec, rounds, newest.sha256).await;
                model.map_err(ApiError::internal)?.values().to_vec()
            }
            _ => Vec::new(),
        };
        Ok::<_, ApiError>(blocking(move || answers(&analysis, rounds, &values, delta)).await)
    };
    let answers = app.answers.get_or_make((id, rounds), &app.clock, made).await?;
    Ok(Json(JobAnswers { rounds, rounds_needed, clients: first.map_or(0, |round| round.reported), answers }))
}
