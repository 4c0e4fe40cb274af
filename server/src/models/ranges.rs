//! A version that is made range by range, each by the coordinator that has the sum of its shard.
//!
//! The files of the version go from one coordinator to the next: each takes them over at the length at which the one
//! before kept them, appends its range, and keeps them. The inner state of a file's hash goes with it, so that nobody
//! reads the bytes of another. A coordinator that dies leaves the files as they were handed to it.
//!
//! Of each file one chunk is in memory, and of the combined updates the range.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tributary_engine::aggregate::{Combined, MadeNorms, Maker};
use tributary_engine::job::JobSpec;
use tributary_protocol::hash::Sha256Hasher;
use tributary_protocol::operator::ModelVersion;
use tributary_protocol::safetensors::{model_file_beginning, model_metadata};
use tributary_protocol::sharing::{Part, Parts};
use tributary_protocol::update::Shard;

use super::companion::{Followed, Former, beginning};
use super::error::CommitError;
use super::gather::running_sum;
use super::statistics::norm_statistics;
use super::version::{NewVersion, Role, made_by, spool};
use super::write::{Pieces, Writer};
use crate::blob::{BlobError, Spool, StoredBody, Workbench, model_file_key, model_key};
use crate::db::{DbError, MadeFor, ModelFileRow, RoundRow};
use crate::lifecycle::rounds;
use crate::runtime::offload::Offload;
use crate::services::Services;
use crate::updates::stored::accepted;
use crate::updates::sums::{SharedSum, Sums};

/// Values of the model that are read at a time: 256 KiB.
const PIECE_VALUES: usize = 1 << 16;

/// A version that is not whole, as one coordinator hands it to the next.
#[derive(Serialize, Deserialize)]
struct Making {
    /// Squared norms of the combined updates and of the step, of all ranges so far.
    mean_squares: f64,
    step_squares: f64,
    /// The model, then its companions.
    files: Vec<Kept>,
}

/// A file that is not whole.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// The name under which its chunks are stored.
    id: String,
    bytes: u64,
    /// The inner state of its hash.
    hash: Vec<u8>,
}

/// A file while it is written.
struct Growing {
    spool: Spool,
    hasher: Sha256Hasher,
}

/// The combined updates of a shard, at the places of whole updates.
struct OfShard {
    sum: SharedSum,
    shard: Shard,
    total: usize,
}

impl Combined for OfShard {
    fn parameters_total(&self) -> usize {
        self.total
    }

    fn mean(&self, block: Range<usize>) -> Option<Vec<f64>> {
        let first = self.shard.place(block.start);
        self.sum.mean(first..first + block.len())
    }
}

/// Makes the range of a shard, if it is the next one of the version of a round that is aggregating.
///
/// # Errors
/// As a version that is made in one: a value that would not be finite, or what cannot be read.
pub(crate) async fn make_range(
    services: &Services,
    sums: &Sums,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
    number: u16,
) -> Result<(), CommitError> {
    let Some(of_shard) = spec.of_shard(number) else { return Ok(()) };
    let Some(shard) = of_shard.shard.clone() else { return Ok(()) };
    let making = services.db.look().await?.making(round.key()).await?;
    if making.as_ref().map_or(0, |(done, _)| *done) != number {
        return Ok(());
    }
    let making = making.map(|(_, state)| read(&state)).transpose()?;
    let sum = running_sum(services, sums, &of_shard, round).await?;
    let updates = accepted(&services.db, &of_shard, round).await?;
    let count = updates.iter().map(|update| update.facts.figures.contribution.updates).sum();
    let combined = Arc::new(OfShard { sum, shard: shard.clone(), total: spec.update.total() });
    let maker = Maker::new(combined, spec.optimizer(round.base_version, count), spec.control_step(count), false);
    let bench = services.workbench();
    let files = match open_files(services, &bench, spec, round, making.as_ref()).await {
        // They were left alone for longer than they are kept: the version is begun anew.
        Err(CommitError::Blob(BlobError::Superseded(_))) if making.is_some() => {
            let mut tx = services.db.begin().await?;
            tx.forget_making(round.key()).await?;
            return Ok(tx.commit().await?);
        }
        files => files?,
    };
    let (files, norms) = write_range(services, spec, round, maker, &shard, files).await?;
    let before = making.as_ref().map_or((0.0, 0.0), |making| (making.mean_squares, making.step_squares));
    let (mean_squares, step_squares) = (before.0 + norms.mean.powi(2), before.1 + norms.step.powi(2));
    let files = keep(files).await?;
    let state = Making { mean_squares, step_squares, files };
    let state = serde_json::to_string(&state).expect("numbers and names are JSON");
    hand_over(services, round, number, &state).await
}

/// Stores that a range is made, and calls the coordinator of the next one. Nothing happens when the round has ended, or
/// another coordinator was faster.
async fn hand_over(services: &Services, round: &RoundRow, number: u16, state: &str) -> Result<(), CommitError> {
    let mut tx = services.db.begin().await?;
    tx.lock_job(round.job).await?;
    let is_open = tx.round(round.key()).await?.is_some_and(|round| round.phase.is_open());
    if is_open && tx.make_on(round.key(), number, state).await? {
        tx.notify(&round.job.to_string()).await?;
        tx.commit().await?;
    }
    Ok(())
}

/// Commits a round whose ranges are all made. Returns whether they are.
pub(crate) async fn commit_ranges(
    services: &Services,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
) -> Result<bool, CommitError> {
    let Some((done, state)) = services.db.look().await?.making(round.key()).await? else { return Ok(false) };
    if usize::from(done) < spec.shards.len() {
        return Ok(false);
    }
    let (making, bench, now_ms) = (read(&state)?, services.workbench(), services.clock.now_ms());
    let norms = MadeNorms { mean: making.mean_squares.sqrt(), step: making.step_squares.sqrt() };
    let files = open_files(services, &bench, spec, round, Some(&making)).await?;
    let (version, mut bodies, mut row) = (round.base_version + 1, Vec::new(), None);
    let forms =
        [None].into_iter().chain(spec.companions().into_iter().map(|companion| Some(MadeFor::Companion(companion))));
    for (form, Growing { mut spool, hasher }) in forms.zip(files) {
        let (staged, sha256, bytes) = (spool.finish(now_ms).await?, hasher.finish(), spool.bytes());
        match form {
            None => {
                row = Some(made_by(round, sha256, bytes, now_ms));
                bodies.push((Role::Model, staged));
            }
            Some(form) => {
                bodies.push((Role::Made(ModelFileRow { version, form, sha256, bytes, packed: false }), staged));
            }
        }
    }
    let row: ModelVersion = row.ok_or_else(|| corrupt(round))?;
    let updates = accepted(&services.db, spec, round).await?;
    let statistics = norm_statistics(spec, &updates, norms);
    let mut version = NewVersion { row, bodies, clip_share: None };
    rounds::commit(services, round.key(), &mut version, &statistics).await?;
    Ok(true)
}

/// The files of the version, as they were kept or empty: the model, then its companions.
async fn open_files(
    services: &Services,
    bench: &Workbench,
    spec: &JobSpec,
    round: &RoundRow,
    making: Option<&Making>,
) -> Result<Vec<Growing>, CommitError> {
    let (job, version) = (round.job, round.base_version + 1);
    let companions = spec.companions().into_iter();
    let names: Vec<_> = [model_key(job, version)]
        .into_iter()
        .chain(companions.map(|companion| model_file_key(job, version, MadeFor::Companion(companion))))
        .collect();
    let mut files = Vec::with_capacity(names.len());
    for (at, name) in names.into_iter().enumerate() {
        let spool = spool(bench, &services.clock, name);
        files.push(match making {
            None => Growing { spool, hasher: Sha256Hasher::new() },
            Some(making) => {
                let kept = making.files.get(at).ok_or_else(|| corrupt(round))?;
                let hasher = Sha256Hasher::of_state(&kept.hash).ok_or_else(|| corrupt(round))?;
                let spool = bench.take_over(spool.owner().clone(), &kept.id, kept.bytes).await?;
                Growing { spool, hasher }
            }
        });
    }
    Ok(files)
}

/// Keeps the files for the next coordinator.
async fn keep(files: Vec<Growing>) -> Result<Vec<Kept>, CommitError> {
    let mut kept = Vec::with_capacity(files.len());
    for Growing { mut spool, hasher } in files {
        spool.keep().await?;
        let id = spool.id().unwrap_or_default().to_owned();
        kept.push(Kept { id, bytes: spool.bytes(), hash: hasher.state() });
    }
    Ok(kept)
}

/// Appends the range of a shard to the files of the version, while that of the base version is read.
async fn write_range(
    services: &Services,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
    maker: Maker,
    shard: &Shard,
    mut files: Vec<Growing>,
) -> Result<(Vec<Growing>, MadeNorms), CommitError> {
    let is_first = shard.number == 0;
    let begin = if is_first { model_file_beginning(&spec.model, &model_metadata()) } else { Vec::new() };
    let followed = Followed::all(spec, maker.optimizer());
    if is_first {
        for (companion, file) in spec.companions().into_iter().zip(&mut files[1..]) {
            file.push(&beginning(spec, companion, maker.optimizer())?).await?;
        }
    }
    let places = model_places(&spec.parts, shard);
    let mut base = Base::open(services, spec, round, places.clone()).await?;
    let mut companions = Vec::new();
    for followed in followed {
        companions.push(Beside::open(services, spec, round.base_version, followed, shard).await?);
    }
    let hasher = std::mem::take(&mut files[0].hasher);
    let mut writer = Offload::new(Writer::new(spec, maker, hasher, begin, places.start));
    let mut at = places.start;
    while at < places.end {
        let values = base.take(PIECE_VALUES.min(places.end - at)).await?;
        let first = at;
        at += values.len();
        let take = move |writer: &mut Writer| writer.take(first, &values).map(|()| writer.completed());
        let count = writer.run(take).await?;
        let mut former = Vec::with_capacity(companions.len());
        for beside in &mut companions {
            former.push((beside.take(count).await?, beside.width));
        }
        let Pieces { model, companions: made, .. } = writer.run(move |writer| writer.make(Former::of(former))).await?;
        files[0].spool.push(&model).await?;
        for (file, bytes) in files[1..].iter_mut().zip(&made) {
            file.push(bytes).await?;
        }
    }
    let (hasher, norms) = writer.into_inner().finish();
    files[0].hasher = hasher;
    Ok((files, norms))
}

impl Growing {
    async fn push(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        self.hasher.update(bytes);
        self.spool.push(bytes).await
    }
}

/// The places in the model of a shard's parameters, with those that are not shared behind them; those before the first
/// shared one are the first shard's.
fn model_places(parts: &Parts, shard: &Shard) -> Range<usize> {
    let total = parts.model().total();
    let place = |shared: usize| {
        let run = parts
            .runs(0..total)
            .find(|run| run.part == Part::Shared && (run.first..run.first + run.values.len()).contains(&shared));
        run.map_or(total, |run| run.values.start + shared - run.first)
    };
    let first = if shard.number == 0 { 0 } else { place(shard.range.start) };
    let is_last = shard.number + 1 == shard.count;
    first..if is_last { total } else { place(shard.range.end) }
}

/// Values of a stored file of f32, from one of them on.
struct Base<'a> {
    services: &'a Services,
    body: StoredBody,
    /// The bytes that are to be read.
    at: u64,
    end: u64,
    rest: Bytes,
}

impl<'a> Base<'a> {
    /// These values of the base version of a round.
    async fn open(
        services: &'a Services,
        spec: &JobSpec,
        round: &RoundRow,
        values: Range<usize>,
    ) -> Result<Self, CommitError> {
        let (job, version) = (round.job, round.base_version);
        let base = services.db.read().await?.model(job, version).await?;
        let base = base.ok_or_else(|| DbError::Corrupt(format!("version {version} of {job} is missing")))?;
        Self::of(services, model_key(job, version), base.bytes, (spec.model.total(), values)).await
    }

    /// These of the `total` values of a file of so many bytes, which end it.
    async fn of(
        services: &'a Services,
        name: String,
        bytes: u64,
        (total, values): (usize, Range<usize>),
    ) -> Result<Self, CommitError> {
        const VALUE_BYTES: u64 = size_of::<f32>() as u64;
        let header = bytes.checked_sub(VALUE_BYTES * total as u64);
        let header = header.ok_or_else(|| DbError::Corrupt(format!("{name} is too short")))?;
        let body = services.blobs.find(&services.db, name, bytes).await?;
        let byte = |value: usize| header + VALUE_BYTES * value as u64;
        Ok(Self { services, body, at: byte(values.start), end: byte(values.end), rest: Bytes::new() })
    }

    /// The next values.
    async fn take(&mut self, count: usize) -> Result<Vec<f32>, CommitError> {
        let mut values = Vec::with_capacity(count);
        let mut cut = Vec::new();
        while values.len() < count {
            if self.rest.is_empty() {
                let Services { blobs, db, .. } = self.services;
                let missing = || BlobError::Missing(self.body.name().to_owned());
                self.rest = blobs.chunk(db, &self.body, self.at..self.end).await?.ok_or_else(missing)?;
                self.at += self.rest.len() as u64;
            }
            // A value may lie across two chunks.
            let wanted =
                if cut.is_empty() { size_of::<f32>() * (count - values.len()) } else { size_of::<f32>() - cut.len() };
            let piece = self.rest.split_to(wanted.min(self.rest.len()));
            if !cut.is_empty() {
                cut.extend_from_slice(&piece);
                if let Ok(bytes) = <[u8; 4]>::try_from(cut.as_slice()) {
                    values.push(f32::from_le_bytes(bytes));
                    cut.clear();
                }
                continue;
            }
            let (whole, odd) = piece.as_chunks();
            values.extend(whole.iter().map(|bytes| f32::from_le_bytes(*bytes)));
            cut.extend_from_slice(odd);
        }
        Ok(values)
    }
}

/// A companion of the base version beside the model.
struct Beside<'a> {
    values: Values<'a>,
    /// Values per parameter.
    width: usize,
}

enum Values<'a> {
    Stored(Base<'a>),
    /// The first version has no companions: each begins with one value everywhere.
    First(f32),
}

impl<'a> Beside<'a> {
    async fn open(
        services: &'a Services,
        spec: &JobSpec,
        version: u32,
        Followed { companion, initial, width }: Followed,
        shard: &Shard,
    ) -> Result<Self, CommitError> {
        let form = MadeFor::Companion(companion);
        let values = match services.db.read().await?.model_file(spec.id, version, form).await? {
            None if version == 0 => Values::First(initial as f32),
            None => {
                let (job, word) = (spec.id, companion.as_str());
                return Err(DbError::Corrupt(format!("the {word} of version {version} of {job} is missing")).into());
            }
            Some(row) => {
                let values = shard.range.start * width..shard.range.end * width;
                let name = model_file_key(spec.id, version, form);
                let total = spec.shared().total() * width;
                Values::Stored(Base::of(services, name, row.bytes, (total, values)).await?)
            }
        };
        Ok(Self { values, width })
    }

    /// The next values, those of so many parameters.
    async fn take(&mut self, parameters: usize) -> Result<Vec<f32>, CommitError> {
        match &mut self.values {
            Values::Stored(base) => base.take(parameters * self.width).await,
            Values::First(value) => Ok(vec![*value; parameters * self.width]),
        }
    }
}

fn read(state: &str) -> Result<Making, CommitError> {
    serde_json::from_str(state).map_err(|error| DbError::corrupt("shard_makings.state", error).into())
}

fn corrupt(round: &RoundRow) -> DbError {
    DbError::Corrupt(format!("the files of round {} of {} do not fit its job", round.number, round.job))
}
