//! The noise of a private sum, block by block.

use std::ops::Range;

use tributary_protocol::seed::Seed;

use crate::privacy::{Blt, Buffers, NOISE_BLOCK, NOISE_PLACES, Normal, block_key, in_steps};

/// Makes the noise of one round: a function of its key and of the place of a value.
#[derive(Clone, Copy, Debug)]
pub struct NoiseMaker {
    key: [u8; 32],
    /// The job's seed: a repeated job has it again, unlike its id.
    salt: [u8; 8],
    round: u32,
    blt: Option<Blt>,
}

/// Noise in steps of the grid, and the buffers after it.
#[derive(Debug)]
pub struct NoisePiece {
    /// Of which values.
    pub values: Range<usize>,
    pub noise: Vec<i64>,
    /// [`Buffers::BYTES`] for each value where noise is correlated; else none.
    pub buffers: Vec<u8>,
}

impl NoiseMaker {
    /// The noise of a round with this key, in a job with this seed.
    pub fn new(key: [u8; 32], seed: Seed, round: u32, blt: Option<Blt>) -> Self {
        Self { key, salt: seed.0.to_le_bytes(), round, blt }
    }

    /// The place of the noise of the count that the clip follows: the first of a block of its own, behind so many
    /// parameters.
    pub fn place_of_count(parameters: usize) -> usize {
        parameters.next_multiple_of(NOISE_BLOCK)
    }

    /// Whether noise follows from buffers, and makes new ones.
    pub fn is_correlated(&self) -> bool {
        self.blt.is_some()
    }

    /// The noise of these values. `former` holds their buffers; it is empty before the first version, and where noise
    /// is not correlated. Values that begin within a block take as long as those from its beginning on.
    pub fn make(&self, values: Range<usize>, former: &[u8]) -> NoisePiece {
        let mut piece = NoisePiece { noise: Vec::with_capacity(values.len()), buffers: Vec::new(), values };
        let mut former = former.as_chunks::<{ Buffers::BYTES }>().0.iter();
        let whole = piece.values.start / NOISE_BLOCK * NOISE_BLOCK..piece.values.end;
        for first in whole.step_by(NOISE_BLOCK) {
            let block = u32::try_from(first / NOISE_BLOCK).expect("a model has fewer blocks");
            let mut normal = Normal::new(block_key(&self.key, &self.salt, self.round.into(), block));
            for value in first..piece.values.end.min(first + NOISE_BLOCK) {
                let is_wanted = value >= piece.values.start;
                match &self.blt {
                    None => {
                        let noise = normal.rounded(NOISE_PLACES);
                        piece.noise.extend(is_wanted.then_some(noise));
                    }
                    Some(blt) => {
                        let drawn = normal.fixed();
                        if is_wanted {
                            let mut buffers = former.next().map_or_else(Buffers::default, Buffers::from_bytes);
                            piece.noise.push(in_steps(buffers.next(blt, drawn)));
                            piece.buffers.extend(buffers.to_bytes());
                        }
                    }
                }
            }
        }
        piece
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::privacy::Participation;

    /// Goal: pieces of any size are the whole, and noise of the next version takes some away. Method: two versions.
    #[test]
    fn pieces_are_the_whole_and_correlated_noise_takes_itself_back() {
        let blt = Blt::fit(Participation { versions: 20, separation: 20, times: 1 });
        let of = |round, blt| NoiseMaker::new([3; 32], Seed(5), round, blt);
        let total = 2 * NOISE_BLOCK + 100;
        let whole = of(1, Some(blt)).make(0..total, &[]);
        let cuts = [0, 1000, NOISE_BLOCK, NOISE_BLOCK + 7, total];
        let pieces: Vec<_> = cuts.windows(2).map(|cut| of(1, Some(blt)).make(cut[0]..cut[1], &[])).collect();
        assert_eq!(pieces.iter().flat_map(|piece| piece.noise.clone()).collect::<Vec<_>>(), whole.noise);
        assert_eq!(pieces.iter().flat_map(|piece| piece.buffers.clone()).collect::<Vec<_>>(), whole.buffers);
        let next = of(2, Some(blt)).make(0..total, &whole.buffers);
        let squares = |noise: &[i64]| noise.iter().map(|value| (*value as f64).powi(2)).sum::<f64>();
        let sum: Vec<i64> = whole.noise.iter().zip(&next.noise).map(|(one, two)| one + two).collect();
        let independent = of(2, None).make(0..total, &[]);
        let plain: Vec<i64> = whole.noise.iter().zip(&independent.noise).map(|(one, two)| one + two).collect();
        assert!(squares(&sum) < 0.9 * squares(&plain), "{} {}", squares(&sum), squares(&plain));
        assert_eq!(NoiseMaker::place_of_count(total), 3 * NOISE_BLOCK);
    }

    /// Noise that repeated itself could be told apart from the sum.
    #[test]
    fn each_block_of_each_round_has_noise_of_its_own() {
        let (key, seed) = ([3; 32], Seed(5));
        let of = |round| NoiseMaker::new(key, seed, round, None).make(0..3 * NOISE_BLOCK, &[]).noise;
        let (first, second) = (of(1), of(2));
        for (block, noise) in (0..).zip(second.chunks(NOISE_BLOCK)) {
            let mut normal = Normal::new(block_key(&key, &seed.0.to_le_bytes(), 2, block));
            assert!(noise.iter().all(|value| *value == normal.rounded(NOISE_PLACES)), "{block}");
        }
        let blocks: BTreeSet<&[i64]> = first.chunks(NOISE_BLOCK).chain(second.chunks(NOISE_BLOCK)).collect();
        assert_eq!(blocks.len(), 6);
    }
}
