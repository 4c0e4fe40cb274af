//! Making the next model version: base model plus the step of the aggregation rule, one transaction.
//!
//! Of base model and new model one chunk each is in memory; the sum is 8 bytes per parameter.

use std::sync::Arc;

use tributary_engine::aggregate::{AggregateError, Rule, advance, rounded, step};
use tributary_engine::job::JobSpec;
use tributary_protocol::hash::{Sha256Hash, Sha256Hasher};
use tributary_protocol::operator::ModelVersion;
use tributary_protocol::safetensors::{ModelDecoder, ModelFileError, model_file_beginning, model_metadata};
use tributary_protocol::state::AbandonReason;
use tributary_protocol::update::{FormError, ModelDeltaSurvey, ModelDeltaWriter, model_delta_header};

use super::file::{MadeFile, make_form};
use super::statistics::update_statistics;
use super::version::{NewVersion, Role, VersionError, spool};
use crate::blob::{BlobError, Spool, Workbench, model_key};
use crate::db::{DbError, MadeFor, RoundRow};
use crate::fleet::downloads::Downloads;
use crate::lifecycle::rounds;
use crate::runtime::offload::Offload;
use crate::services::Services;
use crate::updates::rebuild::fold_missing;
use crate::updates::stored::StoredError;
use crate::updates::sums::{SharedSum, Sums};

/// Values of a delta that are computed at a time. Their means are 64 KiB, which stay in the processor's cache.
const STEP_VALUES: usize = 1 << 13;

/// Errors of making a model. Updates were checked when they were accepted, so all but an unavailable database are
/// faults.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    #[error(transparent)]
    Stored(#[from] StoredError),
    #[error(transparent)]
    Blob(#[from] BlobError),
    #[error("the stored model cannot be read: {0}")]
    Model(#[from] ModelFileError),
    /// The stored base model does not have its parameters in the job's order.
    #[error("parameter {0} is out of order in the stored model")]
    Order(usize),
    #[error(transparent)]
    Form(#[from] FormError),
    #[error(transparent)]
    Aggregate(#[from] AggregateError),
}

impl CommitError {
    /// Whether the next attempt would fail in the same way, because stored data cannot be read.
    pub(crate) fn is_lasting(&self) -> bool {
        match self {
            Self::Stored(StoredError::Db(error)) => is_corrupt(error),
            Self::Stored(StoredError::Blob(error)) | Self::Blob(error) => is_damaged(error),
            Self::Stored(StoredError::Update { .. } | StoredError::Fold { .. })
            | Self::Model(_)
            | Self::Order(_)
            | Self::Form(_)
            | Self::Aggregate(_) => true,
        }
    }
}

fn is_corrupt(error: &DbError) -> bool {
    matches!(error, DbError::Corrupt(_))
}

fn is_damaged(error: &BlobError) -> bool {
    match error {
        BlobError::Missing(_) | BlobError::Damaged(_) => true,
        BlobError::Db(error) => is_corrupt(error),
        _ => false,
    }
}

impl From<DbError> for CommitError {
    fn from(error: DbError) -> Self {
        Self::Blob(error.into())
    }
}

impl From<VersionError> for CommitError {
    fn from(error: VersionError) -> Self {
        match error {
            VersionError::Blob(error) => error.into(),
            VersionError::Form(error) => error.into(),
        }
    }
}

/// Makes the next version of a round that is aggregating, and commits the round with it. Abandons the round when the
/// model would not be finite.
pub(crate) async fn commit_training(
    services: &Services,
    sums: &Sums,
    downloads: &Downloads,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
) -> Result<(), CommitError> {
    let bench = services.workbench();
    let committed = make_and_store(services, &bench, sums, spec, round).await;
    // Another driver may have been faster (its model is the same bytes), or the database does not answer.
    bench.clear().await;
    match committed {
        Err(CommitError::Aggregate(AggregateError::NotFinite { .. })) => {
            rounds::abandon(services, downloads, round.key(), AbandonReason::NotFinite).await?;
        }
        committed => committed?,
    }
    sums.forget(round.key());
    Ok(())
}

async fn make_and_store(
    services: &Services,
    bench: &Workbench,
    sums: &Sums,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
) -> Result<(), CommitError> {
    let sum = complete_sum(services, sums, spec, round).await?;
    let statistics = update_statistics(services, spec, round, &sum).await?;
    let mut version = make_version(services, bench, spec, round, sum).await?;
    rounds::commit(services, round.key(), &mut version, &statistics).await?;
    Ok(())
}

/// The round's sum, with every update that counts and no other.
async fn complete_sum(
    services: &Services,
    sums: &Sums,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
) -> Result<SharedSum, CommitError> {
    loop {
        let sum = sums.of(round.key(), spec);
        // The round has closed: updates still in flight will be refused.
        sum.close().await;
        if !sum.is_invalid() {
            fold_missing(services, spec, round, &sum).await?;
        }
        if !sum.is_invalid() {
            return Ok(sum);
        }
    }
}

/// Makes the new version from the base model and the sum, with the file that its clients download.
async fn make_version(
    services: &Services,
    bench: &Workbench,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
    sum: SharedSum,
) -> Result<NewVersion, CommitError> {
    let (job, version, clock) = (round.job, round.base_version + 1, &services.clock);
    let mut model = spool(bench, clock, model_key(job, version));
    let mut delta = spec.plan.download.delta.then(|| MadeFile::begin(bench, clock, job, version, MadeFor::Delta));
    let sha256 = write_model(services, spec, round, sum, &mut model, delta.as_mut()).await?;
    let row = ModelVersion {
        version,
        round: Some(round.number),
        sha256,
        bytes: model.bytes(),
        created_at_ms: clock.now_ms(),
        deleted_at_ms: None,
        accuracy: None,
        loss: None,
        best: false,
        pinned_at_ms: None,
    };
    let made = match delta {
        Some(delta) => Some(delta.finish(row.created_at_ms).await?),
        None => make_form(bench, clock, spec, version, &model).await?,
    };
    let mut bodies = vec![(Role::Model, model.finish(row.created_at_ms).await?)];
    bodies.extend(made);
    Ok(NewVersion { row, bodies })
}

/// Writes the new model chunk by chunk while the base model is read; returns its hash. Where clients download a delta,
/// the model moves by the rounded values of the delta's file.
async fn write_model(
    services: &Services,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
    sum: SharedSum,
    model: &mut Spool,
    mut delta: Option<&mut MadeFile>,
) -> Result<Sha256Hash, CommitError> {
    let (job, version) = (round.job, round.base_version);
    let base = services.db.read().await?.model(job, version).await?;
    let base = base.ok_or_else(|| DbError::Corrupt(format!("version {version} of {job} is missing")))?;
    let mut reader = services.blobs.reader(&services.db, model_key(job, version), base.sha256).await?;
    let mut maker = Offload::new(Maker::new(Arc::clone(spec), sum));
    if let Some(delta) = &mut delta {
        delta.push(maker.run(move |maker| maker.begin_delta(version)).await?).await?;
    }
    while let Some(data) = reader.next().await? {
        let made = maker.run(move |maker| maker.push(&data)).await?;
        model.push(&made.model).await?;
        if let Some(delta) = &mut delta {
            delta.push(made.delta).await?;
        }
    }
    maker.into_inner().finish()
}

/// Turns the base model's file into the new model's, piece by piece.
struct Maker {
    spec: Arc<JobSpec>,
    sum: SharedSum,
    rule: Box<dyn Rule>,
    /// Rounds the model delta, where clients download it.
    delta: Option<ModelDeltaWriter>,
    decoder: ModelDecoder,
    hasher: Sha256Hasher,
    /// The file's header, until it is written.
    beginning: Vec<u8>,
    /// Values written.
    values: usize,
}

/// The next bytes of both files.
#[derive(Default)]
struct Pieces {
    model: Vec<u8>,
    delta: Vec<u8>,
}

impl Maker {
    fn new(spec: Arc<JobSpec>, sum: SharedSum) -> Self {
        Self {
            rule: spec.rule(),
            decoder: ModelDecoder::new(Arc::clone(&spec.model)),
            beginning: model_file_beginning(&spec.model, &model_metadata()),
            spec,
            sum,
            delta: None,
            hasher: Sha256Hasher::new(),
            values: 0,
        }
    }

    /// Rounds the step from now on. Returns the beginning of the delta's file. Reads the whole sum, because a delta's
    /// scales precede its values.
    fn begin_delta(&mut self, base_version: u32) -> Result<Vec<u8>, CommitError> {
        let mut survey = ModelDeltaSurvey::new(Arc::clone(&self.spec.model));
        let total = self.spec.model.total();
        for first in (0..total).step_by(STEP_VALUES) {
            let block = first..total.min(first + STEP_VALUES);
            survey.look(&rounded(step(&*self.rule, &self.sum, block)?, first)?);
        }
        let (writer, beginning) = survey.finish(&model_delta_header(&self.spec.id.to_string(), base_version));
        self.delta = Some(writer);
        Ok(beginning)
    }

    /// Takes the next bytes of the base model and returns the next ones of the new model.
    fn push(&mut self, data: &[u8]) -> Result<Pieces, CommitError> {
        let Self { sum, rule, delta, decoder, hasher, beginning, values: written, .. } = self;
        let (mut made, mut failed) = (Pieces { model: std::mem::take(beginning), ..Pieces::default() }, None);
        // In one step: growing in several would leave as much again to the allocator.
        made.model.reserve_exact(data.len());
        let mut make = |first: usize, values: &[f32]| {
            if failed.is_some() {
                return;
            }
            // Stored models have their parameters in order, and the new file is written in the order of reading.
            if first != *written {
                failed = Some(CommitError::Order(first));
                return;
            }
            match next_values(&**rule, sum, delta.as_mut(), first, values, &mut made.delta) {
                Ok(next) => made.model.extend(next.iter().flat_map(|value| value.to_le_bytes())),
                Err(error) => failed = Some(error.into()),
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

/// The new model's values from `first` on. Where the step is rounded, `file` receives the delta's bytes.
fn next_values(
    rule: &dyn Rule,
    sum: &SharedSum,
    delta: Option<&mut ModelDeltaWriter>,
    first: usize,
    values: &[f32],
    file: &mut Vec<u8>,
) -> Result<Vec<f32>, AggregateError> {
    let step = step(rule, sum, first..first + values.len())?;
    let Some(writer) = delta else { return advance(values, &step, first) };
    let mut step = rounded(step, first)?;
    writer.write(&mut step, file);
    advance(values, &step, first)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tributary_engine::aggregate::Weight;
    use tributary_protocol::id::{AssignmentId, JobId};
    use tributary_protocol::job_file::Aggregation;
    use tributary_protocol::model::Model;
    use tributary_protocol::safetensors::model_to_bytes;
    use tributary_protocol::state::Task;
    use tributary_protocol::update::DeltaSink;

    use super::*;
    use crate::db::RoundKey;

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
        let mut flight = sum.begin(AssignmentId::from_random([1; 16]), Weight::examples(5)).unwrap().unwrap();
        flight.dense(0, &[1.0, 0.0, 8.0]);
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
        let model = Model::new(Arc::clone(&maker(1.0).spec.model), values.to_vec()).unwrap();
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
