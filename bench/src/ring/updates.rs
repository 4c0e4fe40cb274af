//! The updates of the members, and their direct sum.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use tokio::task::{JoinSet, spawn_blocking};
use tributary::error::CliError;
use tributary::options::parse_codec;
use tributary_collective::{Addend, Gridded, Weighted};
use tributary_engine::aggregate::Accumulator;
use tributary_protocol::body::shrink;
use tributary_protocol::fixed::{Contribution, SumCaps, Weight};
use tributary_protocol::group::grid::{GRID_BLOCK, exponent, round};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::model::ParameterList;
use tributary_protocol::seed::Seed;
use tributary_protocol::sum::{SumWriter, tag};
use tributary_protocol::update::{Codec, UpdateHeader, encode};

use crate::codec::{decode, normal, parameters_of};
use crate::error::BenchError;

/// Version of the model that all updates change.
const VERSION: u32 = 1;
/// Largest weight and magnitude of an update: those of a job that sets neither.
const EXAMPLES_MAX: u32 = 10_000;
const MAGNITUDE_MAX: f32 = 32.0;
/// Examples of member 0. Each next one has a few more, so that no two weights are equal.
const EXAMPLES: u32 = 600;
/// Values of the direct sum that are packed at once.
const VALUES_AT_ONCE: usize = 1 << 16;
/// Bits of a rounded integer.
const GRID_BITS: u32 = 8;

/// What members add up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Adds {
    /// The integers of updates in this codec.
    Updates(Codec),
    /// The integers of f32 updates, rounded to a grid.
    Grid,
}

impl Adds {
    fn codec(self) -> Codec {
        match self {
            Self::Updates(codec) => codec,
            Self::Grid => Codec::F32,
        }
    }
}

impl FromStr for Adds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "grid" { Ok(Self::Grid) } else { parse_codec(text).map(Self::Updates) }
    }
}

impl fmt::Display for Adds {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Updates(codec) => codec.fmt(out),
            Self::Grid => out.write_str("grid"),
        }
    }
}

impl Serialize for Adds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Updates(codec) => codec.serialize(serializer),
            Self::Grid => serializer.serialize_str("grid"),
        }
    }
}

/// The updates of a group.
#[derive(Debug)]
pub(super) struct Updates {
    pub(super) of_members: Vec<Update>,
    pub(super) adds: Adds,
    pub(super) caps: SumCaps,
    pub(super) binary_point: u32,
    pub(super) contribution: Contribution,
    pub(super) tag: [u8; 8],
    /// SHA-256 of the body of the direct sum.
    pub(super) sha256: Sha256Hash,
    /// Bytes of that body.
    pub(super) sum_bytes: u64,
}

/// The update of a member.
#[derive(Clone, Debug)]
pub(super) struct Update {
    /// As the coordinator would decode it.
    values: Arc<Vec<f32>>,
    pub(super) examples: u32,
    /// Bytes of the body that the star would have.
    body_bytes: u64,
}

impl Updates {
    pub(super) async fn new(members: u16, parameters: u32, adds: Adds) -> Result<Self, CliError> {
        let job = JobId::from_random([1; 16]);
        let caps = SumCaps {
            weight_max: Weight::examples(EXAMPLES_MAX),
            magnitude_max: MAGNITUDE_MAX,
            updates_max: members.into(),
        };
        let binary_point = caps.binary_point().map_err(failed)?;
        let parameters = parameters_of(parameters as usize)?;
        let header = UpdateHeader { codec: adds.codec(), job: job.to_string(), base_version: VERSION.into() };
        let mut making = JoinSet::new();
        for rank in 0..members {
            let (parameters, header) = (Arc::clone(&parameters), header.clone());
            making.spawn_blocking(move || Update::new(rank, &parameters, &header).map(|made| (rank, made)));
        }
        let mut made = making.join_all().await.into_iter().collect::<Result<Vec<_>, _>>()?;
        made.sort_by_key(|(rank, _)| *rank);
        let of_members: Vec<_> = made.into_iter().map(|(_, update)| update).collect();
        let (tag, all) = (tag(&job, VERSION, binary_point), of_members.clone());
        let direct = spawn_blocking(move || match adds {
            Adds::Updates(_) => direct_sum(&all, parameters.total(), caps, tag),
            Adds::Grid => direct_sum_on_grid(&all, parameters.total(), caps, tag),
        });
        let (contribution, body) = direct.await.map_err(CliError::task)??;
        let (sha256, sum_bytes) = (Sha256Hash::of(&body), body.len() as u64);
        Ok(Self { of_members, adds, caps, binary_point, contribution, tag, sha256, sum_bytes })
    }

    /// Bytes of all updates as bodies.
    pub(super) fn body_bytes(&self) -> u64 {
        self.of_members.iter().map(|update| update.body_bytes).sum()
    }
}

impl Update {
    fn new(rank: u16, parameters: &Arc<ParameterList>, header: &UpdateHeader) -> Result<Self, BenchError> {
        let seed = Seed(rank.into());
        let delta = normal(parameters.total(), None, seed);
        let file = encode(&delta, parameters, header, u32::MAX, seed).map_err(failed)?;
        // The delta is not needed any more: its memory becomes that of the decoded values.
        let mut values = delta;
        values.fill(0.0);
        decode(&file, parameters, header, &mut values).map_err(failed)?;
        let examples = EXAMPLES + 7 * u32::from(rank);
        Ok(Self { values: Arc::new(values), examples, body_bytes: shrink(file).len() as u64 })
    }

    /// What it adds to a sum of so many binary places.
    pub(super) fn weighted(&self, binary_point: u32) -> Weighted<'_> {
        Weighted::new(&self.values, Weight::examples(self.examples), binary_point)
    }

    /// The same, rounded to a grid.
    pub(super) fn gridded(&self, binary_point: u32, value_max: u64) -> Gridded<'_> {
        Gridded::new(self.weighted(binary_point), GRID_BITS, value_max, self.seed())
    }

    fn seed(&self) -> Seed {
        Seed(self.examples.into())
    }
}

/// The body of the sum that the coordinator would make of the updates.
fn direct_sum(
    updates: &[Update],
    values: usize,
    caps: SumCaps,
    tag: [u8; 8],
) -> Result<(Contribution, Vec<u8>), BenchError> {
    let accumulator = Accumulator::new(values, caps).map_err(failed)?;
    for update in updates {
        let weight = Weight::examples(update.examples);
        accumulator.add(0, &update.values, weight);
        accumulator.count(Contribution::of_one(weight)).map_err(failed)?;
    }
    let mut writer = SumWriter::new(tag, accumulator.counted(), u32::try_from(values).unwrap_or(u32::MAX));
    for first in (0..values).step_by(VALUES_AT_ONCE) {
        writer.push(&accumulator.integers(first..values.min(first + VALUES_AT_ONCE)));
    }
    Ok((accumulator.counted(), writer.finish().map_err(failed)?))
}

/// The same of updates on a grid, with the largest exponent of each block.
fn direct_sum_on_grid(
    updates: &[Update],
    values: usize,
    caps: SumCaps,
    tag: [u8; 8],
) -> Result<(Contribution, Vec<u8>), BenchError> {
    let point = caps.binary_point().map_err(failed)?;
    let contributions = updates.iter().map(|update| Contribution::of_one(Weight::examples(update.examples)));
    let contribution = contributions.reduce(|sum, one| Contribution {
        weight: Weight::of_units(sum.weight.units() + one.weight.units()),
        updates: sum.updates + one.updates,
    });
    let contribution = contribution.unwrap_or_default();
    let mut writer = SumWriter::new(tag, contribution, u32::try_from(values).unwrap_or(u32::MAX));
    let value_max = caps.value_max(point).unsigned_abs();
    let mut exponents = Vec::with_capacity(values.div_ceil(GRID_BLOCK));
    for first in (0..values).step_by(GRID_BLOCK) {
        let own = |update: &Update| {
            let mut own = vec![0; GRID_BLOCK.min(values - first)];
            update.weighted(point).integers(first, &mut own);
            own
        };
        let mut blocks: Vec<Vec<i64>> = updates.iter().map(own).collect();
        exponents.push(blocks.iter().map(|block| exponent(block, GRID_BITS)).max().unwrap_or(0));
        let mut sum = vec![0; blocks[0].len()];
        for (update, block) in updates.iter().zip(&mut blocks) {
            round(block, first, &exponents, value_max, update.seed());
            sum.iter_mut().zip(&*block).for_each(|(sum, value)| *sum += *value);
        }
        writer.push(&sum);
    }
    Ok((contribution, writer.finish().map_err(failed)?))
}

fn failed(error: impl std::error::Error) -> BenchError {
    BenchError::Codec(error.to_string())
}
