//! States of jobs: AwaitingModel, Running, Paused, then Completed or Stopped.

use tributary_engine::job::JobSpec;
use tributary_engine::round::Budget;
use tributary_protocol::id::JobId;
use tributary_protocol::state::JobState;

use super::budget::{self, BudgetRefusal};
use super::releases;
use crate::blob::BlobError;
use crate::db::{DbError, JobCause, JobRow, NewJob, Transition, Tx};
use crate::models::version::NewVersion;
use crate::notify::{self, About, Notice};
use crate::services::Services;

/// Why a job does not change its state.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JobRefusal {
    #[error("there is no {0}")]
    NotFound(String),
    #[error("population {population} has a job called {name}")]
    NameTaken { population: String, name: String },
    #[error("a job that is {from} cannot become {to}")]
    WrongState { from: JobState, to: JobState },
    #[error("the job is {0}: only a job that has ended can be deleted; stop it first")]
    Lives(JobState),
    #[error("round {0} of the job is still open; delete the job when it has ended")]
    RoundOpen(u32),
    #[error("the job is {0}: its model version 0 is there, and a version never changes")]
    HasModel(JobState),
    #[error(transparent)]
    Budget(#[from] BudgetRefusal),
    #[error(transparent)]
    Blob(#[from] BlobError),
}

impl From<DbError> for JobRefusal {
    fn from(error: DbError) -> Self {
        Self::Blob(error.into())
    }
}

/// Stores a job in the caller's transaction: Running with its first model or its fixed ones, else AwaitingModel.
pub(crate) async fn create(
    services: &Services,
    tx: &mut Tx,
    spec: &JobSpec,
    models: &mut [NewVersion],
    now_ms: i64,
) -> Result<(), JobRefusal> {
    let state = if models.is_empty() { JobState::AwaitingModel } else { JobState::Running };
    let (population, name) = (&spec.file.population, &spec.file.name);
    let known = tx.population(population).await?;
    known.ok_or_else(|| JobRefusal::NotFound(format!("population {population}; create it first")))?;
    // Until this job is there, the population gets no budget that it would have to keep.
    tx.lock_population(population).await?;
    budget::check_new(services, tx, spec).await?;
    let job = NewJob { id: spec.id, file: &spec.file, parameters: spec.model.total() as u64, state };
    match tx.insert_job(&job, now_ms).await {
        Err(DbError::Duplicate) => {
            return Err(JobRefusal::NameTaken { population: population.to_string(), name: name.to_string() });
        }
        stored => stored?,
    }
    for model in models {
        model.store(tx, spec.id, now_ms).await?;
    }
    tx.record(Transition::Job { job: spec.id, state, cause: None }, now_ms).await?;
    Ok(())
}

/// Checks that a job has no model yet.
pub(crate) fn require_awaiting(row: &JobRow) -> Result<(), JobRefusal> {
    match row.state {
        JobState::AwaitingModel => Ok(()),
        state => Err(JobRefusal::HasModel(state)),
    }
}

/// AwaitingModel to Running in the caller's transaction: gives a job its first model.
pub(crate) async fn start(tx: &mut Tx, id: JobId, model: &mut NewVersion, now_ms: i64) -> Result<(), JobRefusal> {
    require_awaiting(&locked(tx, id).await?)?;
    model.store(tx, id, now_ms).await?;
    tx.set_job_state(id, JobState::Running, now_ms).await?;
    tx.record(Transition::Job { job: id, state: JobState::Running, cause: None }, now_ms).await?;
    Ok(())
}

/// Moves a job to a state in the caller's transaction, at an operator's request. False when it is in that state
/// already.
pub(crate) async fn move_to(tx: &mut Tx, id: JobId, to: JobState, now_ms: i64) -> Result<bool, JobRefusal> {
    let from = locked(tx, id).await?.state;
    if from == to {
        return Ok(false);
    }
    let may = match to {
        JobState::Running => from == JobState::Paused,
        JobState::Paused => from == JobState::Running,
        JobState::Stopped => !from.is_final(),
        JobState::AwaitingModel | JobState::Relaying | JobState::Completed => false,
    };
    if !may {
        return Err(JobRefusal::WrongState { from, to });
    }
    tx.set_job_state(id, to, now_ms).await?;
    tx.record(Transition::Job { job: id, state: to, cause: Some(JobCause::Operator) }, now_ms).await?;
    if to.is_final() {
        releases::gate_ends(tx, id, now_ms).await?;
    }
    Ok(true)
}

/// Any open state to Completed.
pub(crate) async fn complete(services: &Services, id: JobId) -> Result<(), DbError> {
    let now_ms = services.clock.now_ms();
    let mut tx = services.db.begin().await?;
    if let Some(job) = tx.job_locked(id).await?.filter(|job| !job.state.is_final()) {
        tx.set_job_state(id, JobState::Completed, now_ms).await?;
        let file = &job.file.0;
        let has_rounds = file.stop.rounds.is_some_and(|rounds| job.rounds_committed >= rounds);
        let spec = services.specs.of(&job)?;
        let is_spent = !has_rounds && budget::standing(services, &mut tx, &spec).await? == Budget::Spent;
        let cause = is_spent.then_some(JobCause::PrivacyBudget);
        tx.record(Transition::Job { job: id, state: JobState::Completed, cause }, now_ms).await?;
        releases::gate_ends(&mut tx, id, now_ms).await?;
        let reached =
            tx.latest_accuracy(id).await?.filter(|got| file.stop.accuracy.is_some_and(|wanted| *got >= wanted));
        let metric = match &file.stop.metric {
            Some(name) => tx.latest_scalar(id, name).await?.filter(|mean| file.stop.is_reached(*mean)).zip(Some(name)),
            None => None,
        };
        let notice = match (reached, metric) {
            (Some(accuracy), _) => {
                Notice::TargetReached { target: format!("an accuracy of at least {:.2} %", accuracy * 100.0) }
            }
            (None, Some((mean, name))) => Notice::TargetReached { target: format!("a mean {name} of {mean}") },
            (None, None) if is_spent => Notice::BudgetSpent,
            (None, None) => Notice::Completed,
        };
        let about = About::job(id, &file.name, &file.population);
        notify::post(services, &mut tx, about, &notice, now_ms).await?;
        tx.commit().await?;
    }
    services.specs.forget(id);
    Ok(())
}

pub(super) async fn locked(tx: &mut Tx, id: JobId) -> Result<JobRow, JobRefusal> {
    tx.job_locked(id).await?.ok_or_else(|| JobRefusal::NotFound(id.to_string()))
}
