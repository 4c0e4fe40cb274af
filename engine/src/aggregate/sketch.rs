//! Sketches of updates: short vectors whose dot products estimate those of the updates.
//!
//! A sketch adds each value of a vector, with a random sign, to a random one of its few values. The dot product of two
//! sketches with the same signs and places is that of the vectors in expectation, and its standard deviation is at most
//! about `|a| |b| / sqrt(length)` (Charikar, Chen and Farach-Colton 2004, Theor. Comput. Sci. 312; Weinberger et al.
//! 2009, arXiv:0902.2206, theorem 3). So the cosines of a round are known without reading its updates again.

use tributary_protocol::cpu::Cpu;
use tributary_protocol::for_each_cpu;
use tributary_protocol::seed::Seed;
use tributary_protocol::update::DeltaSink;

use super::share::Share;

/// Values of all sketches of a round together, at most: 4 MiB.
const VALUES_MAX: usize = 1 << 20;
/// Values of a sketch of a vector that is longer: cosines are off by 1.1 % of the largest.
const LENGTH_MAX: usize = 1 << 13;
/// Consecutive values that stay together, so that one hash places them all.
const LANES: usize = 16;

/// Most updates of a round that have sketches. The cosines of more would be off by more than 6 %.
pub const SKETCHES_MAX: u32 = 1 << 12;

/// The sketch of an update whose values come in ascending order.
#[derive(Clone, Debug)]
pub struct Sketch {
    seed: u64,
    values: Vec<f32>,
    /// Values of the vector. What comes behind them is left out.
    total: usize,
}

/// An update as its cosine depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Sketched<'a> {
    pub sketch: &'a Sketch,
    pub share: Share,
    /// The L2 norm of the update.
    pub norm: f64,
}

impl Sketch {
    /// An empty sketch of a vector of `total` values, in a round of at most `updates` updates. None for more updates
    /// than [`SKETCHES_MAX`]. A vector that is short enough is its own sketch, so cosines are exact then.
    pub fn new(total: usize, updates_max: u32, seed: Seed) -> Option<Self> {
        let most = VALUES_MAX / updates_max.max(1) as usize;
        let length = match total.next_multiple_of(LANES) <= most {
            true => total.next_multiple_of(LANES),
            false => (1 << most.checked_ilog2()?).min(LENGTH_MAX),
        };
        (updates_max <= SKETCHES_MAX).then(|| Self { seed: seed.0, values: vec![0.0; length], total })
    }

    fn hashing(&self) -> Hashing {
        Hashing { seed: self.seed, blocks: self.values.len() / LANES, is_exact: self.total <= self.values.len() }
    }

    fn dot(&self, other: &Self) -> f64 {
        self.values.iter().zip(&other.values).map(|(one, other)| f64::from(*one) * f64::from(*other)).sum()
    }
}

impl DeltaSink for Sketch {
    fn dense(&mut self, first: usize, values: &[f32]) {
        let values = &values[..self.total.saturating_sub(first).min(values.len())];
        let hashing = self.hashing();
        let (head, rest) = values.split_at((first.next_multiple_of(LANES) - first).min(values.len()));
        let (blocks, tail) = rest.as_chunks::<LANES>();
        let (block, sketch) = (first.div_ceil(LANES), self.values.as_chunks_mut::<LANES>().0);
        // In the order of the values, so that the cut changes no bit.
        (first..).zip(head).for_each(|(at, value)| hashing.add_one(sketch, at, *value));
        add_blocks(Cpu::best(), sketch, hashing, block, blocks);
        let behind = (block + blocks.len()) * LANES;
        (behind..).zip(tail).for_each(|(at, value)| hashing.add_one(sketch, at, *value));
    }

    fn sparse(&mut self, first: usize, indices: &[u32], values: &[f32]) {
        let hashing = self.hashing();
        let sketch = self.values.as_chunks_mut::<LANES>().0;
        let places = indices.iter().map(|index| first + *index as usize);
        for (at, value) in places.zip(values).take_while(|(at, _)| *at < self.total) {
            hashing.add_one(sketch, at, *value);
        }
    }
}

/// Where the values of a vector go.
#[derive(Clone, Copy)]
struct Hashing {
    seed: u64,
    /// Blocks of [`LANES`] values of the sketch; a power of two unless it is exact.
    blocks: usize,
    is_exact: bool,
}

impl Hashing {
    /// The place of a block, and the signs of its values as bits.
    #[inline(always)]
    fn block(self, block: usize) -> (usize, u32) {
        if self.is_exact {
            return (block, 0);
        }
        // The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
        let mut hash = self.seed.wrapping_add((block as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        hash ^= hash >> 31;
        ((hash >> 32) as usize & (self.blocks - 1), hash as u32)
    }

    fn add_one(self, sketch: &mut [[f32; LANES]], at: usize, value: f32) {
        let (place, signs) = self.block(at / LANES);
        let lane = at % LANES;
        sketch[place][lane] += signed(value, signs >> lane);
    }
}

/// The value, negated if the lowest bit is set.
#[inline(always)]
fn signed(value: f32, bit: u32) -> f32 {
    f32::from_bits(value.to_bits() ^ (bit << 31))
}

for_each_cpu! {
    /// Adds blocks of values, the first of which has this number. 4 bytes are read per value; the sketch stays in the
    /// processor's cache.
    fn add_blocks(sketch: &mut [[f32; LANES]], hashing: Hashing, first: usize, blocks: &[[f32; LANES]]) {
        for (number, values) in (first..).zip(blocks) {
            let (place, signs) = hashing.block(number);
            for (lane, (sum, value)) in sketch[place].iter_mut().zip(values).enumerate() {
                *sum += signed(*value, signs >> lane);
            }
        }
    }
}

/// The dot products of updates with their mean.
///
/// An update's product with itself is known from its norm, so only those with the others are estimated.
pub fn dots_with_mean(updates: &[Sketched<'_>]) -> Vec<f64> {
    let Some(first) = updates.first() else { return Vec::new() };
    let divisor: f64 = updates.iter().map(|update| update.share.divisor.as_f64()).sum();
    let mut sum = vec![0.0f64; first.sketch.values.len()];
    for Sketched { sketch, share, .. } in updates {
        let weight = share.weight.as_f64();
        sum.iter_mut().zip(&sketch.values).for_each(|(sum, value)| *sum += weight * f64::from(*value));
    }
    let dot = |Sketched { sketch, share, norm }: &Sketched<'_>| {
        let with_all: f64 = sum.iter().zip(&sketch.values).map(|(sum, value)| sum * f64::from(*value)).sum();
        let weight = share.weight.as_f64();
        (with_all + weight * (norm * norm - sketch.dot(sketch))) / divisor
    };
    updates.iter().map(dot).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_protocol::fixed::Weight;

    fn sketch(values: &[f32], updates_max: u32) -> Sketch {
        let mut sketch = Sketch::new(values.len(), updates_max, Seed(7)).unwrap();
        sketch.dense(0, values);
        sketch
    }

    fn dot(one: &[f32], other: &[f32]) -> f64 {
        one.iter().zip(other).map(|(one, other)| f64::from(*one) * f64::from(*other)).sum()
    }

    fn normal(count: usize, seed: u64) -> Vec<f32> {
        let mut stream = Seed(seed).stream();
        // The sum of twelve uniform numbers has a variance of 1.
        (0..count).map(|_| (0..12).map(|_| stream.uniform(-0.5, 0.5)).sum()).collect()
    }

    /// The error of the estimated cosine.
    fn error(one: &[f32], other: &[f32]) -> f64 {
        let estimated = sketch(one, 128).dot(&sketch(other, 128));
        (estimated - dot(one, other)).abs() / (dot(one, one) * dot(other, other)).sqrt()
    }

    #[test]
    fn a_short_vector_is_its_own_sketch() {
        let (one, other) = (normal(1003, 1), normal(1003, 2));
        assert_eq!(sketch(&one, 10).values[..1003], one);
        assert!((sketch(&one, 10).dot(&sketch(&other, 10)) / dot(&one, &other) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn sketches_take_four_mebibytes_at_most() {
        for updates in [1, 2, 10, 128, 129, 1000, SKETCHES_MAX] {
            for total in [1, 1000, 199_210, 10_000_000] {
                let length = Sketch::new(total, updates, Seed(1)).unwrap().values.len();
                assert!(length >= 16 && length * updates as usize <= VALUES_MAX.max(16 * updates as usize));
            }
        }
        assert!(Sketch::new(1, SKETCHES_MAX + 1, Seed(1)).is_none());
        assert_eq!(Sketch::new(10_000_000, 2, Seed(1)).unwrap().values.len(), LENGTH_MAX);
    }

    /// Block n goes where the nth output of SplitMix64 says, whose first outputs from a seed of 0 are these
    /// (<https://prng.di.unimi.it/splitmix64.c>).
    #[test]
    fn places_and_signs_are_the_outputs_of_splitmix64() {
        let hashing = Hashing { seed: 0, blocks: 512, is_exact: false };
        let outputs = [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4, 0x06C4_5D18_8009_454F_u64];
        for (block, output) in (1..).zip(outputs) {
            assert_eq!(hashing.block(block), ((output >> 32) as usize % 512, output as u32));
        }
        let mut sketch = [[0.0; LANES]; 512];
        hashing.add_one(&mut sketch, 16 + 4, 2.0);
        hashing.add_one(&mut sketch, 16 + 5, 3.0);
        // The lowest bits are 1010 1111: bit 4 is clear, bit 5 is set.
        assert_eq!(sketch[0x39][4..6], [2.0, -3.0]);
    }

    #[test]
    fn estimates_are_as_near_as_the_length_says() {
        let total = 200_000;
        let (one, noise) = (normal(total, 3), normal(total, 4));
        let part: Vec<f32> = one.iter().zip(&noise).map(|(one, noise)| 0.3 * one + 0.95 * noise).collect();
        // As weights of inputs of which few move, the same ones in each row.
        let rows = |seed| -> Vec<f32> {
            let values = normal(total, seed);
            values.iter().enumerate().map(|(at, value)| if at % 512 < 8 { 9.0 * value } else { 0.1 * value }).collect()
        };
        let constant = vec![0.5; total];
        let alternating: Vec<f32> = (0..total).map(|at| if at % 32 < 16 { 1.0 } else { -1.0 }).collect();
        for (one, other) in [(&one, &noise), (&one, &part), (&rows(5), &rows(6)), (&constant, &alternating)] {
            // Three and a half standard deviations of 1 / sqrt(8192).
            assert!(error(one, other) < 0.04, "{}", error(one, other));
        }
    }

    #[test]
    fn a_sketch_does_not_depend_on_how_a_vector_is_cut() {
        let values = normal(300_000, 8);
        let whole = sketch(&values, 128);
        for length in [1, 15, 16, 1000, 70_001] {
            let mut cut = Sketch::new(values.len(), 128, Seed(7)).unwrap();
            values.chunks(length).enumerate().for_each(|(number, piece)| cut.dense(number * length, piece));
            assert_eq!(cut.values, whole.values, "{length}");
        }
        let mut sparse = Sketch::new(values.len(), 128, Seed(7)).unwrap();
        sparse.sparse(0, &(0..1000).collect::<Vec<_>>(), &values[..1000]);
        sparse.dense(1000, &values[1000..]);
        assert_eq!(sparse.values, whole.values);
        for cpu in Cpu::all() {
            let mut other = Sketch::new(values.len(), 128, Seed(7)).unwrap();
            let hashing = other.hashing();
            add_blocks(cpu, other.values.as_chunks_mut().0, hashing, 0, values.as_chunks().0);
            assert_eq!(other.values, whole.values, "{cpu:?}");
        }
    }

    #[test]
    fn what_comes_behind_the_vector_is_left_out() {
        let mut sketch = Sketch::new(20, 1, Seed(1)).unwrap();
        sketch.dense(16, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        sketch.dense(22, &[7.0]);
        sketch.sparse(16, &[3, 4], &[1.0, 8.0]);
        assert_eq!(
            sketch.values[16..],
            [1.0, 2.0, 3.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        );
    }

    /// The product of an update with itself is that of its norm, whatever its sketch says.
    #[test]
    fn a_dot_product_takes_its_own_part_from_the_norm() {
        let (one, other) = (sketch(&[3.0, 4.0], 2), sketch(&[1.0, 0.0], 2));
        let share = |weight, divisor| Share { weight: Weight::examples(weight), divisor: Weight::examples(divisor) };
        let updates = [
            Sketched { sketch: &one, share: share(2, 3), norm: 6.0 },
            Sketched { sketch: &other, share: share(1, 1), norm: 1.0 },
        ];
        // (2 x 6^2 + 3) / 4 and (2 x 3 + 1) / 4.
        assert_eq!(dots_with_mean(&updates), [18.75, 1.75]);
    }

    #[test]
    fn dot_products_are_those_with_the_weighted_mean() {
        let updates: Vec<Vec<f32>> = (0..5).map(|seed| normal(100_000, seed)).collect();
        let shares: Vec<Share> = (1..=5).map(Weight::examples).map(|w| Share { weight: w, divisor: w }).collect();
        let mean = |at: usize| (0..5).map(|k| (k + 1) as f32 * updates[k][at]).sum::<f32>() / 15.0;
        let mean: Vec<f32> = (0..100_000).map(mean).collect();
        for (updates_max, most) in [(5, 1e-5), (100, 0.02)] {
            let sketches: Vec<_> = updates.iter().map(|update| sketch(update, updates_max)).collect();
            let sketched: Vec<_> = (0..5)
                .map(|k| Sketched {
                    sketch: &sketches[k],
                    share: shares[k],
                    norm: dot(&updates[k], &updates[k]).sqrt(),
                })
                .collect();
            let scale = dot(&updates[0], &updates[0]);
            for (got, update) in dots_with_mean(&sketched).into_iter().zip(&updates) {
                let error = (got - dot(update, &mean)).abs() / scale;
                assert!(error < most, "{error} with {} values", sketches[0].values.len());
            }
        }
        assert!(dots_with_mean(&[]).is_empty());
    }
}
