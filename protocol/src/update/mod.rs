//! One client's weight delta (local minus global) as a safetensors file.
//!
//! The file's tensors are the codec's parts of each parameter; its `__metadata__` says `format`, `codec`, `job` and
//! `base_version`. [`encode`] is the client's half, [`UpdateDecoder`] the server's, which believes none of it.

mod decoder;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use decoder::{UpdateDecoder, UpdateError, UpdateLimits, UpdateSummary};

use crate::model::ParameterList;
use crate::safetensors::{HEADER_BYTES_MAX, f32_file};

/// What `format` says in an update's metadata.
pub const FORMAT: &str = "tributary-update-1";

/// Room in an update's header for its metadata and padding, in bytes.
const METADATA_BYTES_MAX: u64 = 4096;

/// How a delta is written as tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Codec {
    /// As it is: one F32 tensor for each parameter, of its name and shape.
    #[default]
    F32,
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// What an update says of itself, and what a server expects it to say.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// The update's file, the same bytes each time.
///
/// # Panics
/// If the delta has not one value for each parameter, a mistake of the caller.
#[must_use]
pub fn encode(delta: &[f32], parameters: &ParameterList, header: &UpdateHeader) -> Vec<u8> {
    assert_eq!(delta.len(), parameters.total(), "a delta has one value for each parameter");
    match header.codec {
        Codec::F32 => f32_file(parameters, delta, &header.metadata()),
    }
}

/// Longest file that can be an update of these parameters, in bytes: anything longer is refused unread.
#[must_use]
pub fn bytes_max(parameters: &ParameterList, codec: Codec) -> u64 {
    const PREFIX_BYTES: u64 = 8;
    let data_bytes = match codec {
        Codec::F32 => 4 * parameters.total() as u64,
    };
    PREFIX_BYTES + header_bytes_max(parameters, codec) + data_bytes
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
        Codec::F32 => parameters.specs().iter().map(|spec| tensor(spec.name.len(), spec.shape.len())).sum(),
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
        let header = UpdateHeader { codec: Codec::F32, job: "j".repeat(64), base_version: u64::MAX };
        let ours = encode(&[0.0; 3], &parameters, &header).len() as u64;
        assert!(ours <= bytes_max(&parameters, Codec::F32));
        let wasteful = format!(
            r#"{{ "{}" : {{ "dtype" : "F32" , "shape" : [ 1 , 1 , 1 , 1 , 1 , 1 , 1 , 3 ] , "data_offsets" : [ 0 , 12 ] }} }}"#,
            "\\uD83D\\uDE00\\u0022".repeat(40)
        );
        assert!((wasteful.len() as u64) < header_bytes_max(&parameters, Codec::F32) - METADATA_BYTES_MAX);
    }

    #[test]
    fn a_codec_is_called_the_same_everywhere() {
        assert_eq!(Codec::F32.to_string(), "f32");
        assert_eq!(serde_json::to_string(&Codec::F32).unwrap(), "\"f32\"");
    }
}
