//! One client's weight delta (local minus global) as a safetensors file.
//!
//! The file's tensors are the codec's parts; its `__metadata__` says `format`, `codec`, `job` and `base_version`.
//! [`encode`] is the client's half, [`UpdateDecoder`] the server's, which believes none of it. [`Codec`] lists what there
//! is to choose from; each codec is one file, with both halves, in `codecs/`.

mod codec;
mod codecs;
mod coding;
mod decoder;
mod form;
mod frame;
mod memory;
mod model_delta;
mod statistics;

use std::collections::BTreeMap;

#[cfg(feature = "openapi")]
pub(crate) use codec::WrittenCodec;
pub use codec::{Codec, CodecError, CodecName, Properties};
pub use codecs::{Blocks, Dgc, Eden, Qsgd, RandomK, SparseValues, Ternary, TopK};
pub use decoder::{UpdateDecoder, UpdateError, UpdateLimits, UpdateStatistics};
pub use form::{FormBodyError, FormDecoder, FormError, FormSurvey, FormWriter, form_bytes, model_in_form};
pub use frame::SectionError;
pub use memory::{Memory, MemoryError, RESIDUAL_AGE_ROUNDS_MAX, encode_with_memory};
pub use model_delta::{ModelDeltaSurvey, ModelDeltaWriter, add_model_delta, model_delta_bytes_max, model_delta_header};

use crate::cpu::Cpu;
use crate::model::ParameterList;
use crate::safetensors::{Data, Dtype, HEADER_BYTES_MAX, Tensor, f32_file, write};
use crate::seed::Seed;
use decoder::plain_specs;
use frame::SectionCodec;

/// What `format` says in an update's metadata.
pub const FORMAT: &str = "tributary-update-1";

/// Room in an update's header for its metadata and padding, in bytes.
const METADATA_BYTES_MAX: u64 = 4096;

/// Takes the values of a delta as they are decoded.
pub trait DeltaSink {
    /// Values from `first` on in the flat vector.
    fn dense(&mut self, first: usize, values: &[f32]);

    /// Values at `first + indices[i]`, ascending; those between them are zero.
    fn sparse(&mut self, first: usize, indices: &[u32], values: &[f32]);
}

/// A vector of zeros becomes the delta.
impl DeltaSink for Vec<f32> {
    fn dense(&mut self, first: usize, values: &[f32]) {
        self[first..first + values.len()].copy_from_slice(values);
    }

    fn sparse(&mut self, first: usize, indices: &[u32], values: &[f32]) {
        for (index, value) in indices.iter().zip(values) {
            self[first + *index as usize] = *value;
        }
    }
}

/// What an update says of itself, and what a server expects it to say.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateHeader {
    /// How the delta is written.
    pub codec: Codec,
    /// The job's id.
    pub job: String,
    /// The model version that the delta is to be added to.
    pub base_version: u64,
}

impl UpdateHeader {
    fn metadata(&self) -> BTreeMap<String, String> {
        let entry = |(key, value): (&str, String)| (key.to_owned(), value);
        [
            ("format", FORMAT.to_owned()),
            ("codec", self.codec.to_string()),
            ("job", self.job.clone()),
            ("base_version", self.base_version.to_string()),
        ]
        .into_iter()
        .map(entry)
        .collect()
    }
}

/// Why a delta cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum EncodeError {
    /// A NaN or an infinity.
    #[error("value {index} of the delta is not finite")]
    NotFinite {
        /// Its place in the flat vector.
        index: usize,
    },
    /// A value that the codec's numbers cannot hold.
    #[error("value {index} of the delta is {value}, which the codec cannot hold")]
    TooLarge {
        /// Its place in the flat vector.
        index: usize,
        /// The value.
        value: f32,
    },
}

/// The update's file: the same bytes for the same delta, round and seed.
///
/// `round` is the round's number in its job (codecs that warm up ask for it); `seed` decides what is left to chance.
///
/// # Errors
/// [`EncodeError`] for values that no update can hold.
///
/// # Panics
/// If the delta has not one value for each parameter, a mistake of the caller.
pub fn encode(
    delta: &[f32],
    parameters: &ParameterList,
    header: &UpdateHeader,
    round: u32,
    seed: Seed,
) -> Result<Vec<u8>, EncodeError> {
    assert_eq!(delta.len(), parameters.total(), "a delta has one value for each parameter");
    check_finite(delta)?;
    let metadata = header.metadata();
    let stream = &mut seed.stream();
    let frame = match header.codec {
        Codec::F32 => return Ok(f32_file(parameters, delta, &metadata)),
        Codec::F16 => return plain_file(delta, parameters, Dtype::F16, &metadata),
        Codec::Bf16 => return plain_file(delta, parameters, Dtype::Bf16, &metadata),
        Codec::Int8(blocks) => return codecs::blocks::encode(delta, parameters, 8, blocks, stream, &metadata),
        Codec::Int4(blocks) => return codecs::blocks::encode(delta, parameters, 4, blocks, stream, &metadata),
        Codec::Ternary(ternary) => ternary.encode(delta, parameters, stream),
        Codec::Qsgd(qsgd) => qsgd.encode(delta, parameters, stream),
        Codec::Sign => codecs::sign::encode(delta, parameters),
        Codec::RandomK(random_k) => random_k.encode(delta, parameters, stream),
        Codec::TopK(top_k) => top_k.encode(delta, parameters, stream),
        Codec::Dgc(dgc) => dgc.encode(delta, parameters, round, stream),
        Codec::Eden(eden) => eden.encode(delta, parameters, stream),
    };
    let tensor = Tensor { name: frame::TENSOR, shape: &[frame.len()], data: Data::Bytes(Dtype::U8, &frame) };
    Ok(write(&[tensor], &metadata))
}

/// Whether a delta has only values that can be sent.
fn check_finite(delta: &[f32]) -> Result<(), EncodeError> {
    if statistics::largest_bits(Cpu::best(), delta) < statistics::magnitude_bits(f32::INFINITY) {
        return Ok(());
    }
    let index = delta.iter().position(|value| !value.is_finite()).expect("something is not finite");
    Err(EncodeError::NotFinite { index })
}

fn plain_file(
    delta: &[f32],
    parameters: &ParameterList,
    dtype: Dtype,
    metadata: &BTreeMap<String, String>,
) -> Result<Vec<u8>, EncodeError> {
    let bytes = codecs::plain::encode_16(delta, dtype)?;
    let tensors: Vec<_> = parameters
        .specs()
        .iter()
        .enumerate()
        .map(|(index, spec)| {
            let range = parameters.range(index);
            let data = Data::Bytes(dtype, &bytes[2 * range.start..2 * range.end]);
            Tensor { name: &spec.name, shape: &spec.shape, data }
        })
        .collect();
    Ok(write(&tensors, metadata))
}

/// What the values of a codec are that writes one tensor for each parameter.
fn plain_dtype(codec: Codec) -> Option<Dtype> {
    match codec {
        Codec::F32 => Some(Dtype::F32),
        Codec::F16 => Some(Dtype::F16),
        Codec::Bf16 => Some(Dtype::Bf16),
        _ => None,
    }
}

/// The server's half of a codec that writes sections.
fn section_codec(codec: Codec) -> Option<Box<dyn SectionCodec>> {
    Some(match codec {
        Codec::F32 | Codec::F16 | Codec::Bf16 | Codec::Int8(_) | Codec::Int4(_) => return None,
        Codec::Ternary(ternary) => Box::new(ternary),
        Codec::Qsgd(qsgd) => Box::new(qsgd),
        Codec::Sign => Box::new(codecs::sign::Sign),
        Codec::RandomK(random_k) => Box::new(random_k),
        Codec::TopK(top_k) => Box::new(top_k),
        Codec::Dgc(dgc) => Box::new(dgc),
        Codec::Eden(eden) => Box::new(eden),
    })
}

/// Longest file that can be an update of these parameters, in bytes: anything longer is refused unread.
#[must_use]
pub fn bytes_max(parameters: &ParameterList, codec: Codec) -> u64 {
    const PREFIX_BYTES: u64 = 8;
    PREFIX_BYTES + header_bytes_max(parameters, codec) + data_bytes(parameters, codec)
}

/// Most bytes of an update that follow its header; of codecs that write tensors per parameter, exactly.
fn data_bytes(parameters: &ParameterList, codec: Codec) -> u64 {
    match (plain_dtype(codec), codec) {
        (Some(dtype), _) => (dtype.bytes() * parameters.total()) as u64,
        (None, Codec::Int8(blocks)) => codecs::blocks::data_bytes(parameters, 8, blocks),
        (None, Codec::Int4(blocks)) => codecs::blocks::data_bytes(parameters, 4, blocks),
        (None, codec) => {
            let sections = section_codec(codec).expect("every other codec writes sections");
            frame::bytes_max(parameters, &*sections)
        }
    }
}

/// Longest header of an update of these parameters, in bytes.
///
/// It leaves room for a writer that escapes every letter and puts spaces where JSON allows them.
fn header_bytes_max(parameters: &ParameterList, codec: Codec) -> u64 {
    const ESCAPED_LETTER_BYTES: usize = 6;
    const NUMBER_BYTES: usize = 22;
    const KEYS_BYTES: usize = 80;
    let tensor =
        |name_bytes: usize, rank: usize| name_bytes * ESCAPED_LETTER_BYTES + (rank + 2) * NUMBER_BYTES + KEYS_BYTES;
    let tensors: usize = match codec {
        Codec::F32 | Codec::F16 | Codec::Bf16 => {
            parameters.specs().iter().map(|spec| tensor(spec.name.len(), spec.shape.len())).sum()
        }
        // Two tensors for each parameter, whose names have an ending.
        Codec::Int8(_) | Codec::Int4(_) => {
            parameters.specs().iter().map(|spec| 2 * tensor(spec.name.len() + 8, spec.shape.len().max(1))).sum()
        }
        _ => tensor(frame::TENSOR.len(), 1),
    };
    (METADATA_BYTES_MAX + tensors as u64).min(HEADER_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ParameterSpec;

    #[test]
    fn the_longest_file_has_room_for_the_most_wasteful_header() {
        let name = "\u{1F600}\"".repeat(40);
        let parameters = ParameterList::new(vec![ParameterSpec::new(name, [1, 1, 1, 1, 1, 1, 1, 3])]).unwrap();
        for name in CodecName::ALL {
            let header = UpdateHeader { codec: name.with_defaults(), job: "j".repeat(64), base_version: u64::MAX };
            let ours = encode(&[0.0; 3], &parameters, &header, 1, Seed(1)).unwrap().len() as u64;
            assert!(ours <= bytes_max(&parameters, header.codec), "{name}");
        }
        let wasteful = format!(
            r#"{{ "{}" : {{ "dtype" : "F32" , "shape" : [ 1 , 1 , 1 , 1 , 1 , 1 , 1 , 3 ] , "data_offsets" : [ 0 , 12 ] }} }}"#,
            "\\uD83D\\uDE00\\u0022".repeat(40)
        );
        assert!((wasteful.len() as u64) < header_bytes_max(&parameters, Codec::F32) - METADATA_BYTES_MAX);
    }
}
