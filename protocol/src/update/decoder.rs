//! The server's half of an update: a stream of bytes to checked blocks of the delta.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Codec, FORMAT, UpdateHeader, header_bytes_max};
use crate::model::ParameterList;
use crate::safetensors::{Decoder, Header, LayoutError, SafetensorsError, Sink, f32_specs, match_tensors, shortened};

/// Most values in a block that is handed out.
const BLOCK_VALUES_MAX: usize = 1024;

/// What a value of a delta may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateLimits {
    /// Largest absolute value.
    pub magnitude_max: f32,
}

/// What was seen of a delta that was accepted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateSummary {
    /// Euclidean length (L2 norm) of the whole delta.
    pub norm: f64,
    /// Largest absolute value.
    pub magnitude_max: f32,
}

/// Why a file is not an update that can be added.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum UpdateError {
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

/// Reads one update that arrives in pieces.
#[derive(Debug)]
pub struct UpdateDecoder {
    file: Decoder,
    delta: DeltaReader,
}

/// What turns tensors into the delta.
#[derive(Debug)]
struct DeltaReader {
    parameters: Arc<ParameterList>,
    expected: UpdateHeader,
    limits: UpdateLimits,
    /// For each tensor of the file the parameter that it is a part of.
    parameter_of_tensor: Vec<usize>,
    norm_squared: f64,
    magnitude_seen: f32,
}

impl UpdateDecoder {
    /// A decoder of an update to a model of these parameters.
    #[must_use]
    pub fn new(parameters: Arc<ParameterList>, expected: UpdateHeader, limits: UpdateLimits) -> Self {
        let file = Decoder::new(header_bytes_max(&parameters, expected.codec));
        let delta = DeltaReader {
            parameters,
            expected,
            limits,
            parameter_of_tensor: Vec::new(),
            norm_squared: 0.0,
            magnitude_seen: 0.0,
        };
        Self { file, delta }
    }

    /// Takes the next bytes of the file and hands out, as (offset in the flat vector, values), what they complete.
    ///
    /// Values were checked before they are handed out, but only [`Self::finish`] says that the update is whole: keep
    /// them apart from anything that lasts until then.
    ///
    /// # Errors
    /// [`UpdateError`]. Afterwards the update is lost: every further call fails.
    pub fn push(&mut self, piece: &[u8], accept: &mut impl FnMut(usize, &[f32])) -> Result<(), UpdateError> {
        self.file.push(piece, &mut Checked { delta: &mut self.delta, accept })
    }

    /// Says that the file ends here. Every parameter was then handed out exactly once.
    ///
    /// # Errors
    /// [`UpdateError`] if bytes are missing or the update was refused before.
    pub fn finish(self) -> Result<UpdateSummary, UpdateError> {
        self.file.finish()?;
        Ok(UpdateSummary { norm: self.delta.norm_squared.sqrt(), magnitude_max: self.delta.magnitude_seen })
    }
}

struct Checked<'a, F> {
    delta: &'a mut DeltaReader,
    accept: &'a mut F,
}

impl<F: FnMut(usize, &[f32])> Sink for Checked<'_, F> {
    type Error = UpdateError;

    fn header(&mut self, header: &Header) -> Result<(), UpdateError> {
        check_metadata(header.metadata(), &self.delta.expected)?;
        self.delta.parameter_of_tensor = match self.delta.expected.codec {
            Codec::F32 => match_tensors(header, &f32_specs(&self.delta.parameters))?,
        };
        Ok(())
    }

    fn block(&mut self, tensor: usize, element: usize, bytes: &[u8]) -> Result<(), UpdateError> {
        let parameter = self.delta.parameter_of_tensor[tensor];
        match self.delta.expected.codec {
            Codec::F32 => {
                let mut values = [0.0; BLOCK_VALUES_MAX];
                let elements = bytes.as_chunks().0;
                for (number, block) in elements.chunks(BLOCK_VALUES_MAX).enumerate() {
                    let values = &mut values[..block.len()];
                    for (value, bytes) in values.iter_mut().zip(block) {
                        *value = f32::from_le_bytes(*bytes);
                    }
                    self.accept(parameter, element + number * BLOCK_VALUES_MAX, values)?;
                }
            }
        }
        Ok(())
    }
}

impl<F: FnMut(usize, &[f32])> Checked<'_, F> {
    /// Checks values of one parameter, from its value `index` on, and hands them out.
    fn accept(&mut self, parameter: usize, index: usize, values: &[f32]) -> Result<(), UpdateError> {
        self.delta.check(parameter, index, values)?;
        (self.accept)(self.delta.parameters.range(parameter).start + index, values);
        Ok(())
    }
}

impl DeltaReader {
    fn check(&mut self, parameter: usize, first: usize, values: &[f32]) -> Result<(), UpdateError> {
        let magnitude_max = self.limits.magnitude_max;
        // A NaN fails every comparison, so this one question finds it too.
        if let Some(at) = values.iter().position(|value| !(value.abs() <= magnitude_max && value.is_finite())) {
            let (tensor, index, value) = (self.parameters.specs()[parameter].name.clone(), first + at, values[at]);
            return Err(if value.is_finite() {
                UpdateError::TooLarge { tensor, index, value, magnitude_max }
            } else {
                UpdateError::NotFinite { tensor, index }
            });
        }
        self.magnitude_seen = values.iter().fold(self.magnitude_seen, |seen, value| seen.max(value.abs()));
        // One after the other, so that the norm's last bits do not depend on how the file was cut into pieces.
        for value in values {
            self.norm_squared += f64::from(*value) * f64::from(*value);
        }
        Ok(())
    }
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
    use crate::update::{bytes_max, encode};

    const DELTA: [f32; 7] = [0.5, -0.25, 1.0, -2.0, 0.0, 3.0, -0.125];

    fn parameters() -> Arc<ParameterList> {
        let specs = vec![ParameterSpec::new("w", [2, 2]), ParameterSpec::new("b", [3])];
        Arc::new(ParameterList::new(specs).expect("the list is right"))
    }

    fn header() -> UpdateHeader {
        UpdateHeader { codec: Codec::F32, job: "job_1".into(), base_version: 3 }
    }

    fn decode(file: &[u8], piece_bytes: usize) -> Result<(Vec<f32>, UpdateSummary), UpdateError> {
        let mut decoder = UpdateDecoder::new(parameters(), header(), UpdateLimits { magnitude_max: 3.0 });
        let mut delta = vec![f32::NAN; 7];
        for piece in file.chunks(piece_bytes) {
            decoder.push(piece, &mut |offset, values| delta[offset..][..values.len()].copy_from_slice(values))?;
        }
        Ok((delta, decoder.finish()?))
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
            let file = encode(&delta, &parameters(), &header());
            let (read, summary) = decode(&file, piece_bytes).unwrap();
            prop_assert_eq!(&read, &delta);
            prop_assert_eq!(summary, decode(&file, file.len()).unwrap().1);
        }

        #[test]
        fn flipped_bytes_never_panic(flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..4)) {
            let mut file = encode(&DELTA, &parameters(), &header());
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
        let (delta, summary) = decode(&encode(&DELTA, &parameters(), &header()), 1).unwrap();
        assert_eq!(delta, DELTA);
        assert_eq!(summary, UpdateSummary { norm: (14.328125f64).sqrt(), magnitude_max: 3.0 });
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
        let file = encode(&delta, &parameters, &header());
        assert!(file.len() as u64 <= bytes_max(&parameters, Codec::F32));
        let mut decoder = UpdateDecoder::new(parameters, header(), UpdateLimits { magnitude_max: 1e4 });
        let mut read = Vec::new();
        let accept = &mut |offset: usize, values: &[f32]| {
            assert_eq!(offset, read.len());
            read.extend_from_slice(values);
        };
        decoder.push(&file, accept).unwrap();
        decoder.finish().unwrap();
        assert_eq!(read, delta);
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
            let refusal = decoder.push(&file, &mut |_, _| panic!("no value may be handed out"));
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
            decode(&encode(&delta, &parameters(), &header()), 64).unwrap_err()
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
        let file = encode(&[f32::INFINITY; 7], &parameters(), &header());
        let refusal = decoder.push(&file, &mut |_, _| {});
        assert_eq!(refusal, Err(UpdateError::NotFinite { tensor: "w".into(), index: 0 }));
    }

    #[test]
    fn an_update_cut_short_or_drawn_out_is_refused() {
        let mut file = encode(&DELTA, &parameters(), &header());
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
