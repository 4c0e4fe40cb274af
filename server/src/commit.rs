//! Making the next model version: the round's sum, the aggregation rule, one transaction.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, JobId};
use tributary_protocol::job_file::Aggregation;
use tributary_protocol::model::Model;
use tributary_protocol::operator::ModelVersion;
use tributary_protocol::safetensors::{ModelFileError, model_from_bytes_expecting, model_to_bytes};
use tributary_protocol::state::{AbandonReason, Phase};
use tributary_protocol::update::UpdateError;

use crate::aggregate::{AggregateError, FoldError, fedavg};
use crate::app::App;
use crate::blob::{BlobError, model_key};
use crate::db::{DbError, Happening, RoundRow};
use crate::driver::{DriverError, abandon};
use crate::entropy;
use crate::rebuild::fold_missing;
use crate::spec::JobSpec;
use crate::sums::{RoundSum, SharedSum};

/// Why no model could be made of what is stored. These are faults, not refusals: every update was checked when it was
/// accepted.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The stored base model cannot be read.
    #[error("the stored model cannot be read: {0}")]
    Model(#[from] ModelFileError),
    /// A stored update cannot be read.
    #[error("the stored update of {assignment} cannot be read: {source}")]
    Update {
        /// Whose.
        assignment: AssignmentId,
        /// Why.
        source: UpdateError,
    },
    /// A stored update cannot be added.
    #[error("the stored update of {assignment} cannot be added: {source}")]
    Fold {
        /// Whose.
        assignment: AssignmentId,
        /// Why.
        source: FoldError,
    },
    /// The sum gives no model.
    #[error(transparent)]
    Aggregate(AggregateError),
}

/// Stores the next model version and the end of its round, together.
pub(crate) async fn commit_training(app: &App, spec: &Arc<JobSpec>, round: &RoundRow) -> Result<(), DriverError> {
    let key = round.key();
    let sum = app.sums.of(key, spec);
    fold_missing(&app.db, &app.blobs, spec, round, &sum).await?;
    let base = read_model(app, key.job, round.base_version).await?;
    let made = make_model(Arc::clone(spec), base, sum).await;
    let body = match made {
        Err(CommitError::Aggregate(AggregateError::NotFinite { .. })) => {
            return abandon(app, key, AbandonReason::NotFinite).await;
        }
        made => made?,
    };

    let now_ms = app.clock.now_ms();
    let version = round.base_version + 1;
    let model = ModelVersion {
        version,
        round: Some(key.number),
        sha256: Sha256Hash::of(&body),
        bytes: body.len() as u64,
        created_at_ms: now_ms,
        deleted_at_ms: None,
    };
    let attempt = entropy::random();
    let mut body = app.blobs.stage(model_key(key.job, version), body.into(), attempt, now_ms).await?;
    let mut tx = app.db.begin().await?;
    tx.job_locked(key.job).await?;
    if !tx.commit_round(key, now_ms).await? {
        drop(tx);
        // Another driver was faster; its model is the same bytes.
        app.sums.forget(key);
        app.blobs.discard_unsettled(body).await;
        return Ok(());
    }
    tx.insert_model(key.job, &model).await?;
    body.settle(&mut tx, app.clock.now_ms()).await?;
    let objects = tx.delete_updates(key).await?;
    tx.record(Happening::of_round(key, Phase::Committed.as_str()), now_ms).await?;
    tx.commit().await?;
    app.sums.forget(key);
    app.blobs.delete(objects).await;
    Ok(())
}

async fn read_model(app: &App, job: JobId, version: u32) -> Result<Vec<u8>, BlobError> {
    let model = app.db.read().await?.model(job, version).await?;
    let model = model.ok_or_else(|| DbError::Corrupt(format!("version {version} of {job} is missing")))?;
    app.blobs.read(&app.db, model_key(job, version), model.sha256).await
}

async fn make_model(spec: Arc<JobSpec>, base: Vec<u8>, sum: SharedSum) -> Result<Vec<u8>, CommitError> {
    blocking(move || {
        let base = model_from_bytes_expecting(&base, &spec.parameters)?;
        let Aggregation::FedAvg { server_learning_rate } = spec.file.aggregation;
        let values = with(&sum, |sum| fedavg(base.values(), sum.accumulator(), server_learning_rate));
        let model = Model::new(Arc::clone(&spec.parameters), values.map_err(CommitError::Aggregate)?);
        // The rule gave finite values of the right count, so this cannot fail; were it to, it would be said.
        let model = model.map_err(|error| CommitError::Model(ModelFileError::from(error)))?;
        Ok(model_file(&model))
    })
    .await
}

/// A model as the file that clients fetch and operators export. Its bytes depend on the values alone, so equal models
/// have equal hashes.
pub(crate) fn model_file(model: &Model) -> Vec<u8> {
    // What PyTorch's own exporters write; loaders of other tools look for it.
    let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
    model_to_bytes(model, &metadata)
}

fn with<T>(sum: &SharedSum, act: impl FnOnce(&mut RoundSum) -> T) -> T {
    act(&mut sum.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Runs what computes on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
    }
}
