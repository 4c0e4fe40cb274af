//! The privacy of a job: terms, what was spent, the ledger.

use std::sync::Arc;

use axum::extract::State;
use tributary_engine::privacy::spent_by;
use tributary_engine::story::explained;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::{EpsilonPair, JobPrivacyState};

use crate::api::auth::{Operator, Views};
use crate::api::extract::{Json, Path};
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::runtime::offload::blocking;

pub(super) async fn show(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Path(id): Path<JobId>,
) -> Answer<Json<JobPrivacyState>> {
    let mut tx = app.db.read().await?;
    let (row, _) = operator.job(&mut tx, id).await?;
    let ledger = tx.ledger(id).await?;
    drop(tx);
    let spec = app.specs.of(&row)?;
    let Some(delta) = spec.file.privacy.as_ref().map(|privacy| privacy.delta) else {
        return Ok(Json(JobPrivacyState { privacy: None }));
    };
    let spent = match ledger.last() {
        None => EpsilonPair::default(),
        Some(last) => {
            let entries = ledger.clone();
            let made = async || blocking(move || spent_by(&entries, delta)).await;
            app.spent.get_or_make((id, last.hash), &app.clock, made).await.map_err(ApiError::internal)?
        }
    };
    Ok(Json(JobPrivacyState { privacy: explained(&spec, ledger, Some(spent)) }))
}
