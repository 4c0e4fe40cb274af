//! The groups of a round that ends without them.

use tributary_protocol::state::{GroupFailure, GroupStage};

use crate::db::{DbError, RoundKey, Tx};

/// Ends the open groups of a round that ends without them. Their masked updates are deleted with those of the round.
pub(super) async fn end(tx: &mut Tx, round: RoundKey, now_ms: i64) -> Result<(), DbError> {
    for group in tx.secure_groups(round).await? {
        if !group.stage.is_final() {
            tx.move_secure_group(group.id, [group.stage, GroupStage::Failed], now_ms).await?;
            tx.store_group_failure(group.id, GroupFailure::RoundEnded).await?;
            tx.forget_secrets(group.id, &[]).await?;
        }
    }
    Ok(())
}
