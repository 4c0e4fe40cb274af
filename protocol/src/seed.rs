//! Randomness as an argument: every random choice in a job derives from one seed, so that it can be repeated and explained.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A 64-bit seed. Serialised as a number that JSON readers with 53-bit integers keep exact (see [`Seed::derive`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Seed(pub u64);

impl Seed {
    /// The seed of a part: `label` says of what, `index` which one.
    ///
    /// It is the first 53 bits of SHA-256 over seed, label and index, so that a derived seed survives JavaScript and
    /// fits a signed database column.
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

    /// A generator that gives the same stream on every platform.
    #[must_use]
    pub fn stream(self) -> Stream {
        Stream(ChaCha8Rng::seed_from_u64(self.0))
    }
}

/// A stream of random numbers (ChaCha with 8 rounds), portable and stable: models and cohorts depend on it.
#[derive(Clone, Debug)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// Uniform over all 64-bit values.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `0..bound`, without bias (rejection).
    ///
    /// # Panics
    /// If `bound` is 0.
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

    /// Uniform in `[0, 1)`, with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in `[low, high)`.
    pub fn uniform(&mut self, low: f32, high: f32) -> f32 {
        let value = f64::from(low) + (f64::from(high) - f64::from(low)) * self.unit();
        (value as f32).min(high.next_down())
    }

    /// Puts a slice into random order (Fisher and Yates, as in Knuth, The Art of Computer Programming 3.4.2, P).
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
