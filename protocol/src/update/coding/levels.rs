//! Whole levels that were rounded by a chance both sides know, in as few bits as they surprise.
//!
//! A codec scales its values so that `x` is at most a few, and rounds it up or down by chance so that the mean is kept:
//! with `u` uniform in 0 to 1 the level is the number of thresholds `u`, `u + 1`, `u + 2`, .. below `x`. What is sent are
//! the outcomes of these comparisons. Coded blindly they cost the entropy of a coin for each value; but when the reader
//! has the same `u`, most outcomes are no surprise: a value of about 0.03 is above no threshold of 0.5. The levels have
//! the same distribution, so everything that is known of TernGrad and QSGD stays true, at about half the bits. (Dither
//! that both sides know: Ziv, IEEE Trans. Inf. Theory 31(3), 1985; Zamir and Feder, 38(5), 1992.) A seed for the `u`
//! stands in the section; the rounding therefore hides nothing from the server, and is no privacy.
//!
//! How large a value probably is follows from its neighbours: weights of one input (a column) and of one unit (a row) move
//! together. Each column and row has a rating, the logarithm of a magnitude, which is corrected by what came against what
//! was expected, as players are rated in chess (an online logistic regression; Elo 1978). The distance of a threshold from
//! the rating chooses one of 64 adaptive probabilities.
//!
//! On a 2NN's delta for MNIST this takes 0.15 to 0.17 bits per value for TernGrad, signs included (0.32 without contexts).
//! One core codes some 100 million values per second: the limit is the chain from one value's outcome to the next one's
//! probability, not memory.

use super::range_coder::{Adaptive, Coder, ONE};
use crate::seed::{Seed, Stream};

/// Contexts for the distance of a threshold from the rating: four per octave, where context 40 is no distance.
const DISTANCES: usize = 64;
const DISTANCE_ZERO: i32 = 40;
/// Sets of them: a value's first threshold by whether its column and its row had levels other than 0 so far; its second
/// threshold; further ones.
const SETS: usize = 6;

/// Ratings are logarithms to base 2 in units of 2^-16.
const RATING_ONE: i32 = 1 << 16;
/// Largest rating: no magnitude is further from another.
const RATING_MAX: i32 = 32 * RATING_ONE;

/// From this level on the rest is written as a number.
const UNARY_MAX: u32 = 16;

/// Contexts for signs: how often the row's last levels were negative, in eighths.
const SIGNS: usize = 9;
const SIGN_ONE: i32 = 1 << 12;

/// Probabilities that a value is above a threshold at some distance, before anything is known: for magnitudes with an
/// exponential distribution and the rating as their mean, `exp(-2^distance)`.
const INITIAL: [Adaptive; DISTANCES] = {
    /// 2^(1/4)
    const STEP: f64 = 1.189_207_115_002_721;
    let mut initial = [Adaptive::new(ONE / 2); DISTANCES];
    let mut context = 0;
    // 2^-10 is the lowest distance; its middle is half a step further.
    let mut x = 1.0 / 1024.0 * 1.090_507_732_665_257_7;
    while context < DISTANCES {
        // exp(x) by the first terms of its series: enough for a guess, and exact arithmetic.
        let exp = 1.0 + x + x * x / 2.0 + x * x * x / 6.0 + x * x * x * x / 24.0;
        let one = (ONE as f64 / exp) as u32;
        initial[context] = Adaptive::new(if one < 8 { 8 } else { one });
        x *= STEP;
        context += 1;
    }
    initial
};

/// The `u` of a section's values, in units of 2^-16 and without their remainder.
#[derive(Debug)]
pub(in crate::update) struct Dither(Stream);

impl Dither {
    pub(in crate::update) fn new(seed: [u8; 4]) -> Self {
        Self(Seed(u64::from(u32::from_le_bytes(seed))).stream())
    }

    /// The next row's.
    pub(in crate::update) fn fill(&mut self, row: &mut [u16]) {
        for four in row.chunks_mut(4) {
            let bits = self.0.next_u64();
            for (place, dither) in four.iter_mut().enumerate() {
                *dither = (bits >> (16 * place)) as u16;
            }
        }
    }
}

/// The number of thresholds below `x`, which is not negative: `x` rounded up or down.
///
/// The dither decides up to 2^-16; the remainder, which matters once in 65,536 times, is drawn from `rest`. So the chance
/// of rounding up is the fraction of `x`, exactly.
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

/// The rating with which rows begin that have this mean level: its logarithm in quarters of an octave.
pub(in crate::update) fn rating_of(mean: f64) -> i8 {
    let quarters = log2_256ths(mean as f32) >> 6;
    quarters.clamp(i32::from(i8::MIN), i32::from(i8::MAX)) as i8
}

/// Logarithm to base 2 in units of 2^-8, linear between powers of 2.
fn log2_256ths(number: f32) -> i32 {
    const BIAS: i32 = 127 << 8;
    (number.to_bits() >> 15) as i32 - BIAS
}

/// What both sides expect of the levels that come.
#[derive(Debug)]
pub(in crate::update) struct LevelModel {
    first: [[Adaptive; DISTANCES]; SETS],
    signs: [Adaptive; SIGNS],
    /// Bits of levels from [`UNARY_MAX`] on: how many they have.
    lengths: [Adaptive; 32],
    level_max: u32,
    /// Rows that came.
    rows: i32,
    /// Where a row's rating begins: a slow mean of those before.
    row_rating: i32,
    columns: Vec<i32>,
    /// Whether a column had a level other than 0.
    seen: Vec<bool>,
    /// What came against what was expected in this row, in units of 2^-16; one more at each end.
    surprises: Vec<i32>,
}

impl LevelModel {
    /// A model of rows of at most `row_values` values whose levels are at most `level_max`.
    pub(in crate::update) fn new(row_values: usize, level_max: u32, rating: i8) -> Self {
        Self {
            first: [INITIAL; SETS],
            signs: [Adaptive::new(ONE / 2); SIGNS],
            lengths: [Adaptive::new(ONE / 2); 32],
            level_max,
            rows: 0,
            row_rating: i32::from(rating) * (RATING_ONE / 4),
            columns: vec![0; row_values],
            seen: vec![false; row_values],
            surprises: vec![0; row_values + 2],
        }
    }

    /// Codes the levels of one row: a writer is given them, a reader finds them there afterwards.
    ///
    /// # Panics
    /// If the row is longer than `row_values` or has not one dither for each level.
    pub(in crate::update) fn row(&mut self, coder: &mut impl Coder, levels: &mut [i32], dithers: &[u16]) {
        assert!(levels.len() <= self.columns.len() && levels.len() == dithers.len());
        let mut row = Row { rating: self.row_rating, sign: 0, seen: false };
        for (column, (level, dither)) in levels.iter_mut().zip(dithers).enumerate() {
            *level = self.value(coder, *level, *dither, column, &mut row);
        }
        self.row_rating += (row.rating - self.row_rating) >> 3;
        self.rate_columns(levels.len());
    }

    fn value(&mut self, coder: &mut impl Coder, known: i32, dither: u16, column: usize, row: &mut Row) -> i32 {
        let rating = self.columns[column];
        let mut set = usize::from(self.seen[column]) * 2 + usize::from(row.seen);
        let (mut magnitude, mut surprise) = (0, 0);
        while magnitude < self.level_max.min(UNARY_MAX) {
            // The threshold in units of 2^-17, in the middle of what the dither leaves open: exact as f32.
            let threshold = (u32::from(dither) << 1 | 1) + (magnitude << 17);
            let distance = ((log2_256ths(threshold as f32) - (17 << 8)) << 8) - rating - row.rating;
            let context = ((distance >> 14) + DISTANCE_ZERO).clamp(0, DISTANCES as i32 - 1);
            let probability = &mut self.first[set][context as usize];
            let expected = probability.one() as i32;
            let above = probability.code(coder, known.unsigned_abs() > magnitude);
            let error = if above { ONE as i32 - expected } else { -expected };
            surprise += error;
            row.rating = (row.rating + (error >> 2)).clamp(-RATING_MAX, RATING_MAX);
            if !above {
                break;
            }
            magnitude += 1;
            set = if magnitude == 1 { SETS - 2 } else { SETS - 1 };
        }
        self.surprises[column + 1] = surprise;
        if magnitude == 0 {
            return 0;
        }
        if magnitude == UNARY_MAX && self.level_max > UNARY_MAX {
            magnitude += self.rest(coder, known.unsigned_abs().wrapping_sub(UNARY_MAX));
        }
        (self.seen[column], row.seen) = (true, true);
        let sign = &mut self.signs[((row.sign + SIGN_ONE + SIGN_ONE / 8) >> 10) as usize];
        let negative = sign.code(coder, known < 0);
        row.sign += ((if negative { SIGN_ONE } else { -SIGN_ONE }) - row.sign) >> 3;
        if negative { -(magnitude as i32) } else { magnitude as i32 }
    }

    /// What a level has beyond [`UNARY_MAX`]: how many bits it has, and the bits (Elias's gamma code, 1975). What is read
    /// may be above `level_max`.
    fn rest(&mut self, coder: &mut impl Coder, known: u32) -> u32 {
        let bits_max = (self.level_max - UNARY_MAX + 1).ilog2();
        let known_bits = known.wrapping_add(1).checked_ilog2().unwrap_or(0);
        let mut bits = 0;
        while bits < bits_max && self.lengths[bits as usize].code(coder, bits < known_bits) {
            bits += 1;
        }
        let number = (0..bits).rev().fold(1, |number: u32, place| {
            let bit = coder.code(known.wrapping_add(1) >> place & 1 == 1, ONE / 2);
            number << 1 | u32::from(bit)
        });
        number - 1
    }

    /// Corrects the ratings of the columns after a row: quickly at first, by the surprises of the neighbours too.
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

/// What is known within a row.
struct Row {
    rating: i32,
    /// A mean of the last signs: 4096 where all were negative.
    sign: i32,
    seen: bool,
}
