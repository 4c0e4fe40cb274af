//! A version that is made range by range, each by the coordinator that has the sum of its shard.
//!
//! The files of the version go from one coordinator to the next: each takes them over at the length at which the one
//! before kept them, appends its range, and keeps them. The inner state of a file's hash goes with it, so that nobody
//! reads the bytes of another. A coordinator that dies leaves the files as they were handed to it.
//!
//! Some rules must see the whole round before its first value is made ([`Lap`]). Then all coordinators first look at
//! their ranges in the same order, and hand on what they saw: the numbers are those of one coordinator that sees all.
//!
//! Of each file one chunk is in memory, and of the combined updates the range.

mod base;
mod lap;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tributary_engine::aggregate::{
    Combined, Facts, Gathering, MadeNorms, Maker, NormOf, Optimizer, Reports, SharedCombined,
};
use tributary_engine::job::JobSpec;
use tributary_engine::privacy::SquareSum;
use tributary_protocol::id::AssignmentId;
use tributary_protocol::model::Companion;
use tributary_protocol::safetensors::{model_file_beginning, model_metadata};
use tributary_protocol::sharing::{Part, Parts};
use tributary_protocol::update::Shard;

use super::companion::{Companions, Followed, Former, beginning};
use super::error::CommitError;
use super::gather::{combined_of, running_sum};
use super::growing::{Growing, Grown, Kept};
use super::norms::norms;
use super::plan::{Planning, loss_of};
use super::private::{Private, PrivateRound, keeps_buffers};
use super::statistics::{norm_statistics, step_statistics};
use super::version::{NewVersion, Role, made_by, spool};
use super::write::{Pieces, Writer};
use crate::blob::{BlobError, Workbench, model_file_key, model_key};
use crate::db::{DbError, MadeFor, RoundRow};
use crate::lifecycle::rounds;
use crate::runtime::offload::Offload;
use crate::services::Services;
use crate::updates::stored::{StoredUpdate, accepted};
use crate::updates::sums::Sums;
use base::{Base, Beside};
use lap::Lap;
pub(crate) use lap::next_shard;

/// Values of the model that are read at a time: 256 KiB.
const PIECE_VALUES: usize = 1 << 16;

/// Norms as the reports of updates have them, sums of those of their parts, are this close to those of whole updates.
const NORM_ROUNDING: f64 = 1e-9;

/// What one coordinator hands to the next.
#[derive(Default, Serialize, Deserialize)]
struct Handed {
    /// The squares of updates' values so far ([`NormOf::bits`]), of whole updates once all have looked.
    norms: HashMap<AssignmentId, Vec<u64>>,
    /// The squares of their integers.
    squares: HashMap<AssignmentId, SquareSum>,
    /// What the optimiser has seen.
    seen: Option<Vec<u64>>,
    /// Squared norms of the combined updates and of the step, of all ranges so far.
    mean_squares: f64,
    step_squares: f64,
    /// Of a private round whose clip follows its updates: the noised share of updates within it.
    clip_share: Option<f64>,
    /// The model, then what comes with it. None before the first range.
    files: Vec<Kept>,
}

/// The combined updates of a shard, at the places of whole updates.
struct OfShard {
    combined: SharedCombined,
    shard: Shard,
    total: usize,
}

impl Combined for OfShard {
    fn parameters_total(&self) -> usize {
        self.total
    }

    fn mean(&self, block: Range<usize>) -> Option<Vec<f64>> {
        let first = self.shard.place(block.start);
        self.combined.mean(first..first + block.len())
    }
}

/// A coordinator's turn: its range of a round that is aggregating.
struct Turn<'a> {
    services: &'a Services,
    sums: &'a Sums,
    /// That of the job.
    whole: &'a Arc<JobSpec>,
    /// That of the shard.
    spec: &'a Arc<JobSpec>,
    shard: &'a Shard,
    round: &'a RoundRow,
    gathering: Gathering,
    updates: Vec<StoredUpdate>,
}

/// Takes the next turn of a round that is aggregating, which is the one after so many.
///
/// # Errors
/// As a version that is made in one: a value that would not be finite, or what cannot be read.
pub(crate) async fn take_turn(
    services: &Services,
    sums: &Sums,
    whole: &Arc<JobSpec>,
    round: &RoundRow,
    done: u16,
) -> Result<(), CommitError> {
    let Some((lap, number)) = lap::turn(whole, round, done) else { return Ok(()) };
    let Some(spec) = whole.of_shard(number) else { return Ok(()) };
    let Some(shard) = &spec.shard else { return Ok(()) };
    let stored = services.db.look().await?.making(round.key()).await?;
    if stored.as_ref().map_or(0, |(done, _)| *done) != done {
        return Ok(());
    }
    let handed = stored.map(|(_, state)| read(&state)).transpose()?.unwrap_or_default();
    // The round has closed: parts still in flight will be refused.
    sums.get_or_open(round.key(), &spec).close().await;
    let updates = accepted(&services.db, &spec, round).await?;
    let gathering = whole.gathering_of_round(round.base_version, round.policy().clip_norm);
    let turn = Turn { services, sums, whole, spec: &spec, shard, round, gathering, updates };
    let handed = match lap {
        Lap::Norms => turn.read_norms(handed).await?,
        Lap::Squares => turn.read_squares(handed).await?,
        Lap::Survey => turn.survey(handed).await?,
        Lap::Make => match turn.make(handed).await {
            // They were left alone for longer than they are kept: the version is begun anew.
            Err(CommitError::Blob(BlobError::Superseded(_))) => {
                let mut tx = services.db.begin().await?;
                tx.forget_making(round.key()).await?;
                return Ok(tx.commit().await?);
            }
            handed => handed?,
        },
    };
    let state = serde_json::to_string(&handed).expect("numbers and names are JSON");
    hand_over(services, round, done, &state).await
}

/// Stores that a turn was taken, and calls the coordinator of the next one. Nothing happens when the round has ended,
/// or another coordinator was faster.
async fn hand_over(services: &Services, round: &RoundRow, done: u16, state: &str) -> Result<(), CommitError> {
    let mut tx = services.db.begin().await?;
    tx.lock_job(round.job).await?;
    let is_open = tx.round(round.key()).await?.is_some_and(|round| round.phase.is_open());
    if is_open && tx.make_on(round.key(), done, state).await? {
        tx.notify(&round.job.to_string()).await?;
        tx.commit().await?;
    }
    Ok(())
}

impl Turn<'_> {
    /// Reads the parts of updates for the norms that the rule reads.
    async fn read_norms(&self, handed: Handed) -> Result<Handed, CommitError> {
        let is_wanted = |update: &&StoredUpdate| match self.gathering {
            // Others are added as they are.
            Gathering::Reports(Reports::Clipped { norm }) if self.whole.noised_here().is_none() => {
                update.facts.norm() > norm * (1.0 - NORM_ROUNDING)
            }
            _ => true,
        };
        let updates: Vec<_> = self.updates.iter().filter(is_wanted).cloned().collect();
        let norms = norms(self.services, self.spec, &updates, &handed.norms).await?;
        Ok(Handed { norms: norms.into_iter().map(|(update, norm)| (update, norm.bits())).collect(), ..handed })
    }

    /// Reads the parts of updates for the norms of their integers.
    async fn read_squares(&self, handed: Handed) -> Result<Handed, CommitError> {
        let Some(private) = PrivateRound::of(self.services, self.spec, self.round)? else { return Ok(handed) };
        let squares = private.squares(&self.updates, &of_bits(&handed.norms), &handed.squares).await?;
        Ok(Handed { squares, ..handed })
    }

    /// Lets the optimiser look at the range.
    async fn survey(&self, handed: Handed) -> Result<Handed, CommitError> {
        let combined = self.at_their_places(self.combined(&handed, None).await?.combined);
        let (optimizer, range) = (self.optimizer(&handed).await?, self.shard.range.clone());
        let mut companions = self.companions(&*optimizer).await?;
        let width_max = companions.iter().map(|beside| beside.width).max().unwrap_or(1);
        let mut planning = Offload::new(Planning::new(optimizer, combined, range.start));
        for first in range.clone().step_by((PIECE_VALUES / width_max).max(1)) {
            let count = (PIECE_VALUES / width_max).max(1).min(range.end - first);
            let former = take(&mut companions, count).await?;
            planning.run(move |planning| planning.look(count, former)).await?;
        }
        let seen = planning.run(|planning| planning.survey().seen()).await;
        Ok(Handed { seen: Some(seen), ..handed })
    }

    /// Makes the range, behind those before it.
    async fn make(&self, handed: Handed) -> Result<Handed, CommitError> {
        let Self { services, whole, round, .. } = *self;
        let bench = services.workbench();
        let mut files = open_files(services, &bench, whole, round, &handed.files).await?;
        let mut buffers = if keeps_buffers(whole) { files.pop() } else { None };
        let Private { combined, clip_share } = self.combined(&handed, buffers.as_mut()).await?;
        let mut optimizer = self.optimizer(&handed).await?;
        if let Some(survey) = optimizer.survey() {
            survey.decide();
        }
        let maker = Maker::new(self.at_their_places(combined), optimizer, whole.control_step(self.count()), false);
        let (files, norms) = self.write(maker, files).await?;
        let mut kept = Vec::with_capacity(files.len() + 1);
        for file in files.into_iter().chain(buffers) {
            kept.push(file.keep().await?);
        }
        let (mean_squares, step_squares) =
            (handed.mean_squares + norms.mean.powi(2), handed.step_squares + norms.step.powi(2));
        Ok(Handed { mean_squares, step_squares, clip_share, files: kept, ..handed })
    }

    /// Updates of the round.
    fn count(&self) -> u32 {
        self.updates.iter().map(|update| update.facts.figures.contribution.updates).sum()
    }

    /// The combined updates of the shard; with noise, the next buffers are written.
    async fn combined(&self, handed: &Handed, buffers: Option<&mut Growing>) -> Result<Private, CommitError> {
        let Self { services, sums, spec, round, gathering, updates, .. } = self;
        if let Some(private) = PrivateRound::of(services, spec, round)? {
            return private.sum(updates, &of_bits(&handed.norms), &handed.squares, buffers).await;
        }
        let combined: SharedCombined = match spec.weighing() {
            Some(_) => running_sum(services, sums, spec, round).await?,
            None => {
                let (mut updates, norms) = (updates.clone(), of_bits(&handed.norms));
                for update in &mut updates {
                    if let Some(norm) = norms.get(&update.assignment) {
                        update.facts.figures.norm = Some(norm.finish());
                    }
                }
                combined_of(services, spec, round, gathering, updates).await?
            }
        };
        Ok(Private { combined, clip_share: None })
    }

    fn at_their_places(&self, combined: SharedCombined) -> SharedCombined {
        Arc::new(OfShard { combined, shard: self.shard.clone(), total: self.whole.update.total() })
    }

    /// The optimiser of the round, which goes on from what it has seen.
    async fn optimizer(&self, handed: &Handed) -> Result<Box<dyn Optimizer>, CommitError> {
        let Self { services, whole, round, .. } = *self;
        let mut optimizer = whole.optimizer(round.base_version, self.count());
        if optimizer.survey().is_some() {
            let followed = Followed::all(whole, &*optimizer);
            let notes = Companions::open(services, whole, round.base_version, &followed).await?.notes().await?;
            let facts: Vec<Facts> = self.updates.iter().map(|update| update.facts.clone()).collect();
            if let Some(survey) = optimizer.survey() {
                survey.begin(&notes, loss_of(facts))?;
                if let Some(seen) = &handed.seen {
                    survey.go_on(seen)?;
                }
            }
        }
        Ok(optimizer)
    }

    /// The range of the base version's companions.
    async fn companions(&self, optimizer: &dyn Optimizer) -> Result<Vec<Beside<'_>>, CommitError> {
        let mut companions = Vec::new();
        for followed in Followed::all(self.whole, optimizer) {
            let version = self.round.base_version;
            companions.push(Beside::open(self.services, self.whole, version, followed, self.shard).await?);
        }
        Ok(companions)
    }

    /// Appends the range to the files of the version, while that of the base version is read.
    async fn write(&self, maker: Maker, mut files: Vec<Growing>) -> Result<(Vec<Growing>, MadeNorms), CommitError> {
        let Self { services, whole, round, shard, .. } = *self;
        let is_first = shard.number == 0;
        let begin = if is_first { model_file_beginning(&whole.model, &model_metadata()) } else { Vec::new() };
        if is_first {
            for (companion, file) in whole.companions().into_iter().zip(&mut files[1..]) {
                file.push(&beginning(whole, companion, maker.optimizer())?).await?;
            }
        }
        let places = model_places(&whole.parts, shard);
        let mut base = Base::open(services, whole, round, places.clone()).await?;
        let mut companions = self.companions(maker.optimizer()).await?;
        let hasher = std::mem::take(&mut files[0].hasher);
        let mut writer = Offload::new(Writer::new(whole, maker, hasher, begin, places.start));
        let mut at = places.start;
        while at < places.end {
            let values = base.take(PIECE_VALUES.min(places.end - at)).await?;
            let first = at;
            at += values.len();
            let taken = move |writer: &mut Writer| writer.take(first, &values).map(|()| writer.completed());
            let count = writer.run(taken).await?;
            let former = take(&mut companions, count).await?;
            let Pieces { model, companions: made, .. } = writer.run(move |writer| writer.make(former)).await?;
            files[0].spool.push(&model).await?;
            for (file, bytes) in files[1..].iter_mut().zip(&made) {
                file.push(bytes).await?;
            }
        }
        let (hasher, norms) = writer.into_inner().finish();
        files[0].hasher = hasher;
        Ok((files, norms))
    }
}

/// The next values of companions, those of so many parameters.
async fn take(companions: &mut [Beside<'_>], count: usize) -> Result<Former, CommitError> {
    let mut former = Vec::with_capacity(companions.len());
    for beside in companions {
        former.push((beside.take(count).await?, beside.width));
    }
    Ok(Former::of(former))
}

/// The norms that were handed on.
fn of_bits(norms: &HashMap<AssignmentId, Vec<u64>>) -> HashMap<AssignmentId, NormOf> {
    norms.iter().filter_map(|(update, bits)| Some((*update, NormOf::going_on(bits, 0)?))).collect()
}

/// Commits a round whose ranges are all made. Returns whether they are.
pub(crate) async fn commit_ranges(
    services: &Services,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
) -> Result<bool, CommitError> {
    let Some((done, state)) = services.db.look().await?.making(round.key()).await? else { return Ok(false) };
    if next_shard(spec, round, done).is_some() {
        return Ok(false);
    }
    let (handed, bench, now_ms) = (read(&state)?, services.workbench(), services.clock.now_ms());
    let norms = MadeNorms { mean: handed.mean_squares.sqrt(), step: handed.step_squares.sqrt() };
    let mut files = open_files(services, &bench, spec, round, &handed.files).await?.into_iter();
    let Grown { staged, sha256, bytes } = files.next().ok_or_else(|| corrupt(round))?.finish(now_ms).await?;
    let row = made_by(round, sha256, bytes, now_ms);
    let mut bodies = vec![(Role::Model, staged)];
    for (companion, file) in companions_of(spec).into_iter().zip(files) {
        bodies.push(file.finish(now_ms).await?.companion(row.version, companion));
    }
    // Figures of single updates would be a second release.
    let statistics = match spec.file.hides_updates() {
        true => step_statistics(norms),
        false => norm_statistics(spec, &accepted(&services.db, spec, round).await?, norms),
    };
    let mut version = NewVersion { row, bodies, clip_share: handed.clip_share };
    rounds::commit(services, round.key(), &mut version, &statistics).await?;
    Ok(true)
}

/// What comes with the model: its companions, then the buffers of noise.
fn companions_of(spec: &JobSpec) -> Vec<Companion> {
    spec.companions().into_iter().chain(keeps_buffers(spec).then_some(Companion::Noise)).collect()
}

/// The files of the version, as they were kept, or empty: the model, then what comes with it.
async fn open_files(
    services: &Services,
    bench: &Workbench,
    spec: &JobSpec,
    round: &RoundRow,
    kept: &[Kept],
) -> Result<Vec<Growing>, CommitError> {
    let (job, version) = (round.job, round.base_version + 1);
    let companions = companions_of(spec).into_iter();
    let names: Vec<_> = [model_key(job, version)]
        .into_iter()
        .chain(companions.map(|companion| model_file_key(job, version, MadeFor::Companion(companion))))
        .collect();
    let mut files = Vec::with_capacity(names.len());
    for (at, name) in names.into_iter().enumerate() {
        let empty = spool(bench, &services.clock, name);
        files.push(match kept.is_empty() {
            true => Growing::begin(empty),
            false => {
                let kept = kept.get(at).ok_or_else(|| corrupt(round))?;
                Growing::take_over(bench, &empty, kept).await?.ok_or_else(|| corrupt(round))?
            }
        });
    }
    Ok(files)
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

fn read(state: &str) -> Result<Handed, CommitError> {
    serde_json::from_str(state).map_err(|error| DbError::corrupt("shard_makings.state", error).into())
}

fn corrupt(round: &RoundRow) -> DbError {
    DbError::Corrupt(format!("the files of round {} of {} do not fit its job", round.number, round.job))
}
