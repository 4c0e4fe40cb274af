//! Assigned to Expired.

use tributary_protocol::fixed::{Contribution, Weight};
use tributary_protocol::state::AssignmentState;

use crate::db::{AssignmentRow, Became, DbError, Download, Times, Transition, Tx};

/// Whether the work of an assignment that expires was needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Needed,
    /// The round had its goal, or the job its end, without it.
    Spare,
}

/// Ends an assignment whose client has not reported; before its time, with the reason.
pub(super) async fn expire_one(
    tx: &mut Tx,
    assignment: &AssignmentRow,
    need: Need,
    reason: Option<&str>,
    now_ms: i64,
) -> Result<(), DbError> {
    let (key, state) = (assignment.round(), AssignmentState::Expired);
    let Download { traffic, ended_at_ms } = tx.downloaded(assignment.client);
    if ended_at_ms.is_some() {
        tx.store_times(assignment.id, Times { fetched_at_ms: ended_at_ms, ..Times::default() }).await?;
    }
    let ended = tx.end_assignment(assignment.id, state, reason, traffic, now_ms).await?;
    let missing = Contribution { weight: Weight::default(), updates: assignment.updates_max() };
    tx.count_ended(key, state, missing, ended.unwrap_or_default()).await?;
    if assignment.term().is_own() {
        if need == Need::Spare {
            tx.count_spare(key, missing.updates).await?;
        }
        tx.remove_member(key.job, assignment.client).await?;
    }
    let became = if need == Need::Spare { Became::Spare } else { Became::State(state) };
    tx.record(Transition::Assignment { round: key, assignment: assignment.id, became, reason }, now_ms).await
}
