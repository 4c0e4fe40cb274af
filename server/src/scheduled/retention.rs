//! Retention: deletes what the jobs' `[retention]` does not keep, in small transactions, so that other writers need not
//! wait long.

use std::fmt;

use crate::db::{DbError, JobRow};
use crate::services::Services;
use tributary_engine::round::{history_before_ms, keeps_version, separation_needs_from};

const JOBS_AT_ONCE: u32 = 16;
/// Rounds that one query returns. Each is deleted in a separate transaction.
const ROUNDS_AT_ONCE: u32 = 100;
const EVENTS_AT_ONCE: u32 = 1_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Deleted {
    versions: u64,
    rounds: u64,
    events: u64,
}

impl fmt::Display for Deleted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { versions, rounds, events } = self;
        write!(formatter, "deleted {versions} model versions, the assignments of {rounds} rounds, {events} events")
    }
}

/// Visits all jobs. Stops early when the coordinator does.
pub(super) async fn run(services: &Services) -> Result<Deleted, DbError> {
    let mut deleted = Deleted::default();
    let mut after = String::new();
    loop {
        let jobs = services.db.read().await?.jobs(None, &after, JOBS_AT_ONCE).await?;
        let Some(last) = jobs.last() else { return Ok(deleted) };
        after = last.id.to_string();
        for job in &jobs {
            deleted.versions += delete_versions(services, job).await?;
            if let Some(before_ms) = history_before_ms(&job.file.0, services.clock.now_ms()) {
                deleted.rounds += prune_rounds(services, job, before_ms).await?;
                deleted.events += delete_events(services, job, before_ms).await?;
            }
            if services.stopping.is_cancelled() {
                return Ok(deleted);
            }
        }
    }
}

async fn delete_versions(services: &Services, job: &JobRow) -> Result<u64, DbError> {
    let mut tx = services.db.read().await?;
    let stored = tx.stored_versions(job.id).await?;
    let best = tx.best_version(job.id).await?.map(|best| best.version);
    drop(tx);
    let kept = job.file.0.retention.models;
    // A newer version may be committed meanwhile; the versions listed here are then older still.
    let newest_stored = stored.last().copied().unwrap_or(0);
    let mut deleted = 0;
    for version in stored.into_iter().filter(|version| !keeps_version(kept, *version, newest_stored, best, &[])) {
        if services.stopping.is_cancelled() {
            break;
        }
        let mut tx = services.db.begin().await?;
        // No round opens while the job is locked, so a version that is unused now stays unused.
        tx.lock_job(job.id).await?;
        let mut in_use: Vec<u32> = tx.open_rounds(job.id).await?.iter().map(|round| round.base_version).collect();
        in_use.extend(tx.assigned_versions(job.id).await?);
        if !keeps_version(kept, version, newest_stored, best, &in_use) {
            deleted += u64::from(tx.delete_model_file(job.id, version, services.clock.now_ms()).await?);
        }
        tx.commit().await?;
    }
    Ok(deleted)
}

async fn prune_rounds(services: &Services, job: &JobRow, before_ms: i64) -> Result<u64, DbError> {
    let train_below = separation_needs_from(&job.file.0, job.rounds_opened);
    let mut pruned = 0;
    loop {
        let mut tx = services.db.read().await?;
        let rounds = tx.rounds_to_prune(job.id, before_ms, train_below, ROUNDS_AT_ONCE).await?;
        drop(tx);
        for round in &rounds {
            let mut tx = services.db.begin().await?;
            pruned += u64::from(tx.prune_round(*round, services.clock.now_ms()).await?);
            tx.commit().await?;
        }
        if rounds.len() < ROUNDS_AT_ONCE as usize || services.stopping.is_cancelled() {
            return Ok(pruned);
        }
    }
}

/// Events are numbered in the order of time, so only the oldest are read.
async fn delete_events(services: &Services, job: &JobRow, before_ms: i64) -> Result<u64, DbError> {
    let (mut deleted, mut after) = (0, 0);
    loop {
        let mut tx = services.db.read().await?;
        // Events after the opening of the oldest open round may belong to it, so they stay.
        let opened_at_ms = tx.open_rounds(job.id).await?.iter().map(|round| round.opened_at_ms).min();
        let before_ms = before_ms.min(opened_at_ms.unwrap_or(i64::MAX));
        let events = tx.events(job.id, after, EVENTS_AT_ONCE).await?;
        drop(tx);
        let old: Vec<u64> =
            events.iter().take_while(|event| event.at_ms < before_ms).map(|event| event.sequence).collect();
        let Some(last) = old.last() else { return Ok(deleted) };
        let mut tx = services.db.begin().await?;
        deleted += tx.delete_round_events(job.id, after, *last).await?;
        tx.commit().await?;
        after = *last;
        if old.len() < EVENTS_AT_ONCE as usize || services.stopping.is_cancelled() {
            return Ok(deleted);
        }
    }
}
