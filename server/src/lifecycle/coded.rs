//! Answers of a coded round that make others needless.

use tributary_protocol::coded::CodedShare;

use super::expiry::{Need, expire_one};
use crate::db::{AssignmentRow, DbError, RoundKey, Tx};

/// Why the others that hold a block stop.
const COVERED: &str = "another client brought the sum of its parts";
/// Why the other children of a relay stop. Its round waits for the parts that it keeps.
const ENOUGH: &str = "the answers of enough others were there";

/// An answer is accepted, in the caller's transaction: the work of the others that hold its block ends, and that of the
/// other children of a relay once enough have answered.
pub(super) async fn cover(tx: &mut Tx, answered: &AssignmentRow, now_ms: i64) -> Result<(), DbError> {
    let (round, Some(share)) = (answered.round(), answered.share()) else { return Ok(()) };
    if let Some(block) = share.block() {
        return end(tx, round, COVERED, now_ms, |other| other.block() == Some(block)).await;
    }
    let Some(enough) = enough(share) else { return Ok(()) };
    let answers = tx.accepted_updates(round).await?;
    let children = answers.iter().filter(|answer| answer.share().and_then(self::enough).is_some()).count();
    if children < usize::from(enough) {
        return Ok(());
    }
    end(tx, round, ENOUGH, now_ms, |other| self::enough(other).is_some()).await
}

/// Of a child in a tree: how many children are enough.
fn enough(share: &CodedShare) -> Option<u16> {
    share.tree.as_ref()?.enough
}

/// Ends the work on these shares.
async fn end(
    tx: &mut Tx,
    round: RoundKey,
    why: &str,
    now_ms: i64,
    is_needless: impl Fn(&CodedShare) -> bool,
) -> Result<(), DbError> {
    for other in tx.working_assignments(round).await? {
        if other.share().is_some_and(&is_needless) {
            expire_one(tx, &other, Need::Spare, Some(why), now_ms).await?;
        }
    }
    Ok(())
}
