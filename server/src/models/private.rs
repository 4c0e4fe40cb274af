//! The private sum of a round that is aggregating.
//!
//! Its updates are read three times ([`PrivateSum`]), then noise is added that follows from the round's key. Noise is
//! made block by block on all cores. That of `blt` also follows from the buffers that belong to the base version, 32
//! bytes per parameter, which are read beside it and written anew with the next version; of both some megabytes are in
//! memory. Of a shard everything is the same for its range, which goes on from what the shards before it have read.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::stream::{FuturesOrdered, StreamExt};
use tributary_engine::aggregate::{
    ClippedInto, Grid, NoiseMaker, NoisePiece, NormOf, PrivateSum, Scaling, SharedCombined, SquaresOf,
};
use tributary_engine::job::JobSpec;
use tributary_engine::privacy::{Buffers, NOISE_BLOCK, RoundNoise, SquareSum, Terms};
use tributary_protocol::fixed::Weight;
use tributary_protocol::id::AssignmentId;
use tributary_protocol::model::Companion;

use super::error::CommitError;
use super::growing::Growing;
use super::norms::norms;
use super::span::StoredRange;
use crate::blob::{Reader, model_file_key};
use crate::db::{DbError, MadeFor, RoundRow};
use crate::runtime::offload::blocking;
use crate::services::Services;
use crate::updates::stored::{StoredUpdate, each};

/// Blocks whose noise is made at a time: with their buffers, 2 MiB.
const BLOCKS_AT_ONCE: usize = 16;
/// Pieces of noise that are made at the same time.
const PIECES_AT_ONCE: usize = 4;

/// A private round whose sum is made here, or that of a shard of it.
pub(super) struct PrivateRound<'a> {
    services: &'a Services,
    spec: &'a Arc<JobSpec>,
    round: &'a RoundRow,
    terms: &'a Terms,
    noise: RoundNoise,
    grid: Grid,
}

/// What a private round comes to.
pub(super) struct Private {
    pub(super) combined: SharedCombined,
    /// The noised share of updates within the clip, where the clip follows it. The last shard knows it.
    pub(super) clip_share: Option<f64>,
}

impl<'a> PrivateRound<'a> {
    /// None where the coordinator adds no noise.
    pub(super) fn of(
        services: &'a Services,
        spec: &'a Arc<JobSpec>,
        round: &'a RoundRow,
    ) -> Result<Option<Self>, CommitError> {
        let Some(terms) = spec.noised_here() else { return Ok(None) };
        let clip = round.policy().clip_norm.ok_or_else(|| missing(round, "clip"))?;
        let noise = terms.noise(round.policy().goal, round.policy().available_min);
        Ok(Some(Self { services, spec, round, terms, noise, grid: Grid::new(clip, noise.values) }))
    }

    /// The sum of whole updates with its noise.
    pub(super) async fn whole(
        &self,
        updates: &[StoredUpdate],
        buffers: Option<&mut Growing>,
    ) -> Result<Private, CommitError> {
        let norms = norms(self.services, self.spec, updates, &HashMap::new()).await?;
        let squares = self.squares(updates, &norms, &HashMap::new()).await?;
        self.sum(updates, &norms, &squares, buffers).await
    }

    /// The second reading: the squares of the integers of each update, from those of the parts before.
    pub(super) async fn squares(
        &self,
        updates: &[StoredUpdate],
        norms: &HashMap<AssignmentId, NormOf>,
        before: &HashMap<AssignmentId, SquareSum>,
    ) -> Result<HashMap<AssignmentId, SquareSum>, CommitError> {
        let sink = |update: &StoredUpdate| {
            let before = before.get(&update.assignment).copied().unwrap_or_default();
            Ok(Some(SquaresOf::going_on(self.scaling(norms, update)?, before)))
        };
        let squares = each(self.services, self.spec, updates.to_vec(), sink, |squares, _| squares.finish()).await?;
        Ok(updates.iter().map(|update| update.assignment).zip(squares).collect())
    }

    /// The third reading: the sum with its noise. The same key gives the same bits, on any coordinator.
    pub(super) async fn sum(
        &self,
        updates: &[StoredUpdate],
        norms: &HashMap<AssignmentId, NormOf>,
        squares: &HashMap<AssignmentId, SquareSum>,
        buffers: Option<&mut Growing>,
    ) -> Result<Private, CommitError> {
        let Self { services, spec, round, terms, noise, grid } = *self;
        let key = services.db.read().await?.round_key(round.key()).await?;
        let key = key.ok_or_else(|| missing(round, "key of its noise"))?;
        let sum = PrivateSum::new(spec.values(), grid, noise.divisor).releasing(spec.released(round.base_version));
        let sum = Arc::new(sum);
        let into = |update: &StoredUpdate| {
            let scaling = self.scaling(norms, update)?;
            // Without it nothing would bound the update.
            let squares = squares.get(&update.assignment).ok_or_else(|| unread(update))?;
            sum.count(scaling.is_whole);
            let clipped = ClippedInto::new(Arc::clone(&sum), scaling, grid.shortening(*squares));
            Ok(Some(clipped.weighing(spec.discount().weight(Weight::examples(1), update.staleness))))
        };
        each(services, spec, updates.to_vec(), into, |_, _| ()).await?;
        let maker = NoiseMaker::new(key.0, spec.seed(), round.number, terms.blt);
        let of_count = self.add_noise(&maker, &sum, buffers).await?;
        let share = |deviation| Some(sum.clip_share(deviation, noise.divisor, of_count?));
        let clip_share = noise.count.and_then(share);
        Ok(Private { combined: sum, clip_share })
    }

    fn scaling(&self, norms: &HashMap<AssignmentId, NormOf>, update: &StoredUpdate) -> Result<Scaling, DbError> {
        let norm = norms.get(&update.assignment).ok_or_else(|| unread(update))?;
        Ok(self.grid.scaling(norm.finish()))
    }

    /// Adds noise to a sum, and writes the next buffers. Returns the noise of the count, which comes behind that of the
    /// last value.
    async fn add_noise(
        &self,
        maker: &NoiseMaker,
        sum: &PrivateSum,
        mut next: Option<&mut Growing>,
    ) -> Result<Option<i64>, CommitError> {
        let total = self.spec.update.total();
        let range = self.spec.shard.as_ref().map_or(0..total, |shard| shard.range.clone());
        // One value more than parameters: that of the count, in a block of its own.
        let counts = usize::from(range.end == total);
        let of_count = NoiseMaker::place_of_count(total);
        let places = range.start..range.end + counts;
        let mut former = FormerBuffers::open(self.services, self.round, maker.is_correlated(), (places, total)).await?;
        let piece = BLOCKS_AT_ONCE * NOISE_BLOCK;
        let pieces = (range.start / piece * piece..range.end).step_by(piece);
        let pieces = pieces.map(|first| first.max(range.start)..range.end.min(first + piece));
        let mut pieces = pieces.chain((0..counts).map(|_| of_count..of_count + 1));
        let mut noise_of_count = None;
        // Buffers are read in order, and while those of one piece are written, noise is made of the next ones.
        let mut making = FuturesOrdered::new();
        loop {
            while making.len() < PIECES_AT_ONCE {
                let Some(values) = pieces.next() else { break };
                let (maker, former) = (*maker, former.take(values.len()).await?);
                making.push_back(blocking(move || maker.make(values, &former)));
            }
            let Some(NoisePiece { values, noise, buffers }) = making.next().await else { break };
            if values.start == of_count {
                noise_of_count = noise.first().copied();
            } else {
                sum.add_noise(values.start - range.start, &noise);
            }
            if let Some(next) = &mut next {
                next.push(&buffers).await?;
            }
        }
        Ok(noise_of_count)
    }
}

/// An update that came between two readings, which a closed round does not have.
fn unread(update: &StoredUpdate) -> DbError {
    DbError::Corrupt(format!("the update of {} has not been measured", update.assignment))
}

/// The name of the buffers of the version that a round makes.
pub(super) fn noise_key(round: &RoundRow) -> String {
    model_file_key(round.job, round.base_version + 1, MadeFor::Companion(Companion::Noise))
}

/// Whether a version has buffers of correlated noise.
pub(super) fn keeps_buffers(spec: &JobSpec) -> bool {
    spec.noised_here().is_some_and(|terms| terms.blt.is_some())
}

fn missing(round: &RoundRow, what: &str) -> DbError {
    DbError::Corrupt(format!("round {} of {} has no {what}", round.number, round.job))
}

/// The buffers that belong to the base version of a round, those of the values that are asked for.
struct FormerBuffers<'a> {
    stored: Option<Stored<'a>>,
    pending: BytesMut,
    version: u32,
}

enum Stored<'a> {
    /// A whole file, whose hash is checked.
    Whole(Box<Reader<'a>>),
    /// Those of a shard.
    Range(StoredRange<'a>),
}

impl<'a> FormerBuffers<'a> {
    /// Those of these of the `total` values, behind which the count has its own.
    async fn open(
        services: &'a Services,
        round: &RoundRow,
        are_kept: bool,
        (values, total): (Range<usize>, usize),
    ) -> Result<Self, CommitError> {
        let (version, form) = (round.base_version, MadeFor::Companion(Companion::Noise));
        let row = match are_kept {
            true => services.db.read().await?.model_file(round.job, version, form).await?,
            false => None,
        };
        let byte = |value: usize| (value * Buffers::BYTES) as u64;
        let stored = match row {
            Some(row) => {
                let name = model_file_key(round.job, version, form);
                Some(match values == (0..total + 1) {
                    true => Stored::Whole(Box::new(services.blobs.chunks(&services.db, name, row.sha256).await?)),
                    false => {
                        let wanted = byte(values.start)..byte(values.end);
                        Stored::Range(StoredRange::open(services, (name, row.bytes), wanted).await?)
                    }
                })
            }
            // The noise of a later version without those before would not be that of the promise.
            None if are_kept && version > 0 => return Err(missing(round, "buffers of its noise").into()),
            None => None,
        };
        Ok(Self { stored, pending: BytesMut::new(), version })
    }

    /// The buffers of the next values; none before the first version.
    async fn take(&mut self, values: usize) -> Result<Bytes, CommitError> {
        let Some(stored) = &mut self.stored else { return Ok(Bytes::new()) };
        let wanted = values * Buffers::BYTES;
        while self.pending.len() < wanted {
            let bytes = match stored {
                Stored::Whole(reader) => reader.next().await?,
                Stored::Range(range) => Some(range.piece(wanted - self.pending.len()).await?),
            };
            let short = || DbError::Corrupt(format!("the noise of version {} is short", self.version));
            self.pending.extend_from_slice(&bytes.ok_or_else(short)?);
        }
        Ok(self.pending.split_to(wanted).freeze())
    }
}
