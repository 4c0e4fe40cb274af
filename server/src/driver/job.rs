//! One job: reads its stored facts, asks the engine what it does next, performs the answer.

use tracing::Instrument;
use tributary_engine::job::JobSpec;
use tributary_engine::round::{Act, Decision, Lookback, decide, opening};
use tributary_protocol::id::JobId;
use tributary_protocol::job_file::EVALUATORS_MAX;
use tributary_protocol::state::{Phase, Task};

use super::context::Driver;
use super::error::DriverError;
use super::round::take;
use super::seen::Seen;
use super::shards;
use crate::cluster::lease::Lease;
use crate::db::{RoundKey, RoundRow};
use crate::lifecycle::{buffers, jobs, members, rounds};
use crate::runtime::signals::Listening;
use crate::updates::rebuild;

/// A client that checked in within this time is expected at the first evaluation of fixed models: 15 minutes.
const LATELY_MS: i64 = 15 * 60 * 1_000;

/// The result of moving a job as far as it goes.
pub(super) enum Look {
    /// There is nothing to do before this time, unless the job changes.
    Quiet { until_ms: i64 },
    /// The job has ended, and so have its rounds.
    Ended,
}

/// Moves a job as far as it goes now, if this coordinator drives it.
pub(super) async fn move_job(driver: &Driver, job: JobId, listening: Option<&Listening>) -> Result<Look, DriverError> {
    let Driver { services, updates, leases, .. } = driver;
    loop {
        let lease_until_ms = match leases.take(services, job).await? {
            Lease::Ours { until_ms } => until_ms,
            Lease::Theirs { until_ms } => {
                // The other driver ends the job's rounds without telling this coordinator: its sums would stay.
                updates.sums.keep_of_job(job, |_, shard| shard.is_some());
                shards::serve(driver, job).await?;
                let ended = !services.db.look().await?.is_live(job).await?;
                return Ok(if ended { Look::Ended } else { Look::Quiet { until_ms } });
            }
        };
        // Before the look, so that a client that arrives during it causes another one.
        if let Some(listening) = listening {
            listening.wants_clients(1);
        }
        match look(driver, job).await? {
            Found::Moved => services.signals.changed_for_watchers(),
            Found::Nothing { until_ms, missing } => {
                if let Some(listening) = listening {
                    listening.wants_clients(missing);
                }
                // A lease that was not renewed (the database was away) is taken again when it ends.
                return Ok(Look::Quiet {
                    until_ms: until_ms.map_or(lease_until_ms, |at_ms| at_ms.min(lease_until_ms)),
                });
            }
            Found::Ended => {
                leases.forget(job);
                return Ok(Look::Ended);
            }
        }
    }
}

/// The result of one look at a job.
enum Found {
    /// Something was done: look again.
    Moved,
    /// Nothing to do before this time, and before this many clients have arrived.
    Nothing {
        until_ms: Option<i64>,
        missing: u32,
    },
    Ended,
}

/// Reads, decides, performs.
async fn look(driver: &Driver, job: JobId) -> Result<Found, DriverError> {
    let Some(seen) = Seen::read(driver, job).await? else { return Ok(Found::Ended) };
    rebuild_sums(driver, &seen);
    if !seen.spec.shards.is_empty() {
        shards::serve(driver, job).await?;
    }
    if seen.step_groups(&driver.services).await? {
        return Ok(Found::Moved);
    }
    match decide(&seen.view(), driver.services.clock.now_ms()) {
        Decision::Act(act) => match perform(driver, &seen, act).await? {
            true => Ok(Found::Moved),
            false => {
                let until_ms = driver.services.clock.now_ms() + shards::LOOK_EVERY_MS;
                Ok(Found::Nothing { until_ms: Some(until_ms), missing: 0 })
            }
        },
        Decision::Wait { until_ms, missing } => {
            let now_ms = driver.services.clock.now_ms();
            let others = [seen.groups_until_ms(now_ms), seen.left_until_ms(now_ms)];
            let until_ms = until_ms.into_iter().chain(others.into_iter().flatten()).min();
            Ok(Found::Nothing { until_ms, missing })
        }
        Decision::Ended => Ok(Found::Ended),
    }
}

/// Rebuilds the sum of a round that an earlier process opened, before it is needed.
fn rebuild_sums(driver: &Driver, seen: &Seen) {
    let Driver { services, updates, .. } = driver;
    let trains = |round: &&RoundRow| {
        (round.task, round.phase) == (Task::Train, Phase::Training) && !shards::is_sharded(&seen.spec, round)
    };
    for round in seen.rows.iter().filter(trains).filter(|round| updates.sums.get(round.key(), None).is_none()) {
        let spec = seen.spec_of(round);
        rebuild::start(services, &spec, round, updates.sums.get_or_open(round.key(), &spec));
    }
}

/// Performs what was decided. Returns false for a step that waits for other coordinators.
async fn perform(driver: &Driver, seen: &Seen, act: Act) -> Result<bool, DriverError> {
    let services = &driver.services;
    let job = seen.spec.id;
    match act {
        Act::Round(place, step) => {
            let (round, spec) = (&seen.rows[place], seen.spec_of(&seen.rows[place]));
            let span = tracing::info_span!(
                "round step", %job, task = %round.task, round = round.number, step = step.as_str(),
            );
            return take(driver, &spec, round, step).instrument(span).await;
        }
        Act::Open(task, number) => open(driver, &seen.spec, RoundKey { job, task, number }).await?,
        Act::Complete => jobs::complete(services, job).await?,
        Act::ExpireOverdue => buffers::expire_overdue(services, job).await?,
        Act::ExpireLeft => buffers::expire_left(services, job).await?,
        Act::Miss(clients) => members::miss(services, job, &clients).await?,
        Act::Dismiss(clients) => members::dismiss(services, job, &clients).await?,
    }
    Ok(true)
}

/// Opens a round with what follows from those before. They have ended, so what is read of them no longer changes.
async fn open(driver: &Driver, spec: &JobSpec, key: RoundKey) -> Result<(), DriverError> {
    let services = &driver.services;
    let mut history = services.db.read().await?.history(key, &Lookback::of(&spec.file, key.task, key.number)).await?;
    if let Some(evaluation) = spec.file.evaluation.as_ref().filter(|evaluation| evaluation.only)
        && history.trained.evaluators == 0
    {
        let lately = (services.clock.now_ms().saturating_sub(LATELY_MS), EVALUATORS_MAX);
        let mut tx = services.db.look().await?;
        history.trained.evaluators = tx.clients_lately(&spec.file.population, &evaluation.attributes, lately).await?;
    }
    if let Some(opening) = opening(&spec.file, key.task, key.number, &history) {
        rounds::open(services, key, opening).await?;
    }
    Ok(())
}
