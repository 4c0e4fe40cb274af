//! The private sum of a round that is aggregating.
//!
//! Its updates are read three times ([`PrivateSum`]), then noise is added that follows from the round's key. Noise is
//! made block by block on all cores. That of `blt` also follows from the buffers that belong to the base version, 32
//! bytes per parameter, which are read beside it and written anew with the next version; of both some megabytes are in
//! memory.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::stream::{FuturesOrdered, StreamExt};
use tributary_engine::aggregate::{
    ClippedInto, Grid, NoiseMaker, NoisePiece, NormOf, PrivateSum, Scaling, SharedCombined, SquaresOf,
};
use tributary_engine::job::JobSpec;
use tributary_engine::privacy::{Buffers, IntegerClip, NOISE_BLOCK, Terms};
use tributary_protocol::fixed::Weight;
use tributary_protocol::hash::{Sha256Hash, Sha256Hasher};
use tributary_protocol::id::AssignmentId;
use tributary_protocol::model::Companion;

use super::error::CommitError;
use super::version::{Role, spool};
use crate::blob::{Reader, Spool, Staged, Workbench, model_file_key};
use crate::db::{DbError, MadeFor, ModelFileRow, RoundRow};
use crate::runtime::offload::blocking;
use crate::services::Services;
use crate::updates::stored::{StoredUpdate, each};

/// Blocks whose noise is made at a time: with their buffers, 2 MiB.
const BLOCKS_AT_ONCE: usize = 16;
/// Pieces of noise that are made at the same time.
const PIECES_AT_ONCE: usize = 4;

/// What a private round comes to.
pub(super) struct Private {
    pub(super) combined: SharedCombined,
    /// The noised share of updates within the clip, where the clip follows it.
    pub(super) clip_share: Option<f64>,
    /// The buffers of correlated noise, for the next version.
    pub(super) buffers: Option<(Role, Staged)>,
}

/// The sum of a private round with its noise. The same key gives the same bits, on any coordinator.
pub(super) async fn private_sum(
    services: &Services,
    bench: &Workbench,
    (spec, terms): (&Arc<JobSpec>, &Terms),
    round: &RoundRow,
    updates: &[StoredUpdate],
) -> Result<Private, CommitError> {
    let key = services.db.read().await?.round_key(round.key()).await?;
    let key = key.ok_or_else(|| missing(round, "key of its noise"))?;
    let clip = round.policy().clip_norm.ok_or_else(|| missing(round, "clip"))?;
    let noise = terms.noise(round.policy().goal, round.policy().available_min);
    let grid = Grid::new(clip, noise.values);
    let sum = PrivateSum::new(spec.update.total(), grid, noise.divisor).releasing(spec.released(round.base_version));
    let sum = Arc::new(sum);
    add_updates(services, spec, updates, grid, &sum).await?;
    let maker = NoiseMaker::new(key.0, spec.seed(), round.number, terms.blt);
    // One value more than parameters: that of the count, in a block of its own.
    let (of_count, buffers) = add_noise(services, bench, round, &maker, &sum).await?;
    let clip_share = noise.count.map(|deviation| sum.clip_share(deviation, noise.divisor, of_count));
    Ok(Private { combined: sum, clip_share, buffers })
}

fn missing(round: &RoundRow, what: &str) -> DbError {
    DbError::Corrupt(format!("round {} of {} has no {what}", round.number, round.job))
}

/// Reads the updates of a round: for their norms, for those of their integers, and into the sum.
async fn add_updates(
    services: &Services,
    spec: &Arc<JobSpec>,
    updates: &[StoredUpdate],
    grid: Grid,
    sum: &Arc<PrivateSum>,
) -> Result<(), CommitError> {
    let ids: Vec<AssignmentId> = updates.iter().map(|update| update.assignment).collect();
    let norms =
        each(services, spec, updates.to_vec(), |_| Ok(Some(NormOf::default())), |norm, _| norm.finish()).await?;
    let scalings: HashMap<AssignmentId, Scaling> =
        ids.iter().copied().zip(norms.into_iter().map(|norm| grid.scaling(norm))).collect();
    let scaling = |update: &StoredUpdate| scalings[&update.assignment];
    let squares = |update: &StoredUpdate| Ok(Some(SquaresOf::new(scaling(update), grid)));
    let clips = each(services, spec, updates.to_vec(), squares, |squares, _| squares.finish()).await?;
    let clips: HashMap<AssignmentId, Option<IntegerClip>> = ids.into_iter().zip(clips).collect();
    let into = |update: &StoredUpdate| {
        sum.count(scaling(update).is_whole);
        let clipped = ClippedInto::new(Arc::clone(sum), scaling(update), clips[&update.assignment]);
        Ok(Some(clipped.weighing(spec.discount().weight(Weight::examples(1), update.staleness))))
    };
    each(services, spec, updates.to_vec(), into, |_, _| ()).await?;
    Ok(())
}

/// Adds the noise of a round to its sum. Returns the noise of the count, and the next buffers.
async fn add_noise(
    services: &Services,
    bench: &Workbench,
    round: &RoundRow,
    maker: &NoiseMaker,
    sum: &PrivateSum,
) -> Result<(i64, Option<(Role, Staged)>), CommitError> {
    let mut former = FormerBuffers::open(services, round, maker.is_correlated()).await?;
    let mut next = maker.is_correlated().then(|| NextBuffers::begin(bench, services, round));
    let total = sum.total();
    let of_count = NoiseMaker::place_of_count(total);
    let piece = BLOCKS_AT_ONCE * NOISE_BLOCK;
    let pieces = (0..total).step_by(piece).map(|first| first..total.min(first + piece));
    let mut pieces = pieces.chain(std::iter::once(of_count..of_count + 1));
    let mut noise_of_count = 0;
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
            noise_of_count = noise[0];
        } else {
            sum.add_noise(values.start, &noise);
        }
        if let Some(next) = &mut next {
            next.push(&buffers).await?;
        }
    }
    let next = match next {
        Some(next) => Some(next.finish(services.clock.now_ms()).await?),
        None => None,
    };
    Ok((noise_of_count, next))
}

/// The buffers that belong to the base version of a round.
struct FormerBuffers<'a> {
    stored: Option<Reader<'a>>,
    pending: BytesMut,
    version: u32,
}

impl<'a> FormerBuffers<'a> {
    async fn open(services: &'a Services, round: &RoundRow, are_kept: bool) -> Result<Self, CommitError> {
        let (version, form) = (round.base_version, MadeFor::Companion(Companion::Noise));
        let row = match are_kept {
            true => services.db.read().await?.model_file(round.job, version, form).await?,
            false => None,
        };
        let stored = match row {
            Some(row) => {
                let name = model_file_key(round.job, version, form);
                Some(services.blobs.chunks(&services.db, name, row.sha256).await?)
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
            match stored.next().await? {
                Some(bytes) => self.pending.extend_from_slice(&bytes),
                None => {
                    return Err(DbError::Corrupt(format!("the noise of version {} is short", self.version)).into());
                }
            }
        }
        Ok(self.pending.split_to(wanted).freeze())
    }
}

/// The buffers of a new version on their way into the store.
struct NextBuffers {
    version: u32,
    hasher: Sha256Hasher,
    spool: Spool,
}

impl NextBuffers {
    fn begin(bench: &Workbench, services: &Services, round: &RoundRow) -> Self {
        let version = round.base_version + 1;
        let name = model_file_key(round.job, version, MadeFor::Companion(Companion::Noise));
        Self { version, hasher: Sha256Hasher::new(), spool: spool(bench, &services.clock, name) }
    }

    async fn push(&mut self, bytes: &[u8]) -> Result<(), CommitError> {
        self.hasher.update(bytes);
        Ok(self.spool.push(bytes).await?)
    }

    async fn finish(mut self, now_ms: i64) -> Result<(Role, Staged), CommitError> {
        let staged = self.spool.finish(now_ms).await?;
        let sha256: Sha256Hash = self.hasher.finish();
        let form = MadeFor::Companion(Companion::Noise);
        let row = ModelFileRow { version: self.version, form, sha256, bytes: self.spool.bytes(), packed: false };
        Ok((Role::Made(row), staged))
    }
}
