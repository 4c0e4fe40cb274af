//! One job: reads its stored facts, asks the engine for the next step, performs it.

use std::sync::Arc;

use tracing::Instrument;
use tributary_engine::job::JobSpec;
use tributary_engine::round::{
    Absence, BufferFacts, Candidate, JobFacts, Known, NextRound, RoundFacts, Step, TaskPolicy, choose_cohort,
    gives_way, has_trained, next_buffer_step, next_clocked_step, next_round, next_step,
};
use tributary_protocol::id::JobId;
use tributary_protocol::job_file::Selection;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{AbandonReason, JobState, Phase, Task};

use super::context::Driver;
use super::tell;
use crate::central::Due;
use crate::cluster::lease::Lease;
use crate::db::{DbError, JobRow, OpenWork, RoundKey, RoundRow, Tx};
use crate::fleet::waiting::Waiting;
use crate::lifecycle::{buffers, jobs, members, rounds};
use crate::models::commit::commit_training;
use crate::models::error::CommitError;
use crate::runtime::clock::Stopwatch;
use crate::runtime::signals::Listening;
use crate::updates::rebuild;

/// Why a job could not be moved on.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    #[error(transparent)]
    Db(#[from] DbError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A defect of this program.
    #[error("the driver panicked; the log has the panic's message")]
    Panicked,
}

/// The result of moving a job as far as it goes.
pub(super) enum Look {
    /// There is nothing to do before this time, unless the job changes.
    Quiet { until_ms: i64 },
    /// The job has ended, and so have its rounds.
    Ended,
}

/// The result of one look at a job.
enum Found {
    /// A step was performed: look again.
    Moved,
    /// Nothing to do before this time, and before so many clients have arrived; with 0 no client leads to a step.
    Nothing {
        until_ms: Option<i64>,
        missing: u32,
    },
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
                updates.sums.forget_job(job);
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

/// Performs the first step that is due for a job.
async fn look(driver: &Driver, id: JobId) -> Result<Found, DriverError> {
    let Driver { services, fleet, updates, .. } = driver;
    let mut tx = services.db.read().await?;
    let Some(job) = tx.job(id).await? else { return Ok(Found::Ended) };
    let spec = services.specs.of(&job)?;
    let rounds = tx.open_rounds(id).await?;
    let is_buffered = spec.file.round.mode.buffered().is_some();
    let open_work = if is_buffered { tx.open_work(id).await? } else { None };
    if job.state.is_final() && rounds.is_empty() && open_work.is_none() {
        return Ok(Found::Ended);
    }
    let facts = job_facts(&mut tx, &job, &spec, &rounds).await?;
    let trained = has_trained(&spec.file, &facts);
    let waiting = Waiting::read(services, fleet, &mut tx, &spec, &rounds).await?;
    let clocks = tx.clocks(id, rounds.iter().find_map(RoundRow::buffer)).await?;
    let evaluates = |round: &RoundRow| round.policy(&spec.file).is_some_and(|policy| policy.is_without_clients());
    let has_test_set = services.evaluator.is_some() && rounds.iter().any(evaluates) && tx.test_set(id).await?.is_some();
    drop(tx);

    let now_ms = services.clock.now_ms();
    let mut until_ms: Option<i64> = None;
    if let Some(OpenWork { ends_at_ms, begins_at_ms }) = open_work {
        if !facts.training_open && (trained || job.state.is_final()) {
            buffers::expire_left(services, &fleet.downloads, id).await?;
            return Ok(Found::Moved);
        }
        if now_ms >= ends_at_ms || now_ms < begins_at_ms {
            buffers::expire_overdue(services, &fleet.downloads, id).await?;
            return Ok(Found::Moved);
        }
        until_ms = Some(ends_at_ms);
    }
    // The calendar of a buffered job limits draws.
    let draws_from_ms = spec.calendar.as_ref().filter(|_| is_buffered).map(|calendar| calendar.next_ms(now_ms));
    let in_calendar = draws_from_ms.is_none_or(|from_ms| from_ms.is_some_and(|from_ms| from_ms <= now_ms));
    if !in_calendar {
        until_ms = until_ms.into_iter().chain(draws_from_ms.flatten()).min();
    }
    let mut missing = None;
    for round in &rounds {
        let Some(policy) = round.policy(&spec.file) else { continue };
        let spec = match round.task {
            Task::Train => spec.with_cohort(policy.cohort_size),
            Task::Evaluate => Arc::clone(&spec),
        };
        if round.task == Task::Train && round.phase == Phase::Training && updates.sums.begun(round.key()).is_none() {
            // An earlier process opened the round: its sum is rebuilt before it is needed.
            rebuild::start(services, &spec, round, updates.sums.of(round.key(), &spec));
        }
        let eligible = if round.draws() { waiting.eligible(&spec, round) } else { Vec::new() };
        // Clocks are those of the training round.
        let clocks = clocks.as_ref().filter(|_| policy.buffer.is_some());
        let eligible = match clocks {
            Some(clocks) if round.phase == Phase::Training => clocks.starters(eligible, draw_seed(round)),
            _ => eligible,
        };
        let is_superseded = round.task == Task::Evaluate
            && round.phase == Phase::Selecting
            && gives_way(&spec.file, &facts, round.number);
        let clients = u32::try_from(eligible.len()).unwrap_or(u32::MAX);
        let step = match (is_superseded, policy.buffer) {
            (true, _) => Step::Abandon(AbandonReason::Superseded),
            (false, Some(buffer)) => {
                let facts = BufferFacts {
                    phase: round.phase,
                    job: job.state,
                    has_trained: trained,
                    in_calendar,
                    available: clients,
                    working: round.working(),
                    reported: round.reported,
                };
                match clocks {
                    Some(clocks) => next_clocked_step(&policy, &buffer, &facts, clocks, round.opened_at_ms, now_ms),
                    None => next_buffer_step(&buffer, policy.goal, &facts),
                }
            }
            (false, None) => {
                let available = if policy.is_without_clients() { u32::from(has_test_set) } else { clients };
                next_step(&policy, &round_facts(&job, round, available), now_ms)
            }
        };
        if round.draws() && !policy.is_without_clients() {
            let wanted = if policy.buffer.is_some() { 1 } else { policy.missing(clients) };
            missing = missing.into_iter().chain([wanted]).min();
        }
        match step {
            Step::WaitUntil(at_ms) => until_ms = until_ms.into_iter().chain([at_ms]).min(),
            Step::Wait | Step::Done => {
                let draws = job.state == JobState::Running && in_calendar && round.phase == Phase::Training;
                match clocks.filter(|_| draws).map(|clocks| clocks.absence(policy.deadline_ms, now_ms)) {
                    None => {}
                    Some(Absence::Until(at_ms)) => until_ms = until_ms.into_iter().chain(at_ms).min(),
                    Some(absence) => {
                        members::keep(services, id, &absence).await?;
                        return Ok(Found::Moved);
                    }
                }
            }
            // It ends the round itself, and the job's task goes on meanwhile.
            Step::Commit if policy.is_without_clients() => evaluate(driver, &spec, round),
            step => {
                let key = round.key();
                let span = tracing::info_span!(
                    "round step", job = %key.job, task = %key.task, round = key.number, step = ?step,
                );
                perform(driver, &spec, round, &policy, eligible, step).instrument(span).await?;
                if matches!(step, Step::Commit | Step::Abandon(_)) {
                    tell::ended(services, &spec, round.key()).await?;
                }
                return Ok(Found::Moved);
            }
        }
    }
    let missing = missing.unwrap_or(0);
    match next_round(&spec.file, spec.calendar.as_ref(), &facts, now_ms) {
        NextRound::Wait => Ok(Found::Nothing { until_ms, missing }),
        NextRound::NotBefore(at_ms) => {
            Ok(Found::Nothing { until_ms: until_ms.into_iter().chain([at_ms]).min(), missing })
        }
        NextRound::Open(task, number) => {
            rounds::open(services, &fleet.downloads, &spec, RoundKey { job: id, task, number }).await?;
            Ok(Found::Moved)
        }
        NextRound::Complete => {
            jobs::complete(services, id).await?;
            Ok(Found::Moved)
        }
    }
}

/// Reads what the job's file asks for: a job without evaluations has none to look up.
async fn job_facts(tx: &mut Tx, job: &JobRow, spec: &JobSpec, rounds: &[RoundRow]) -> Result<JobFacts, DbError> {
    let file = &spec.file;
    let last_committed_round = job.last_committed()?;
    let evaluated = match last_committed_round.filter(|_| file.evaluation.is_some()) {
        Some(number) => tx.round(RoundKey { job: job.id, task: Task::Evaluate, number }).await?.is_some(),
        None => false,
    };
    Ok(JobFacts {
        state: job.state,
        training_open: rounds.iter().any(|round| round.task == Task::Train),
        evaluations_open: rounds.iter().filter(|round| round.task == Task::Evaluate).count(),
        evaluation_waits: rounds.iter().any(|round| round.task == Task::Evaluate && round.phase == Phase::Selecting),
        rounds_opened: job.rounds_opened,
        rounds_committed: job.rounds_committed,
        abandoned_in_a_row: job.abandoned_in_a_row,
        last_ended_at_ms: job.round_ended_at_ms,
        last_committed_round,
        last_committed_evaluated: evaluated,
        accuracy: match file.stop.accuracy {
            Some(_) => tx.latest_accuracy(job.id).await?,
            None => None,
        },
        metric: match &file.stop.metric {
            Some(name) => tx.latest_metric(job.id, name).await?,
            None => None,
        },
    })
}

/// Begins an evaluation on this coordinator, unless it is under way.
fn evaluate(driver: &Driver, spec: &Arc<JobSpec>, round: &RoundRow) {
    driver.evaluations.begin(Due {
        services: driver.services.clone(),
        downloads: Arc::clone(&driver.fleet.downloads),
        spec: Arc::clone(spec),
        round: round.key(),
        version: round.base_version,
    });
}

fn round_facts(job: &JobRow, round: &RoundRow, available: u32) -> RoundFacts {
    RoundFacts {
        phase: round.phase,
        job: job.state,
        available,
        working: round.working(),
        reported: round.reported,
        opened_at_ms: round.opened_at_ms,
        deadline_at_ms: round.deadline_at_ms,
    }
}

async fn perform(
    driver: &Driver,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
    policy: &TaskPolicy,
    eligible: Vec<Candidate>,
    step: Step,
) -> Result<(), DriverError> {
    let Driver { services, fleet, updates, .. } = driver;
    let key = round.key();
    match step {
        Step::ChooseCohort(size) => {
            let (selection, known) = selection(driver, spec, key).await?;
            let cohort = choose_cohort(eligible, size as usize, selection, &known, round.seed());
            match policy.buffer {
                Some(_) => buffers::draw(services, fleet, round, policy, &cohort).await?,
                None => rounds::start(services, fleet, round, policy, &cohort).await?,
            }
            if key.task == Task::Train {
                let _ = updates.sums.of(key, spec);
            }
        }
        Step::Draw(clients) => {
            let clients =
                choose_cohort(eligible, clients as usize, Selection::Uniform, &Known::default(), draw_seed(round));
            buffers::draw(services, fleet, round, policy, &clients).await?;
        }
        Step::Aggregate => rounds::close(services, &fleet.downloads, round).await?,
        Step::Commit if key.task == Task::Evaluate => rounds::commit_evaluation(services, key).await?,
        Step::Commit => commit(driver, spec, round).await?,
        Step::Abandon(reason) => abandon(driver, key, reason).await?,
        Step::Wait | Step::WaitUntil(_) | Step::Done => {}
    }
    Ok(())
}

/// The seed of the next draw into a buffer.
fn draw_seed(round: &RoundRow) -> Seed {
    match round.drawn {
        0 => round.seed(),
        drawn => round.seed().derive("draw", drawn.into()),
    }
}

/// How the cohort of a round is chosen, and what that reads of the clients.
async fn selection(driver: &Driver, spec: &JobSpec, key: RoundKey) -> Result<(Selection, Known), DriverError> {
    let selection = match key.task {
        Task::Train => spec.file.round.selection,
        Task::Evaluate => Selection::Uniform,
    };
    let reports = match selection {
        Selection::PowerOfChoice { .. } | Selection::Utility(_) => {
            driver.services.db.read().await?.last_reports(key.job).await?
        }
        Selection::Uniform | Selection::Weighted | Selection::Poisson { .. } => Vec::new(),
    };
    Ok((selection, Known { round: key.number, reports: reports.into_iter().collect() }))
}

async fn commit(driver: &Driver, spec: &Arc<JobSpec>, round: &RoundRow) -> Result<(), DriverError> {
    let Driver { services, fleet, updates, .. } = driver;
    let (key, stopwatch) = (round.key(), Stopwatch::start());
    match commit_training(services, &updates.sums, &fleet.downloads, spec, round).await {
        Ok(()) => {
            services.metrics.committed(stopwatch);
            Ok(())
        }
        // What is stored cannot be read, and cannot be the next time either: the round is abandoned, the job goes on.
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

async fn abandon(driver: &Driver, key: RoundKey, reason: AbandonReason) -> Result<(), DriverError> {
    rounds::abandon(&driver.services, &driver.fleet.downloads, key, reason).await?;
    driver.updates.sums.forget(key);
    Ok(())
}
