//! Seeds and random streams. Every random choice in a job derives from the job's seed, so that it can be repeated.

use rand_chacha::rand_core::{Rng, SeedableRng};
use rand_chacha::{ChaCha8Rng, ChaCha20Rng};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A 64-bit seed. In JSON it is a number; derived seeds are below 2^53, which JavaScript represents exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Seed(pub u64);

impl Seed {
    /// Derives the seed of one use: `label` names the purpose, `index` numbers its instances.
    ///
    /// The result is 53 bits of SHA-256 over seed, index and label. They fit a number in JavaScript and a signed column
    /// of a database.
    #[must_use]
    pub fn derive(self, label: &str, index: u64) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(self.0.to_le_bytes());
        hasher.update(index.to_le_bytes());
        hasher.update(label.as_bytes());
        let digest = hasher.finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        Self(u64::from_le_bytes(first) >> 11)
    }

    /// A generator with the same output on every platform.
    pub fn stream(self) -> Stream {
        Stream(ChaCha8Rng::seed_from_u64(self.0))
    }
}

/// A stream of random numbers (ChaCha with 8 rounds). Its output never changes between releases: the repetition of a
/// job depends on it.
#[derive(Clone, Debug)]
pub struct Stream<R = ChaCha8Rng>(R);

/// A stream that nobody foresees who does not have its key: ChaCha with 20 rounds, a nonce of zeros, words in
/// little-endian order.
pub type SecretStream = Stream<ChaCha20Rng>;

impl SecretStream {
    /// The stream of a key.
    pub fn of(key: [u8; 32]) -> Self {
        Self(ChaCha20Rng::from_seed(key))
    }
}

impl<R: Rng> Stream<R> {
    /// A uniform 64-bit number.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniform number in `0..bound`. Values that would bias the remainder are rejected.
    ///
    /// # Panics
    /// If `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no member");
        let limit = u64::MAX - u64::MAX % bound;
        loop {
            let value = self.next_u64();
            if value < limit {
                return value % bound;
            }
        }
    }

    /// A uniform number in `[0, 1)` with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A uniform number in `[low, high)`.
    pub fn uniform(&mut self, low: f32, high: f32) -> f32 {
        let value = f64::from(low) + (f64::from(high) - f64::from(low)) * self.unit();
        (value as f32).min(high.next_down())
    }

    /// Shuffles a slice uniformly (Fisher and Yates; Knuth, The Art of Computer Programming 3.4.2, algorithm P).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_seeds_differ_by_label_and_index_and_fit_a_double() {
        let root = Seed(7);
        let seeds = [root.derive("round", 1), root.derive("round", 2), root.derive("model", 1)];
        assert!(seeds.iter().all(|seed| seed.0 < 1 << 53));
        assert_ne!(seeds[0], seeds[1]);
        assert_ne!(seeds[0], seeds[2]);
        assert_eq!(root.derive("round", 1), seeds[0]);
    }

    #[test]
    fn the_stream_never_changes_between_releases() {
        let mut stream = Seed(1).stream();
        let first: Vec<u64> = (0..3).map(|_| stream.below(1000)).collect();
        assert_eq!(first, [201, 795, 285]);
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..100).collect();
        Seed(3).stream().shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn uniform_stays_inside_its_range() {
        let mut stream = Seed(5).stream();
        for _ in 0..10_000 {
            let value = stream.uniform(-0.25, 0.25);
            assert!((-0.25..0.25).contains(&value));
        }
    }
}
