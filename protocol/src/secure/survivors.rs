//! The members whose bodies are in the sum of a group.

use sha2::{Digest, Sha256};

use super::wire::{DecodeError, Reader};
use super::{LABEL, MEMBERS_MAX, MEMBERS_MIN};
use crate::hash::Sha256Hash;

/// A set of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivors {
    members: u16,
    /// Member i is bit i % 8 of byte i / 8.
    bitmap: Vec<u8>,
}

impl Survivors {
    /// These of so many members. Indexes beyond the members are ignored.
    pub fn new(members: u16, survivors: impl IntoIterator<Item = u16>) -> Self {
        let mut bitmap = vec![0; usize::from(members).div_ceil(8)];
        for index in survivors.into_iter().filter(|index| *index < members) {
            bitmap[usize::from(index / 8)] |= 1 << (index % 8);
        }
        Self { members, bitmap }
    }

    /// Reads a set: the number of members, and the bitmap.
    ///
    /// # Errors
    /// [`DecodeError`] if the length is another one, or a bit beyond the last member is set.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let members = reader.count("members", MEMBERS_MIN, MEMBERS_MAX)?;
        let bitmap = reader.bytes(usize::from(members).div_ceil(8))?.to_vec();
        reader.finish()?;
        let used = members % 8;
        let is_stray = used > 0 && bitmap.last().is_some_and(|last| last >> used != 0);
        if is_stray { Err(DecodeError::StrayBits) } else { Ok(Self { members, bitmap }) }
    }

    /// The bytes that are hashed and sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&self.members.to_le_bytes()[..], &self.bitmap].concat()
    }

    /// Number of members of the group.
    pub fn members(&self) -> u16 {
        self.members
    }

    /// Number of survivors.
    pub fn count(&self) -> u16 {
        self.bitmap.iter().map(|byte| byte.count_ones() as u16).sum()
    }

    /// Whether this member survived.
    pub fn contains(&self, index: u16) -> bool {
        self.bitmap.get(usize::from(index / 8)).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
    }

    /// The survivors by index.
    pub fn indexes(&self) -> impl Iterator<Item = u16> {
        (0..self.members).filter(|index| self.contains(*index))
    }

    /// The hash that members sign.
    pub fn hash(&self, roster: &Sha256Hash) -> Sha256Hash {
        let hasher = Sha256::new().chain_update(LABEL).chain_update("survivors\n").chain_update(roster.0);
        Sha256Hash(hasher.chain_update(self.to_bytes()).finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::roster;
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_vectors() {
        let survivors = Survivors::new(3, [0, 1]);
        assert_eq!(survivors.to_bytes(), [3, 0, 0b011]);
        assert_eq!(
            survivors.hash(&roster().hash()).to_string(),
            "7b9ce7966deefdbccea57232c2937d6019d55a62ef6e9ad12c72c17599dbc300"
        );
    }

    #[test]
    fn a_set_comes_back_and_wrong_bytes_are_refused() {
        let survivors = Survivors::new(11, [0, 9, 10, 11, 5]);
        assert_eq!(survivors.indexes().collect::<Vec<_>>(), [0, 5, 9, 10]);
        assert_eq!((survivors.count(), survivors.contains(9), survivors.contains(11)), (4, true, false));
        let bytes = survivors.to_bytes();
        assert_eq!(Survivors::from_bytes(&bytes), Ok(survivors));
        assert_eq!(Survivors::from_bytes(&bytes[..3]), Err(DecodeError::Truncated));
        assert_eq!(Survivors::from_bytes(&[&bytes[..], &[0]].concat()), Err(DecodeError::TrailingBytes));
        assert_eq!(Survivors::from_bytes(&[11, 0, 0, 0b1000]), Err(DecodeError::StrayBits));
        assert!(matches!(Survivors::from_bytes(&[2, 0, 0]), Err(DecodeError::Count { given: 2, .. })));
        assert!(matches!(Survivors::from_bytes(&[255, 255]), Err(DecodeError::Count { given: 65_535, .. })));
        assert!(Survivors::from_bytes(&[&[8, 0][..], &[255]].concat()).is_ok());
    }
}
