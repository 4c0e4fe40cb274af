//! The adaptive model of levels: how probable each is to be above its thresholds.
//!
//! Neighbours predict the size of a value, since the weights of one input (a column) and of one unit (a row) move
//! together. Each column and each row has a rating, the logarithm of a magnitude. After each row the column's rating is
//! corrected by the prediction error, and after each 16 values the row's, as chess players are rated (an online
//! logistic regression; Elo 1978). The distance of a threshold from the rating selects one of 64 adaptive
//! probabilities.
//!
//! The parts of a section share the probabilities, and ratings where they can: the rows of a layer are its outputs,
//! which are the columns of its bias and of the next layer. So the columns of a part begin with the ratings of the
//! rows of the last part that had several, relative to their mean and a little closer to it. Where there are several
//! columns for each of those rows, as after a convolution, they share its rating.
//!
//! Most levels are 0, so [`LANES`] values are looked up together, and one symbol says how many of them are 0 before the
//! next one that is not. Its probability is the product of theirs, so no bit is lost to the grouping.

use super::ans::{Adaptive, Coder, ONE};
use super::chances::{Chance, Chances, any, cost};

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
/// Number of batches, together 123,000 values, after which one group of [`COUNTED_EVERY`] is counted. To count all of
/// them would save little more and take up to a quarter more of a reader's time. Short bodies are counted in full.
const BATCHES_IN_FULL: u32 = 64;
const COUNTED_EVERY: usize = 4;

/// Ratings are logarithms to base 2 in units of 2^-16.
const RATING_ONE: i32 = 1 << 16;
/// Largest rating, a factor of 2^32. The limit keeps the arithmetic within an i32.
const RATING_MAX: i32 = 32 * RATING_ONE;
/// Largest rating with which a column begins, a factor of 8.
const INPUT_RATING_MAX: i32 = 3 * RATING_ONE;

/// Probabilities are multiplied by `1 - SHRUNK / ONE`, and the share that is left goes to the symbols in equal parts.
const SHRUNK: u32 = 2 * LANES as u32;

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

/// The initial rating of rows with this mean level: its logarithm to base 2, in units of 1/4.
pub(super) fn rating_of(mean: f64) -> i8 {
    let quarters = log2_256ths(mean as f32) >> 6;
    quarters.clamp(i32::from(i8::MIN), i32::from(i8::MAX)) as i8
}

/// The logarithm to base 2 in units of 2^-8, interpolated linearly between powers of 2.
#[inline(always)]
fn log2_256ths(number: f32) -> i32 {
    const BIAS: i32 = 127 << 8;
    (number.to_bits() >> 15) as i32 - BIAS
}

/// The adaptive model of a section's levels, which writer and reader update alike. [`Self::begin`] begins each part.
/// What it keeps per column is padded to groups of [`LANES`].
#[derive(Debug)]
pub(super) struct LevelModel {
    level_max: u32,
    first: Chances<{ FIRST_SETS * DISTANCES }>,
    further: [[Adaptive; DISTANCES]; FURTHER_SETS],
    negative: [Adaptive; SIGNS],
    /// Probabilities that a level from [`UNARY_MAX`] on has a further bit.
    longer: [Adaptive; 32],
    /// Values until the probabilities learn, and the length of the current batch.
    batch_left: u32,
    batch: u32,
    batches: u32,
    /// Number of rows of the part so far.
    rows: i32,
    /// Initial rating of a row: a moving average of the rows before.
    row_rating: i32,
    /// Ratings of the part's rows at their ends.
    rows_rated: Vec<i32>,
    /// The same of the last part before that had several rows.
    inputs_rated: Vec<i32>,
    columns: Vec<i32>,
    /// First of the sets of contexts, by whether a column has had a level other than 0.
    sets: Vec<[u8; LANES]>,
    /// Distances of the current row's first thresholds from the ratings of their columns.
    distances: Vec<[i32; LANES]>,
    /// Prediction errors of the current row, in units of 2^-16, with one element of padding before and after.
    surprises: Vec<i32>,
}

/// The state within a row.
struct Row {
    rating: i32,
    /// Moving average of the last signs: [`SIGN_ONE`] if all were negative, -[`SIGN_ONE`] if none was.
    sign: i32,
    /// First of the sets of contexts, by whether the row has had a level other than 0.
    set: u8,
}

/// What is known of [`LANES`] values before their levels are coded. Values that a row lacks cost nothing.
struct Lanes {
    contexts: [u8; LANES],
    ones: [u32; LANES],
    /// Cost of the values before a place.
    costs: [u32; LANES + 1],
}

/// Sets of contexts after a level other than 0 in the column, and in the row.
const COLUMN_SET: u8 = 2 * DISTANCES as u8;
const ROW_SET: u8 = DISTANCES as u8;

impl LevelModel {
    /// Makes a model of levels up to `level_max`.
    pub(super) fn new(level_max: u32) -> Self {
        let first = std::array::from_fn(|context| Chance::new(INITIAL[context % DISTANCES]));
        Self {
            level_max,
            first: Chances::new(first),
            further: [INITIAL.map(Adaptive::new); FURTHER_SETS],
            negative: [Adaptive::new(ONE / 2); SIGNS],
            longer: [Adaptive::new(ONE / 2); 32],
            batch_left: BATCH_FIRST,
            batch: BATCH_FIRST,
            batches: 0,
            rows: 0,
            row_rating: 0,
            rows_rated: Vec::new(),
            inputs_rated: Vec::new(),
            columns: Vec::new(),
            sets: Vec::new(),
            distances: Vec::new(),
            surprises: Vec::new(),
        }
    }

    /// Begins a part with rows of at most `row_values` values. `rating` is that of its mean level ([`rating_of`]).
    pub(super) fn begin(&mut self, row_values: usize, rating: i8) {
        if self.rows_rated.len() > 1 {
            self.inputs_rated = std::mem::take(&mut self.rows_rated);
        }
        self.rows_rated.clear();
        self.rows = 0;
        self.row_rating = i32::from(rating) * (RATING_ONE / 4);
        let groups = row_values.div_ceil(LANES);
        self.columns.clear();
        self.columns.resize(groups * LANES, 0);
        self.rate_columns_by_inputs(row_values);
        // All are written before they are read, but for the sets.
        self.sets.clear();
        self.sets.resize(groups, [0; LANES]);
        self.distances.resize(groups, [0; LANES]);
        self.surprises.resize(groups * LANES + 2, 0);
    }

    /// Gives each column five eighths of the distance of its input's rating from the mean of all.
    fn rate_columns_by_inputs(&mut self, row_values: usize) {
        let inputs = self.inputs_rated.len();
        if inputs == 0 || !row_values.is_multiple_of(inputs) {
            return;
        }
        let sum: i64 = self.inputs_rated.iter().map(|rating| i64::from(*rating)).sum();
        let mean = (sum / inputs as i64) as i32;
        for (columns, rating) in self.columns.chunks_mut(row_values / inputs).zip(&self.inputs_rated) {
            columns.fill((((rating - mean) >> 3) * 5).clamp(-INPUT_RATING_MAX, INPUT_RATING_MAX));
        }
    }

    /// Codes the levels of one row. With an encoder `levels` is the input, with a decoder the output.
    ///
    /// # Panics
    /// If the row is longer than `row_values` or has not one dither for each level.
    #[inline(always)]
    pub(super) fn row(&mut self, coder: &mut impl Coder, levels: &mut [i32], dithers: &[u16]) {
        let count = levels.len();
        assert_eq!(count, dithers.len());
        assert!(count <= self.columns.len());
        let distances = self.distances.as_flattened_mut().iter_mut();
        for ((distance, column), dither) in distances.zip(&self.columns).zip(dithers) {
            *distance = log2_of_threshold(threshold(*dither, 0)) - column;
        }
        let mut row = Row { rating: self.row_rating, sign: 0, set: 0 };
        for (group, (levels, dithers)) in levels.chunks_mut(LANES).zip(dithers.chunks(LANES)).enumerate() {
            self.lanes(coder, levels, dithers, group, &mut row);
        }
        self.row_rating += (row.rating - self.row_rating) >> 4;
        self.rows_rated.push(row.rating);
        self.rate_columns(count);
    }

    /// Codes the levels of a group of up to [`LANES`] columns.
    #[inline(always)]
    fn lanes(&mut self, coder: &mut impl Coder, levels: &mut [i32], dithers: &[u16], group: usize, row: &mut Row) {
        let count = levels.len();
        let lanes = self.look_up(count, group, row);
        let above = Self::gaps(coder, &lanes, levels);

        let mut error = (above.count_ones() << 16) as i32;
        let surprises = &mut self.surprises[1 + group * LANES..][..LANES];
        for (surprise, one) in surprises.iter_mut().zip(&lanes.ones) {
            *surprise = -(*one as i32);
            error -= *one as i32;
        }
        let counts = self.counts(group);
        if counts {
            self.first.count(&lanes.contexts[..count]);
        }
        if above == 0 {
            levels.fill(0);
        } else {
            error += self.levels_above(coder, levels, dithers, group, (above, &lanes, row));
        }
        row.rating = (row.rating + (error >> 2)).clamp(-RATING_MAX, RATING_MAX);
        if counts {
            self.batch_left = self.batch_left.saturating_sub(count as u32);
        }
        if self.batch_left == 0 {
            self.first.learn();
            self.batch = (2 * self.batch).min(BATCH_MAX);
            self.batch_left = self.batch;
            self.batches = self.batches.saturating_add(1);
        }
    }

    /// Whether the probabilities learn from a group: at first from all, later from one of [`COUNTED_EVERY`], another
    /// one in each row.
    #[inline(always)]
    fn counts(&self, group: usize) -> bool {
        self.batches < BATCHES_IN_FULL || (group + self.rows as usize).is_multiple_of(COUNTED_EVERY)
    }

    /// Probabilities that the values are above their first thresholds.
    #[inline(always)]
    fn look_up(&self, count: usize, group: usize, row: &Row) -> Lanes {
        let mut lanes = Lanes { contexts: [0; LANES], ones: [0; LANES], costs: [0; LANES + 1] };
        let columns = self.distances[group].iter().zip(&self.sets[group]);
        for (context, (distance, set)) in lanes.contexts.iter_mut().zip(columns) {
            *context = context_of(distance - row.rating) | set | row.set;
        }
        let mut cost = 0;
        for place in 0..LANES {
            // The same for all places of a whole group, so that its loops have a fixed length.
            if place < count {
                let chance = self.first.get(lanes.contexts[place].into());
                lanes.ones[place] = chance.one;
                cost += chance.cost;
            }
            lanes.costs[place + 1] = cost;
        }
        lanes
    }

    /// Codes which of the values are above their first thresholds. Returns their bits.
    #[inline(always)]
    fn gaps<C: Coder>(coder: &mut C, lanes: &Lanes, levels: &[i32]) -> u32 {
        let count = levels.len();
        let known = match C::WRITES {
            true => (0..).zip(levels).fold(0, |bits, (place, level)| bits | u32::from(*level != 0) << place),
            false => 0,
        };
        let (mut above, mut place) = (0, 0);
        while place < count {
            let last = count - place;
            let gap = ((known >> place).trailing_zeros() as usize).min(last);
            let before = lanes.costs[place];
            // Shrunk a little, so that each of the at most 16 symbols has a probability of at least 2^-16.
            let below = |symbol: usize| {
                (any(lanes.costs[place + symbol] - before) >> 16) * (ONE - SHRUNK) / ONE + symbol as u32
            };
            // The reverse: how many values cost no more than the number's share, were they 0.
            let guess = |slot: u32| {
                let most = before + cost((slot + slot * SHRUNK / ONE).min(ONE - 1));
                let fit = lanes.costs.iter().map(|cost| u32::from(*cost <= most)).sum::<u32>();
                (fit as usize).saturating_sub(1 + place)
            };
            place += coder.symbol(gap, last, below, guess);
            if place < count {
                above |= 1 << place;
            }
            place += 1;
        }
        above
    }

    /// Codes the magnitudes and signs of the levels that are not 0. Returns the prediction error of further thresholds.
    ///
    /// Rare where this coding pays: most levels are 0.
    #[inline(always)]
    fn levels_above(
        &mut self,
        coder: &mut impl Coder,
        levels: &mut [i32],
        dithers: &[u16],
        group: usize,
        (above, lanes, row): (u32, &Lanes, &mut Row),
    ) -> i32 {
        let mut known = [0; LANES];
        known[..levels.len()].copy_from_slice(levels);
        levels.fill(0);
        let first = group * LANES;
        let (mut errors, mut left) = (0, above);
        while left != 0 {
            let place = left.trailing_zeros() as usize;
            left &= left - 1;
            let known: i32 = known[place];
            if self.counts(group) {
                self.first.count_one(lanes.contexts[place].into());
            }
            let (mut magnitude, mut error) = (1, 0);
            if self.level_max > 1 {
                let rating = self.columns[first + place] + row.rating;
                (magnitude, error) = self.magnitude(coder, known.unsigned_abs(), dithers[place], rating);
            }
            let chance = &mut self.negative[((row.sign + SIGN_ONE + SIGN_ONE / 8) >> 10) as usize];
            let negative = chance.code(coder, known < 0);
            row.sign += (((if negative { SIGN_ONE } else { -SIGN_ONE }) - row.sign) * 3) >> 4;
            levels[place] = if negative { -(magnitude as i32) } else { magnitude as i32 };
            self.surprises[1 + first + place] += ONE as i32 + error;
            self.sets[group][place] = COLUMN_SET;
            errors += error;
        }
        row.set = ROW_SET;
        errors
    }

    /// Codes a magnitude that is not 0. Returns it and the prediction error in units of 2^-16.
    #[inline(always)]
    fn magnitude(&mut self, coder: &mut impl Coder, known: u32, dither: u16, rating: i32) -> (u32, i32) {
        let (mut magnitude, mut errors) = (1, 0);
        while magnitude < self.level_max.min(UNARY_MAX) {
            let set = usize::from(magnitude > 1);
            let context = context_of(log2_of_threshold(threshold(dither, magnitude)) - rating);
            let chance = &mut self.further[set][usize::from(context)];
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
    #[inline(always)]
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
    #[inline(always)]
    fn rate_columns(&mut self, count: usize) {
        self.rows = self.rows.saturating_add(1);
        let sixteenths = 6 + 15 / self.rows;
        self.surprises[count + 1] = 0;
        for (rating, surprises) in self.columns[..count].iter_mut().zip(self.surprises.windows(3)) {
            let surprise = surprises[1] + ((surprises[0] + surprises[2]) >> 1);
            *rating = (*rating + ((surprise * sixteenths) >> 4)).clamp(-RATING_MAX, RATING_MAX);
        }
    }
}

/// The threshold `u + number` in units of 2^-17: the middle of the interval that the truncated dither leaves open.
#[inline(always)]
fn threshold(dither: u16, number: u32) -> u32 {
    (u32::from(dither) << 1 | 1) + (number << 17)
}

/// The logarithm of a threshold in units of ratings.
#[inline(always)]
fn log2_of_threshold(threshold: u32) -> i32 {
    // Exact as f32: thresholds have at most 22 bits.
    (log2_256ths(threshold as i32 as f32) - (17 << 8)) << 8
}

/// The context of a threshold at this distance from the rating of its column and row.
#[inline(always)]
fn context_of(distance: i32) -> u8 {
    ((distance >> 14) + DISTANCE_ZERO).clamp(0, DISTANCES as i32 - 1) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;
    use crate::update::coding::ans::{Decoder, Encoder};
    use crate::update::coding::dither::Dither;

    #[test]
    fn a_rating_is_a_logarithm() {
        assert_eq!([1.0, 2.0, 0.5, 1.0 / 16.0, 0.75, 0.0, 1e30].map(rating_of), [0, 4, -4, -16, -2, -128, 127]);
    }

    /// Codes levels that need not be rounded numbers.
    fn code(coder: &mut impl Coder, levels: &mut [i32], row_values: usize, level_max: u32) {
        let mut model = LevelModel::new(level_max);
        model.begin(row_values, -12);
        let mut dither = Dither::new([1, 2, 3, 4]);
        for row in levels.chunks_mut(row_values) {
            let mut dithers = vec![0; row.len()];
            dither.fill(&mut dithers);
            model.row(coder, row, &dithers);
        }
    }

    #[test]
    fn levels_of_any_size_come_back_from_rows_of_any_length() {
        for (row_values, level_max) in [(1, 1), (7, 1), (100, 4), (1000, 16), (13, 17), (64, 16_384), (5000, 3)] {
            let mut stream = Seed(u64::from(level_max)).stream();
            let mut any = || (stream.below(2 * u64::from(level_max) + 1) as i32) - level_max as i32;
            let levels: Vec<_> = (0..1000).map(|place| if place % 3 == 0 { any() } else { any() / 8 }).collect();
            let (mut bytes, mut coder) = (Vec::new(), Encoder::default());
            code(&mut coder, &mut levels.clone(), row_values, level_max);
            coder.finish(&mut bytes);
            let (mut coder, mut read) = (Decoder::new(&bytes).unwrap(), vec![0; 1000]);
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
            code(&mut Encoder::default(), &mut levels, row_values, 16_384);
            for bytes in [[1; 9].as_slice(), &[255; 90_000]] {
                code(&mut Decoder::new(bytes).unwrap(), &mut levels, row_values, 16_384);
            }
        }
    }
}
