//! Completing the sum of an open round from its stored updates, for example after a restart.

use std::sync::Arc;

use tributary_engine::job::JobSpec;

use super::stored::{StoredError, StoredUpdate, accepted, each, sum_into};
use super::sums::SharedSum;
use crate::db::RoundRow;
use crate::runtime::clock::Stopwatch;
use crate::services::Services;

/// Adds the stored updates that the sum of a round lacks, in the background. Nothing depends on its success: the commit
/// of the round adds what is still missing.
pub(crate) fn start(services: &Services, spec: &Arc<JobSpec>, round: &RoundRow, sum: SharedSum) {
    let (services, spec, round) = (services.clone(), Arc::clone(spec), round.clone());
    tokio::spawn(async move {
        let key = round.key();
        match fold_missing(&services, &spec, &round, &sum).await {
            Ok(0) => {}
            Ok(updates) => tracing::info!(job = %key.job, round = key.number, updates, "the round's sum is rebuilt"),
            // The round may have ended meanwhile, and its updates with it.
            Err(error) => tracing::warn!(%error, job = %key.job, round = key.number, "the round's sum is not rebuilt"),
        }
    });
}

/// Adds every accepted update that the sum lacks. Returns their number.
///
/// # Errors
/// The error of the first update that cannot be added. The sum is then invalid if values of the update were added.
pub(crate) async fn fold_missing(
    services: &Services,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
    sum: &SharedSum,
) -> Result<usize, StoredError> {
    if !sum.is_kept() {
        return Ok(0);
    }
    // A second task that arrives here finds everything added, instead of reading it again.
    let _turn = sum.turn().lock_owned().await;
    let mut missing = accepted(&services.db, spec, round).await?;
    if spec.shard.is_some() {
        sum.count_whole(&missing.iter().map(|update| update.assignment).collect());
    }
    missing.retain(|update| !sum.has(update.assignment));
    let updates = missing.len();
    let (partial, missing): (Vec<_>, Vec<_>) = missing.into_iter().partition(|update| update.is_sum);
    for update in &partial {
        add_sum(services, spec, update, sum).await?;
    }
    let into_sum = |update: &StoredUpdate| {
        let contribution = update.facts.figures.contribution;
        let begun = sum.begin_stored(update.assignment, contribution, update.staleness);
        begun.map_err(|source| StoredError::Fold { assignment: update.assignment, source })
    };
    let folds = each(services, spec, missing, into_sum, |flight, seconds| {
        flight.land();
        seconds
    });
    for seconds in folds.await? {
        services.metrics.folded(seconds);
    }
    Ok(updates)
}

/// Adds the sum of a relay.
async fn add_sum(
    services: &Services,
    spec: &JobSpec,
    update: &StoredUpdate,
    sum: &SharedSum,
) -> Result<(), StoredError> {
    let stopwatch = Stopwatch::start();
    let begun = sum.begin_stored(update.assignment, update.facts.figures.contribution, 0);
    let begun = begun.map_err(|source| StoredError::Fold { assignment: update.assignment, source })?;
    if let Some(flight) = begun {
        sum_into(services, spec, update, flight.of_sum()).await?.land();
        services.metrics.folded(stopwatch.seconds());
    }
    Ok(())
}
