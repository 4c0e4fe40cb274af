//! Standings of clients: active, quarantined, revoked. [`super::assignments::shut_out`] ends the work of a client.

use tributary_protocol::id::{ClientId, Name};
use tributary_protocol::state::{AuditAction, Standing};

use crate::db::{DbError, NewAudit, Tx, audited_client};
use crate::notify::{self, About, Notice};
use crate::services::Services;

/// Rejected updates in a row after which a client is quarantined. One may be a fault; three are a broken app or malice.
const REJECTIONS_MAX: u32 = 3;

/// Quarantines a client whose last updates were all rejected, in the transaction that rejects the last of them.
pub(super) async fn quarantine_offender(
    services: &Services,
    tx: &mut Tx,
    client: ClientId,
    now_ms: i64,
) -> Result<(), DbError> {
    if !tx.only_rejections(client, REJECTIONS_MAX).await? {
        return Ok(());
    }
    let reason = format!("its last {REJECTIONS_MAX} updates were rejected");
    let changed = tx.change_standing(client, Standing::Quarantined, Some(&reason), now_ms).await?;
    let Some((population, number)) = changed else { return Ok(()) };
    tracing::warn!(number, %population, reason, "a client is quarantined");
    let notice = Notice::ClientQuarantined { client: audited_client(number), reason: reason.clone() };
    notify::post(services, tx, About::population(&population), &notice, now_ms).await?;
    let entry = NewAudit {
        actor: "coordinator".to_owned(),
        label: String::new(),
        action: AuditAction::ClientQuarantine,
        subject: audited_client(number),
        population: Some(population),
        detail: Some(reason),
    };
    tx.append_audit(entry, now_ms).await
}

/// Changes the standing of a client. Returns its population and number; none when nothing changed, because it has this
/// standing already or is revoked, which is for good. The caller commits, and then calls
/// [`super::assignments::shut_out`] for one that may no longer take part.
pub(crate) async fn change(
    tx: &mut Tx,
    client: ClientId,
    standing: Standing,
    reason: Option<&str>,
    now_ms: i64,
) -> Result<Option<(Name, u64)>, DbError> {
    tx.change_standing(client, standing, reason, now_ms).await
}
