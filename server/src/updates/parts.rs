//! Parts in the sum of a shard whose updates never became whole: they are taken out before the sum is used.

use std::sync::Arc;

use tributary_engine::job::JobSpec;

use super::fold::take_stored;
use super::stored::{StoredError, accepted};
use super::sums::SharedSum;
use crate::blob::part_key;
use crate::db::RoundRow;
use crate::services::Services;

/// Leaves the parts of accepted updates in a sum that is closed, and subtracts all others. When one of them cannot be
/// read, the sum becomes invalid, and is rebuilt from the stored parts of accepted updates.
///
/// # Errors
/// When the database does not answer.
pub(crate) async fn take_out_unfinished(
    services: &Services,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
    sum: &SharedSum,
) -> Result<(), StoredError> {
    let Some(shard) = &spec.shard else { return Ok(()) };
    let whole = accepted(&services.db, spec, round).await?.iter().map(|update| update.assignment).collect();
    let others = sum.count_whole(&whole);
    if others.is_empty() {
        return Ok(());
    }
    let mut tx = services.db.read().await?;
    let hashes = tx.part_hashes(round.key(), shard.number).await?;
    let ids: Vec<_> = others.iter().map(ToString::to_string).collect();
    let rows = tx.assignments_by_id(&ids).await?;
    drop(tx);
    for assignment in others {
        // Dropping the flight of a part that is not found makes the sum invalid.
        let Some(flight) = sum.unpark(assignment) else { continue };
        let row = rows.iter().find(|row| row.id == assignment);
        let hash = hashes.iter().find(|(id, _)| *id == assignment);
        let (Some(row), Some((_, hash))) = (row, hash) else { continue };
        let name = part_key(assignment, shard.number);
        match services.blobs.reader(&services.db, name, *hash).await {
            Ok(body) => take_stored(services, spec, row.base_version, flight, body).await,
            Err(error) => tracing::warn!(%error, %assignment, "an unfinished update could not be taken out of a sum"),
        }
    }
    Ok(())
}
