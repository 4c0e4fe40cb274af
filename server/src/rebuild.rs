//! Rebuilding the running sum of an open round from its stored updates, after a restart.
//!
//! Each update is read in parts, decoded and added as they come; it is never held whole. Several updates are on their way
//! at once: reading them costs more than adding them.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::AssignmentId;

use crate::blob::{Blobs, update_key};
use crate::commit::CommitError;
use crate::db::{AssignmentRow, Db, DbError, RoundRow};
use crate::driver::DriverError;
use crate::folding::Folding;
use crate::spec::JobSpec;
use crate::sums::SharedSum;

/// Updates that are read at the same time; they leave half of the database's connections to requests.
const UPDATES_AT_ONCE: usize = 4;
/// Bytes that are decoded and added at once, so that no task keeps its thread for long.
const PIECE_BYTES: usize = 64 << 10;

/// Folds in what a round's sum lacks of its stored updates, in the background. Nothing depends on its success: whoever
/// makes the model folds in what is still missing.
pub(crate) fn start(db: Db, blobs: Blobs, spec: Arc<JobSpec>, round: RoundRow, sum: SharedSum) {
    tokio::spawn(async move {
        let key = round.key();
        match fold_missing(&db, &blobs, &spec, &round, &sum).await {
            Ok(0) => {}
            Ok(updates) => tracing::info!(job = %key.job, round = key.number, updates, "the round's sum is rebuilt"),
            // The round may have ended meanwhile, and its updates with it.
            Err(error) => tracing::warn!(%error, job = %key.job, round = key.number, "the round's sum is not rebuilt"),
        }
    });
}

/// Folds in every reported update that the sum lacks; returns how many those were.
///
/// # Errors
/// [`DriverError`] of the first update that could not be added; the others may have been.
pub(crate) async fn fold_missing(
    db: &Db,
    blobs: &Blobs,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
    sum: &SharedSum,
) -> Result<usize, DriverError> {
    // Who comes second finds everything folded, instead of reading it again.
    let _turn = sum.turn().lock_owned().await;
    let mut missing = db.read().await?.reported_assignments(round.key()).await?;
    missing.retain(|assignment| !sum.has(assignment.id));
    let updates = missing.len();
    let base_version = round.base_version;
    let folds = missing.into_iter().map(|assignment| {
        let (db, blobs, spec, sum) = (db.clone(), blobs.clone(), Arc::clone(spec), Arc::clone(sum));
        // A task of its own: decoding runs on all cores.
        let task = tokio::spawn(async move { fold_stored(&db, &blobs, &spec, base_version, &assignment, &sum).await });
        async move { task.await.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic())) }
    });
    // The iterator is lazy: a task is spawned when there is a place for it.
    stream::iter(folds).buffer_unordered(UPDATES_AT_ONCE).try_collect::<()>().await?;
    Ok(updates)
}

async fn fold_stored(
    db: &Db,
    blobs: &Blobs,
    spec: &Arc<JobSpec>,
    base_version: u32,
    assignment: &AssignmentRow,
    sum: &SharedSum,
) -> Result<(), DriverError> {
    let id = assignment.id;
    let weight = assignment.weight()?.and_then(|weight| u32::try_from(weight).ok());
    let weight = weight.ok_or_else(|| DbError::Corrupt(format!("{id} reported no weight")))?;
    let flight = sum.begin_stored(id, weight).map_err(|source| CommitError::Fold { assignment: id, source })?;
    let Some(flight) = flight else { return Ok(()) };
    let sha256 = assignment.report().ok_or_else(|| DbError::Corrupt(format!("{id} has no report")))?;
    let mut folding = Folding::new(spec, base_version, Some(flight), db.metrics());
    match read_into(&mut folding, db, blobs, id, sha256).await {
        Ok(()) => {
            folding.land();
            Ok(())
        }
        Err(error) => {
            folding.undo(blobs.replay(db, update_key(id), sha256).await).await;
            Err(error)
        }
    }
}

async fn read_into(
    folding: &mut Folding,
    db: &Db,
    blobs: &Blobs,
    id: AssignmentId,
    sha256: Sha256Hash,
) -> Result<(), DriverError> {
    let unreadable = |source| CommitError::Update { assignment: id, source };
    let mut body = blobs.reader(db, update_key(id), sha256).await?;
    while let Some(data) = body.next().await? {
        for piece in data.chunks(PIECE_BYTES) {
            folding.push(piece).map_err(unreadable)?;
            tokio::task::yield_now().await;
        }
    }
    folding.finish().map_err(unreadable)?;
    Ok(())
}
