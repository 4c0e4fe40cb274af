//! The deletion of a job that has ended, in small transactions, so that other writers need not wait long.
//!
//! Bodies go the way of retention: rows that name them are deleted, and the sweep deletes what no row names. A deletion
//! that was interrupted is repeated; nothing of the job is needed for that but its row, which goes last.

use tributary_protocol::id::JobId;

use super::budget;
use super::jobs::{JobRefusal, locked};
use crate::db::{DbError, JobCause, JobRow, Transition, Tx};
use crate::services::Services;

/// Rounds that one query returns. Each is deleted in a transaction of its own.
const ROUNDS_AT_ONCE: u32 = 100;
const EVENTS_AT_ONCE: u64 = 1_000;

/// Begins the deletion in the caller's transaction: the job is archived, and its pins end.
pub(crate) async fn begin(tx: &mut Tx, id: JobId, now_ms: i64) -> Result<JobRow, JobRefusal> {
    let row = locked(tx, id).await?;
    if !row.state.is_final() {
        return Err(JobRefusal::Lives(row.state));
    }
    if let Some(round) = tx.open_rounds(id).await?.first() {
        return Err(JobRefusal::RoundOpen(round.number));
    }
    tx.unpin_all(id).await?;
    tx.file_job(id, &row.tags.0, &row.notes, Some(now_ms)).await?;
    tx.record(Transition::Job { job: id, state: row.state, cause: Some(JobCause::Filing) }, now_ms).await?;
    Ok(row)
}

/// Deletes what belongs to the job, and then the job.
pub(crate) async fn finish(services: &Services, id: JobId) -> Result<(), DbError> {
    let now_ms = services.clock.now_ms();
    let versions = services.db.read().await?.stored_versions(id).await?;
    for version in versions {
        let mut tx = services.db.begin().await?;
        tx.delete_model_file(id, version, now_ms).await?;
        tx.commit().await?;
    }
    delete_rounds(services, id, now_ms).await?;
    delete_events(services, id).await?;
    let mut tx = services.db.begin().await?;
    tx.lock_job(id).await?;
    budget::keep(services, &mut tx, id).await?;
    tx.delete_test_set(id).await?;
    tx.delete_job(id).await?;
    tx.commit().await?;
    services.specs.forget(id);
    Ok(())
}

async fn delete_rounds(services: &Services, id: JobId, now_ms: i64) -> Result<(), DbError> {
    loop {
        let rounds = services.db.read().await?.rounds_to_prune(id, i64::MAX, u32::MAX, ROUNDS_AT_ONCE).await?;
        for round in &rounds {
            let mut tx = services.db.begin().await?;
            tx.prune_round(*round, now_ms).await?;
            tx.commit().await?;
        }
        if rounds.len() < ROUNDS_AT_ONCE as usize {
            return Ok(());
        }
    }
}

async fn delete_events(services: &Services, id: JobId) -> Result<(), DbError> {
    let last = services.db.read().await?.last_event(id).await?;
    let mut after = 0;
    while after < last {
        let to = last.min(after + EVENTS_AT_ONCE);
        let mut tx = services.db.begin().await?;
        tx.delete_round_events(id, after, to).await?;
        tx.commit().await?;
        after = to;
    }
    Ok(())
}
