//! Assigned to Expired.

use tributary_protocol::fixed::{Contribution, Weight};
use tributary_protocol::state::AssignmentState;

use crate::db::{AssignmentRow, DbError, Times, Transition, Tx};
use crate::fleet::downloads::Downloads;

/// Ends an assignment whose client has not reported; before its time, with the reason.
pub(super) async fn expire_one(
    tx: &mut Tx,
    downloads: &Downloads,
    assignment: &AssignmentRow,
    reason: Option<&str>,
    now_ms: i64,
) -> Result<(), DbError> {
    let (key, state) = (assignment.round(), AssignmentState::Expired);
    let traffic = downloads.traffic(assignment.client);
    if let Some(at_ms) = downloads.ended_at_ms(assignment.client) {
        tx.store_times(assignment.id, Times { fetched_at_ms: Some(at_ms), ..Times::default() }).await?;
    }
    let ended = tx.end_assignment(assignment.id, state, reason, traffic, now_ms).await?;
    tx.count_ended(key, state, Contribution::of_one(Weight::default()), ended.unwrap_or_default()).await?;
    if assignment.term().is_own() {
        tx.remove_member(key.job, assignment.client).await?;
    }
    tx.record(Transition::of_assignment(key, assignment.id, state, reason), now_ms).await
}
