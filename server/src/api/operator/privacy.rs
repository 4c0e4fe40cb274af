//! The privacy of a job: terms, what was spent, the ledger.

use std::sync::Arc;

use axum::extract::State;
use tributary_engine::privacy::spent_by;
use tributary_engine::story::explained;
use tributary_protocol::id::{JobId, Name};
use tributary_protocol::operator::{EpsilonPair, JobPrivacyState, PopulationBudget, SharedBudget};
use tributary_protocol::state::AuditAction;

use crate::api::auth::{Administers, Operator, Views};
use crate::api::extract::{Json, Path};
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::lifecycle::budget;
use crate::runtime::offload::blocking;

pub(super) async fn show(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Path(id): Path<JobId>,
) -> Answer<Json<JobPrivacyState>> {
    let mut tx = app.db.read().await?;
    let (row, _) = operator.job(&mut tx, id).await?;
    let ledger = tx.ledger(id).await?;
    let spec = app.specs.of(&row)?;
    let shared = budget::state(&app, &mut tx, &spec.file.population).await?;
    drop(tx);
    let Some(delta) = spec.file.privacy.as_ref().map(|privacy| privacy.delta) else {
        return Ok(Json(JobPrivacyState { privacy: None, shared: None }));
    };
    let spent = match ledger.last() {
        None => EpsilonPair::default(),
        Some(last) => {
            let entries = ledger.clone();
            let made = async || blocking(move || spent_by(&entries, delta)).await;
            app.spent.get_or_make((id, last.hash), &app.clock, made).await.map_err(ApiError::internal)?
        }
    };
    Ok(Json(JobPrivacyState { privacy: explained(&spec, ledger, Some(spent)), shared }))
}

/// The budget that the jobs of a population share.
pub(super) async fn budget(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Path(population): Path<Name>,
) -> Answer<Json<PopulationBudget>> {
    operator.may(&population)?;
    let mut tx = app.db.read().await?;
    let known = tx.population(&population).await?;
    known.ok_or_else(|| ApiError::not_found(format!("population {population}")))?;
    Ok(Json(PopulationBudget { budget: budget::state(&app, &mut tx, &population).await? }))
}

/// Sets the budget of a population, or makes it stricter.
pub(super) async fn set_budget(
    operator: Operator<Administers>,
    State(app): State<Arc<App>>,
    Path(population): Path<Name>,
    Json(budget): Json<SharedBudget>,
) -> Answer<Json<PopulationBudget>> {
    let permit = operator.may(&population)?;
    let now_ms = app.clock.now_ms();
    let detail = format!("epsilon {}, delta {:e}", budget.epsilon, budget.delta);
    let mut tx = app.db.begin().await?;
    budget::set(&app, &mut tx, &population, budget).await?;
    let state = budget::state(&app, &mut tx, &population).await?;
    permit.audits(&mut tx, AuditAction::PopulationBudget, &population, Some(detail), now_ms).await?;
    tx.commit().await?;
    Ok(Json(PopulationBudget { budget: state }))
}
