//! Content hashes: SHA-256, written as 64 lower-case hexadecimal digits.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::digest::common::hazmat::{SerializableState, SerializedState};
use sha2::{Digest, Sha256};

use crate::hex::{parse_hex, write_hex};

/// A SHA-256 digest (FIPS 180-4), raw. As text and in JSON: 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Sha256Hash(pub [u8; 32]);

/// A text that is not 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a SHA-256 is written as 64 lower-case hexadecimal digits")]
pub struct ParseHashError;

impl Sha256Hash {
    /// Hashes bytes that are all in memory.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

/// Hashes bytes as they arrive: the same result as [`Sha256Hash::of`] over all of them.
#[derive(Clone, Debug, Default)]
pub struct Sha256Hasher(Sha256);

impl Sha256Hasher {
    /// A hasher of zero bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Hashes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Its inner state, from which another process goes on.
    #[must_use]
    pub fn state(&self) -> Vec<u8> {
        self.0.serialize().to_vec()
    }

    /// Goes on from the state of another hasher; none for bytes that are no state.
    #[must_use]
    pub fn of_state(state: &[u8]) -> Option<Self> {
        let state = SerializedState::<Sha256>::try_from(state).ok()?;
        Sha256::deserialize(&state).ok().map(Self)
    }

    /// The hash of all bytes so far.
    #[must_use]
    pub fn finish(self) -> Sha256Hash {
        Sha256Hash(self.0.finalize().into())
    }
}

impl fmt::Display for Sha256Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for Sha256Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sha256Hash({self})")
    }
}

impl FromStr for Sha256Hash {
    type Err = ParseHashError;

    fn from_str(text: &str) -> Result<Self, ParseHashError> {
        parse_hex(text).map(Self).ok_or(ParseHashError)
    }
}

impl From<Sha256Hash> for String {
    fn from(hash: Sha256Hash) -> Self {
        hash.to_string()
    }
}

impl TryFrom<String> for Sha256Hash {
    type Error = ParseHashError;

    fn try_from(text: String) -> Result<Self, ParseHashError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-4, the example of one block.
    const OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn the_published_example_is_met_at_once_and_in_pieces() {
        assert_eq!(Sha256Hash::of(b"abc").to_string(), OF_ABC);
        let mut hasher = Sha256Hasher::new();
        hasher.update(b"a");
        hasher.update(b"");
        hasher.update(b"bc");
        assert_eq!(hasher.finish(), Sha256Hash::of(b"abc"));
    }

    /// Goal: coordinators that hash a file one after another have the hash of the file.
    #[test]
    fn a_hasher_goes_on_from_the_state_of_another() {
        for cut in [0, 1, 63, 64, 65, 200] {
            let bytes: Vec<u8> = (0..=255).cycle().take(300).collect();
            let mut first = Sha256Hasher::new();
            first.update(&bytes[..cut]);
            let mut second = Sha256Hasher::of_state(&first.state()).unwrap();
            second.update(&bytes[cut..]);
            assert_eq!(second.finish(), Sha256Hash::of(&bytes), "{cut}");
        }
        assert!(Sha256Hasher::of_state(&[]).is_none() && Sha256Hasher::of_state(&[0; 9]).is_none());
    }

    #[test]
    fn text_and_json_are_the_hexadecimal_digits_and_come_back() {
        let hash = Sha256Hash::of(b"abc");
        assert_eq!(OF_ABC.parse(), Ok(hash));
        let json = serde_json::to_string(&hash).unwrap();
        assert_eq!(json, format!("\"{OF_ABC}\""));
        assert_eq!(serde_json::from_str::<Sha256Hash>(&json).unwrap(), hash);
    }

    #[test]
    fn another_spelling_is_refused() {
        for text in ["", "ba78", &OF_ABC.to_uppercase(), &format!("{OF_ABC}0"), &"é".repeat(32), &"g".repeat(64)] {
            assert_eq!(text.parse::<Sha256Hash>(), Err(ParseHashError), "{text:?}");
        }
    }
}
