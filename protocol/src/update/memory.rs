//! What a device keeps from one update to the next: what it did not send, and for `dgc` a momentum.
//!
//! Error feedback (Seide et al. 2014; Karimireddy, Rebjock, Stich and Jaggi 2019, arXiv:1901.09847, algorithm 2): the
//! delta g and the remainder e are encoded together, p = g + e, and e becomes p minus what the server decodes. So all
//! that was sent and what is kept sum to all that was learnt. For `dgc` (Lin et al. 2018, arXiv:1712.01887) the remainder
//! is v of u <- m u + g, v <- v + u, and u is zero afterwards where something was sent.
//!
//! Everything here is a function of its arguments. The caller keeps the [`Memory`] and replaces it only when the server
//! has accepted the update: then a device that drops out, or whose upload is refused, goes on from what it kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Codec, DeltaSink, EncodeError, UpdateDecoder, UpdateHeader, UpdateLimits, check_finite, encode};
use crate::hash::Sha256Hash;
use crate::model::ParameterList;
use crate::safetensors::{
    Data, Decoder, Dtype, Header, LayoutError, SafetensorsError, Sink, Tensor, TensorSpec, match_tensors, shortened,
    write,
};
use crate::seed::Seed;

/// Rounds after which a remainder is dropped, unless the codec has another number.
pub const RESIDUAL_AGE_ROUNDS_MAX: u32 = 100;

/// What `format` says in a memory's metadata.
const FORMAT: &str = "tributary-memory-1";
const RESIDUAL: &str = "residual";
const MOMENTUM: &str = "momentum";
/// Longest header of a memory's file, in bytes: two tensors and three entries.
const HEADER_BYTES_MAX: u64 = 4096;

/// What a device keeps for a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// What was not sent, one value for each parameter.
    pub residual: Vec<f32>,
    /// The momentum of `dgc`, as long.
    pub momentum: Option<Vec<f32>>,
    /// The round of the update that left it.
    pub round: u32,
    /// The model that the update started from.
    pub model_sha256: Sha256Hash,
}

/// Why a file is not a memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// Not a safetensors file.
    #[error(transparent)]
    File(#[from] SafetensorsError),
    /// Not the tensors of a memory.
    #[error(transparent)]
    Tensors(#[from] LayoutError),
    /// Not a format that this version reads.
    #[error("the memory's format is {0:?} instead of {FORMAT:?}")]
    WrongFormat(String),
    /// An entry of the metadata that is missing or says nothing.
    #[error("the memory's metadata has no {0:?} that makes sense")]
    BadMetadata(&'static str),
    /// A NaN or an infinity.
    #[error("value {index} of tensor {tensor:?} is not finite")]
    NotFinite {
        /// The tensor's name.
        tensor: &'static str,
        /// Which of its values.
        index: usize,
    },
}

/// The update's file, as [`encode`] writes it, of the delta and what `memory` still holds; and what to remember then.
///
/// For codecs without memory it is [`encode`], and nothing is to be remembered. A memory that is too old for the codec, or
/// of a model of another size, counts as none. Store the new one once the server has accepted the update; until then the
/// old one is right.
///
/// # Errors
/// [`EncodeError`] for values that no update can hold.
///
/// # Panics
/// If the delta has not one value for each parameter, a mistake of the caller.
pub fn encode_with_memory(
    delta: &[f32],
    parameters: &Arc<ParameterList>,
    header: &UpdateHeader,
    round: u32,
    seed: Seed,
    memory: Option<&Memory>,
    model_sha256: Sha256Hash,
) -> Result<(Vec<u8>, Option<Memory>), EncodeError> {
    if !header.codec.properties().feedback {
        return Ok((encode(delta, parameters, header, round, seed)?, None));
    }
    check_finite(delta)?;
    let memory = memory.filter(|memory| memory.fits(&header.codec, round, delta.len()));
    let mut accumulated = delta.to_vec();
    let momentum = compensate(&header.codec, &mut accumulated, memory);
    let file = encode(&accumulated, parameters, header, round, seed)?;
    let (residual, momentum) = remaining(accumulated, momentum, &file, parameters, header);
    Ok((file, Some(Memory { residual, momentum, round, model_sha256 })))
}

impl Memory {
    /// Whether it can be added to an update of this round with so many values.
    ///
    /// Not when it is older than the codec allows, nor when it is from a later round: the job has begun anew.
    #[must_use]
    pub fn fits(&self, codec: &Codec, round: u32, values: usize) -> bool {
        let lengths_fit = self.residual.len() == values && self.momentum.as_ref().is_none_or(|u| u.len() == values);
        let young = round.checked_sub(self.round).is_some_and(|age| age <= residual_age_rounds_max(codec));
        lengths_fit && young
    }

    /// The memory as one safetensors file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let metadata = BTreeMap::from([
            ("format".to_owned(), FORMAT.to_owned()),
            ("model_sha256".to_owned(), self.model_sha256.to_string()),
            ("round".to_owned(), self.round.to_string()),
        ]);
        let (residual_shape, momentum_shape) = ([self.residual.len()], [self.momentum.as_ref().map_or(0, Vec::len)]);
        let mut tensors = vec![Tensor { name: RESIDUAL, shape: &residual_shape, data: Data::F32(&self.residual) }];
        if let Some(momentum) = &self.momentum {
            tensors.push(Tensor { name: MOMENTUM, shape: &momentum_shape, data: Data::F32(momentum) });
        }
        write(&tensors, &metadata)
    }

    /// A memory from its file, of which nothing is believed.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub fn from_bytes(file: &[u8]) -> Result<Self, MemoryError> {
        let mut reader = Reader::default();
        let mut decoder = Decoder::new(HEADER_BYTES_MAX);
        decoder.push(file, &mut reader)?;
        decoder.finish()?;
        let Reader { metadata, has_momentum, residual, momentum, .. } = reader;
        let entry = |key| metadata.get(key).ok_or(MemoryError::BadMetadata(key));
        let round = entry("round")?.parse().map_err(|_| MemoryError::BadMetadata("round"))?;
        let model_sha256 = entry("model_sha256")?.parse().map_err(|_| MemoryError::BadMetadata("model_sha256"))?;
        for (tensor, values) in [(RESIDUAL, &residual), (MOMENTUM, &momentum)] {
            if let Some(index) = values.iter().position(|value| !value.is_finite()) {
                return Err(MemoryError::NotFinite { tensor, index });
            }
        }
        Ok(Self { residual, momentum: has_momentum.then_some(momentum), round, model_sha256 })
    }
}

fn residual_age_rounds_max(codec: &Codec) -> u32 {
    match codec {
        Codec::TopK(top_k) => top_k.residual_age_rounds_max,
        Codec::Dgc(dgc) => dgc.residual_age_rounds_max,
        _ => RESIDUAL_AGE_ROUNDS_MAX,
    }
}

/// Turns the delta into what is to be encoded, and gives the momentum where the codec has one.
fn compensate(codec: &Codec, delta: &mut [f32], memory: Option<&Memory>) -> Option<Vec<f32>> {
    let Codec::Dgc(dgc) = codec else {
        if let Some(memory) = memory {
            add(delta, &memory.residual);
        }
        return None;
    };
    clip(delta, dgc.clip);
    if let Some(before) = memory.and_then(|memory| memory.momentum.as_deref()) {
        for (value, before) in delta.iter_mut().zip(before) {
            // u <- m u + g, in two steps: a fused one would round otherwise.
            *value += dgc.momentum * before;
        }
    }
    let momentum = delta.to_vec();
    if let Some(memory) = memory {
        add(delta, &memory.residual);
    }
    Some(momentum)
}

fn add(values: &mut [f32], others: &[f32]) {
    for (value, other) in values.iter_mut().zip(others) {
        *value += other;
    }
}

/// Makes a delta as long (L2) as `norm_max` when it is longer; 0 allows any length.
fn clip(delta: &mut [f32], norm_max: f32) {
    if norm_max == 0.0 {
        return;
    }
    // Each lane in the order of the vector: the same sum everywhere.
    const LANES: usize = 8;
    let mut squares = [0.0f64; LANES];
    for values in delta.chunks(LANES) {
        for (sum, value) in squares.iter_mut().zip(values) {
            *sum += f64::from(*value) * f64::from(*value);
        }
    }
    let norm = squares.iter().sum::<f64>().sqrt();
    if norm > f64::from(norm_max) {
        let factor = f64::from(norm_max) / norm;
        delta.iter_mut().for_each(|value| *value = (f64::from(*value) * factor) as f32);
    }
}

/// What remains of the accumulated values and the momentum when the server has decoded the file.
fn remaining(
    accumulated: Vec<f32>,
    momentum: Option<Vec<f32>>,
    file: &[u8],
    parameters: &Arc<ParameterList>,
    header: &UpdateHeader,
) -> (Vec<f32>, Option<Vec<f32>>) {
    let masked = matches!(header.codec, Codec::Dgc(dgc) if dgc.momentum_masking);
    let mut remaining = Remaining { residual: accumulated, momentum, masked };
    let limits = UpdateLimits { magnitude_max: f32::MAX };
    let mut decoder = UpdateDecoder::new(Arc::clone(parameters), header.clone(), limits);
    decoder.push(file, &mut remaining).expect("what was encoded can be decoded");
    decoder.finish().expect("what was encoded is whole");
    (remaining.residual, remaining.momentum)
}

/// Takes away what is sent. Where that is a copy nothing remains; where it is a nearby number the difference is exact.
struct Remaining {
    residual: Vec<f32>,
    momentum: Option<Vec<f32>>,
    /// Whether the momentum of what is sent becomes zero.
    masked: bool,
}

impl Remaining {
    fn sent(&mut self, index: usize, value: f32) {
        self.residual[index] -= value;
        if self.masked
            && value != 0.0
            && let Some(momentum) = &mut self.momentum
        {
            momentum[index] = 0.0;
        }
    }
}

impl DeltaSink for Remaining {
    fn dense(&mut self, first: usize, values: &[f32]) {
        values.iter().enumerate().for_each(|(index, value)| self.sent(first + index, *value));
    }

    fn sparse(&mut self, first: usize, indices: &[u32], values: &[f32]) {
        indices.iter().zip(values).for_each(|(index, value)| self.sent(first + *index as usize, *value));
    }
}

/// Collects a memory's tensors.
#[derive(Default)]
struct Reader {
    metadata: BTreeMap<String, String>,
    has_momentum: bool,
    /// Whether the tensor that comes first is the momentum.
    momentum_first: bool,
    residual: Vec<f32>,
    momentum: Vec<f32>,
}

impl Sink for Reader {
    type Error = MemoryError;

    fn header(&mut self, header: &Header) -> Result<(), MemoryError> {
        let format = header.metadata().get("format").map_or("", String::as_str);
        if format != FORMAT {
            return Err(MemoryError::WrongFormat(shortened(format)));
        }
        let named = |name| header.tensors().iter().find(|info| info.name == name);
        let elements = named(RESIDUAL).ok_or_else(|| LayoutError::Missing(RESIDUAL.to_owned()))?.elements;
        let spec = |name: &str| TensorSpec { name: name.to_owned(), dtype: Dtype::F32, shape: vec![elements] };
        let mut expected = vec![spec(RESIDUAL)];
        self.has_momentum = named(MOMENTUM).is_some();
        if self.has_momentum {
            expected.push(spec(MOMENTUM));
        }
        self.momentum_first = match_tensors(header, &expected)?.first() == Some(&1);
        self.metadata = header.metadata().clone();
        Ok(())
    }

    fn block(&mut self, tensor: usize, _element: usize, bytes: &[u8]) -> Result<(), MemoryError> {
        let is_momentum = (tensor == 0) == self.momentum_first;
        let values = if is_momentum { &mut self.momentum } else { &mut self.residual };
        // Grows with the bytes that are here, whatever the header says.
        values.extend(bytes.as_chunks().0.iter().map(|element| f32::from_le_bytes(*element)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Dgc, SparseValues, TopK};
    use super::*;
    use crate::model::ParameterSpec;

    const MODEL: Sha256Hash = Sha256Hash([7; 32]);

    fn parameters(values: usize) -> Arc<ParameterList> {
        let half = values / 2;
        let specs = vec![ParameterSpec::new("a", [half]), ParameterSpec::new("b", [values - half])];
        Arc::new(ParameterList::new(specs).unwrap())
    }

    fn header(codec: Codec) -> UpdateHeader {
        UpdateHeader { codec, job: "job_1".into(), base_version: 1 }
    }

    /// Encodes, and gives what the server decodes and what is remembered.
    fn sent(codec: Codec, delta: &[f32], round: u32, memory: Option<&Memory>) -> (Vec<f32>, Option<Memory>) {
        let (parameters, header) = (parameters(delta.len()), header(codec));
        let (file, memory) =
            encode_with_memory(delta, &parameters, &header, round, Seed(u64::from(round)), memory, MODEL).unwrap();
        let mut decoder = UpdateDecoder::new(parameters, header, UpdateLimits { magnitude_max: f32::MAX });
        let mut decoded = vec![0.0; delta.len()];
        decoder.push(&file, &mut decoded).unwrap();
        decoder.finish().unwrap();
        (decoded, memory)
    }

    fn top_k(values: SparseValues) -> Codec {
        Codec::TopK(TopK { density: 0.2, values, ..TopK::default() })
    }

    fn dgc() -> Dgc {
        Dgc { density: 0.2, values: SparseValues::F32, warm_up_rounds: 0, ..Dgc::default() }
    }

    /// Deltas of several rounds.
    fn deltas() -> impl Strategy<Value = Vec<Vec<f32>>> {
        (4usize..40).prop_flat_map(|values| {
            prop::collection::vec(prop::collection::vec(prop_oneof![Just(0.0f32), -2.0f32..2.0], values), 1..6)
        })
    }

    proptest! {
        #[test]
        fn sent_and_remembered_sum_to_what_was_accumulated(
            deltas in deltas(),
            values in prop::sample::select(vec![SparseValues::F32, SparseValues::F16, SparseValues::Int8]),
        ) {
            let mut memory: Option<Memory> = None;
            for (round, delta) in (1..).zip(&deltas) {
                let kept = memory.map_or(vec![0.0; delta.len()], |memory| memory.residual);
                let before = Memory { residual: kept.clone(), momentum: None, round: round - 1, model_sha256: MODEL };
                let (decoded, after) = sent(top_k(values), delta, round, Some(&before));
                let after = after.unwrap();
                for index in 0..delta.len() {
                    let accumulated = delta[index] + kept[index];
                    // To the bit: a copy leaves zero, and between nearby numbers the difference is exact.
                    prop_assert_eq!(decoded[index] + after.residual[index], accumulated);
                    prop_assert_eq!(accumulated - decoded[index], after.residual[index]);
                    if values == SparseValues::F32 && decoded[index] != 0.0 {
                        prop_assert_eq!(decoded[index].to_bits(), accumulated.to_bits());
                    }
                }
                memory = Some(after);
            }
        }

        #[test]
        fn dgc_is_momentum_sgd_at_density_1(deltas in deltas()) {
            let codec = Codec::Dgc(Dgc { density: 1.0, momentum_masking: false, ..dgc() });
            let mut velocity = vec![0.0f32; deltas[0].len()];
            let mut memory = None;
            for (round, delta) in (1..).zip(&deltas) {
                velocity.iter_mut().zip(delta).for_each(|(u, g)| *u = g + 0.9 * *u);
                let (decoded, after) = sent(codec, delta, round, memory.as_ref());
                prop_assert_eq!(&decoded, &velocity);
                prop_assert!(after.as_ref().unwrap().residual.iter().all(|value| *value == 0.0));
                memory = after;
            }
        }

        #[test]
        fn momentum_and_remainder_are_zero_where_dgc_sent(deltas in deltas()) {
            let (mut u, mut v) = (vec![0.0f32; deltas[0].len()], vec![0.0f32; deltas[0].len()]);
            let mut memory = None;
            for (round, delta) in (1..).zip(&deltas) {
                for index in 0..delta.len() {
                    u[index] = delta[index] + 0.9 * u[index];
                    v[index] += u[index];
                }
                let (decoded, after) = sent(Codec::Dgc(dgc()), delta, round, memory.as_ref());
                for index in 0..delta.len() {
                    if decoded[index] != 0.0 {
                        prop_assert_eq!(decoded[index], v[index]);
                        (u[index], v[index]) = (0.0, 0.0);
                    }
                }
                let after = after.unwrap();
                prop_assert_eq!(&after.residual, &v);
                prop_assert_eq!(after.momentum.as_ref(), Some(&u));
                memory = Some(after);
            }
        }

        #[test]
        fn damaged_files_give_a_finite_memory_or_an_error(
            flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut file = memory().to_bytes();
            prop_assert!(Memory::from_bytes(&file[..cut.index(file.len())]).is_err());
            for (index, flip) in flips {
                let at = index.index(file.len());
                file[at] ^= flip;
            }
            if let Ok(memory) = Memory::from_bytes(&file) {
                prop_assert!(memory.residual.iter().chain(memory.momentum.iter().flatten()).all(|v| v.is_finite()));
            }
        }
    }

    fn memory() -> Memory {
        let (residual, momentum) = (vec![1.0, -2.0, 1e-40], Some(vec![0.5, 0.0, -0.0]));
        Memory { residual, momentum, round: 12, model_sha256: MODEL }
    }

    #[test]
    fn what_is_not_sent_is_sent_the_next_time() {
        let codec = Codec::TopK(TopK { density: 0.25, values: SparseValues::F32, ..TopK::default() });
        let (first, memory) = sent(codec, &[3.0, 2.0, -1.0, 0.0], 1, None);
        assert_eq!(first, [3.0, 0.0, 0.0, 0.0]);
        assert_eq!(memory.as_ref().unwrap().residual, [0.0, 2.0, -1.0, 0.0]);
        let (second, memory) = sent(codec, &[0.5, 0.5, -2.0, 0.0], 2, memory.as_ref());
        assert_eq!(second, [0.0, 0.0, -3.0, 0.0]);
        let memory = memory.unwrap();
        assert_eq!((memory.residual, memory.momentum, memory.round), (vec![0.5, 2.5, 0.0, 0.0], None, 2));
    }

    #[test]
    fn a_device_that_drops_out_keeps_what_it_had() {
        let codec = Codec::Dgc(dgc());
        let (_, kept) = sent(codec, &[3.0, 2.0, -1.0, 0.5], 1, None);
        // Round 2 is lost on the way; round 3 goes on from round 1.
        let before = kept.clone();
        let _ = sent(codec, &[9.0, 9.0, 9.0, 9.0], 2, kept.as_ref());
        assert_eq!(kept, before);
        let (third, memory) = sent(codec, &[0.0; 4], 3, kept.as_ref());
        assert_eq!(third, [0.0, 2.0 + 0.9 * 2.0, 0.0, 0.0]);
        assert_eq!(memory.unwrap().residual[0], 0.0);
    }

    #[test]
    fn a_memory_that_is_too_old_or_of_another_model_counts_as_none() {
        let codec = Codec::TopK(TopK { residual_age_rounds_max: 10, ..TopK::default() });
        let memory = memory();
        for (round, values, fits) in [
            (12, 3, true),
            (13, 3, true),
            (22, 3, true),
            (23, 3, false),
            (11, 3, false),
            (13, 4, false),
            (13, 2, false),
        ] {
            assert_eq!(memory.fits(&codec, round, values), fits, "round {round}, {values} values");
        }
        assert!(memory.fits(&Codec::Sign, 112, 3) && !memory.fits(&Codec::Sign, 113, 3));
        let delta = [0.25, 0.5, 1.0];
        assert_eq!(sent(codec, &delta, 23, Some(&memory)), sent(codec, &delta, 23, None));
        assert_ne!(sent(codec, &delta, 22, Some(&memory)), sent(codec, &delta, 22, None));
    }

    #[test]
    fn a_codec_without_memory_remembers_nothing() {
        let (decoded, after) = sent(Codec::F32, &[1.0, 2.0, 3.0], 13, Some(&memory()));
        assert_eq!((decoded, after), (vec![1.0, 2.0, 3.0], None));
    }

    #[test]
    fn a_long_delta_is_clipped_before_it_is_accumulated() {
        let codec = Codec::Dgc(Dgc { clip: 1.0, density: 1.0, ..dgc() });
        assert_eq!(sent(codec, &[3.0, 0.0, 4.0], 1, None).0, [0.6, 0.0, 0.8]);
        assert_eq!(sent(codec, &[0.3, 0.0, 0.4], 1, None).0, [0.3, 0.0, 0.4]);
        assert_eq!(sent(codec, &[f32::MAX, 0.0, 0.0], 1, None).0, [1.0, 0.0, 0.0]);
    }

    #[test]
    fn what_no_update_can_hold_is_refused() {
        let parameters = parameters(3);
        let header = header(top_k(SparseValues::F16));
        let encode = |delta: &[f32], memory| encode_with_memory(delta, &parameters, &header, 1, Seed(1), memory, MODEL);
        assert_eq!(encode(&[1.0, f32::NAN, 0.0], None), Err(EncodeError::NotFinite { index: 1 }));
        let residual = vec![0.0, 0.0, f32::MAX];
        let memory = Memory { residual, momentum: None, round: 1, model_sha256: MODEL };
        assert_eq!(encode(&[1.0, 1.0, f32::MAX], Some(&memory)), Err(EncodeError::NotFinite { index: 2 }));
    }

    #[test]
    fn a_memory_comes_back_from_its_file() {
        for momentum in [None, memory().momentum] {
            let memory = Memory { momentum, ..memory() };
            let file = memory.to_bytes();
            assert_eq!(Memory::from_bytes(&file), Ok(memory.clone()));
            assert_eq!(Memory::from_bytes(&file).unwrap().to_bytes(), file);
        }
    }

    #[test]
    fn a_file_that_is_no_memory_is_refused_by_what_is_wrong() {
        let metadata = |changes: &[(&str, &str)]| {
            let mut metadata = BTreeMap::from([
                ("format".to_owned(), FORMAT.to_owned()),
                ("model_sha256".to_owned(), MODEL.to_string()),
                ("round".to_owned(), "3".to_owned()),
            ]);
            changes.iter().for_each(|(key, value)| drop(metadata.insert((*key).to_owned(), (*value).to_owned())));
            metadata
        };
        let residual = Tensor { name: RESIDUAL, shape: &[2], data: Data::F32(&[1.0, 2.0]) };
        let momentum = Tensor { name: MOMENTUM, shape: &[2], data: Data::F32(&[3.0, 4.0]) };
        let read =
            |tensors: &[Tensor<'_>], changes: &[(&str, &str)]| Memory::from_bytes(&write(tensors, &metadata(changes)));
        let refusal = |tensors: &[Tensor<'_>], changes: &[(&str, &str)]| read(tensors, changes).unwrap_err();
        let swapped = read(&[momentum, residual], &[]).unwrap();
        assert_eq!((swapped.residual, swapped.momentum), (vec![1.0, 2.0], Some(vec![3.0, 4.0])));
        assert_eq!(refusal(&[residual], &[("format", "pt")]), MemoryError::WrongFormat("pt".into()));
        assert_eq!(refusal(&[residual], &[("round", "-1")]), MemoryError::BadMetadata("round"));
        assert_eq!(refusal(&[residual], &[("model_sha256", "07")]), MemoryError::BadMetadata("model_sha256"));
        assert_eq!(refusal(&[momentum], &[]), MemoryError::Tensors(LayoutError::Missing(RESIDUAL.into())));
        let short = Tensor { name: MOMENTUM, shape: &[1], data: Data::F32(&[3.0]) };
        assert!(matches!(refusal(&[residual, short], &[]), MemoryError::Tensors(LayoutError::Misshapen { .. })));
        let other = Tensor { name: "other", ..momentum };
        assert_eq!(refusal(&[residual, other], &[]), MemoryError::Tensors(LayoutError::Extra("other".into())));
        let nan = Tensor { data: Data::F32(&[0.0, f32::NAN]), ..residual };
        assert_eq!(refusal(&[nan], &[]), MemoryError::NotFinite { tensor: RESIDUAL, index: 1 });
        let mut long = 5000u64.to_le_bytes().to_vec();
        long.push(b'{');
        assert!(matches!(Memory::from_bytes(&long), Err(MemoryError::File(SafetensorsError::HeaderTooLong { .. }))));
    }
}
