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
//! [`LevelModel`] predicts the outcomes.
//!
//! The coded levels of a section are the seed of the dither (4 bytes), for each part the rating of its mean level (1
//! byte, [`NOTHING`] for a part of zeros), and the [symbols](super::ans) of the other parts. All parts share one stream
//! of symbols and one model, so a short part costs little more than its symbols.
//!
//! On deltas of McMahan's 2NN for MNIST this takes 0.15 to 0.17 bits per value for TernGrad, signs included (0.32
//! without contexts). The limit is the chain from one symbol to the next: one for 16 values, and two for each level
//! that is not 0.

use super::ans::{Decoder, Encoder};
use super::dither::{Dither, round};
use super::fields::{sum, take};
use super::model::{LevelModel, rating_of};
use crate::cpu::Cpu;
use crate::for_each_cpu;
use crate::seed::Stream;
use crate::update::error::SectionError;
use crate::update::frame::Part;

/// The rating of a part whose numbers are all zero. It has no symbols.
const NOTHING: i8 = i8::MIN;

/// The numbers of a section, of magnitudes up to `level_max`.
pub(in crate::update) trait Numbers {
    /// The mean magnitude of a part, given by its number and the index of its first value in the section.
    fn mean(&self, part: usize, first: usize, values: usize) -> f64;

    /// Computes the numbers of a row, which begins at an index of the section. A row at a time stays in the cache.
    fn fill(&self, part: usize, first: usize, row: &mut [f32]);
}

/// Rounds the numbers of all parts stochastically and appends their levels. Returns the levels.
pub(in crate::update) fn encode(
    numbers: &(impl Numbers + ?Sized),
    parts: &[Part],
    level_max: u32,
    stream: &mut Stream,
    out: &mut Vec<u8>,
) -> Vec<i32> {
    let seed = (stream.next_u64() as u32).to_le_bytes();
    out.extend_from_slice(&seed);
    let (head_bytes, mut first) = (out.len(), 0);
    for (number, part) in parts.iter().enumerate() {
        let mean = numbers.mean(number, first, part.values);
        let rating = if mean == 0.0 { NOTHING } else { rating_of(mean).max(NOTHING + 1) };
        out.extend_from_slice(&rating.to_le_bytes());
        first += part.values;
    }
    let ratings = out[head_bytes..].to_vec();

    let (mut dither, mut row) = (Dither::new(seed), Vec::new());
    let (mut model, mut coder) = (LevelModel::new(level_max), Encoder::default());
    let (mut levels, mut first, mut dithers) = (vec![0; first], 0, Vec::new());
    for (number, (part, rating)) in parts.iter().zip(ratings).enumerate() {
        let levels = &mut levels[first..first + part.values];
        if rating.cast_signed() != NOTHING {
            model.begin(part.row_values, rating.cast_signed());
            dithers.resize(part.row_values, 0);
            row.resize(part.row_values, 0.0);
            for (levels, at) in levels.chunks_mut(part.row_values).zip((first..).step_by(part.row_values)) {
                let (row, dithers) = (&mut row[..levels.len()], &mut dithers[..levels.len()]);
                numbers.fill(number, at, row);
                dither.fill(dithers);
                round(row, dithers, levels, stream);
                write_row(Cpu::best(), &mut model, &mut coder, levels, dithers);
            }
        }
        first += part.values;
    }
    coder.finish(out);
    levels
}

/// Numbers that are in memory.
impl Numbers for [f32] {
    fn mean(&self, _part: usize, first: usize, values: usize) -> f64 {
        sum(&self[first..first + values], f64::abs) / values as f64
    }

    fn fill(&self, _part: usize, first: usize, row: &mut [f32]) {
        row.copy_from_slice(&self[first..first + row.len()]);
    }
}

/// Decodes the levels of all parts and hands them out row by row, each with the number of its part. A level may exceed
/// `level_max`: the receiver checks it.
///
/// # Errors
/// [`SectionError`] if [`encode`] never writes these bytes.
pub(in crate::update) fn decode(
    mut bytes: &[u8],
    parts: &[Part],
    level_max: u32,
    mut accept: impl FnMut(usize, &[i32]),
) -> Result<(), SectionError> {
    let mut dither = Dither::new(take(&mut bytes)?);
    let (ratings, bytes) = bytes.split_at_checked(parts.len()).ok_or(SectionError::Truncated)?;
    let (mut model, mut coder) = (LevelModel::new(level_max), Decoder::new(bytes)?);
    let (mut levels, mut dithers) = (Vec::new(), Vec::new());
    for (number, (part, rating)) in parts.iter().zip(ratings).enumerate() {
        let coded = rating.cast_signed() != NOTHING;
        if coded {
            model.begin(part.row_values, rating.cast_signed());
        }
        levels.clear();
        levels.resize(part.row_values, 0);
        dithers.resize(part.row_values, 0);
        for first in (0..part.values).step_by(part.row_values) {
            let length = part.row_values.min(part.values - first);
            let (levels, dithers) = (&mut levels[..length], &mut dithers[..length]);
            if coded {
                dither.fill(dithers);
                read_row(Cpu::best(), &mut model, &mut coder, levels, dithers);
                coder.check()?;
            }
            accept(number, levels);
        }
    }
    coder.finish()
}

for_each_cpu! {
    fn write_row(model: &mut LevelModel, coder: &mut Encoder, levels: &mut [i32], dithers: &[u16]) {
        model.row(coder, levels, dithers);
    }
}

for_each_cpu! {
    fn read_row(model: &mut LevelModel, coder: &mut Decoder<'_>, levels: &mut [i32], dithers: &[u16]) {
        model.row(coder, levels, dithers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    #[test]
    fn every_cpu_writes_and_reads_the_same() {
        let mut stream = Seed(5).stream();
        let levels: Vec<i32> = (0..5000).map(|_| (stream.below(20) as i32 - 16).max(0)).collect();
        let dithers: Vec<u16> = (0..5000).map(|_| stream.next_u64() as u16).collect();
        let written = |cpu| {
            let (mut bytes, mut coder, mut model) = (Vec::new(), Encoder::default(), LevelModel::new(3));
            model.begin(333, -4);
            for (levels, dithers) in levels.clone().chunks_mut(333).zip(dithers.chunks(333)) {
                write_row(cpu, &mut model, &mut coder, levels, dithers);
            }
            coder.finish(&mut bytes);
            bytes
        };
        for cpu in Cpu::all() {
            let bytes = written(Cpu::portable());
            assert_eq!(written(cpu), bytes, "{cpu:?}");
            let (mut coder, mut model) = (Decoder::new(&bytes).unwrap(), LevelModel::new(3));
            model.begin(333, -4);
            let mut read = vec![0; 5000];
            for (read, dithers) in read.chunks_mut(333).zip(dithers.chunks(333)) {
                read_row(cpu, &mut model, &mut coder, read, dithers);
            }
            assert_eq!((read, coder.finish()), (levels.clone(), Ok(())), "{cpu:?}");
        }
    }

    #[test]
    fn a_few_bytes_stand_for_a_row_of_noise_at_most() {
        let head = [1, 2, 3, 4, 0];
        let (mut rows, parts) = (0, [Part { values: 1 << 18, row_values: 10 }]);
        let refused = decode(&[&head[..], &[1, 0, 9]].concat(), &parts, 4, |_, _| rows += 1);
        assert_eq!((refused, rows), (Err(SectionError::Truncated), 0));
    }

    #[test]
    fn parts_of_any_shape_come_back_and_parts_of_zeros_take_a_byte() {
        let pairs = [(7, 7), (600, 30), (1, 1), (30, 30), (900, 30), (40, 10), (5, 2), (3, 3)];
        let parts = pairs.map(|(values, row_values)| Part { values, row_values });
        let mut stream = Seed(6).stream();
        let mut numbers = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let size = if number % 3 == 2 { 0.0 } else { 0.1 * (number + 1) as f32 };
            numbers.extend((0..part.values).map(|_| stream.uniform(-size, size)));
        }
        let mut bytes = Vec::new();
        let levels = encode(numbers.as_slice(), &parts, 1, &mut stream, &mut bytes);
        let mut read: Vec<Vec<i32>> = vec![Vec::new(); parts.len()];
        decode(&bytes, &parts, 1, |part, levels| read[part].extend_from_slice(levels)).unwrap();
        assert_eq!(read.iter().map(Vec::len).collect::<Vec<_>>(), parts.map(|part| part.values));
        assert_eq!(read.concat(), levels);

        let mut with_zeros = Vec::new();
        let zeros = [parts[0], Part { values: 1 << 17, row_values: 512 }];
        numbers.truncate(7);
        encode(numbers.as_slice(), &parts[..1], 1, &mut Seed(1).stream(), &mut bytes);
        let alone = bytes.len();
        numbers.resize(7 + (1 << 17), 0.0);
        encode(numbers.as_slice(), &zeros, 1, &mut Seed(1).stream(), &mut with_zeros);
        assert!(with_zeros.len() < alone && with_zeros[5] == NOTHING.cast_unsigned());
        for length in 0..with_zeros.len() {
            assert!(decode(&with_zeros[..length], &zeros, 1, |_, _| {}).is_err(), "{length} bytes");
        }
    }
}
