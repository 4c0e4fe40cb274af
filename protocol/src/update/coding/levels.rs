//! Entropy coding of stochastically rounded levels, with a dither that both sides know.
//!
//! A codec scales its magnitudes to small numbers `x` and rounds each stochastically: with `u` uniform in 0 to 1, the
//! level is the number of thresholds `u`, `u + 1`, `u + 2`, .. below `x`. The outcomes of these comparisons are coded.
//! Without knowledge of `u` their entropy is that of a biased coin per value. If the reader generates the same `u`,
//! most outcomes are predictable: a value of about 0.03 is not above a threshold of 0.5. The levels have the same
//! distribution either way, so the guarantees of TernGrad and QSGD hold, at about half the bits. (Dither known to both
//! sides: Ziv, IEEE Trans. Inf. Theory 31(3), 1985; Zamir and Feder, 38(5), 1992.) The section contains the seed of the
//! dither, so the rounding hides nothing from the server: it is no privacy mechanism.
//!
//! Neighbours predict the size of a value, since the weights of one input (a column) and of one unit (a row) move
//! together. Each column and each row has a rating, the logarithm of a magnitude. After each row the column's rating is
//! corrected by the prediction error, and after each 16 values the row's, as chess players are rated (an online
//! logistic regression; Elo 1978). The distance of a threshold from the rating selects one of 64 adaptive
//! probabilities.
//!
//! Most levels are 0, so [`LANES`] values are looked up together, and one symbol says how many of them are 0 before the
//! next one that is not. Its probability is the product of theirs, so no bit is lost to the grouping.
//!
//! On deltas of McMahan's 2NN for MNIST this takes 0.15 to 0.17 bits per value for TernGrad, signs included (0.32
//! without contexts). The limit is the chain from one symbol of the range coder to the next: one for 16 values, and two
//! for each level that is not 0.

use super::chances::{Chance, Chances, any};
use super::range_coder::{Adaptive, Coder, ONE};
use crate::seed::{Seed, Stream};

/// Number of contexts for the distance of a threshold from the rating: four per octave; context 40 is the distance 0.
const DISTANCES: usize = 64;
const DISTANCE_ZERO: i32 = 40;
/// Number of sets of contexts for the first threshold, by whether the column and the row have had a level other than 0.
const FIRST_SETS: usize = 4;
/// Number of sets of contexts for further thresholds: one for the second, one for those after it.
const FURTHER_SETS: usize = 2;

/// Values whose contexts are looked up together.
const LANES: usize = 16;

/// Values after which the probabilities learn what was counted: few at first, then twice as many each time.
const BATCH_FIRST: u32 = 64;
const BATCH_MAX: u32 = 2048;

/// Ratings are logarithms to base 2 in units of 2^-16.
const RATING_ONE: i32 = 1 << 16;
/// Largest rating, a factor of 2^32. The limit keeps the arithmetic within an i32.
const RATING_MAX: i32 = 32 * RATING_ONE;

/// From this level on the rest is coded as a number.
const UNARY_MAX: u32 = 16;

/// Number of contexts for signs, by the share of negative levels among the row's last ones.
const SIGNS: usize = 9;
const SIGN_ONE: i32 = 1 << 12;

/// Initial probabilities that a value is above a threshold, by distance: `exp(-2^distance)`, which is exact for
/// exponentially distributed magnitudes whose mean is the rating.
const INITIAL: [u32; DISTANCES] = {
    /// 2^(1/4)
    const STEP: f64 = 1.189_207_115_002_721;
    let mut initial = [0; DISTANCES];
    let mut context = 0;
    // The lowest context begins at 2^-10; its middle is half a context higher, at a factor of 2^(1/8).
    let mut x = 1.0 / 1024.0 * 1.090_507_732_665_257_7;
    while context < DISTANCES {
        // The first terms of the series of exp(x): accurate enough for a start, and the same on every platform.
        let exp = 1.0 + x + x * x / 2.0 + x * x * x / 6.0 + x * x * x * x / 24.0;
        let one = (ONE as f64 / exp) as u32;
        initial[context] = if one < 8 { 8 } else { one };
        x *= STEP;
        context += 1;
    }
    initial
};

/// The dither of a section's values: the `u`, truncated to multiples of 2^-16.
#[derive(Debug)]
pub(in crate::update) struct Dither(Stream);

impl Dither {
    pub(in crate::update) fn new(seed: [u8; 4]) -> Self {
        Self(Seed(u64::from(u32::from_le_bytes(seed))).stream())
    }

    /// Draws the dither of the next row, in units of 2^-16.
    pub(in crate::update) fn fill(&mut self, row: &mut [u16]) {
        for four in row.chunks_mut(4) {
            let bits = self.0.next_u64();
            for (place, dither) in four.iter_mut().enumerate() {
                *dither = (bits >> (16 * place)) as u16;
            }
        }
    }
}

/// Rounds `x`, which is not negative, up or down: the number of thresholds below `x`.
///
/// The dither decides except once in 65,536 times, when the remainder of `u` is drawn from `rest`. The probability of
/// rounding up is therefore exactly the fraction of `x`.
pub(in crate::update) fn round(x: f32, dither: u16, rest: &mut Stream) -> u32 {
    let level = x as u32;
    let fraction = (x - level as f32) * 65_536.0;
    let steps = fraction as u32;
    let above = if steps == u32::from(dither) {
        rest.unit() < f64::from(fraction - steps as f32)
    } else {
        steps > u32::from(dither)
    };
    level + u32::from(above)
}

/// The initial rating of rows with this mean level: its logarithm to base 2, in units of 1/4.
pub(in crate::update) fn rating_of(mean: f64) -> i8 {
    let quarters = log2_256ths(mean as f32) >> 6;
    quarters.clamp(i32::from(i8::MIN), i32::from(i8::MAX)) as i8
}

/// The logarithm to base 2 in units of 2^-8, interpolated linearly between powers of 2.
fn log2_256ths(number: f32) -> i32 {
    const BIAS: i32 = 127 << 8;
    (number.to_bits() >> 15) as i32 - BIAS
}

/// The adaptive model of a section's levels, which writer and reader update alike.
#[derive(Debug)]
pub(in crate::update) struct LevelModel {
    level_max: u32,
    first: Chances<{ FIRST_SETS * DISTANCES }>,
    further: [[Adaptive; DISTANCES]; FURTHER_SETS],
    negative: [Adaptive; SIGNS],
    /// Probabilities that a level from [`UNARY_MAX`] on has a further bit.
    longer: [Adaptive; 32],
    /// Values until the probabilities learn, and the length of the current batch.
    batch_left: u32,
    batch: u32,
    /// Number of rows so far.
    rows: i32,
    /// Initial rating of a row: a moving average of the rows before.
    row_rating: i32,
    columns: Vec<i32>,
    /// Whether a column has had a level other than 0.
    seen: Vec<bool>,
    /// Prediction errors of the current row, in units of 2^-16, with one element of padding at each end.
    surprises: Vec<i32>,
}

/// The state within a row.
struct Row {
    rating: i32,
    /// Moving average of the last signs: [`SIGN_ONE`] if all were negative, -[`SIGN_ONE`] if none was.
    sign: i32,
    seen: bool,
}

/// What is known of up to [`LANES`] values before their levels are coded. Values that a row lacks cost nothing.
struct Lanes {
    contexts: [u16; LANES],
    ones: [u32; LANES],
    /// Cost of the values before a place.
    costs: [u32; LANES + 1],
}

impl LevelModel {
    /// Makes a model of rows of at most `row_values` values with levels up to `level_max`.
    pub(in crate::update) fn new(row_values: usize, level_max: u32, rating: i8) -> Self {
        let first = std::array::from_fn(|context| Chance::new(INITIAL[context % DISTANCES]));
        Self {
            level_max,
            first: Chances::new(first),
            further: [INITIAL.map(Adaptive::new); FURTHER_SETS],
            negative: [Adaptive::new(ONE / 2); SIGNS],
            longer: [Adaptive::new(ONE / 2); 32],
            batch_left: BATCH_FIRST,
            batch: BATCH_FIRST,
            rows: 0,
            row_rating: i32::from(rating) * (RATING_ONE / 4),
            columns: vec![0; row_values],
            seen: vec![false; row_values],
            surprises: vec![0; row_values + 2],
        }
    }

    /// Codes the levels of one row. With an encoder `levels` is the input, with a decoder the output.
    ///
    /// # Panics
    /// If the row is longer than `row_values` or has not one dither for each level.
    pub(in crate::update) fn row(&mut self, coder: &mut impl Coder, levels: &mut [i32], dithers: &[u16]) {
        let count = levels.len();
        assert_eq!(count, dithers.len());
        assert!(count <= self.columns.len());
        let mut row = Row { rating: self.row_rating, sign: 0, seen: false };
        for (number, (levels, dithers)) in levels.chunks_mut(LANES).zip(dithers.chunks(LANES)).enumerate() {
            self.lanes(coder, levels, dithers, number * LANES, &mut row);
        }
        self.row_rating += (row.rating - self.row_rating) >> 3;
        self.rate_columns(count);
    }

    /// Codes the levels of up to [`LANES`] columns from `column` on.
    #[inline]
    fn lanes(&mut self, coder: &mut impl Coder, levels: &mut [i32], dithers: &[u16], column: usize, row: &mut Row) {
        let lanes = self.look_up(dithers, column, row);
        let above = Self::gaps(coder, &lanes, levels);

        let count = levels.len();
        let mut error = (above.count_ones() << 16) as i32;
        let surprises = &mut self.surprises[1 + column..][..count];
        for (surprise, one) in surprises.iter_mut().zip(&lanes.ones) {
            *surprise = -(*one as i32);
            error -= *one as i32;
        }
        lanes.contexts[..count].iter().for_each(|context| self.first.count(usize::from(*context)));
        if above == 0 {
            levels.fill(0);
        } else {
            error += self.levels_above(coder, levels, dithers, column, (above, &lanes, row));
        }
        row.rating = (row.rating + (error >> 2)).clamp(-RATING_MAX, RATING_MAX);
        self.batch_left = self.batch_left.saturating_sub(count as u32);
        if self.batch_left == 0 {
            self.first.learn();
            self.batch = (2 * self.batch).min(BATCH_MAX);
            self.batch_left = self.batch;
        }
    }

    /// Probabilities that the values are above their first thresholds.
    #[inline]
    fn look_up(&self, dithers: &[u16], column: usize, row: &Row) -> Lanes {
        let count = dithers.len();
        let (ratings, seen) = (&self.columns[column..][..count], &self.seen[column..][..count]);
        let mut lanes = Lanes { contexts: [0; LANES], ones: [0; LANES], costs: [0; LANES + 1] };
        for (context, (dither, (rating, seen))) in
            lanes.contexts.iter_mut().zip(dithers.iter().zip(ratings.iter().zip(seen)))
        {
            let set = (usize::from(*seen) * 2 + usize::from(row.seen)) * DISTANCES;
            *context = (set + distance(threshold(*dither, 0), rating + row.rating)) as u16;
        }
        let mut cost = 0;
        for place in 0..LANES {
            if place < count {
                let chance = self.first.get(usize::from(lanes.contexts[place]));
                lanes.ones[place] = chance.one;
                cost += chance.cost;
            }
            lanes.costs[place + 1] = cost;
        }
        lanes
    }

    /// Codes which of the values are above their first thresholds. Returns their bits.
    #[inline]
    fn gaps<C: Coder>(coder: &mut C, lanes: &Lanes, levels: &[i32]) -> u32 {
        let (mut above, mut place) = (0, 0);
        while place < levels.len() {
            let left = &levels[place..];
            let gap = if C::WRITES { left.iter().take_while(|level| **level == 0).count() } else { 0 };
            let costs = &lanes.costs[place..];
            // Shrunk a little, so that each of the at most 16 symbols has a probability of at least 2^-16.
            let below = |symbol: usize| (any(costs[symbol] - costs[0]) >> 16) * (ONE - 32) / ONE + symbol as u32;
            place += coder.symbol(gap, left.len(), below);
            if place < levels.len() {
                above |= 1 << place;
            }
            place += 1;
        }
        above
    }

    /// Codes the magnitudes and signs of the levels that are not 0. Returns the prediction error of further thresholds.
    ///
    /// Rare where this coding pays: most levels are 0.
    fn levels_above(
        &mut self,
        coder: &mut impl Coder,
        levels: &mut [i32],
        dithers: &[u16],
        column: usize,
        (above, lanes, row): (u32, &Lanes, &mut Row),
    ) -> i32 {
        let mut known = [0; LANES];
        known[..levels.len()].copy_from_slice(levels);
        levels.fill(0);
        let (mut errors, mut left) = (0, above);
        while left != 0 {
            let place = left.trailing_zeros() as usize;
            left &= left - 1;
            let known: i32 = known[place];
            self.first.count_one(usize::from(lanes.contexts[place]));
            let rating = self.columns[column + place] + row.rating;
            let (magnitude, error) = self.magnitude(coder, known.unsigned_abs(), dithers[place], rating);
            let chance = &mut self.negative[((row.sign + SIGN_ONE + SIGN_ONE / 8) >> 10) as usize];
            let negative = chance.code(coder, known < 0);
            row.sign += ((if negative { SIGN_ONE } else { -SIGN_ONE }) - row.sign) >> 3;
            levels[place] = if negative { -(magnitude as i32) } else { magnitude as i32 };
            self.surprises[1 + column + place] += ONE as i32 + error;
            self.seen[column + place] = true;
            errors += error;
        }
        row.seen = true;
        errors
    }

    /// Codes a magnitude that is not 0. Returns it and the prediction error in units of 2^-16.
    fn magnitude(&mut self, coder: &mut impl Coder, known: u32, dither: u16, rating: i32) -> (u32, i32) {
        let (mut magnitude, mut errors) = (1, 0);
        while magnitude < self.level_max.min(UNARY_MAX) {
            let set = usize::from(magnitude > 1);
            let chance = &mut self.further[set][distance(threshold(dither, magnitude), rating)];
            let expected = chance.one() as i32;
            if !chance.code(coder, known > magnitude) {
                errors -= expected;
                break;
            }
            errors += ONE as i32 - expected;
            magnitude += 1;
        }
        if magnitude == UNARY_MAX && self.level_max > UNARY_MAX {
            magnitude += self.number(coder, known.wrapping_sub(UNARY_MAX));
        }
        (magnitude, errors)
    }

    /// Codes the excess of a level over [`UNARY_MAX`]: the number of its bits, then the bits (Elias's gamma code,
    /// 1975). A decoder may return more than `level_max` allows; the caller checks it.
    fn number(&mut self, coder: &mut impl Coder, known: u32) -> u32 {
        let bits_max = (self.level_max - UNARY_MAX + 1).ilog2();
        let known_bits = known.wrapping_add(1).checked_ilog2().unwrap_or(0);
        let mut bits = 0;
        while bits < bits_max && self.longer[bits as usize].code(coder, bits < known_bits) {
            bits += 1;
        }
        let number = (0..bits).rev().fold(1, |number: u32, place| {
            let bit = coder.code(known.wrapping_add(1) >> place & 1 == 1, ONE / 2);
            number << 1 | u32::from(bit)
        });
        number - 1
    }

    /// Corrects the ratings of the columns after a row, with larger corrections in the first rows. The prediction
    /// errors of adjacent columns count in part.
    fn rate_columns(&mut self, count: usize) {
        self.rows = self.rows.saturating_add(1);
        let sixteenths = 5 + 15 / self.rows;
        self.surprises[count + 1] = 0;
        for (rating, surprises) in self.columns[..count].iter_mut().zip(self.surprises.windows(3)) {
            let surprise = surprises[1] + (((surprises[0] + surprises[2]) * 3) >> 3);
            *rating = (*rating + ((surprise * sixteenths) >> 4)).clamp(-RATING_MAX, RATING_MAX);
        }
    }
}

/// The threshold `u + number` in units of 2^-17: the middle of the interval that the truncated dither leaves open.
#[inline]
fn threshold(dither: u16, number: u32) -> u32 {
    (u32::from(dither) << 1 | 1) + (number << 17)
}

/// The context of a threshold: its distance from the rating of a column and a row.
#[inline]
fn distance(threshold: u32, rating: i32) -> usize {
    // Exact as f32: thresholds have at most 22 bits.
    let distance = ((log2_256ths(threshold as f32) - (17 << 8)) << 8) - rating;
    ((distance >> 14) + DISTANCE_ZERO).clamp(0, DISTANCES as i32 - 1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::update::coding::range_coder::{RangeDecoder, RangeEncoder};

    #[test]
    fn a_value_is_rounded_up_as_often_as_its_fraction_says() {
        let mut stream = Seed(1).stream();
        for x in [0.0, 0.25, 0.999_99, 1.0, 2.75, 3.000_01, 100.5f32] {
            let sum: u64 = (0..=u16::MAX).map(|dither| u64::from(round(x, dither, &mut stream))).sum();
            // Of 65,536 dithers one at most is left to chance.
            assert!((sum as f64 - f64::from(x) * 65_536.0).abs() <= 1.0, "{x}: {sum}");
        }
        // Far below the dither's unit: once in 2^20, so about 65,536 * 160 / 2^20 = 10 times.
        let ups: u32 =
            (0..160).flat_map(|_| 0..=u16::MAX).map(|dither| round(2f32.powi(-20), dither, &mut stream)).sum();
        assert!((1..30).contains(&ups), "{ups}");
    }

    #[test]
    fn a_rating_is_a_logarithm() {
        assert_eq!([1.0, 2.0, 0.5, 1.0 / 16.0, 0.75, 0.0, 1e30].map(rating_of), [0, 4, -4, -16, -2, -128, 127]);
    }

    #[test]
    fn levels_of_any_size_come_back_from_rows_of_any_length() {
        for (row_values, level_max) in [(1, 1), (7, 1), (100, 4), (1000, 16), (13, 17), (64, 16_384), (5000, 3)] {
            let mut stream = Seed(u64::from(level_max)).stream();
            let mut any = || (stream.below(2 * u64::from(level_max) + 1) as i32) - level_max as i32;
            let levels: Vec<_> = (0..1000).map(|place| if place % 3 == 0 { any() } else { any() / 8 }).collect();
            let mut bytes = Vec::new();
            let mut coder = RangeEncoder::new(&mut bytes);
            code(&mut coder, &mut levels.clone(), row_values, level_max);
            coder.finish();
            let (mut coder, mut read) = (RangeDecoder::new(&bytes), vec![0; 1000]);
            code(&mut coder, &mut read, row_values, level_max);
            assert_eq!(coder.finish(), Ok(()), "{row_values} {level_max}");
            assert_eq!(read, levels, "{row_values} {level_max}");
        }
    }

    #[test]
    fn the_longest_surprises_overflow_nothing() {
        // Ones where zeros are expected, and the other way round, in every row of one column and in one long row.
        for row_values in [1, 30_000] {
            let mut levels: Vec<i32> = (0..30_000).map(|place| if place < 15_000 { 16_384 } else { 0 }).collect();
            let mut bytes = Vec::new();
            code(&mut RangeEncoder::new(&mut bytes), &mut levels, row_values, 16_384);
            code(&mut RangeDecoder::new(&[0; 9]), &mut levels, row_values, 16_384);
            code(&mut RangeDecoder::new(&[255; 90_000]), &mut levels, row_values, 16_384);
        }
    }

    fn code(coder: &mut impl Coder, levels: &mut [i32], row_values: usize, level_max: u32) {
        let mut model = LevelModel::new(row_values, level_max, -12);
        let mut dither = Dither::new([1, 2, 3, 4]);
        for row in levels.chunks_mut(row_values) {
            let mut dithers = vec![0; row.len()];
            dither.fill(&mut dithers);
            model.row(coder, row, &dithers);
        }
    }
}
