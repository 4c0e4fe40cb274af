//! The audit log: each change by an operator is stored in the transaction that makes it.

use std::fmt::Display;
use std::sync::Arc;

use axum::extract::State;
use tributary_protocol::id::AuditId;
use tributary_protocol::operator::{AuditEntry, Page, PageQuery};
use tributary_protocol::state::AuditAction;

use crate::api::auth::Operator;
use crate::api::extract::{Json, Place, Query, full_page, page};
use crate::api::problem::Answer;
use crate::app::App;
use crate::db::{DbError, Tx};
use crate::runtime::entropy;

impl Operator {
    /// Writes an action of this operator to the audit log, in the transaction that performs it.
    pub(super) async fn audits(
        &self,
        tx: &mut Tx,
        action: AuditAction,
        subject: &(dyn Display + Sync),
        detail: Option<String>,
        now_ms: i64,
    ) -> Result<(), DbError> {
        let entry = AuditEntry {
            id: AuditId::from_random(entropy::random()),
            at_ms: now_ms,
            token: self.0.id,
            label: self.0.label.clone(),
            action,
            subject: subject.to_string(),
            detail,
        };
        tracing::info!(action = %entry.action, subject = %entry.subject, token = %entry.token, "an operator acts");
        tx.insert_audit(&entry).await
    }
}

pub(super) async fn list(
    _: Operator,
    State(app): State<Arc<App>>,
    Query(query): Query<PageQuery>,
) -> Answer<Json<Page<AuditEntry>>> {
    let (limit, Place(at_ms, before)) = page(&query, Place(i64::MAX, String::new()))?;
    let items = app.db.read().await?.audit((at_ms, &before), limit).await?;
    Ok(Json(full_page(items, limit, |entry| Place(entry.at_ms, entry.id).to_string())))
}
