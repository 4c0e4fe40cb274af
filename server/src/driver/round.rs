//! Steps of an open round, as the engine decided them.

use std::sync::Arc;

use tributary_engine::job::JobSpec;
use tributary_engine::round::{Candidate, Step};
use tributary_protocol::state::{AbandonReason, Phase, Task};

use super::context::Driver;
use super::error::DriverError;
use super::{shards, tell};
use crate::central::Due;
use crate::db::{RoundKey, RoundRow};
use crate::lifecycle::{buffers, rounds};
use crate::models::commit::commit_training;
use crate::models::error::CommitError;
use crate::relay::deliver::deliver;
use crate::runtime::clock::Stopwatch;

/// Takes a step, and logs the end of a round. Returns false if the step waits for other coordinators.
pub(super) async fn take(
    driver: &Driver,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
    step: Step,
) -> Result<bool, DriverError> {
    let services = &driver.services;
    let key = round.key();
    match step {
        Step::Draw(clients) => return draw(driver, spec, round, &clients).await.map(|()| true),
        Step::Close => return rounds::close(services, round).await.map(|()| true).map_err(DriverError::from),
        Step::Evaluate => {
            evaluate(driver, spec, round);
            return Ok(true);
        }
        Step::Commit if shards::is_sharded(spec, round) => {
            if !shards::commit(driver, spec, round).await? {
                return Ok(false);
            }
        }
        Step::Commit => commit(driver, spec, round).await?,
        Step::Abandon(reason) => abandon(driver, key, reason).await?,
    }
    tell::ended(services, spec, key).await?;
    Ok(true)
}

async fn draw(
    driver: &Driver,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
    clients: &[Arc<Candidate>],
) -> Result<(), DriverError> {
    let Driver { services, fleet, updates, .. } = driver;
    match (round.is_buffer(), round.phase) {
        (true, _) => buffers::draw(services, fleet, round, clients).await?,
        (false, Phase::Training) => rounds::join(services, fleet, round, clients).await?,
        (false, _) => rounds::start(services, fleet, round, clients).await?,
    }
    if round.task == Task::Train && !shards::is_sharded(spec, round) {
        updates.sums.open(round.key(), spec);
    }
    // Clients that others have left to this job are free, and turns have changed.
    services.signals.drew(&spec.file.population, round.job);
    Ok(())
}

/// Begins an evaluation on this coordinator, which ends its round itself; the job continues meanwhile.
fn evaluate(driver: &Driver, spec: &Arc<JobSpec>, round: &RoundRow) {
    driver.evaluations.begin(Due {
        services: driver.services.clone(),
        spec: Arc::clone(spec),
        round: round.key(),
        version: round.base_version,
    });
}

async fn commit(driver: &Driver, spec: &Arc<JobSpec>, round: &RoundRow) -> Result<(), DriverError> {
    let Driver { services, updates, .. } = driver;
    let (key, stopwatch) = (round.key(), Stopwatch::start());
    match sum_up(driver, spec, round).await {
        Ok(()) => {
            if key.task == Task::Train {
                services.metrics.committed(stopwatch);
            }
            Ok(())
        }
        // What is stored cannot be read, and cannot be the next time either: the round is abandoned, the job continues.
        Err(error) if error.is_lasting() => {
            let stored = services.db.read().await?.round(key).await?;
            if stored.is_none_or(|round| round.phase != Phase::Aggregating) {
                // Another driver committed the round and deleted its updates meanwhile.
                updates.sums.forget(key);
                return Ok(());
            }
            tracing::error!(%error, job = %key.job, round = key.number, "no model could be made");
            abandon(driver, key, AbandonReason::Fault).await
        }
        Err(error) => Err(error.into()),
    }
}

/// Ends a closed round with what its reports come to: the next version, a measurement, the job's inputs. The part of a
/// relay ends with its sum at the parent.
async fn sum_up(driver: &Driver, spec: &Arc<JobSpec>, round: &RoundRow) -> Result<(), CommitError> {
    let Driver { services, updates, .. } = driver;
    if let Some(upstream) = &services.upstream
        && let Some(order) = services.db.look().await?.order_of(round.key()).await?
    {
        return deliver(services, &**upstream, &updates.sums, (spec, round), &order).await;
    }
    match round.task {
        Task::Train => commit_training(services, &updates.sums, spec, round).await,
        Task::Evaluate => Ok(rounds::commit_evaluation(services, round.key()).await?),
        Task::Describe => Ok(rounds::commit_description(services, round.key()).await?),
    }
}

async fn abandon(driver: &Driver, key: RoundKey, reason: AbandonReason) -> Result<(), DriverError> {
    rounds::abandon(&driver.services, key, reason).await?;
    driver.updates.sums.forget(key);
    Ok(())
}
