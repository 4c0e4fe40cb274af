//! Clients of a buffered job whose updates are always stale.

use std::sync::Arc;

use axum::extract::State;
use tributary_engine::story::{STALE_UPDATES_MAX, stalest};
use tributary_protocol::id::JobId;
use tributary_protocol::operator::StaleClient;

use crate::api::auth::{Operator, Views};
use crate::api::extract::{Json, Path};
use crate::api::problem::Answer;
use crate::app::App;
use crate::runtime::offload::blocking;

pub(super) async fn list(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Path(id): Path<JobId>,
) -> Answer<Json<Vec<StaleClient>>> {
    let mut tx = app.db.read().await?;
    let (job, _) = operator.job(&mut tx, id).await?;
    if job.file.0.round.mode.buffered().is_none() {
        return Ok(Json(Vec::new()));
    }
    let spec = app.specs.of(&job)?;
    let updates = tx.stale_updates(id, STALE_UPDATES_MAX).await?;
    drop(tx);
    let found = blocking(move || stalest(&updates, |examples, staleness| spec.weight_lost(examples, staleness)));
    Ok(Json(found.await))
}
