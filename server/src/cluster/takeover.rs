//! A job changes hands because its coordinator died: a fact for rounds, events and the audit log.

use tributary_engine::story::in_words;
use tributary_protocol::id::JobId;
use tributary_protocol::state::AuditAction;

use crate::db::{DbError, Holder, NewAudit, Transition, Tx};
use crate::notify::{self, About, Notice};
use crate::services::Services;

/// Records that this coordinator has taken a job over, in the transaction that takes the lease.
pub(super) async fn record(
    services: &Services,
    tx: &mut Tx,
    job: JobId,
    dead: &Holder,
    now_ms: i64,
) -> Result<(), DbError> {
    tx.insert_takeover(job, &services.node, dead, now_ms).await?;
    let silent = in_words(now_ms - dead.seen_at_ms());
    let text = format!("{} took over from {}, {silent} after its last sign of life", services.node, dead.node);
    tx.record(Transition::TakenOver { job, cause: &text }, now_ms).await?;
    let row = tx.job(job).await?;
    if let Some(row) = &row {
        let about = About::job(job, &row.file.0.name, &row.file.0.population);
        let notice = Notice::CoordinatorLost { text: text.clone() };
        notify::post(services, tx, about, &notice, now_ms).await?;
    }
    let population = row.map(|row| row.file.0.population);
    let entry = NewAudit {
        actor: "coordinator".to_owned(),
        label: services.node.to_string(),
        action: AuditAction::JobTakeOver,
        subject: job.to_string(),
        population,
        detail: Some(text),
    };
    tx.append_audit(entry, now_ms).await
}
