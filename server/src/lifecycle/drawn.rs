//! Assignments of drawn clients.

use tributary_protocol::state::AssignmentState;

use tributary_engine::round::Candidate;

use crate::db::{DbError, NewAssignment, RoundKey, Transition, Tx};
use crate::fleet::Fleet;
use crate::services::Services;

/// Stores the assignments of clients that were drawn for a round. Returns false when one of them got other work since
/// it was seen in the lobby; then the caller drops the transaction, those clients stand up ([`stand_up`]), and the
/// driver draws again.
pub(super) async fn assign(
    tx: &mut Tx,
    fleet: &Fleet,
    round: RoundKey,
    assignments: &[NewAssignment],
    now_ms: i64,
) -> Result<bool, DbError> {
    match tx.insert_assignments(assignments, now_ms).await {
        Err(DbError::Duplicate) => return Ok(false),
        stored => stored?,
    }
    let state = AssignmentState::Assigned;
    let assigned = |drawn: &NewAssignment| Transition::of_assignment(round, drawn.id, state, None);
    tx.record_all(round.job, &assignments.iter().map(assigned).collect::<Vec<_>>(), now_ms).await?;
    for NewAssignment { client, .. } in assignments {
        if fleet.seats.is_some() {
            tx.stand_up(*client, None).await?;
        }
        // Bytes that were downloaded for an earlier assignment do not belong to this one.
        fleet.downloads.forget(*client);
    }
    Ok(true)
}

/// Clients that have other work leave the lobby.
pub(super) async fn stand_up(services: &Services, fleet: &Fleet, drawn: &[Candidate]) -> Result<(), DbError> {
    let mut tx = services.db.begin().await?;
    let mut working = Vec::new();
    for Candidate { client, .. } in drawn {
        if tx.open_assignment(*client).await?.is_some() {
            tx.stand_up(*client, None).await?;
            working.push(*client);
        }
    }
    tx.commit().await?;
    fleet.lobby.call(working);
    Ok(())
}
