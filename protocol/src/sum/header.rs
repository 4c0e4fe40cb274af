//! The header of a sum: what it belongs to, and what was added up.

use crate::fixed::{Contribution, Weight};
use crate::hash::Sha256Hash;
use crate::id::JobId;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 24;
/// The name of the format.
const FORMAT: &str = "tributary-sum-1";
/// The first bytes of a tag.
const TAG_BEGINNING: [u8; 2] = *b"TS";

/// The first bytes of the sums of one job, base version and binary point: integers of two tags must not be added.
///
/// `"TS"`, the first six bytes of `SHA-256("tributary-sum-1\n" job "\n" base_version "\n" binary_point "\n")`.
pub fn tag(job: &JobId, base_version: u32, binary_point: u32) -> [u8; 8] {
    let text = format!("{FORMAT}\n{job}\n{base_version}\n{binary_point}\n");
    let mut tag = [0; 8];
    let (beginning, hash) = tag.split_at_mut(TAG_BEGINNING.len());
    beginning.copy_from_slice(&TAG_BEGINNING);
    hash.copy_from_slice(&Sha256Hash::of(text.as_bytes()).0[..hash.len()]);
    tag
}

/// The header of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) tag: [u8; 8],
    pub(super) contribution: Contribution,
    pub(super) values: u32,
}

impl Header {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let Contribution { weight, updates } = self.contribution;
        let fields: [&[u8]; 4] =
            [&self.tag, &updates.to_le_bytes(), &self.values.to_le_bytes(), &weight.units().to_le_bytes()];
        fields.concat()
    }

    pub(super) fn of_bytes(bytes: &[u8; HEADER_BYTES]) -> Self {
        let ([tag, counts, weight], _) = bytes.as_chunks() else { unreachable!("24 bytes are three times eight") };
        let counts = u64::from_le_bytes(*counts);
        let weight = Weight::of_units(u64::from_le_bytes(*weight));
        let contribution = Contribution { weight, updates: counts as u32 };
        Self { tag: *tag, contribution, values: (counts >> 32) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_that_of_one_job_version_and_binary_point_only() {
        let [job, other] = [1, 2].map(|byte| JobId::from_random([byte; 16]));
        let tags = [tag(&job, 3, 40), tag(&other, 3, 40), tag(&job, 34, 0), tag(&job, 3, 41)];
        // printf 'tributary-sum-1\njob_01010101010101010101010101010101\n3\n40\n' | sha256sum
        assert_eq!(tags[0], [b'T', b'S', 0x4A, 0xD6, 0x71, 0x05, 0x64, 0x9A]);
        for (number, tag) in tags.iter().enumerate() {
            assert!(tag.starts_with(&TAG_BEGINNING) && !tags[..number].contains(tag));
        }
    }
}
