//! Which coordinator adds up which shard of a job: those that are alive, in turn.
//!
//! The driver of a job names them when a round opens, when its sums are empty; during a round only a dead one is
//! replaced. A coordinator is alive while its row in `nodes` is renewed, as it holds its jobs: a lease for each shard
//! would be a second clock. Correctness depends on none of it, as every step of a version is a conditional update.

use tributary_engine::job::JobSpec;
use tributary_protocol::id::{JobId, Name};
use tributary_protocol::state::NodeState;

use crate::db::{DbError, Tx};
use crate::services::Services;

/// Coordinators that are looked at.
const NODES_MAX: u32 = 1_000;

/// Shares the shards out for a round that opens. Rounds begin with another coordinator each, so that where one has more
/// shards than others, that changes.
pub(super) async fn share_out(
    services: &Services,
    tx: &mut Tx,
    spec: &JobSpec,
    round: u32,
    now_ms: i64,
) -> Result<(), DbError> {
    let nodes = alive(services, tx, now_ms).await?;
    let owner = |shard: usize| nodes[(round as usize + shard) % nodes.len()].clone();
    let owners: Vec<_> = (0..spec.shards.len()).map(owner).collect();
    if owners.is_empty() || tx.shards(spec.id).await? == owners {
        return Ok(());
    }
    tx.set_shards(spec.id, &owners).await
}

/// Replaces owners that have died by others. Returns whether there were any.
pub(crate) async fn replace_dead(services: &Services, job: JobId) -> Result<bool, DbError> {
    let now_ms = services.clock.now_ms();
    let mut tx = services.db.look().await?;
    let (nodes, owners) = (alive(services, &mut tx, now_ms).await?, tx.shards(job).await?);
    if owners.iter().all(|owner| nodes.contains(owner)) {
        return Ok(false);
    }
    drop(tx);
    let replaced = |(shard, owner): (usize, &Name)| match nodes.contains(owner) {
        true => owner.clone(),
        false => nodes[shard % nodes.len()].clone(),
    };
    let owners: Vec<_> = owners.iter().enumerate().map(replaced).collect();
    let mut tx = services.db.begin().await?;
    tx.lock_job(job).await?;
    tx.set_shards(job, &owners).await?;
    tx.notify(&job.to_string()).await?;
    tx.commit().await?;
    tracing::warn!(%job, "shards of a coordinator that is gone have others now");
    Ok(true)
}

/// The coordinators that are alive, by name; at least this one.
pub(crate) async fn alive(services: &Services, tx: &mut Tx, now_ms: i64) -> Result<Vec<Name>, DbError> {
    let nodes = tx.nodes("", NODES_MAX, now_ms).await?;
    let alive = nodes.into_iter().filter(|node| node.state != NodeState::Dead);
    let mut names: Vec<Name> = alive.map(|node| node.id).collect();
    if names.is_empty() {
        names.push(services.node.clone());
    }
    Ok(names)
}
