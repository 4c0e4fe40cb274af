//! Answers of a coded round that make others needless.

use tributary_protocol::coded::CodedShare;

use super::expiry::{Need, expire_one};
use crate::db::{AssignmentRow, DbError, Tx};

/// Why the others that hold a block stop.
const COVERED: &str = "another client brought the sum of its parts";

/// An answer is accepted, in the caller's transaction: the work of the others that hold its block ends.
pub(super) async fn cover(tx: &mut Tx, answered: &AssignmentRow, now_ms: i64) -> Result<(), DbError> {
    let Some(block) = answered.share().and_then(CodedShare::block) else { return Ok(()) };
    for other in tx.working_assignments(answered.round()).await? {
        if other.share().and_then(CodedShare::block) == Some(block) {
            expire_one(tx, &other, Need::Spare, Some(COVERED), now_ms).await?;
        }
    }
    Ok(())
}
