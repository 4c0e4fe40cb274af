//! The server's half of an update: a stream of bytes to checked blocks of the delta.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::codecs::blocks::BlocksReader;
use super::codecs::plain;
use super::frame::{self, FrameReader, Section, SectionError};
use super::statistics::{LANES, magnitude_bits, square, statistics};
use super::{Codec, DeltaSink, FORMAT, UpdateHeader, bytes_max, header_bytes_max, plain_dtype, section_codec};
use crate::body::{UnpackError, Unpacker};
use crate::cpu::{Cpu, prefetch};
use crate::model::ParameterList;
use crate::safetensors::{
    Decoder, Dtype, Header, LayoutError, SafetensorsError, Sink, TensorSpec, match_tensors, shortened,
};

/// Most values in a block that is handed out: they stay in the first-level cache.
pub(super) const BLOCK_VALUES_MAX: usize = 1024;

/// What a value of a delta may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateLimits {
    /// Largest absolute value.
    pub magnitude_max: f32,
}

/// What was seen of a delta that was accepted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateStatistics {
    /// Euclidean length (L2 norm) of the whole delta.
    pub norm: f64,
    /// Largest absolute value.
    pub magnitude_max: f32,
}

/// Why a file is not an update that can be added.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum UpdateError {
    /// Not a body that can be unpacked.
    #[error(transparent)]
    Body(#[from] UnpackError),
    /// Not a safetensors file.
    #[error(transparent)]
    File(#[from] SafetensorsError),
    /// Not the tensors of this model.
    #[error(transparent)]
    Tensors(#[from] LayoutError),
    /// The metadata lacks an entry.
    #[error("the update's metadata has no {0:?}")]
    MissingMetadata(&'static str),
    /// Not a format that this version reads.
    #[error("the update's format is {0:?} instead of {FORMAT:?}")]
    WrongFormat(String),
    /// Another codec than the plan's.
    #[error("the update's codec is {got:?} instead of \"{expected}\"")]
    WrongCodec {
        /// The plan's codec.
        expected: Codec,
        /// The file's.
        got: String,
    },
    /// An update of another job.
    #[error("the update is for job {got:?} instead of {expected:?}")]
    WrongJob {
        /// The assignment's job.
        expected: String,
        /// The file's.
        got: String,
    },
    /// A delta to another model version.
    #[error("the update's base version is {got:?} instead of {expected}")]
    WrongBaseVersion {
        /// The version that the round started from.
        expected: u64,
        /// The file's.
        got: String,
    },
    /// Tensors in an order in which they cannot be read as they come.
    #[error("tensor {tensor:?} must come after {after:?}, which it needs")]
    OutOfOrder {
        /// The tensor that came too early.
        tensor: String,
        /// What must come before it.
        after: String,
    },
    /// A scale that is NaN, infinite or negative.
    #[error("a scale of tensor {tensor:?} is {scale}")]
    BadScale {
        /// The tensor's name.
        tensor: String,
        /// The scale.
        scale: f32,
    },
    /// A number that the codec does not write.
    #[error("a number of tensor {tensor:?} stands for nothing")]
    BadCode {
        /// The tensor's name.
        tensor: String,
    },
    /// A part of the frame that the codec does not write.
    #[error("section {section} of the update: {source}")]
    Section {
        /// Which one, from 0.
        section: usize,
        /// What is wrong with it.
        source: SectionError,
    },
    /// A NaN or an infinity.
    #[error("value {index} of tensor {tensor:?} is not finite")]
    NotFinite {
        /// The tensor's name.
        tensor: String,
        /// Which of its values, row by row.
        index: usize,
    },
    /// A value above the cap.
    #[error("value {index} of tensor {tensor:?} is {value}, above the largest magnitude of {magnitude_max}")]
    TooLarge {
        /// The tensor's name.
        tensor: String,
        /// Which of its values, row by row.
        index: usize,
        /// The value.
        value: f32,
        /// The cap.
        magnitude_max: f32,
    },
}

/// Reads one update that arrives in pieces, as a file or as one zstd frame.
#[derive(Debug)]
pub struct UpdateDecoder {
    unpacker: Unpacker,
    file: Decoder,
    /// What the file must say of itself; a whole model says nothing.
    expected: Option<UpdateHeader>,
    reader: Reader,
    check: Check,
}

/// What turns tensors into values, by codec.
#[derive(Debug)]
enum Reader {
    /// A tensor for each parameter.
    Plain {
        dtype: Dtype,
        /// For each tensor of the file its parameter.
        parameter_of_tensor: Vec<usize>,
    },
    /// Two tensors for each parameter.
    Blocks(BlocksReader),
    /// One tensor of sections.
    Frame(FrameReader),
}

/// What is asked of every value before it is handed out.
#[derive(Debug)]
struct Check {
    parameters: Arc<ParameterList>,
    limits: UpdateLimits,
    /// Bits of the largest magnitude allowed, which is finite whatever the limit says.
    magnitude_bits_max: i32,
    /// Bits of the largest magnitude seen.
    magnitude_bits: i32,
    norm_squared: [f64; LANES],
}

impl UpdateDecoder {
    /// A decoder of an update to a model of these parameters.
    #[must_use]
    pub fn new(parameters: Arc<ParameterList>, expected: UpdateHeader, limits: UpdateLimits) -> Self {
        Self::reading(parameters, expected.codec, Some(expected), limits)
    }

    pub(super) fn reading(
        parameters: Arc<ParameterList>,
        codec: Codec,
        expected: Option<UpdateHeader>,
        limits: UpdateLimits,
    ) -> Self {
        let unpacker = Unpacker::new(bytes_max(&parameters, codec));
        let file = Decoder::new(header_bytes_max(&parameters, codec));
        let reader = match (plain_dtype(codec), codec) {
            (Some(dtype), _) => Reader::Plain { dtype, parameter_of_tensor: Vec::new() },
            (None, Codec::Int8(blocks)) => Reader::Blocks(BlocksReader::new(Arc::clone(&parameters), 8, blocks)),
            (None, Codec::Int4(blocks)) => Reader::Blocks(BlocksReader::new(Arc::clone(&parameters), 4, blocks)),
            (None, codec) => {
                let sections = section_codec(codec).expect("every other codec writes sections");
                Reader::Frame(FrameReader::new(&parameters, sections))
            }
        };
        Self { unpacker, file, expected, reader, check: Check::new(parameters, limits) }
    }

    /// Takes the next bytes of the file and hands out the values that they complete.
    ///
    /// Values were checked before they are handed out, but only [`Self::finish`] says that the update is whole: be ready
    /// to take them back until then.
    ///
    /// # Errors
    /// [`UpdateError`]. Afterwards the update is lost: every further call fails.
    pub fn push(&mut self, piece: &[u8], sink: &mut impl DeltaSink) -> Result<(), UpdateError> {
        let Self { unpacker, file, expected, reader, check } = self;
        let checked = &mut Checked { expected: expected.as_ref(), reader, check, sink };
        unpacker.push(piece, &mut |piece| file.push(piece, checked))
    }

    /// Says that the file ends here. Every parameter was then handed out at most once; those that were not are zero.
    ///
    /// # Errors
    /// [`UpdateError`] if bytes are missing or the update was refused before.
    pub fn finish(self) -> Result<UpdateStatistics, UpdateError> {
        self.file.finish()?;
        self.unpacker.finish()?;
        if let Reader::Frame(frame) = &self.reader {
            frame.finish()?;
        }
        let norm = self.check.norm_squared.iter().sum::<f64>().sqrt();
        Ok(UpdateStatistics { norm, magnitude_max: f32::from_bits(self.check.magnitude_bits as u32) })
    }
}

struct Checked<'a, S> {
    expected: Option<&'a UpdateHeader>,
    reader: &'a mut Reader,
    check: &'a mut Check,
    sink: &'a mut S,
}

impl<S: DeltaSink> Sink for Checked<'_, S> {
    type Error = UpdateError;

    fn header(&mut self, header: &Header) -> Result<(), UpdateError> {
        if let Some(expected) = self.expected {
            check_metadata(header.metadata(), expected)?;
        }
        match self.reader {
            Reader::Plain { dtype, parameter_of_tensor } => {
                *parameter_of_tensor = match_tensors(header, &plain_specs(&self.check.parameters, *dtype))?;
            }
            Reader::Blocks(blocks) => blocks.header(header)?,
            Reader::Frame(_) => check_frame(header)?,
        }
        Ok(())
    }

    fn block(&mut self, tensor: usize, element: usize, bytes: &[u8]) -> Result<(), UpdateError> {
        let Self { reader, check, sink, .. } = self;
        match reader {
            Reader::Plain { dtype, parameter_of_tensor } => {
                let first = check.parameters.range(parameter_of_tensor[tensor]).start + element;
                let mut values = [0.0; BLOCK_VALUES_MAX];
                // A tenth faster when the bytes are in no cache.
                let mut later = bytes;
                for (number, block) in bytes.chunks(BLOCK_VALUES_MAX * dtype.bytes()).enumerate() {
                    later = &later[block.len()..];
                    prefetch(&later[..later.len().min(block.len())]);
                    let values = &mut values[..block.len() / dtype.bytes()];
                    plain::decode(block, *dtype, values);
                    check.dense(first + number * BLOCK_VALUES_MAX, values, *sink)?;
                }
                Ok(())
            }
            Reader::Blocks(blocks) => {
                blocks.block(tensor, element, bytes, &mut |first, values| check.dense(first, values, *sink))
            }
            Reader::Frame(frame) => frame.push(bytes, &mut |first, section| check.section(first, section, *sink)),
        }
    }
}

impl Check {
    fn new(parameters: Arc<ParameterList>, limits: UpdateLimits) -> Self {
        // A limit that is NaN or negative lets nothing but zeros through.
        let magnitude_max = if limits.magnitude_max > 0.0 { limits.magnitude_max.min(f32::MAX) } else { 0.0 };
        let magnitude_bits_max = magnitude_bits(magnitude_max);
        Self { parameters, limits, magnitude_bits_max, magnitude_bits: 0, norm_squared: [0.0; LANES] }
    }

    /// Hands out values from `first` on in the flat vector.
    fn dense(&mut self, first: usize, values: &[f32], sink: &mut impl DeltaSink) -> Result<(), UpdateError> {
        let (largest, lanes) = statistics(Cpu::best(), self.norm_squared, first, values);
        if largest > self.magnitude_bits_max {
            let at = values.iter().position(|value| magnitude_bits(*value) > self.magnitude_bits_max);
            let at = at.unwrap_or_default();
            return Err(self.refusal(first + at, values[at]));
        }
        self.magnitude_bits = self.magnitude_bits.max(largest);
        self.norm_squared = lanes;
        sink.dense(first, values);
        Ok(())
    }

    /// Hands out a section that begins at `first`.
    fn section(&mut self, first: usize, section: &Section, sink: &mut impl DeltaSink) -> Result<(), UpdateError> {
        if !section.sparse {
            for (number, block) in section.values.chunks(BLOCK_VALUES_MAX).enumerate() {
                self.dense(first + number * BLOCK_VALUES_MAX, block, sink)?;
            }
            return Ok(());
        }
        for (index, value) in section.indices.iter().zip(&section.values) {
            let place = first + *index as usize;
            if magnitude_bits(*value) > self.magnitude_bits_max {
                return Err(self.refusal(place, *value));
            }
            self.magnitude_bits = self.magnitude_bits.max(magnitude_bits(*value));
            self.norm_squared[place % LANES] += square(*value);
        }
        sink.sparse(first, &section.indices, &section.values);
        Ok(())
    }

    fn refusal(&self, at: usize, value: f32) -> UpdateError {
        let parameter = self.parameters.parameter_at(at);
        let tensor = self.parameters.specs()[parameter].name.clone();
        let index = at - self.parameters.range(parameter).start;
        if value.is_finite() {
            UpdateError::TooLarge { tensor, index, value, magnitude_max: self.limits.magnitude_max }
        } else {
            UpdateError::NotFinite { tensor, index }
        }
    }
}

pub(super) fn plain_specs(parameters: &ParameterList, dtype: Dtype) -> Vec<TensorSpec> {
    parameters
        .specs()
        .iter()
        .map(|spec| TensorSpec { name: spec.name.clone(), dtype, shape: spec.shape.clone() })
        .collect()
}

/// A frame is one tensor of bytes; its length is checked section by section.
fn check_frame(header: &Header) -> Result<(), LayoutError> {
    let mut tensors = header.tensors().iter();
    let Some(frame) = tensors.find(|info| info.name == frame::TENSOR) else {
        return Err(LayoutError::Missing(frame::TENSOR.to_owned()));
    };
    if let Some(extra) = header.tensors().iter().find(|info| info.name != frame::TENSOR) {
        return Err(LayoutError::Extra(shortened(&extra.name)));
    }
    if frame.dtype != Dtype::U8 {
        return Err(LayoutError::WrongDtype { tensor: frame.name.clone(), expected: Dtype::U8, got: frame.dtype });
    }
    if frame.shape.len() != 1 {
        let (expected, got) = (vec![frame.elements], frame.shape.clone());
        return Err(LayoutError::Misshapen { tensor: frame.name.clone(), expected, got });
    }
    Ok(())
}

/// Format, codec, job and base version must be there and as expected. Further entries are of no concern.
fn check_metadata(metadata: &BTreeMap<String, String>, expected: &UpdateHeader) -> Result<(), UpdateError> {
    let entry = |key| metadata.get(key).ok_or(UpdateError::MissingMetadata(key));
    let format = entry("format")?;
    if format != FORMAT {
        return Err(UpdateError::WrongFormat(shortened(format)));
    }
    let codec = entry("codec")?;
    if *codec != expected.codec.to_string() {
        return Err(UpdateError::WrongCodec { expected: expected.codec, got: shortened(codec) });
    }
    let job = entry("job")?;
    if *job != expected.job {
        return Err(UpdateError::WrongJob { expected: expected.job.clone(), got: shortened(job) });
    }
    let base_version = entry("base_version")?;
    if *base_version != expected.base_version.to_string() {
        let got = shortened(base_version);
        return Err(UpdateError::WrongBaseVersion { expected: expected.base_version, got });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::ParameterSpec;
    use crate::safetensors::{Data, Dtype, Tensor, write};
    use crate::seed::Seed;
    use crate::update::bytes_max;

    const DELTA: [f32; 7] = [0.5, -0.25, 1.0, -2.0, 0.0, 3.0, -0.125];

    fn parameters() -> Arc<ParameterList> {
        let specs = vec![ParameterSpec::new("w", [2, 2]), ParameterSpec::new("b", [3])];
        Arc::new(ParameterList::new(specs).expect("the list is right"))
    }

    fn encode(delta: &[f32]) -> Vec<u8> {
        crate::update::encode(delta, &parameters(), &header(), 1, Seed(1)).expect("the delta is finite")
    }

    fn header() -> UpdateHeader {
        UpdateHeader { codec: Codec::F32, job: "job_1".into(), base_version: 3 }
    }

    fn decode(file: &[u8], piece_bytes: usize) -> Result<(Vec<f32>, UpdateStatistics), UpdateError> {
        let mut decoder = UpdateDecoder::new(parameters(), header(), UpdateLimits { magnitude_max: 3.0 });
        let mut delta = vec![f32::NAN; 7];
        for piece in file.chunks(piece_bytes) {
            decoder.push(piece, &mut delta)?;
        }
        Ok((delta, decoder.finish()?))
    }

    /// Wants every value once and in order.
    #[derive(Default)]
    struct InOrder(Vec<f32>);

    impl DeltaSink for InOrder {
        fn dense(&mut self, first: usize, values: &[f32]) {
            assert_eq!(first, self.0.len());
            assert!(values.len() <= BLOCK_VALUES_MAX);
            self.0.extend_from_slice(values);
        }

        fn sparse(&mut self, _first: usize, _indices: &[u32], _values: &[f32]) {
            panic!("f32 is dense");
        }
    }

    /// Wants no value.
    struct Nothing;

    impl DeltaSink for Nothing {
        fn dense(&mut self, _first: usize, _values: &[f32]) {
            panic!("no value may be handed out");
        }

        fn sparse(&mut self, _first: usize, _indices: &[u32], _values: &[f32]) {
            panic!("no value may be handed out");
        }
    }

    /// A file of tensors `(name, shape, values)` with the expected metadata.
    fn file(tensors: &[(&str, &[usize], &[f32])]) -> Vec<u8> {
        let tensors: Vec<_> =
            tensors.iter().map(|(name, shape, values)| Tensor { name, shape, data: Data::F32(values) }).collect();
        write(&tensors, &header().metadata())
    }

    proptest! {
        #[test]
        fn the_size_of_the_pieces_does_not_matter(
            delta in prop::collection::vec(-3.0f32..3.0, 7),
            piece_bytes in 1usize..400,
        ) {
            let file = encode(&delta);
            let (read, summary) = decode(&file, piece_bytes).unwrap();
            prop_assert_eq!(&read, &delta);
            prop_assert_eq!(summary, decode(&file, file.len()).unwrap().1);
        }

        #[test]
        fn flipped_bytes_never_panic(flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..4)) {
            let mut file = encode(&DELTA);
            for (index, flip) in flips {
                let at = index.index(file.len());
                file[at] ^= flip;
            }
            if let Ok((delta, _)) = decode(&file, 11) {
                prop_assert!(delta.iter().all(|value| value.abs() <= 3.0));
            }
        }
    }

    #[test]
    fn norm_and_magnitude_are_those_of_the_delta() {
        let (delta, summary) = decode(&encode(&DELTA), 1).unwrap();
        assert_eq!(delta, DELTA);
        assert_eq!(summary, UpdateStatistics { norm: (14.328125f64).sqrt(), magnitude_max: 3.0 });
    }

    #[test]
    fn tensors_in_another_order_reach_their_places() {
        let file = file(&[("b", &[3], &DELTA[4..]), ("w", &[2, 2], &DELTA[..4])]);
        assert_eq!(decode(&file, 5).unwrap().0, DELTA);
    }

    #[test]
    fn a_long_tensor_comes_in_blocks_that_cover_it_once() {
        let parameters = Arc::new(ParameterList::new(vec![ParameterSpec::new("w", [5000])]).unwrap());
        let delta: Vec<f32> = (0u16..5000).map(f32::from).collect();
        let file = crate::update::encode(&delta, &parameters, &header(), 1, Seed(1)).unwrap();
        assert!(file.len() as u64 <= bytes_max(&parameters, Codec::F32));
        let mut decoder = UpdateDecoder::new(parameters, header(), UpdateLimits { magnitude_max: 1e4 });
        let mut read = InOrder::default();
        decoder.push(&file, &mut read).unwrap();
        decoder.finish().unwrap();
        assert_eq!(read.0, delta);
    }

    #[test]
    fn a_wrong_tensor_is_refused_before_any_value_is_handed_out() {
        let (w, b): ((_, &[usize], _), (_, &[usize], _)) = (("w", &[2, 2], &DELTA[..4]), ("b", &[3], &DELTA[4..]));
        let cases = [
            (file(&[w]), LayoutError::Missing("b".into())),
            (file(&[w, b, ("c", &[1], &[0.0])]), LayoutError::Extra("c".into())),
            (
                file(&[w, ("b", &[3, 1], &DELTA[4..])]),
                LayoutError::Misshapen { tensor: "b".into(), expected: vec![3], got: vec![3, 1] },
            ),
            (
                write(
                    &[
                        Tensor { name: "w", shape: &[2, 2], data: Data::F32(&DELTA[..4]) },
                        Tensor { name: "b", shape: &[3], data: Data::Bytes(Dtype::I8, &[1, 2, 3]) },
                    ],
                    &header().metadata(),
                ),
                LayoutError::WrongDtype { tensor: "b".into(), expected: Dtype::F32, got: Dtype::I8 },
            ),
        ];
        for (file, why) in cases {
            let mut decoder = UpdateDecoder::new(parameters(), header(), UpdateLimits { magnitude_max: 3.0 });
            let refusal = decoder.push(&file, &mut Nothing);
            assert_eq!(refusal, Err(UpdateError::Tensors(why)));
        }
    }

    #[test]
    fn metadata_of_another_update_is_refused() {
        let changed = |key: &str, value: Option<&str>| {
            let mut metadata = header().metadata();
            match value {
                Some(value) => metadata.insert(key.into(), value.into()),
                None => metadata.remove(key),
            };
            decode(&write(&[], &metadata), 64).unwrap_err()
        };
        let wrong_version = |got: &str| UpdateError::WrongBaseVersion { expected: 3, got: got.into() };
        assert_eq!(changed("base_version", Some("2")), wrong_version("2"));
        assert_eq!(changed("base_version", Some("03")), wrong_version("03"));
        assert_eq!(changed("base_version", None), UpdateError::MissingMetadata("base_version"));
        let wrong_job = UpdateError::WrongJob { expected: "job_1".into(), got: "job_2".into() };
        assert_eq!(changed("job", Some("job_2")), wrong_job);
        let wrong_codec = UpdateError::WrongCodec { expected: Codec::F32, got: "int8".into() };
        assert_eq!(changed("codec", Some("int8")), wrong_codec);
        assert_eq!(changed("format", Some("pt")), UpdateError::WrongFormat("pt".into()));
    }

    #[test]
    fn a_value_that_cannot_be_added_is_refused_by_tensor_and_index() {
        let with = |index: usize, value: f32| {
            let mut delta = DELTA;
            delta[index] = value;
            decode(&file(&[("w", &[2, 2], &delta[..4]), ("b", &[3], &delta[4..])]), 64).unwrap_err()
        };
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(with(6, value), UpdateError::NotFinite { tensor: "b".into(), index: 2 });
        }
        let value = -(3.0f32.next_up());
        assert_eq!(with(1, value), UpdateError::TooLarge { tensor: "w".into(), index: 1, value, magnitude_max: 3.0 });
    }

    #[test]
    fn an_infinite_cap_lets_no_infinity_through() {
        let limits = UpdateLimits { magnitude_max: f32::INFINITY };
        let mut decoder = UpdateDecoder::new(parameters(), header(), limits);
        let file = file(&[("w", &[2, 2], &[f32::INFINITY; 4]), ("b", &[3], &[0.0; 3])]);
        let refusal = decoder.push(&file, &mut Nothing);
        assert_eq!(refusal, Err(UpdateError::NotFinite { tensor: "w".into(), index: 0 }));
    }

    #[test]
    fn a_cap_that_is_no_number_lets_only_zeros_through() {
        for magnitude_max in [f32::NAN, -1.0, 0.0, -0.0] {
            let decoder = || UpdateDecoder::new(parameters(), header(), UpdateLimits { magnitude_max });
            let mut delta = vec![f32::NAN; 7];
            assert!(decoder().push(&encode(&DELTA), &mut delta).is_err());
            decoder().push(&encode(&[0.0; 7]), &mut delta).unwrap();
            assert_eq!(delta, [0.0; 7]);
        }
    }

    /// Which sums a section's values go to must not depend on whether the codec lists its zeros.
    #[test]
    fn a_sparse_section_is_summed_up_like_a_dense_one() {
        let (indices, values) = (vec![1, 4, 6], vec![0.5, -3.0, 0.25]);
        let sparse = Section { indices, values, sparse: true };
        let dense = Section { values: vec![0.0, 0.5, 0.0, 0.0, -3.0, 0.0, 0.25], ..Section::default() };
        let summed = |section: &Section| {
            let mut check = Check::new(parameters(), UpdateLimits { magnitude_max: 3.0 });
            let mut delta = vec![0.0; 7];
            check.section(0, section, &mut delta).unwrap();
            (delta, check.norm_squared, check.magnitude_bits)
        };
        assert_eq!(summed(&sparse), summed(&dense));
        let mut check = Check::new(parameters(), UpdateLimits { magnitude_max: 2.0 });
        let refused = UpdateError::TooLarge { tensor: "b".into(), index: 0, value: -3.0, magnitude_max: 2.0 };
        assert_eq!(check.section(0, &sparse, &mut Nothing), Err(refused));
    }

    #[cfg(feature = "zstd")]
    #[test]
    fn an_update_may_come_as_a_zstd_frame() {
        let parameters = Arc::new(ParameterList::new(vec![ParameterSpec::new("w", [5000])]).unwrap());
        let file = crate::update::encode(&vec![0.25; 5000], &parameters, &header(), 1, Seed(1)).unwrap();
        let body = crate::body::shrink(file.clone());
        assert!(body.len() < file.len() / 10);
        let new = || UpdateDecoder::new(Arc::clone(&parameters), header(), UpdateLimits { magnitude_max: 1.0 });
        for piece_bytes in [1, 50, body.len()] {
            let (mut decoder, mut delta) = (new(), vec![0.0; 5000]);
            body.chunks(piece_bytes).for_each(|piece| decoder.push(piece, &mut delta).unwrap());
            assert_eq!(decoder.finish().unwrap(), UpdateStatistics { norm: 312.5f64.sqrt(), magnitude_max: 0.25 });
            assert_eq!(delta, [0.25; 5000]);
        }
        let mut decoder = new();
        decoder.push(&body[..body.len() - 1], &mut vec![0.0; 5000]).unwrap();
        assert!(decoder.finish().is_err());
        let mut decoder = new();
        let longer = [&body[..], b"x"].concat();
        let refusal = decoder.push(&longer, &mut vec![0.0; 5000]);
        assert_eq!(refusal, Err(UpdateError::Body(UnpackError::TrailingBytes)));
    }

    #[cfg(feature = "zstd")]
    #[test]
    fn a_bomb_is_refused() {
        let limit = bytes_max(&parameters(), Codec::F32);
        let mut bomb = encode(&DELTA);
        bomb.resize(64 << 20, 0);
        let bomb = crate::body::shrink(bomb);
        let mut decoder = UpdateDecoder::new(parameters(), header(), UpdateLimits { magnitude_max: 3.0 });
        let refusal = decoder.push(&bomb, &mut vec![0.0; 7]);
        assert_eq!(refusal, Err(UpdateError::Body(UnpackError::TooLong { limit })));
    }

    #[test]
    fn an_update_cut_short_or_drawn_out_is_refused() {
        let mut file = encode(&DELTA);
        for length in 0..file.len() {
            assert!(matches!(decode(&file[..length], 16), Err(UpdateError::File(_))), "{length} bytes");
        }
        file.push(b' ');
        assert_eq!(decode(&file, 16), Err(UpdateError::File(SafetensorsError::TrailingBytes)));
    }

    #[test]
    fn a_header_far_longer_than_the_model_needs_is_refused_unread() {
        let mut file = (1u64 << 20).to_le_bytes().to_vec();
        file.push(b'{');
        assert!(matches!(decode(&file, 16), Err(UpdateError::File(SafetensorsError::HeaderTooLong { .. }))));
    }
}
