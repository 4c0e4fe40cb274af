//! Assignments of drawn clients.

use std::sync::Arc;

use tributary_protocol::operator::ModelVersion;
use tributary_protocol::state::AssignmentState;

use tributary_engine::round::Candidate;

use crate::db::{DbError, NewAssignment, RoundKey, RoundRow, Transition, Tx};
use crate::fleet::Fleet;
use crate::fleet::lobby::Work;
use crate::services::Services;

/// The examples that a client has told. A private job keeps no figure of a client.
pub(super) fn told(round: &RoundRow, candidate: &Candidate) -> u64 {
    if round.policy().is_private { 0 } else { candidate.examples }
}

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
    if fleet.seats.is_some() {
        tx.stand_up_everywhere(&assignments.iter().map(|drawn| drawn.client).collect::<Vec<_>>()).await?;
    }
    Ok(true)
}

/// Commits the assignments of clients that were drawn from one model version, and gives them to the clients.
///
/// Round and model are read once for all of them. If each client looked up its work, that would be three queries each.
/// They are read after the commit, so that other writers need not wait for it.
pub(super) async fn commit_and_give(
    services: &Services,
    tx: Tx,
    fleet: &Fleet,
    round: &RoundRow,
    assignments: &[NewAssignment],
    now_ms: i64,
) -> Result<(), DbError> {
    let last_ticket = fleet.lobby.last_ticket();
    tx.commit().await?;
    let Ok(Some((round, model))) = started(services, round).await else {
        // The clients are drawn all the same, and look for their work themselves.
        fleet.lobby.call(assignments.iter().map(|new| new.client));
        return Ok(());
    };
    let work = |new: &NewAssignment| Work {
        assignment: new.stored(now_ms),
        round: Arc::clone(&round),
        model: Arc::clone(&model),
    };
    fleet.lobby.give(assignments.iter().map(work), last_ticket);
    Ok(())
}

/// A round that has started, and its base model.
async fn started(services: &Services, round: &RoundRow) -> Result<Option<(Arc<RoundRow>, Arc<ModelVersion>)>, DbError> {
    let mut tx = services.db.look().await?;
    let model = tx.model(round.job, round.base_version).await?;
    let round = tx.round(round.key()).await?;
    Ok(round.zip(model).map(|(round, model)| (Arc::new(round), Arc::new(model))))
}

/// Clients that have other work leave the lobby.
pub(super) async fn stand_up(services: &Services, fleet: &Fleet, drawn: &[Arc<Candidate>]) -> Result<(), DbError> {
    let mut tx = services.db.begin().await?;
    let mut working = Vec::new();
    for client in drawn.iter().map(|candidate| candidate.client) {
        if tx.open_assignment(client).await?.is_some() {
            working.push(client);
        }
    }
    tx.stand_up_everywhere(&working).await?;
    tx.commit().await?;
    fleet.lobby.call(working);
    Ok(())
}
