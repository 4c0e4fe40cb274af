//! What a coordinator does for the shards that it adds up, whether or not it drives their job.

use std::sync::Arc;

use tributary_engine::job::JobSpec;
use tributary_protocol::id::JobId;
use tributary_protocol::state::{AbandonReason, Phase, Task};

use super::context::Driver;
use super::error::DriverError;
use crate::db::RoundRow;
use crate::lifecycle::{rounds, shards};
use crate::models::error::CommitError;
use crate::models::ranges::{commit_ranges, next_shard, take_turn};
use crate::updates::rebuild;

/// Time between two looks whether the coordinator of a range that is awaited is alive, in milliseconds.
pub(super) const LOOK_EVERY_MS: i64 = 1_000;

/// Opens the sums of this coordinator's shards, and makes their ranges of a version when it is their turn. Sums of
/// other shards are forgotten.
pub(super) async fn serve(driver: &Driver, job: JobId) -> Result<(), DriverError> {
    let Driver { services, updates, .. } = driver;
    let mut tx = services.db.look().await?;
    let Some(spec) = services.spec(&mut tx, job).await?.filter(|spec| !spec.shards.is_empty()) else {
        return Ok(());
    };
    let (owners, mut open) = (tx.shards(job).await?, tx.open_rounds(job).await?);
    drop(tx);
    open.retain(|round| round.task == Task::Train);
    let own: Vec<u16> =
        (0..).zip(&owners).filter(|(_, node)| **node == services.node).map(|(shard, _)| shard).collect();
    updates.sums.keep_of_job(job, |key, shard| {
        shard.is_some_and(|shard| own.contains(&shard)) && open.iter().any(|round| round.key() == key)
    });
    for round in &open {
        let spec = spec.with_cohort(round.policy().sum_size());
        match round.phase {
            Phase::Training => open_sums(driver, &spec, round, &own),
            Phase::Aggregating => make(driver, &spec, round, &own).await?,
            Phase::Selecting | Phase::Committed | Phase::Abandoned => {}
        }
    }
    Ok(())
}

fn open_sums(driver: &Driver, spec: &Arc<JobSpec>, round: &RoundRow, own: &[u16]) {
    let Driver { services, updates, .. } = driver;
    for spec in own.iter().filter_map(|shard| spec.of_shard(*shard)) {
        if updates.sums.get(round.key(), spec.shard_number()).is_none() {
            rebuild::start(services, &spec, round, updates.sums.get_or_open(round.key(), &spec));
        }
    }
}

/// Takes the turns of a version that are this coordinator's, for as long as the next one is.
async fn make(driver: &Driver, spec: &Arc<JobSpec>, round: &RoundRow, own: &[u16]) -> Result<(), DriverError> {
    let Driver { services, updates, .. } = driver;
    let mut before = None;
    loop {
        let done = services.db.look().await?.making(round.key()).await?.map_or(0, |(done, _)| done);
        let is_own = next_shard(spec, round, done).is_some_and(|shard| own.contains(&shard));
        // The same turn again is that of another coordinator by now, or the round has ended.
        if !is_own || before == Some(done) {
            return Ok(());
        }
        if let Err(error) = take_turn(services, &updates.sums, spec, round, done).await {
            return fail(driver, round, error).await;
        }
        before = Some(done);
    }
}

/// Abandons a round whose version cannot be made. Any coordinator may do that.
async fn fail(driver: &Driver, round: &RoundRow, error: CommitError) -> Result<(), DriverError> {
    let (services, key) = (&driver.services, round.key());
    let reason = match &error {
        error if error.is_not_finite() => AbandonReason::NotFinite,
        error if error.is_lasting() => AbandonReason::Fault,
        _ => return Err(error.into()),
    };
    let stored = services.db.read().await?.round(key).await?;
    if stored.is_none_or(|round| round.phase != Phase::Aggregating) {
        return Ok(());
    }
    tracing::error!(%error, job = %key.job, round = key.number, "no range of the model could be made");
    Ok(rounds::abandon(services, key, reason).await?)
}

/// Commits a round whose ranges are all made. Otherwise replaces coordinators that have died, and returns false.
pub(super) async fn commit(driver: &Driver, spec: &Arc<JobSpec>, round: &RoundRow) -> Result<bool, DriverError> {
    let Driver { services, updates, .. } = driver;
    match commit_ranges(services, spec, round).await {
        Ok(true) => {
            updates.sums.forget(round.key());
            Ok(true)
        }
        Ok(false) => Ok(shards::replace_dead(services, round.job).await?),
        Err(error) => fail(driver, round, error).await.map(|()| true),
    }
}

/// Whether a round has a version that is made range by range.
pub(super) fn is_sharded(spec: &JobSpec, round: &RoundRow) -> bool {
    round.task == Task::Train && !spec.shards.is_empty()
}
