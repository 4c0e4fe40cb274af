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
//! together. Each column and each row has a rating, the logarithm of a magnitude. After each outcome the ratings are
//! corrected by the prediction error, as chess players are rated (an online logistic regression; Elo 1978). The
//! distance of a threshold from the rating selects one of 64 adaptive probabilities.
//!
//! On deltas of McMahan's 2NN for MNIST this takes 0.15 to 0.17 bits per value for TernGrad, signs included (0.32
//! without contexts). One core codes about 90 million values per second. The limit is the chain from one outcome to the
//! next probability, not memory.

use super::range_coder::{Adaptive, Coder, ONE};
use crate::seed::{Seed, Stream};

/// Number of contexts for the distance of a threshold from the rating: four per octave; context 40 is the distance 0.
const DISTANCES: usize = 64;
const DISTANCE_ZERO: i32 = 40;
/// Number of sets of contexts: four for the first threshold, by whether the column and the row have had a level other
/// than 0; one for the second threshold; one for further ones.
const SETS: usize = 6;

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
const INITIAL: [Adaptive; DISTANCES] = {
    /// 2^(1/4)
    const STEP: f64 = 1.189_207_115_002_721;
    let mut initial = [Adaptive::new(ONE / 2); DISTANCES];
    let mut context = 0;
    // The lowest context begins at 2^-10; its middle is half a context higher, at a factor of 2^(1/8).
    let mut x = 1.0 / 1024.0 * 1.090_507_732_665_257_7;
    while context < DISTANCES {
        // The first terms of the series of exp(x): accurate enough for a start, and the same on every platform.
        let exp = 1.0 + x + x * x / 2.0 + x * x * x / 6.0 + x * x * x * x / 24.0;
        let one = (ONE as f64 / exp) as u32;
        initial[context] = Adaptive::new(if one < 8 { 8 } else { one });
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
    chances: Chances,
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

/// The adaptive probabilities.
#[derive(Debug)]
struct Chances {
    level_max: u32,
    above: [[Adaptive; DISTANCES]; SETS],
    negative: [Adaptive; SIGNS],
    /// Probabilities that a level from [`UNARY_MAX`] on has a further bit.
    longer: [Adaptive; 32],
}

/// The state within a row.
struct Row {
    rating: i32,
    /// Moving average of the last signs: [`SIGN_ONE`] if all were negative, -[`SIGN_ONE`] if none was.
    sign: i32,
    seen: bool,
}

impl LevelModel {
    /// Makes a model of rows of at most `row_values` values with levels up to `level_max`.
    pub(in crate::update) fn new(row_values: usize, level_max: u32, rating: i8) -> Self {
        Self {
            chances: Chances {
                level_max,
                above: [INITIAL; SETS],
                negative: [Adaptive::new(ONE / 2); SIGNS],
                longer: [Adaptive::new(ONE / 2); 32],
            },
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
        let Self { chances, columns, seen, surprises, .. } = self;
        let mut row = Row { rating: self.row_rating, sign: 0, seen: false };
        let columns = columns[..count].iter().zip(&mut seen[..count]).zip(&mut surprises[1..=count]);
        for ((level, dither), ((column, seen), surprise)) in levels.iter_mut().zip(dithers).zip(columns) {
            let set = usize::from(*seen) * 2 + usize::from(row.seen);
            let (above, error) = chances.above(coder, *level != 0, threshold(*dither, 0), set, *column, &mut row);
            *surprise = error;
            if above {
                // Rare where this coding pays: most levels are 0.
                *level = chances.rest(coder, *level, *dither, *column, &mut row, surprise);
                (*seen, row.seen) = (true, true);
            } else {
                *level = 0;
            }
        }
        self.row_rating += (row.rating - self.row_rating) >> 3;
        self.rate_columns(count);
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
fn threshold(dither: u16, number: u32) -> u32 {
    (u32::from(dither) << 1 | 1) + (number << 17)
}

impl Chances {
    /// Codes whether a value is above a threshold. Returns the outcome and the prediction error in units of 2^-16.
    #[inline]
    fn above(
        &mut self,
        coder: &mut impl Coder,
        known: bool,
        threshold: u32,
        set: usize,
        column: i32,
        row: &mut Row,
    ) -> (bool, i32) {
        // Exact as f32: thresholds have at most 22 bits.
        let distance = ((log2_256ths(threshold as f32) - (17 << 8)) << 8) - column - row.rating;
        let context = ((distance >> 14) + DISTANCE_ZERO).clamp(0, DISTANCES as i32 - 1);
        let chance = &mut self.above[set][context as usize];
        let expected = chance.one() as i32;
        let above = chance.code(coder, known);
        let error = if above { ONE as i32 - expected } else { -expected };
        row.rating = (row.rating + (error >> 2)).clamp(-RATING_MAX, RATING_MAX);
        (above, error)
    }

    /// Codes the rest of a level that is above the first threshold. Returns the level with its sign.
    fn rest(
        &mut self,
        coder: &mut impl Coder,
        known: i32,
        dither: u16,
        column: i32,
        row: &mut Row,
        surprise: &mut i32,
    ) -> i32 {
        let mut magnitude = 1;
        while magnitude < self.level_max.min(UNARY_MAX) {
            let set = if magnitude == 1 { SETS - 2 } else { SETS - 1 };
            let known = known.unsigned_abs() > magnitude;
            let (above, error) = self.above(coder, known, threshold(dither, magnitude), set, column, row);
            *surprise += error;
            if !above {
                break;
            }
            magnitude += 1;
        }
        if magnitude == UNARY_MAX && self.level_max > UNARY_MAX {
            magnitude += self.number(coder, known.unsigned_abs().wrapping_sub(UNARY_MAX));
        }
        let chance = &mut self.negative[((row.sign + SIGN_ONE + SIGN_ONE / 8) >> 10) as usize];
        let negative = chance.code(coder, known < 0);
        row.sign += ((if negative { SIGN_ONE } else { -SIGN_ONE }) - row.sign) >> 3;
        if negative { -(magnitude as i32) } else { magnitude as i32 }
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
