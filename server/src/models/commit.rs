//! Making the next model version: base model plus the step of the job's optimiser, one transaction. Frozen and personal
//! parameters are copied.
//!
//! Of base model, new model and each of their companions one chunk is in memory; the combined updates are 8 bytes per
//! parameter.

use std::sync::Arc;

use tributary_engine::aggregate::{AggregateError, MadeNorms, Maker};
use tributary_engine::job::JobSpec;
use tributary_protocol::hash::{Sha256Hash, Sha256Hasher};
use tributary_protocol::model::Companion;
use tributary_protocol::safetensors::{ModelDecoder, model_file_beginning, model_metadata};
use tributary_protocol::state::AbandonReason;
use tributary_protocol::update::model_delta_header;

use super::companion::{Companions, Followed, Former, NewCompanion, PIECE_BYTES};
use super::error::CommitError;
use super::file::{MadeFile, make_form};
use super::gather::combined;
use super::growing::Growing;
use super::plan::planned;
use super::private::{Private, PrivateRound, keeps_buffers, noise_key};
use super::statistics::{step_statistics, update_statistics};
use super::version::{NewVersion, Role, made_by, spool};
use super::write::Writer;
use crate::blob::{Spool, Workbench, model_key};
use crate::db::{DbError, MadeFor, RoundRow};
use crate::lifecycle::rounds;
use crate::runtime::offload::Offload;
use crate::services::Services;
use crate::updates::stored::accepted;
use crate::updates::sums::Sums;

/// Values of each companion that are held while the step is looked at: 256 KiB.
const SURVEY_VALUES: usize = 1 << 16;

/// Makes the next version of a round that is aggregating, and commits the round with it. Abandons the round when the
/// model would not be finite.
pub(crate) async fn commit_training(
    services: &Services,
    sums: &Sums,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
) -> Result<(), CommitError> {
    let bench = services.workbench();
    let committed = make_and_store(services, &bench, sums, spec, round).await;
    // Another driver may have been faster (its model is the same bytes), or the database does not answer.
    bench.clear().await;
    match committed {
        Err(CommitError::Aggregate(AggregateError::NotFinite { .. })) => {
            rounds::abandon(services, round.key(), AbandonReason::NotFinite).await?;
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
    // Updates still in flight will be refused, whether or not there is a running sum.
    sums.get_or_open(round.key(), spec).close().await;
    let updates = accepted(&services.db, spec, round).await?;
    let begin = || Growing::begin(spool(bench, &services.clock, noise_key(round)));
    let mut buffers = keeps_buffers(spec).then(begin);
    let (combined, private) = match PrivateRound::of(services, spec, round)? {
        Some(private) => {
            let Private { combined, clip_share } = private.whole(&updates, buffers.as_mut()).await?;
            (combined, Some(clip_share))
        }
        None => (combined(services, sums, spec, round).await?, None),
    };
    let facts: Vec<_> = updates.iter().map(|update| update.facts.clone()).collect();
    let count = facts.iter().map(|facts| facts.figures.contribution.updates).sum();
    let optimizer = planned(services, spec, round, &combined, (facts, count)).await?;
    let maker = Maker::new(
        Arc::clone(&combined),
        optimizer,
        spec.control_step(count),
        spec.gathering(round.base_version).centre().is_some(),
    );
    let (mut version, norms) = make_version(services, bench, spec, round, maker).await?;
    let statistics = match private {
        // Figures of single updates would be a second release.
        Some(clip_share) => {
            if let Some(buffers) = buffers {
                let grown = buffers.finish(services.clock.now_ms()).await?;
                version.bodies.push(grown.companion(version.row.version, Companion::Noise));
            }
            version.clip_share = clip_share;
            step_statistics(norms)
        }
        None if spec.file.hides_updates() => {
            version.clip_share = services.db.look().await?.clip_share_of_groups(round.key()).await?;
            step_statistics(norms)
        }
        None => update_statistics(services, sums, spec, round, updates, &combined, norms).await?,
    };
    rounds::commit(services, round.key(), &mut version, &statistics).await?;
    Ok(())
}

/// Makes the new version from the base model and the combined updates, with its companions and with the file that its
/// clients download. Returns the norms of that pass as well.
async fn make_version(
    services: &Services,
    bench: &Workbench,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
    maker: Maker,
) -> Result<(NewVersion, MadeNorms), CommitError> {
    let (job, version, clock) = (round.job, round.base_version + 1, &services.clock);
    let mut files = Files {
        model: spool(bench, clock, model_key(job, version)),
        delta: spec.plan.download.delta.then(|| MadeFile::begin(bench, clock, job, version, MadeFor::Delta)),
        companions: Vec::new(),
    };
    for companion in spec.companions() {
        let optimizer = maker.optimizer();
        files.companions.push(NewCompanion::begin(bench, clock, spec, version, companion, optimizer).await?);
    }
    let Written { sha256, norms } = write_files(services, spec, round, maker, &mut files).await?;
    let Files { mut model, delta, companions } = files;
    let row = made_by(round, sha256, model.bytes(), clock.now_ms());
    let made = match delta {
        Some(delta) => Some(delta.finish(row.created_at_ms).await?),
        None => make_form(bench, clock, spec, version, &mut model).await?,
    };
    let mut bodies = vec![(Role::Model, model.finish(row.created_at_ms).await?)];
    bodies.extend(made);
    for companion in companions {
        bodies.push(companion.finish(row.created_at_ms).await?);
    }
    Ok((NewVersion { row, bodies, clip_share: None }, norms))
}

/// The files of a new version while they are written.
struct Files {
    model: Spool,
    delta: Option<MadeFile>,
    companions: Vec<NewCompanion>,
}

/// What is known once the files are written.
struct Written {
    sha256: Sha256Hash,
    norms: MadeNorms,
}

/// Writes the new model and its companions piece by piece while those of the base version are read. Where clients
/// download a delta, the model moves by the rounded values of the delta's file.
async fn write_files(
    services: &Services,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
    maker: Maker,
    files: &mut Files,
) -> Result<Written, CommitError> {
    let (job, version) = (round.job, round.base_version);
    let base = services.db.read().await?.model(job, version).await?;
    let base = base.ok_or_else(|| DbError::Corrupt(format!("version {version} of {job} is missing")))?;
    let followed = Followed::all(spec, maker.optimizer());
    let maker = if files.delta.is_some() { maker.with_delta(Arc::clone(spec.shared())) } else { maker };
    let mut writer = Offload::new(FromFile::new(spec, maker));
    if let Some(delta) = &mut files.delta {
        let mut companions = Companions::open(services, spec, version, &followed).await?;
        for first in (0..spec.shared().total()).step_by(SURVEY_VALUES) {
            let count = SURVEY_VALUES.min(spec.shared().total() - first);
            let former = companions.take(count).await?;
            writer.run(move |file| file.writer.survey(count, former)).await?;
        }
        let header = model_delta_header(&spec.id.to_string(), version);
        delta.push(writer.run(move |file| file.writer.begin_delta(&header)).await).await?;
    }
    let mut companions = Companions::open(services, spec, version, &followed).await?;
    // Chunk by chunk, as the companions beside it are read: a snapshot would hold a connection while they wait for one.
    let mut reader = services.blobs.chunks(&services.db, model_key(job, version), base.sha256).await?;
    while let Some(mut data) = reader.next().await? {
        while !data.is_empty() {
            let piece = data.split_to(PIECE_BYTES.min(data.len()));
            let made = if followed.is_empty() {
                let make =
                    move |file: &mut FromFile| file.read(&piece).and_then(|_| file.writer.make(Former::default()));
                writer.run(make).await?
            } else {
                let count = writer.run(move |file| file.read(&piece)).await?;
                let former = companions.take(count).await?;
                writer.run(move |file| file.writer.make(former)).await?
            };
            files.model.push(&made.model).await?;
            if let Some(delta) = &mut files.delta {
                delta.push(made.delta).await?;
            }
            for (file, bytes) in files.companions.iter_mut().zip(&made.companions) {
                file.push(bytes).await?;
            }
        }
    }
    writer.into_inner().finish()
}

/// Turns the files of the base version into those of the new version, piece by piece.
struct FromFile {
    decoder: ModelDecoder,
    writer: Writer,
}

impl FromFile {
    fn new(spec: &JobSpec, maker: Maker) -> Self {
        let beginning = model_file_beginning(&spec.model, &model_metadata());
        let decoder = ModelDecoder::new(Arc::clone(&spec.model));
        Self { decoder, writer: Writer::new(spec, maker, Sha256Hasher::new(), beginning, 0) }
    }

    /// Takes the next bytes of the base model. Returns the number of shared values that they complete.
    fn read(&mut self, data: &[u8]) -> Result<usize, CommitError> {
        let Self { decoder, writer } = self;
        let mut is_ordered = Ok(());
        let mut accept = |first: usize, values: &[f32]| {
            let taken = writer.take(first, values);
            is_ordered = std::mem::replace(&mut is_ordered, Ok(())).and(taken);
        };
        decoder.push(data, &mut accept)?;
        is_ordered?;
        Ok(self.writer.completed())
    }

    fn finish(self) -> Result<Written, CommitError> {
        self.decoder.finish()?;
        let (hasher, norms) = self.writer.finish();
        Ok(Written { sha256: hasher.finish(), norms })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tributary_protocol::fixed::{Contribution, Weight};
    use tributary_protocol::id::{AssignmentId, JobId};
    use tributary_protocol::job_file::ServerOptimizer;
    use tributary_protocol::model::Model;
    use tributary_protocol::safetensors::model_to_bytes;
    use tributary_protocol::state::Task;
    use tributary_protocol::update::DeltaSink;

    use super::*;
    use crate::db::RoundKey;

    /// A job of three parameters with this server learning rate, which no job file may have, and a sum of one update.
    fn writer(rate: f64) -> FromFile {
        let file = json!({
            "name": "n", "population": "p", "seed": 1,
            "model": { "parameters": [{ "name": "w", "shape": [3] }] },
            "training": { "epochs": 1, "optimizer": { "kind": "sgd", "learning_rate": 0.1 } },
            "update": { "weight_max": 10, "magnitude_max": 8.0 },
            "round": { "updates_goal": 1, "updates_min": 1 },
        });
        let id = JobId::from_random([1; 16]);
        let mut spec = JobSpec::new(id, serde_json::from_value(file).unwrap()).unwrap();
        spec.file.aggregation.optimizer = ServerOptimizer::plain(rate);
        let sum = Sums::default().get_or_open(RoundKey { job: id, task: Task::Train, number: 1 }, &spec);
        let mut flight = sum
            .begin(AssignmentId::from_random([1; 16]), Contribution::of_one(Weight::examples(5)), 0)
            .unwrap()
            .unwrap();
        flight.dense(0, &[1.0, 0.0, 8.0]);
        flight.land();
        FromFile::new(&spec, Maker::new(sum, spec.optimizer(0, 1), None, false))
    }

    fn made(rate: f64, base: &[u8], piece_bytes: usize) -> Result<(Vec<u8>, Sha256Hash), CommitError> {
        let (mut writer, mut file) = (writer(rate), Vec::new());
        for piece in base.chunks(piece_bytes) {
            writer.read(piece)?;
            file.extend(writer.writer.make(Former::default())?.model);
        }
        Ok((file, writer.finish()?.sha256))
    }

    fn file(values: [f32; 3]) -> Vec<u8> {
        let model = Model::new(Arc::clone(writer(1.0).writer.parts().model()), values.to_vec()).unwrap();
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
