//! The end of a client's membership.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use tributary_protocol::state::AuditAction;

use crate::api::auth::Device;
use crate::api::problem::Answer;
use crate::app::App;
use crate::db::{NewAudit, audited_client};
use crate::lifecycle::erasure;

/// Deletes what is stored of the client. One that asks again is not known any more.
pub(super) async fn leave(State(app): State<Arc<App>>, Device(client): Device) -> Answer<StatusCode> {
    let now_ms = app.clock.now_ms();
    let left = erasure::erase(&app, &app.fleet, client.id, async |tx, client| {
        let entry = NewAudit {
            actor: audited_client(client.number),
            label: String::new(),
            action: AuditAction::ClientLeave,
            subject: audited_client(client.number),
            population: Some(client.population.clone()),
            detail: None,
        };
        tx.append_audit(entry, now_ms).await
    });
    left.await?;
    Ok(StatusCode::NO_CONTENT)
}
