//! The longest file that can be an update, so that a server refuses a longer one before it reads it.

use super::codec::Codec;
use super::header::TAG_BYTES;
use super::{codecs, frame};
use crate::model::ParameterList;
use crate::safetensors::HEADER_BYTES_MAX;

/// Room in an update's header for its metadata and padding, in bytes: far more than four short entries take.
const METADATA_BYTES_MAX: u64 = 4096;

/// Longest file that can be an update of these parameters, in bytes, before compression.
pub fn bytes_max(parameters: &ParameterList, codec: Codec) -> u64 {
    /// Every safetensors file begins with the length of its header as a u64.
    const PREFIX_BYTES: u64 = 8;
    let beginning = match codec.sections() {
        Some(_) => TAG_BYTES as u64,
        None => PREFIX_BYTES + header_bytes_max(parameters, codec),
    };
    beginning + data_bytes(parameters, codec)
}

/// Most bytes of an update after its header. For codecs that write tensors per parameter the number is exact.
pub(super) fn data_bytes(parameters: &ParameterList, codec: Codec) -> u64 {
    match (codec.plain_dtype(), codec) {
        (Some(dtype), _) => (dtype.bytes() * parameters.total()) as u64,
        (None, Codec::Int8(blocks)) => codecs::blocks::data_bytes(parameters, 8, blocks),
        (None, Codec::Int4(blocks)) => codecs::blocks::data_bytes(parameters, 4, blocks),
        (None, codec) => {
            let sections = codec.sections().expect("every other codec writes sections");
            frame::bytes_max(parameters, &*sections)
        }
    }
}

/// Longest header of an update of these parameters that is a safetensors file, in bytes.
///
/// It leaves room for a writer that escapes every letter of a name and puts spaces wherever JSON allows them.
pub(super) fn header_bytes_max(parameters: &ParameterList, codec: Codec) -> u64 {
    /// `\uXXXX`.
    const ESCAPED_LETTER_BYTES: usize = 6;
    /// A u64 in decimal, its comma and a space.
    const NUMBER_BYTES: usize = 22;
    /// `dtype`, `shape` and `data_offsets` with their punctuation.
    const KEYS_BYTES: usize = 80;
    let tensor =
        |name_bytes: usize, rank: usize| name_bytes * ESCAPED_LETTER_BYTES + (rank + 2) * NUMBER_BYTES + KEYS_BYTES;
    let tensors: usize = match codec {
        Codec::F32 | Codec::F16 | Codec::Bf16 => {
            parameters.specs().iter().map(|spec| tensor(spec.name.len(), spec.shape.len())).sum()
        }
        // Two tensors for each parameter, with the suffixes `.scales` and `.values`.
        Codec::Int8(_) | Codec::Int4(_) => {
            parameters.specs().iter().map(|spec| 2 * tensor(spec.name.len() + 8, spec.shape.len().max(1))).sum()
        }
        _ => 0,
    };
    (METADATA_BYTES_MAX + tensors as u64).min(HEADER_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ParameterSpec;
    use crate::seed::Seed;
    use crate::update::{CodecName, UpdateHeader, encode};

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
