//! Orders: the parts that a relay plays in its parent's rounds. An order opens a round here; the round ends when the
//! parent has its sum, or does without.

use tributary_engine::job::JobSpec;
use tributary_engine::round::Opening;
use tributary_protocol::id::{AssignmentId, JobId};
use tributary_protocol::state::{JobState, Phase};

use crate::blob::BlobError;
use crate::db::{DbError, NewJob, NewRound, RoundKey, Transition, Tx};
use crate::models::version::NewVersion;
use crate::services::Services;

/// A part of a parent's round.
#[derive(Debug)]
pub(crate) struct NewOrder<'a> {
    /// The relay's assignment at its parent.
    pub(crate) assignment: AssignmentId,
    /// The parent's job, as the relay plays it.
    pub(crate) spec: &'a JobSpec,
    /// The round here, with the task of the parent's round, and its number too unless that is a buffer.
    pub(crate) round: RoundKey,
    pub(crate) base_version: u32,
    pub(crate) opening: Opening,
}

/// Why a part is not opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OrderError {
    #[error("this coordinator has another job called {0}")]
    NameTaken(String),
    #[error("the part of this job here is {0} for good: delete it at the relay to play the job again")]
    Ended(JobState),
    #[error("this relay has played round {0} already")]
    Played(u32),
    #[error(transparent)]
    Blob(#[from] BlobError),
}

impl From<DbError> for OrderError {
    fn from(error: DbError) -> Self {
        Self::Blob(error.into())
    }
}

/// Opens the part of a round: stores the job if it is new, the model that its clients start from if that is given, and
/// the round. Nothing changes when the part is open already.
pub(crate) async fn open(
    services: &Services,
    order: &NewOrder<'_>,
    version: Option<&mut NewVersion>,
) -> Result<(), OrderError> {
    let NewOrder { assignment, spec, round: key, base_version, opening } = *order;
    let now_ms = services.clock.now_ms();
    let mut tx = services.db.begin().await?;
    keep_job(&mut tx, spec, now_ms).await?;
    if let Some(version) = version
        && tx.model(spec.id, base_version).await?.is_none()
    {
        version.store(&mut tx, spec.id, now_ms).await?;
    }
    match tx.insert_round(&NewRound { key, base_version, opening }, now_ms).await {
        Err(DbError::Duplicate) => {
            drop(tx);
            // A parent that was restored from a backup repeats its rounds.
            let is_open = services.db.look().await?.order_of(key).await?.is_some();
            return if is_open { Ok(()) } else { Err(OrderError::Played(key.number)) };
        }
        opened => opened?,
    }
    tx.insert_order(assignment, key).await?;
    tx.record(Transition::of_round(key, Phase::Selecting), now_ms).await?;
    tx.commit().await?;
    services.signals.changed(key.job);
    Ok(())
}

/// Stores the parent's job, or what has changed of it.
async fn keep_job(tx: &mut Tx, spec: &JobSpec, now_ms: i64) -> Result<(), OrderError> {
    let state = JobState::Relaying;
    match tx.job_locked(spec.id).await? {
        Some(job) if job.state != state => Err(OrderError::Ended(job.state)),
        Some(job) if job.file.0 != spec.file => Ok(tx.set_job_file(spec.id, &spec.file).await?),
        Some(_) => Ok(()),
        None => {
            let job = NewJob { id: spec.id, file: &spec.file, parameters: spec.model.total() as u64, state };
            match tx.insert_job(&job, now_ms).await {
                Err(DbError::Duplicate) => return Err(OrderError::NameTaken(spec.file.name.to_string())),
                stored => stored?,
            }
            Ok(tx.record(Transition::Job { job: spec.id, state, cause: None }, now_ms).await?)
        }
    }
}

/// Completes a job that has ended at the parent. Its open round ends by its order.
pub(crate) async fn end(services: &Services, job: JobId) -> Result<(), DbError> {
    let (now_ms, state) = (services.clock.now_ms(), JobState::Completed);
    let mut tx = services.db.begin().await?;
    if tx.job_locked(job).await?.is_some_and(|row| row.state == JobState::Relaying) {
        tx.set_job_state(job, state, now_ms).await?;
        tx.record(Transition::Job { job, state, cause: None }, now_ms).await?;
        tx.commit().await?;
        services.signals.changed(job);
    }
    services.specs.forget(job);
    Ok(())
}

/// Forgets an order whose round has ended.
pub(crate) async fn settle(services: &Services, round: RoundKey) -> Result<(), DbError> {
    let mut tx = services.db.begin().await?;
    tx.delete_order(round).await?;
    tx.commit().await
}
