//! Which coordinates are sent: a random subset that follows from the roster, so that all members send the same ones.

use super::super::SecretBytes;
use super::super::keys::keep_key;
use super::super::mask::write_keystream;
use crate::hash::Sha256Hash;

/// Bytes of keystream at once.
const BUFFER_BYTES: usize = 4096;

/// Says of one coordinate after the other whether it is sent: coordinate i is if word i of the keystream is below
/// `keep * 2^32`.
pub(super) struct Kept {
    key: SecretBytes,
    below: f64,
    coordinates: usize,
    next: usize,
    buffer: [u8; BUFFER_BYTES],
}

impl Kept {
    pub(super) fn new(keep: f64, coordinates: usize, roster: &Sha256Hash) -> Self {
        let below = keep * 4_294_967_296.0;
        Self { key: keep_key(roster), below, coordinates, next: 0, buffer: [0; BUFFER_BYTES] }
    }

    /// Whether the next coordinate is sent.
    pub(super) fn next_is_kept(&mut self) -> bool {
        let byte = 4 * self.next as u64;
        let at = (byte % BUFFER_BYTES as u64) as usize;
        if at == 0 {
            write_keystream(&self.key, byte, &mut self.buffer);
        }
        self.next += 1;
        let mut word = [0; 4];
        word.copy_from_slice(&self.buffer[at..at + 4]);
        f64::from(u32::from_le_bytes(word)) < self.below
    }

    /// How many of all coordinates are sent.
    pub(super) fn count(mut self) -> usize {
        (0..self.coordinates).filter(|_| self.next_is_kept()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::vectors::roster;
    use super::*;

    #[test]
    fn the_subset_is_that_of_the_vectors() {
        let mut kept = Kept::new(0.5, 8, &roster().hash());
        let places: Vec<_> = (0..8).filter(|_| kept.next_is_kept()).collect();
        assert_eq!(places, [0, 1, 2, 3, 7]);
    }

    #[test]
    fn the_share_is_met_and_all_means_all() {
        let count = |keep| Kept::new(keep, 100_000, &roster().hash()).count();
        assert!((24_000..26_000).contains(&count(0.25)), "{}", count(0.25));
        assert_eq!(count(1.0), 100_000);
    }
}
