//! The driver: moves every job on, one stored step at a time.
//!
//! It is level-triggered. [`run_once`] reads what is stored, asks the round engine what is next, does it and stores it;
//! it remembers nothing. A crash between two steps loses nothing: the next call derives the same step again.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tracing::Instrument;
use tributary_protocol::id::{AssignmentId, ClientId, JobId};
use tributary_protocol::state::{AbandonReason, AssignmentState, JobState, Phase, Task};

use crate::app::App;
use crate::blob::BlobError;
use crate::clock::Stopwatch;
use crate::cluster::lease::{self, Asked};
use crate::commit::{CommitError, commit_training};
use crate::db::{DbError, Happening, JobRow, NewAssignment, NewRound, RoundKey, RoundRow, Times, Tx};
use crate::entropy;
use crate::rebuild;
use crate::round::{
    Candidate, JobFacts, NextRound, RoundFacts, Step, TaskPolicy, Terms, admit, choose_cohort, next_round, next_step,
};
use crate::spec::JobSpec;

/// What could keep the driver from moving a job on.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The database.
    #[error(transparent)]
    Db(#[from] DbError),
    /// Bodies of models and updates.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// Making a model.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A defect of this program.
    #[error("the driver panicked; the panic's message stands above")]
    Panicked,
}

impl DriverError {
    /// Whether the next try would fail in the same way: what is stored cannot be read.
    fn is_lasting(&self) -> bool {
        match self {
            Self::Commit(_) | Self::Db(DbError::Corrupt(_)) => true,
            Self::Blob(error) => {
                matches!(error, BlobError::Missing(_) | BlobError::Damaged(_) | BlobError::Db(DbError::Corrupt(_)))
            }
            Self::Db(_) | Self::Panicked => false,
        }
    }
}

/// What one look at a job came to.
enum Look {
    /// Something was stored: look again.
    Moved,
    /// Nothing to do before this time, unless something changes.
    Quiet { until_ms: Option<i64> },
}

/// Pause after a failed step (the database is away), so that the driver never spins.
const RETRY_MS: i64 = 1_000;

/// Moves jobs on until the coordinator stops: at once when something changed, and when a deadline comes.
pub async fn run(app: Arc<App>) {
    loop {
        // A panic must not leave a coordinator that answers and never moves.
        let looked = AssertUnwindSafe(run_once(&app)).catch_unwind().await.unwrap_or(Err(DriverError::Panicked));
        let wake_at_ms = match looked {
            Ok(wake_at_ms) => wake_at_ms,
            Err(error) => {
                tracing::error!(%error, "the driver could not move a job on; it tries again");
                let retry_at_ms = app.clock.now_ms() + RETRY_MS;
                // Nothing wakes it earlier: whoever checks in meanwhile would make it spin.
                tokio::select! {
                    () = app.stopping.cancelled() => return,
                    () = app.clock.sleep_until(retry_at_ms) => continue,
                }
            }
        };
        let deadline = async {
            match wake_at_ms {
                Some(at_ms) => app.clock.sleep_until(at_ms).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = app.stopping.cancelled() => return,
            () = app.driver_woken() => {}
            () = deadline => {}
        }
    }
}

/// Moves every job as far as it goes now. Returns when the next deadline is.
///
/// # Errors
/// [`DriverError`] of the first job that could not be moved; jobs after it were moved all the same.
pub async fn run_once(app: &App) -> Result<Option<i64>, DriverError> {
    let mut wake_at_ms = lease::heartbeat(app).await?;
    let jobs = {
        let mut tx = app.db.read().await?;
        tx.live_jobs().await?
    };
    let mut failed = None;
    for job in jobs {
        match move_job(app, job).await {
            Ok(until_ms) => wake_at_ms = wake_at_ms.min(until_ms),
            Err(error) => {
                app.metrics.driver_failed();
                failed = failed.or(Some(error));
            }
        }
    }
    failed.map_or(Ok(Some(wake_at_ms)), Err)
}

/// Moves a job as far as it goes, if this node drives it. Returns when to look again.
async fn move_job(app: &App, job: JobId) -> Result<i64, DriverError> {
    loop {
        let renew_at_ms = match lease::ask(app, job).await? {
            Asked::Ours { renew_at_ms } => renew_at_ms,
            Asked::Theirs { until_ms } => {
                // Whoever drives the job now ends its rounds without telling this node: what it summed is not needed.
                app.sums.forget_job(job);
                return Ok(until_ms);
            }
        };
        match look(app, job).await? {
            Look::Moved => app.changed(),
            Look::Quiet { until_ms } => return Ok(until_ms.map_or(renew_at_ms, |until_ms| until_ms.min(renew_at_ms))),
        }
    }
}

/// Does the first thing that there is to do for a job.
async fn look(app: &App, id: JobId) -> Result<Look, DriverError> {
    let mut tx = app.db.read().await?;
    let Some(job) = tx.job(id).await? else { return Ok(Look::Quiet { until_ms: None }) };
    let spec = app.specs.of(&job)?;
    let rounds = tx.open_rounds(id).await?;
    let facts = job_facts(&mut tx, &job, &rounds).await?;
    let recent = recent_rounds(&mut tx, &spec, &rounds).await?;
    let waiting = waiting(app, &mut tx, &spec, &rounds).await?;
    drop(tx);

    let now_ms = app.clock.now_ms();
    let mut until_ms: Option<i64> = None;
    for round in &rounds {
        let policy = round.policy().or_else(|| TaskPolicy::of(&spec.file, round.task));
        let Some(policy) = policy else { continue };
        let spec = match round.task {
            Task::Train => spec.with_cohort(policy.cohort_size),
            Task::Evaluate => Arc::clone(&spec),
        };
        if round.task == Task::Train && round.phase == Phase::Training && app.sums.begun(round.key()).is_none() {
            // Opened by an earlier process: its sum is ready again before it is needed.
            rebuild::start(
                app.db.clone(),
                app.blobs.clone(),
                Arc::clone(&spec),
                round.clone(),
                app.sums.of(round.key(), &spec),
            );
        }
        let eligible = match round.phase {
            Phase::Selecting => eligible(&spec, round, &waiting, &recent),
            _ => Vec::new(),
        };
        match next_step(&policy, &round_facts(&job, round, &eligible), now_ms) {
            Step::WaitUntil(at_ms) => until_ms = until_ms.into_iter().chain([at_ms]).min(),
            Step::Done => {}
            step => {
                let key = round.key();
                let span = tracing::info_span!(
                    "round step", job = %key.job, task = %key.task, round = key.number, step = ?step,
                );
                act(app, &spec, round, &policy, eligible, step).instrument(span).await?;
                return Ok(Look::Moved);
            }
        }
    }
    match next_round(&spec.file, spec.calendar.as_ref(), &facts, now_ms) {
        NextRound::Wait => Ok(Look::Quiet { until_ms }),
        NextRound::NotBefore(at_ms) => Ok(Look::Quiet { until_ms: until_ms.into_iter().chain([at_ms]).min() }),
        NextRound::Open(task, number) => {
            open(app, &spec, RoundKey { job: id, task, number }).await?;
            Ok(Look::Moved)
        }
        NextRound::Complete => {
            let mut tx = app.db.begin().await?;
            let still = tx.job_locked(id).await?.is_some_and(|job| !job.state.is_final());
            if still {
                tx.set_job_state(id, JobState::Completed, now_ms).await?;
                tx.record(Happening::of_job(id, JobState::Completed.as_str()), now_ms).await?;
                tx.commit().await?;
            }
            app.specs.forget(id);
            Ok(Look::Moved)
        }
    }
}

async fn job_facts(tx: &mut Tx, job: &JobRow, rounds: &[RoundRow]) -> Result<JobFacts, DbError> {
    let last_committed_round = job.last_committed()?;
    let evaluated = match last_committed_round {
        Some(number) => tx.round(RoundKey { job: job.id, task: Task::Evaluate, number }).await?.is_some(),
        None => false,
    };
    Ok(JobFacts {
        state: job.state,
        training_open: rounds.iter().any(|round| round.task == Task::Train),
        evaluations_open: rounds.iter().filter(|round| round.task == Task::Evaluate).count(),
        rounds_opened: job.rounds_opened,
        rounds_committed: job.rounds_committed,
        abandoned_in_a_row: job.abandoned_in_a_row,
        last_ended_at_ms: job.round_ended_at_ms,
        last_committed_round,
        last_committed_evaluated: evaluated,
        accuracy: tx.latest_accuracy(job.id).await?,
    })
}

/// Who trained so recently that the job lets them rest; asked only when the job does.
async fn recent_rounds(tx: &mut Tx, spec: &JobSpec, rounds: &[RoundRow]) -> Result<HashMap<ClientId, u32>, DbError> {
    let separation = spec.file.eligibility.separation_rounds;
    let selecting = rounds.iter().find(|round| round.phase == Phase::Selecting && round.task == Task::Train);
    match selecting {
        Some(round) if separation > 0 => {
            let since = round.number.saturating_sub(separation);
            Ok(tx.last_rounds(spec.id, since).await?.into_iter().collect())
        }
        _ => Ok(HashMap::new()),
    }
}

fn round_facts(job: &JobRow, round: &RoundRow, eligible: &[Candidate]) -> RoundFacts {
    RoundFacts {
        phase: round.phase,
        job: job.state,
        available: u32::try_from(eligible.len()).unwrap_or(u32::MAX),
        working: round.working(),
        reported: round.reported,
        opened_at_ms: round.opened_at_ms,
        deadline_at_ms: round.deadline_at_ms,
    }
}

/// Everybody who waits, here or at another coordinator; asked only when a round selects.
async fn waiting(app: &App, tx: &mut Tx, spec: &JobSpec, rounds: &[RoundRow]) -> Result<Vec<Candidate>, DbError> {
    if !rounds.iter().any(|round| round.phase == Phase::Selecting) {
        return Ok(Vec::new());
    }
    let mut waiting = app.lobby.candidates(&spec.file.population);
    if app.seats.is_some() {
        waiting.extend(tx.seated(&spec.file.population, app.clock.now_ms()).await?);
        waiting.sort_by_key(|candidate| candidate.client);
        waiting.dedup_by_key(|candidate| candidate.client);
    }
    Ok(waiting)
}

/// How many of those who wait now a selecting round may draw: for people who ask what it waits for.
pub(crate) async fn available(app: &App, tx: &mut Tx, spec: &JobSpec, round: &RoundRow) -> Result<u32, DbError> {
    let rounds = std::slice::from_ref(round);
    let recent = recent_rounds(tx, spec, rounds).await?;
    let waiting = waiting(app, tx, spec, rounds).await?;
    Ok(u32::try_from(eligible(spec, round, &waiting, &recent).len()).unwrap_or(u32::MAX))
}

/// Those who wait whom the round may draw.
fn eligible(
    spec: &JobSpec,
    round: &RoundRow,
    waiting: &[Candidate],
    recent: &HashMap<ClientId, u32>,
) -> Vec<Candidate> {
    let terms = Terms::of(&spec.file, round.task, round.number);
    let mut candidates = waiting.to_vec();
    for candidate in &mut candidates {
        candidate.last_round = recent.get(&candidate.client).copied();
    }
    candidates.retain(|candidate| admit(candidate, &terms).is_ok());
    candidates
}

async fn open(app: &App, spec: &JobSpec, key: RoundKey) -> Result<(), DriverError> {
    let Some(policy) = TaskPolicy::of(&spec.file, key.task) else { return Ok(()) };
    let now_ms = app.clock.now_ms();
    let mut tx = app.db.begin().await?;
    let Some(job) = tx.job_locked(key.job).await? else { return Ok(()) };
    let base_version = match key.task {
        Task::Train => job.version()?,
        // Not the newest: a further round may have been committed since.
        Task::Evaluate => tx.version_of_round(key.job, key.number).await?,
    };
    let Some(base_version) = base_version else { return Ok(()) };
    let may_train = job.state == JobState::Running && job.rounds_opened + 1 == key.number;
    if job.state.is_final() || (key.task == Task::Train && !may_train) {
        return Ok(());
    }
    let seed = spec.seed().derive(key.task.as_str(), key.number.into());
    let round = NewRound { key, base_version, seed, policy };
    match tx.insert_round(&round, now_ms).await {
        // Another driver opened it.
        Err(DbError::Duplicate) => return Ok(()),
        opened => opened?,
    }
    tx.record(Happening::of_round(key, Phase::Selecting.as_str()), now_ms).await?;
    tx.commit().await?;
    Ok(())
}

async fn act(
    app: &App,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
    policy: &TaskPolicy,
    eligible: Vec<Candidate>,
    step: Step,
) -> Result<(), DriverError> {
    let key = round.key();
    match step {
        Step::ChooseCohort(size) => {
            let cohort = choose_cohort(eligible, size as usize, round.seed());
            start(app, key, policy, &cohort).await?;
            if key.task == Task::Train {
                let _ = app.sums.of(key, spec);
            }
        }
        Step::Aggregate => close(app, key).await?,
        Step::Commit => match key.task {
            Task::Train => match commit_measured(app, spec, round).await {
                // What is stored cannot be read, and will not be the next time: the round gives up, the job goes on.
                Err(error) if error.is_lasting() => {
                    let stored = app.db.read().await?.round(key).await?;
                    if stored.is_none_or(|round| round.phase != Phase::Aggregating) {
                        // Another driver committed the round and deleted its updates meanwhile.
                        app.sums.forget(key);
                        return Ok(());
                    }
                    tracing::error!(%error, job = %key.job, round = key.number, "no model could be made");
                    abandon(app, key, AbandonReason::Fault).await?;
                }
                committed => committed?,
            },
            Task::Evaluate => commit_evaluation(app, key).await?,
        },
        Step::Abandon(reason) => abandon(app, key, reason).await?,
        Step::WaitUntil(_) | Step::Done => {}
    }
    Ok(())
}

async fn commit_measured(app: &App, spec: &Arc<JobSpec>, round: &RoundRow) -> Result<(), DriverError> {
    let stopwatch = Stopwatch::start();
    commit_training(app, spec, round).await?;
    app.metrics.committed(stopwatch);
    Ok(())
}

/// Stores the cohort, then calls its clients.
async fn start(app: &App, key: RoundKey, policy: &TaskPolicy, cohort: &[Candidate]) -> Result<(), DriverError> {
    let now_ms = app.clock.now_ms();
    let mut tx = app.db.begin().await?;
    tx.lock_job(key.job).await?;
    if !tx.start_round(key, cohort.len(), now_ms, now_ms + policy.deadline_ms).await? {
        return Ok(());
    }
    tx.record(Happening::of_round(key, Phase::Training.as_str()), now_ms).await?;
    for candidate in cohort {
        let id = AssignmentId::from_random(entropy::random());
        let assignment = NewAssignment { id, round: key, client: candidate.client };
        match tx.insert_assignment(&assignment, now_ms).await {
            // It got other work since it was seen in the lobby, where it no longer is: draw again without it.
            Err(DbError::Duplicate) => {
                drop(tx);
                app.lobby.call([candidate.client]);
                let mut tx = app.db.begin().await?;
                tx.stand_up(candidate.client, None).await?;
                tx.commit().await?;
                return Ok(());
            }
            stored => stored?,
        }
        if app.seats.is_some() {
            tx.stand_up(candidate.client, None).await?;
        }
        tx.record(Happening::of_assignment(key, id, AssignmentState::Assigned.as_str()), now_ms).await?;
        // Bytes fetched for an earlier assignment are not this one's.
        app.forget_downloads(candidate.client);
    }
    tx.commit().await?;
    app.lobby.call(cohort.iter().map(|candidate| candidate.client));
    Ok(())
}

/// Ends the taking of reports: whoever has not answered is a straggler.
async fn close(app: &App, key: RoundKey) -> Result<(), DriverError> {
    let now_ms = app.clock.now_ms();
    let mut tx = app.db.begin().await?;
    tx.lock_job(key.job).await?;
    close_in(app, &mut tx, key, now_ms).await?;
    tx.commit().await?;
    Ok(())
}

/// The same inside somebody's transaction: the report that meets the goal closes its round with it, so that no later one
/// slips in before the driver comes.
pub(crate) async fn close_in(app: &App, tx: &mut Tx, key: RoundKey, now_ms: i64) -> Result<(), DbError> {
    if tx.close_round(key, now_ms).await? {
        expire(app, tx, key, now_ms).await?;
        tx.record(Happening::of_round(key, Phase::Aggregating.as_str()), now_ms).await?;
    }
    Ok(())
}

/// Ends a round without a result; its updates are of no more use.
pub(crate) async fn abandon(app: &App, key: RoundKey, reason: AbandonReason) -> Result<(), DriverError> {
    let now_ms = app.clock.now_ms();
    let mut tx = app.db.begin().await?;
    tx.lock_job(key.job).await?;
    if !tx.abandon_round(key, reason, now_ms).await? {
        return Ok(());
    }
    expire(app, &mut tx, key, now_ms).await?;
    let objects = tx.delete_updates(key).await?;
    tx.record(Happening::of_round(key, Phase::Abandoned.as_str()).because(reason.as_str()), now_ms).await?;
    tx.commit().await?;
    app.sums.forget(key);
    app.blobs.delete(objects).await;
    app.blobs.clear_some(&app.db).await;
    Ok(())
}

async fn expire(app: &App, tx: &mut Tx, key: RoundKey, now_ms: i64) -> Result<(), DbError> {
    // What has come of their updates is of no more use, and whoever still sends one can add nothing.
    tx.discard_uploads(key).await?;
    for assignment in tx.working_assignments(key).await? {
        let fetched = app.fetched(assignment.client);
        if let Some(at_ms) = app.fetched_at_ms(assignment.client) {
            tx.store_times(assignment.id, Times { fetched_at_ms: Some(at_ms), ..Times::default() }).await?;
        }
        let ended = tx.end_assignment(assignment.id, AssignmentState::Expired, None, fetched, now_ms).await?;
        tx.count_ended(key, AssignmentState::Expired, 1, 0, ended.unwrap_or_default()).await?;
        tx.record(Happening::of_assignment(key, assignment.id, AssignmentState::Expired.as_str()), now_ms).await?;
    }
    Ok(())
}

async fn commit_evaluation(app: &App, key: RoundKey) -> Result<(), DriverError> {
    let now_ms = app.clock.now_ms();
    let mut tx = app.db.begin().await?;
    tx.lock_job(key.job).await?;
    if !tx.commit_round(key, now_ms).await? {
        return Ok(());
    }
    let summary = tx.evaluation_summary(key).await?;
    tx.store_evaluation(key, summary).await?;
    tx.record(Happening::of_round(key, Phase::Committed.as_str()), now_ms).await?;
    tx.commit().await?;
    Ok(())
}
