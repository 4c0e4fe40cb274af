//! Running evaluations beside everything else the coordinator does.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;
use tracing::Instrument;
use tributary_engine::job::JobSpec;
use tributary_protocol::device::EvaluationReport;
use tributary_protocol::model::Model;
use tributary_protocol::state::AbandonReason;

use super::test_set::{TestSetError, TestSetReader};
use crate::blob::BlobError;
use crate::db::{DbError, RoundKey, TestSetRow};
use crate::evaluator::{Evaluator, EvaluatorError, EvaluatorTask, TestExamples};
use crate::lifecycle::rounds;
use crate::models::whole::{WholeModelError, whole_model};
use crate::runtime::lock::Locked;
use crate::runtime::offload::in_background;
use crate::services::Services;

/// How often an evaluation may begin without coming to an end. More often it would end the process each time, for
/// example because the memory is too small.
const BEGUN_MAX: u32 = 2;
/// Pause before an evaluation that database or store did not allow is tried again, in milliseconds.
const RETRY_MS: i64 = 5_000;

/// The evaluations that this coordinator computes. What a restart interrupts is begun again, because its round is still
/// open; the round counts the beginnings that had no end.
#[derive(Debug)]
pub struct Evaluations {
    running: Mutex<HashSet<RoundKey>>,
    /// One at a time: a model and a test set are in memory meanwhile.
    place: Semaphore,
}

impl Default for Evaluations {
    fn default() -> Self {
        Self { running: Mutex::default(), place: Semaphore::new(1) }
    }
}

/// An evaluation that is due.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) services: Services,
    pub(crate) spec: Arc<JobSpec>,
    pub(crate) round: RoundKey,
    pub(crate) version: u32,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error(transparent)]
    Blob(#[from] BlobError),
    #[error(transparent)]
    Model(#[from] WholeModelError),
    #[error("the test set does not fit: {0}")]
    TestSet(#[from] TestSetError),
    #[error(transparent)]
    Evaluator(#[from] EvaluatorError),
    #[error("{0}")]
    Missing(&'static str),
    #[error("it began {BEGUN_MAX} times, and the process ended each time before it did")]
    EndsTheProcess,
}

impl From<DbError> for RunError {
    fn from(error: DbError) -> Self {
        Self::Blob(error.into())
    }
}

impl RunError {
    /// Whether the next attempt would fail in the same way.
    fn is_lasting(&self) -> bool {
        match self {
            // A test set that is replaced takes its body with it: the next attempt reads the new one.
            Self::Blob(error) => matches!(error, BlobError::Damaged(_)),
            Self::Evaluator(EvaluatorError::Stopped) => false,
            _ => true,
        }
    }
}

impl Evaluations {
    /// Begins an evaluation unless it is under way. Its end changes the job, and the driver looks again.
    pub(crate) fn begin(self: &Arc<Self>, due: Due) {
        if !self.running.locked().insert(due.round) {
            return;
        }
        let evaluations = Arc::clone(self);
        let span = tracing::info_span!("evaluation", job = %due.round.job, round = due.round.number);
        let run = async move {
            evaluations.run(&due).await;
            evaluations.running.locked().remove(&due.round);
            due.services.signals.changed(due.round.job);
        };
        tokio::spawn(run.instrument(span));
    }

    /// Whether an evaluation is being computed.
    pub(crate) fn is_under_way(&self, round: RoundKey) -> bool {
        self.running.locked().contains(&round)
    }

    /// Waits until nothing is computed any more: all that is under way stops with the coordinator.
    pub(crate) async fn ended(&self) {
        drop(self.place.acquire().await);
    }

    async fn run(&self, due: &Due) {
        let services = &due.services;
        let place = tokio::select! {
            () = services.stopping.cancelled() => return,
            place = self.place.acquire() => place,
        };
        let measured = tokio::select! {
            () = services.stopping.cancelled() => Err(EvaluatorError::Stopped.into()),
            measured = self.measure(due) => measured,
        };
        let ended = match measured {
            Ok(report) => {
                let EvaluationReport { examples, loss, accuracy, .. } = report;
                tracing::info!(version = due.version, examples, loss, accuracy, "evaluated on the coordinator");
                rounds::commit_own_evaluation(services, due.round, &report).await.map_err(RunError::from)
            }
            Err(error) if error.is_lasting() => {
                tracing::error!(%error, version = due.version, "the model could not be evaluated");
                rounds::abandon(services, due.round, AbandonReason::Fault).await.map_err(RunError::from)
            }
            Err(error) => Err(error),
        };
        let Err(error) = ended else { return };
        if let Err(error) = note_end(services, due.round).await {
            tracing::warn!(%error, "the end of an evaluation could not be noted");
        }
        drop(place);
        if !services.stopping.is_cancelled() {
            tracing::warn!(%error, version = due.version, "the evaluation is tried again");
            self.pause(services).await;
        }
    }

    async fn pause(&self, services: &Services) {
        tokio::select! {
            () = services.stopping.cancelled() => {}
            () = services.clock.sleep_until(services.clock.now_ms() + RETRY_MS) => {}
        }
    }

    async fn measure(&self, due: &Due) -> Result<EvaluationReport, RunError> {
        let Due { services, spec, version, .. } = due;
        let evaluator = services.evaluator.clone().ok_or(RunError::Missing("there is no evaluator"))?;
        let mut tx = services.db.read().await?;
        let stored = tx.model(spec.id, *version).await?.ok_or(RunError::Missing("the version is gone"))?;
        let test_set = tx.test_set(spec.id).await?.ok_or(RunError::Missing("there is no test set"))?;
        drop(tx);
        note_begin(services, due.round).await?;
        let model = whole_model(services, spec, *version, stored.sha256).await?;
        let examples = read_test_set(services, spec, &test_set).await?;
        let (spec, stopping) = (Arc::clone(spec), services.stopping.clone());
        let computed = in_background("evaluation", move || {
            compute(&*evaluator, &spec, &model, examples, &|| stopping.is_cancelled())
        });
        Ok(computed.await.unwrap_or_else(|| Err(EvaluatorError::Failed("the evaluator panicked".to_owned())))?)
    }
}

/// Stores that an evaluation begins, before it takes any memory.
async fn note_begin(services: &Services, round: RoundKey) -> Result<(), RunError> {
    let mut tx = services.db.begin().await?;
    let begun = tx.begin_evaluation(round).await?;
    tx.commit().await?;
    if begun > BEGUN_MAX { Err(RunError::EndsTheProcess) } else { Ok(()) }
}

async fn note_end(services: &Services, round: RoundKey) -> Result<(), DbError> {
    let mut tx = services.db.begin().await?;
    tx.end_evaluation(round).await?;
    tx.commit().await
}

/// A result that can be stored: what is checked of a client's report is checked of this one.
fn compute(
    evaluator: &dyn Evaluator,
    spec: &JobSpec,
    model: &Model,
    examples: TestExamples,
    should_stop: &dyn Fn() -> bool,
) -> Result<EvaluationReport, EvaluatorError> {
    let file = &spec.file;
    let task =
        EvaluatorTask { model, spec: &file.model.spec, inputs: file.model.inputs.as_ref(), loss: file.training.loss };
    let report = evaluator.evaluate(&task, examples, should_stop)?;
    if report.examples == 0 || !report.loss.is_finite() {
        return Err(EvaluatorError::Failed("the loss is not finite".to_owned()));
    }
    if let Some(classes) = &report.classes {
        let checked = classes.check(report.examples, None, report.accuracy);
        checked.map_err(|error| EvaluatorError::Failed(error.to_string()))?;
    }
    Ok(report)
}

async fn read_test_set(services: &Services, spec: &JobSpec, row: &TestSetRow) -> Result<TestExamples, RunError> {
    let mut test_set = TestSetReader::keeping(&spec.file.model, spec.file.training.loss)?;
    let mut reader = services.blobs.reader(&services.db, row.body.clone(), row.sha256).await?;
    while let Some(data) = reader.next().await? {
        test_set.push(&data)?;
        tokio::task::yield_now().await;
    }
    Ok(test_set.finish()?.1)
}
