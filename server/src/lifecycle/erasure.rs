//! The end of what is stored of a client, because it has left or because an operator has it deleted.
//!
//! Sums keep what it contributed: nobody can take an update out of a model. An open round keeps its accepted update,
//! which then belongs to a client without attributes. The audit log keeps the number of the deleted client.

use tributary_protocol::id::{ClientId, JobId, SecretKind};
use tributary_protocol::state::AssignmentState;

use super::assignments::{Received, end_in};
use crate::db::{ClientRow, DbError, Tx, stored_hash};
use crate::fleet::Fleet;
use crate::runtime::entropy;
use crate::services::Services;

/// Numbers of clients that are nobody: beyond those of enrolled ones, and whole in JSON.
const NOBODY_FROM: u64 = 1 << 52;

/// Deletes a client with its history, in one transaction that `note` ends with the entry in the audit log. False when
/// there is no such client.
pub(crate) async fn erase(
    services: &Services,
    fleet: &Fleet,
    id: ClientId,
    note: impl AsyncFnOnce(&mut Tx, &ClientRow) -> Result<(), DbError>,
) -> Result<bool, DbError> {
    let now_ms = services.clock.now_ms();
    let Some((mut tx, client, jobs)) = locked(services, id).await? else { return Ok(false) };
    if let Some(assignment) = tx.open_assignment(id).await? {
        let reason = "the client has left";
        end_in(&mut tx, &assignment, AssignmentState::Failed, reason, Received::default(), now_ms).await?;
    }
    let number = NOBODY_FROM + (u64::from_le_bytes(entropy::random()) & (NOBODY_FROM - 1));
    let secret = stored_hash(&entropy::secret(SecretKind::Client));
    let nobody = (ClientId::from_random(entropy::random()), number, secret);
    tx.erase_client(&client, nobody, now_ms).await?;
    note(&mut tx, &client).await?;
    tx.commit().await?;
    fleet.lobby.call([id]);
    for job in jobs {
        services.signals.changed(job);
    }
    Ok(true)
}

/// A transaction that has locked a client and the jobs with its work: the jobs first, as whoever draws it does.
async fn locked(services: &Services, id: ClientId) -> Result<Option<(Tx, ClientRow, Vec<JobId>)>, DbError> {
    loop {
        let mut tx = services.db.begin().await?;
        let jobs = tx.jobs_at_work(id).await?;
        for job in &jobs {
            tx.lock_job(*job).await?;
        }
        let Some(client) = tx.client_locked(id).await? else { return Ok(None) };
        // Otherwise it was drawn meanwhile.
        if tx.jobs_at_work(id).await? == jobs {
            return Ok(Some((tx, client, jobs)));
        }
    }
}
