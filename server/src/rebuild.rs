//! Rebuilding the running sum of an open round from its stored updates, after a restart.
//!
//! Each update is read in parts and decoded as they come; its body is never held whole. Several
//! updates are on their way at once: reading them costs more than adding them.

use std::sync::{Arc, PoisonError};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use tributary_protocol::update::UpdateDecoder;

use crate::blob::{Blobs, update_key};
use crate::commit::CommitError;
use crate::db::{AssignmentRow, Db, DbError, RoundRow};
use crate::driver::DriverError;
use crate::spec::JobSpec;
use crate::sums::{RoundSum, SharedSum};

/// Updates that are read at the same time. Each holds one decoded update; they leave half of the database's connections
/// to requests.
const UPDATES_AT_ONCE: usize = 4;

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
    let _turn = with(sum, |sum| sum.turn()).lock_owned().await;
    let mut missing = db.read().await?.reported_assignments(round.key()).await?;
    missing.retain(|assignment| !with(sum, |sum| sum.has(assignment.id)));
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
    spec: &JobSpec,
    base_version: u32,
    assignment: &AssignmentRow,
    sum: &SharedSum,
) -> Result<(), DriverError> {
    let id = assignment.id;
    let weight = assignment.weight()?.and_then(|weight| u32::try_from(weight).ok());
    let weight = weight.ok_or_else(|| DbError::Corrupt(format!("{id} reported no weight")))?;
    let unreadable = |source| CommitError::Update { assignment: id, source };
    let mut decoder =
        UpdateDecoder::new(Arc::clone(&spec.parameters), spec.update_header(base_version), spec.update_limits());
    let mut delta = vec![0.0; spec.parameters.total()];
    let sha256 = assignment.report().ok_or_else(|| DbError::Corrupt(format!("{id} has no report")))?;
    let mut body = blobs.reader(db, update_key(id), sha256).await?;
    while let Some(data) = body.next().await? {
        decoder.push(&data, &mut delta).map_err(unreadable)?;
    }
    drop(body);
    decoder.finish().map_err(unreadable)?;
    with(sum, |sum| sum.fold(id, &delta, weight)).map_err(|source| CommitError::Fold { assignment: id, source })?;
    Ok(())
}

fn with<T>(sum: &SharedSum, act: impl FnOnce(&mut RoundSum) -> T) -> T {
    act(&mut sum.lock().unwrap_or_else(PoisonError::into_inner))
}
