//! Making the next model version: the round's sum, the aggregation rule, one transaction. No model is ever whole in memory.

use std::sync::Arc;

use tributary_protocol::hash::{Sha256Hash, Sha256Hasher};
use tributary_protocol::id::AssignmentId;
use tributary_protocol::job_file::Aggregation;
use tributary_protocol::operator::ModelVersion;
use tributary_protocol::safetensors::{ModelDecoder, ModelFileError, model_file_beginning, model_metadata};
use tributary_protocol::state::{AbandonReason, Phase};
use tributary_protocol::update::{FormError, ModelDeltaSurvey, ModelDeltaWriter, UpdateError, model_delta_header};

use crate::aggregate::{AggregateError, FoldError, add_step, fedavg, fedavg_step};
use crate::app::App;
use crate::blob::{Spool, model_key};
use crate::db::{DbError, Happening, MadeFor, RoundMeasures, RoundRow};
use crate::driver::{DriverError, abandon};
use crate::measured::measure;
use crate::rebuild::fold_missing;
use crate::spec::JobSpec;
use crate::sums::SharedSum;
use crate::version::{MadeFile, NewVersion, VersionError, spool};

/// Values of a step that are looked at at once; their means are 64 KiB, which stay in the processor's cache.
const STEP_VALUES: usize = 1 << 13;

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
    /// The stored base model has its parameters in another order than its job.
    #[error("parameter {0} comes too early or too late in the stored model")]
    Order(usize),
    /// The new model cannot be written in its clients' form.
    #[error(transparent)]
    Form(#[from] FormError),
    /// The sum gives no model.
    #[error(transparent)]
    Aggregate(AggregateError),
}

/// Stores the next model version and the end of its round, together.
///
/// Of base model and new model one part each is in memory; the sum is 8 bytes per parameter.
pub(crate) async fn commit_training(app: &App, spec: &Arc<JobSpec>, round: &RoundRow) -> Result<(), DriverError> {
    let key = round.key();
    let sum = complete_sum(app, spec, round).await?;
    let measures = measure(app, spec, round, &sum).await?;
    let mut version = match make_version(app, spec, round, sum).await {
        Err(DriverError::Commit(CommitError::Aggregate(AggregateError::NotFinite { .. }))) => {
            return abandon(app, key, AbandonReason::NotFinite).await;
        }
        made => made?,
    };
    let stored = store_version(app, round, &mut version, &measures).await;
    // Another driver was faster (its model is the same bytes), or the database is away.
    version.discard_unsettled(app).await;
    let Some(objects) = stored? else {
        app.sums.forget(key);
        return Ok(());
    };
    app.sums.forget(key);
    app.blobs.delete(objects).await;
    app.blobs.clear_some(&app.db).await;
    Ok(())
}

/// The round's sum, with every update that counts and no other.
async fn complete_sum(app: &App, spec: &Arc<JobSpec>, round: &RoundRow) -> Result<SharedSum, DriverError> {
    loop {
        let sum = app.sums.of(round.key(), spec);
        // The round has closed: what is still on its way will be refused.
        sum.close().await;
        if !sum.is_spoilt() {
            fold_missing(&app.db, &app.blobs, spec, round, &sum).await?;
        }
        if !sum.is_spoilt() {
            return Ok(sum);
        }
    }
}

/// The transaction that ends the round with its model; returns objects that are to be deleted. None when another driver
/// was faster.
async fn store_version(
    app: &App,
    round: &RoundRow,
    version: &mut NewVersion,
    measures: &RoundMeasures,
) -> Result<Option<Vec<String>>, DriverError> {
    let (key, now_ms) = (round.key(), version.model.created_at_ms);
    let mut tx = app.db.begin().await?;
    tx.lock_job(key.job).await?;
    if !tx.commit_round(key, now_ms).await? {
        return Ok(None);
    }
    version.store(&mut tx, key.job, app.clock.now_ms()).await?;
    tx.store_measures(key, measures).await?;
    let objects = tx.delete_updates(key).await?;
    tx.record(Happening::of_round(key, Phase::Committed.as_str()), now_ms).await?;
    tx.commit().await?;
    Ok(Some(objects))
}

/// Makes the new version of the base model and the sum, with the file that its clients fetch.
async fn make_version(
    app: &App,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
    sum: SharedSum,
) -> Result<NewVersion, DriverError> {
    let version = round.base_version + 1;
    let mut model = spool(app, model_key(round.job, version));
    let mut step = spec.plan.download.delta.then(|| MadeFile::begin(app, round.job, version, MadeFor::Step));
    let sha256 = match write_model(app, spec, round, sum, &mut model, step.as_mut()).await {
        Ok(sha256) => sha256,
        Err(error) => {
            model.discard().await;
            if let Some(step) = step {
                step.discard().await;
            }
            return Err(error);
        }
    };
    let row = ModelVersion {
        version,
        round: Some(round.number),
        sha256,
        bytes: model.bytes(),
        created_at_ms: app.clock.now_ms(),
        deleted_at_ms: None,
    };
    let Some(step) = step else { return Ok(NewVersion::of(app, spec, row, model).await?) };
    match step.finish(row.created_at_ms).await {
        Ok(made) => Ok(NewVersion::with(app, row, model, Some(made)).await?),
        Err(error) => {
            model.discard().await;
            Err(error.into())
        }
    }
}

impl From<VersionError> for DriverError {
    fn from(error: VersionError) -> Self {
        match error {
            VersionError::Blob(error) => error.into(),
            VersionError::Form(error) => CommitError::from(error).into(),
        }
    }
}

/// Writes the new model, part by part as the base model is read; returns its hash. Where a step is wanted, the model
/// moves by what the step's file says.
async fn write_model(
    app: &App,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
    sum: SharedSum,
    model: &mut Spool,
    mut step: Option<&mut MadeFile>,
) -> Result<Sha256Hash, DriverError> {
    let (job, version) = (round.job, round.base_version);
    let base = app.db.read().await?.model(job, version).await?;
    let base = base.ok_or_else(|| DbError::Corrupt(format!("version {version} of {job} is missing")))?;
    let mut reader = app.blobs.reader(&app.db, model_key(job, version), base.sha256).await?;
    let mut maker = Maker::new(Arc::clone(spec), sum);
    if let Some(step) = &mut step {
        let (next, beginning) = blocking(move || maker.with_step(version)).await?;
        step.push(beginning).await?;
        maker = next;
    }
    while let Some(data) = reader.next().await? {
        let (next, made) = blocking(move || {
            let made = maker.push(&data);
            (maker, made)
        })
        .await;
        maker = next;
        let made = made?;
        model.push(&made.model).await?;
        if let Some(step) = &mut step {
            step.push(made.step).await?;
        }
    }
    Ok(maker.finish()?)
}

/// Turns the base model's file into the new model's, piece by piece.
struct Maker {
    spec: Arc<JobSpec>,
    sum: SharedSum,
    /// Rounds the step, where that is wanted.
    step: Option<ModelDeltaWriter>,
    decoder: ModelDecoder,
    hasher: Sha256Hasher,
    /// What the file begins with, until it is written.
    beginning: Vec<u8>,
    /// Values written.
    values: usize,
}

/// The next bytes of what is made.
#[derive(Default)]
struct Pieces {
    model: Vec<u8>,
    step: Vec<u8>,
}

impl Maker {
    fn new(spec: Arc<JobSpec>, sum: SharedSum) -> Self {
        Self {
            decoder: ModelDecoder::new(Arc::clone(&spec.parameters)),
            beginning: model_file_beginning(&spec.parameters, &model_metadata()),
            spec,
            sum,
            step: None,
            hasher: Sha256Hasher::new(),
            values: 0,
        }
    }

    /// The same, rounding the step; also returns what the step's file begins with. Goes over the sum once: a step's
    /// scales stand before its numbers.
    fn with_step(self, base_version: u32) -> Result<(Self, Vec<u8>), CommitError> {
        let Aggregation::FedAvg { server_learning_rate } = self.spec.file.aggregation;
        let mut survey = ModelDeltaSurvey::new(Arc::clone(&self.spec.parameters));
        let total = self.spec.parameters.total();
        for first in (0..total).step_by(STEP_VALUES) {
            let part = first..total.min(first + STEP_VALUES);
            let step = fedavg_step(part, self.sum.accumulator(), server_learning_rate);
            survey.look(&step.map_err(CommitError::Aggregate)?);
        }
        let (writer, beginning) = survey.finish(&model_delta_header(&self.spec.id.to_string(), base_version));
        Ok((Self { step: Some(writer), ..self }, beginning))
    }

    /// Takes the next bytes of the base model and returns the next ones of the new model.
    fn push(&mut self, data: &[u8]) -> Result<Pieces, CommitError> {
        let Self { spec, sum, step, decoder, hasher, beginning, values: written } = self;
        let (mut made, mut failed) = (Pieces { model: std::mem::take(beginning), ..Pieces::default() }, None);
        // At once: growing by and by would leave as much again to the allocator.
        made.model.reserve_exact(data.len());
        let mut make = |first: usize, values: &[f32]| {
            if failed.is_some() {
                return;
            }
            // Stored models have their parameters in order: the file is made in the order in which it is read.
            if first != *written {
                failed = Some(CommitError::Order(first));
                return;
            }
            match next_values(spec, sum, step.as_mut(), first, values, &mut made.step) {
                Ok(next) => made.model.extend(next.iter().flat_map(|value| value.to_le_bytes())),
                Err(error) => failed = Some(CommitError::Aggregate(error)),
            }
            *written += values.len();
        };
        decoder.push(data, &mut make)?;
        if let Some(error) = failed {
            return Err(error);
        }
        hasher.update(&made.model);
        Ok(made)
    }

    fn finish(self) -> Result<Sha256Hash, CommitError> {
        self.decoder.finish()?;
        Ok(self.hasher.finish())
    }
}

/// The new model's values from `first` on. Where the step is rounded, its file goes on in `file`.
fn next_values(
    spec: &JobSpec,
    sum: &SharedSum,
    step: Option<&mut ModelDeltaWriter>,
    first: usize,
    values: &[f32],
    file: &mut Vec<u8>,
) -> Result<Vec<f32>, AggregateError> {
    let Aggregation::FedAvg { server_learning_rate } = spec.file.aggregation;
    let sum = sum.accumulator();
    let Some(writer) = step else { return fedavg(values, first, sum, server_learning_rate) };
    let mut step = fedavg_step(first..first + values.len(), sum, server_learning_rate)?;
    writer.write(&mut step, file);
    add_step(values, first, &step)
}

/// Runs what computes on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tributary_protocol::id::{AssignmentId, JobId};
    use tributary_protocol::model::Model;
    use tributary_protocol::safetensors::model_to_bytes;
    use tributary_protocol::state::Task;

    use super::*;
    use crate::db::RoundKey;
    use crate::sums::Sums;

    /// A job of three parameters with this server learning rate, which no job file may have, and a sum of one update.
    fn maker(rate: f64) -> Maker {
        let file = json!({
            "name": "n", "population": "p", "seed": 1,
            "model": { "parameters": [{ "name": "w", "shape": [3] }] },
            "training": { "epochs": 1, "optimizer": { "kind": "sgd", "learning_rate": 0.1 } },
            "update": { "weight_max": 10, "magnitude_max": 8.0 },
            "round": { "updates_goal": 1, "updates_min": 1 },
        });
        let id = JobId::from_random([1; 16]);
        let mut spec = JobSpec::new(id, serde_json::from_value(file).unwrap()).unwrap();
        spec.file.aggregation = Aggregation::FedAvg { server_learning_rate: rate };
        let sum = Sums::default().of(RoundKey { job: id, task: Task::Train, number: 1 }, &spec);
        let mut flight = sum.begin(AssignmentId::from_random([1; 16]), 5).unwrap().unwrap();
        flight.add(0, &[1.0, 0.0, 8.0]);
        flight.land();
        Maker::new(Arc::new(spec), sum)
    }

    fn made(rate: f64, base: &[u8], piece_bytes: usize) -> Result<(Vec<u8>, Sha256Hash), CommitError> {
        let (mut maker, mut file) = (maker(rate), Vec::new());
        for piece in base.chunks(piece_bytes) {
            file.extend(maker.push(piece)?.model);
        }
        Ok((file, maker.finish()?))
    }

    fn file(values: [f32; 3]) -> Vec<u8> {
        let model = Model::new(Arc::clone(&maker(1.0).spec.parameters), values.to_vec()).unwrap();
        model_to_bytes(&model, &model_metadata())
    }

    #[test]
    fn a_model_made_piece_by_piece_is_the_model_file() {
        let next = file([2.0, 2.0, 11.0]);
        for piece_bytes in [1, 7, 1_000] {
            let (made, sha256) = made(1.0, &file([1.0, 2.0, 3.0]), piece_bytes).unwrap();
            assert_eq!(made, next);
            assert_eq!(sha256, Sha256Hash::of(&next));
        }
    }

    #[test]
    fn a_model_that_would_not_be_finite_or_whole_is_not_made() {
        let base = file([1.0, 2.0, 3.0]);
        let error = made(1e38, &base, 7).unwrap_err();
        assert!(matches!(error, CommitError::Aggregate(AggregateError::NotFinite { index: 2 })), "{error}");
        assert!(matches!(made(1.0, &base[..base.len() - 1], 7), Err(CommitError::Model(_))));
    }
}
