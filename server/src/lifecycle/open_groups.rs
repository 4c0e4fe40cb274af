//! Groups that outlast their round, and those that end without a sum because nothing follows in which it could count.

use tributary_protocol::id::JobId;
use tributary_protocol::state::{GroupFailure, GroupStage};

use crate::db::{DbError, RoundKey, SecureGroupRow, Tx};

/// Ends the open groups of a round that ends without them. Their masked updates are deleted with those of the round.
pub(super) async fn end(tx: &mut Tx, round: RoundKey, now_ms: i64) -> Result<(), DbError> {
    for group in tx.secure_groups(round).await?.into_iter().filter(|group| !group.stage.is_final()) {
        fail(tx, &group, now_ms).await?;
        tx.forget_secrets(group.id, &[]).await?;
    }
    Ok(())
}

/// Ends the open groups of a job that opens no further round. Returns the objects that had their masked updates, which
/// the caller deletes after the commit.
pub(super) async fn end_all(tx: &mut Tx, job: JobId, now_ms: i64) -> Result<Vec<String>, DbError> {
    let mut objects = Vec::new();
    for group in tx.open_secure_groups(job).await? {
        fail(tx, &group, now_ms).await?;
        let members: Vec<_> = tx.secure_members(group.id).await?.into_iter().map(|member| member.assignment).collect();
        objects.extend(tx.forget_secrets(group.id, &members).await?);
    }
    Ok(objects)
}

async fn fail(tx: &mut Tx, group: &SecureGroupRow, now_ms: i64) -> Result<(), DbError> {
    tx.move_secure_group(group.id, [group.stage, GroupStage::Failed], now_ms).await?;
    tx.store_group_failure(group.id, GroupFailure::RoundEnded).await
}
