//! Assignments of drawn clients.

use tributary_protocol::id::ClientId;
use tributary_protocol::state::AssignmentState;

use crate::db::{DbError, NewAssignment, Transition, Tx};
use crate::fleet::Fleet;
use crate::services::Services;

/// Stores the assignment of a drawn client. Returns false when the client got other work since it was seen in the
/// lobby; then the caller drops the transaction, the client stands up ([`stand_up`]), and the driver draws again.
pub(super) async fn assign(
    tx: &mut Tx,
    fleet: &Fleet,
    assignment: &NewAssignment,
    now_ms: i64,
) -> Result<bool, DbError> {
    match tx.insert_assignment(assignment, now_ms).await {
        Err(DbError::Duplicate) => return Ok(false),
        stored => stored?,
    }
    if fleet.seats.is_some() {
        tx.stand_up(assignment.client, None).await?;
    }
    let state = AssignmentState::Assigned;
    tx.record(Transition::of_assignment(assignment.round, assignment.id, state, None), now_ms).await?;
    // Bytes that were downloaded for an earlier assignment do not belong to this one.
    fleet.downloads.forget(assignment.client);
    Ok(true)
}

/// A client that has other work leaves the lobby.
pub(super) async fn stand_up(services: &Services, fleet: &Fleet, client: ClientId) -> Result<(), DbError> {
    fleet.lobby.call([client]);
    let mut tx = services.db.begin().await?;
    tx.stand_up(client, None).await?;
    tx.commit().await
}
