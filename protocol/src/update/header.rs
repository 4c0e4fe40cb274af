//! What an update belongs to: the `__metadata__` of a safetensors file, or the tag before a frame.
//!
//! The metadata of an update of McMahan's 2NN takes 200 to 300 bytes, a tenth of a body of `ternary`. The server knows
//! all of it, so that a hash of it is enough to detect an update of another job, model version or codec:
//!
//! ```text
//! tag = "TU", the first six bytes of SHA-256(format "\n" codec "\n" job "\n" base_version "\n")
//! ```
//!
//! The tag of a shard's part has `shard "\n" shards "\n"` behind these.
//!
//! A safetensors file has zeros in bytes 4 to 7, and a zstd frame another first byte.

use std::collections::BTreeMap;

use super::codec::Codec;
use super::format::FORMAT;
use crate::hash::Sha256Hash;

/// Bytes of a tag.
pub(super) const TAG_BYTES: usize = 8;

/// The first bytes of a tag.
const TAG_BEGINNING: [u8; 2] = *b"TU";

/// The metadata of an update: written by the client, expected by the server.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateHeader {
    /// The codec of the delta, with its settings.
    pub codec: Codec,
    /// The job's id.
    pub job: String,
    /// The model version that the delta is relative to.
    pub base_version: u64,
}

impl UpdateHeader {
    pub(super) fn metadata(&self) -> BTreeMap<String, String> {
        self.entries().into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// The bytes before a frame.
    pub(super) fn tag(&self) -> [u8; TAG_BYTES] {
        self.tag_with("")
    }

    /// The bytes before a part of an update, which `rest` describes.
    pub(super) fn tag_with(&self, rest: &str) -> [u8; TAG_BYTES] {
        let mut text: String = self.entries().into_iter().flat_map(|(_, value)| [value, "\n".to_owned()]).collect();
        text.push_str(rest);
        let mut tag = [0; TAG_BYTES];
        let (beginning, hash) = tag.split_at_mut(TAG_BEGINNING.len());
        beginning.copy_from_slice(&TAG_BEGINNING);
        hash.copy_from_slice(&Sha256Hash::of(text.as_bytes()).0[..hash.len()]);
        tag
    }

    fn entries(&self) -> [(&'static str, String); 4] {
        [
            ("format", FORMAT.to_owned()),
            ("codec", self.codec.to_string()),
            ("job", self.job.clone()),
            ("base_version", self.base_version.to_string()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::update::CodecName;

    #[test]
    fn a_tag_is_that_of_one_update_only() {
        let header = |codec: CodecName, job: &str, base_version| UpdateHeader {
            codec: codec.with_defaults(),
            job: job.into(),
            base_version,
        };
        let tags = [
            header(CodecName::Ternary, "job_1", 3),
            header(CodecName::Qsgd, "job_1", 3),
            header(CodecName::Ternary, "job_2", 3),
            header(CodecName::Ternary, "job_1", 30),
        ]
        .map(|header| header.tag());
        // printf 'tributary-update-1\nternary\njob_1\n3\n' | sha256sum
        assert_eq!(tags[0], [b'T', b'U', 0xCD, 0xD8, 0x20, 0x81, 0x5E, 0xB5]);
        for (number, tag) in tags.iter().enumerate() {
            assert!(tag.starts_with(&TAG_BEGINNING) && !tags[..number].contains(tag));
        }
    }
}
