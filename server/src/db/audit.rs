//! The audit log: which operator changed what, and when.

use tributary_protocol::id::{AuditId, TokenId};
use tributary_protocol::operator::AuditEntry;
use tributary_protocol::state::AuditAction;

use super::tx::{execute, fetch};
use super::{DbError, Tx};

#[derive(sqlx::FromRow)]
struct AuditRow {
    #[sqlx(try_from = "String")]
    id: AuditId,
    at_ms: i64,
    #[sqlx(try_from = "String")]
    token: TokenId,
    label: String,
    #[sqlx(try_from = "String")]
    action: AuditAction,
    subject: String,
    detail: Option<String>,
}

impl From<AuditRow> for AuditEntry {
    fn from(row: AuditRow) -> Self {
        let AuditRow { id, at_ms, token, label, action, subject, detail } = row;
        Self { id, at_ms, token, label, action, subject, detail }
    }
}

impl Tx {
    /// Stores an action of an operator, in the transaction of the action itself.
    pub async fn insert_audit(&mut self, entry: &AuditEntry) -> Result<(), DbError> {
        let sql = "insert into audit (id, at_ms, token, label, action, subject, detail) \
                   values ($1, $2, $3, $4, $5, $6, $7)";
        execute!(
            self,
            sql,
            entry.id.to_string(),
            entry.at_ms,
            entry.token.to_string(),
            entry.label.as_str(),
            entry.action.as_str(),
            entry.subject.as_str(),
            entry.detail.as_deref()
        );
        Ok(())
    }

    /// The newest entries first, from before `(at_ms, id)` on.
    pub async fn audit(&mut self, before: (i64, &str), limit: u32) -> Result<Vec<AuditEntry>, DbError> {
        let sql = "select id, at_ms, token, label, action, subject, detail from audit \
                   where at_ms < $1 or (at_ms = $1 and id < $2) order by at_ms desc, id desc limit $3";
        let rows = fetch!(self, AuditRow, fetch_all, sql, before.0, before.1, i64::from(limit));
        Ok(rows.into_iter().map(AuditEntry::from).collect())
    }
}
