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
//! The coded levels of a section are the seed of the dither (4 bytes), the row length (24 bits), the rating of the mean
//! level (1 byte), and the [symbols](super::ans).
//!
//! On deltas of McMahan's 2NN for MNIST this takes 0.15 to 0.17 bits per value for TernGrad, signs included (0.32
//! without contexts). The limit is the chain from one symbol to the next: one for 16 values, and two for each level
//! that is not 0.

use super::ans::{Decoder, Encoder};
use super::dither::{Dither, round};
use super::fields::{sum, take, take_row_values};
use super::model::{LevelModel, rating_of};
use crate::cpu::Cpu;
use crate::for_each_cpu;
use crate::seed::Stream;
use crate::update::error::SectionError;

/// Rounds numbers stochastically and appends their levels. Magnitudes are at most `level_max`. Returns the levels.
pub(in crate::update) fn encode(
    numbers: &[f32],
    row_values: usize,
    level_max: u32,
    stream: &mut Stream,
    out: &mut Vec<u8>,
) -> Vec<i32> {
    let seed = (stream.next_u64() as u32).to_le_bytes();
    let rating = rating_of(sum(numbers, f64::abs) / numbers.len() as f64);
    out.extend_from_slice(&seed);
    out.extend_from_slice(&(row_values as u32).to_le_bytes()[..3]);
    out.extend_from_slice(&rating.to_le_bytes());

    let (mut dither, mut dithers) = (Dither::new(seed), vec![0; row_values]);
    let (mut model, mut coder) = (LevelModel::new(row_values, level_max, rating), Encoder::default());
    let mut levels = vec![0; numbers.len()];
    for (levels, numbers) in levels.chunks_mut(row_values).zip(numbers.chunks(row_values)) {
        let dithers = &mut dithers[..numbers.len()];
        dither.fill(dithers);
        round(numbers, dithers, levels, stream);
        write_row(Cpu::best(), &mut model, &mut coder, levels, dithers);
    }
    coder.finish(out);
    levels
}

/// Decodes `count` levels and hands them out row by row. A level may exceed `level_max`: the receiver checks it.
///
/// # Errors
/// [`SectionError`] if [`encode`] never writes these bytes.
pub(in crate::update) fn decode(
    mut bytes: &[u8],
    count: usize,
    level_max: u32,
    mut accept: impl FnMut(&[i32]),
) -> Result<(), SectionError> {
    let mut dither = Dither::new(take(&mut bytes)?);
    let row_values = take_row_values(&mut bytes, count)?;
    let [rating] = take(&mut bytes)?;
    let (mut levels, mut dithers) = (vec![0; row_values], vec![0; row_values]);
    let mut model = LevelModel::new(row_values, level_max, rating.cast_signed());
    let mut coder = Decoder::new(bytes)?;
    for first in (0..count).step_by(row_values) {
        let length = row_values.min(count - first);
        let (levels, dithers) = (&mut levels[..length], &mut dithers[..length]);
        dither.fill(dithers);
        read_row(Cpu::best(), &mut model, &mut coder, levels, dithers);
        coder.check()?;
        accept(levels);
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
            let (mut bytes, mut coder, mut model) = (Vec::new(), Encoder::default(), LevelModel::new(333, 3, -4));
            for (levels, dithers) in levels.clone().chunks_mut(333).zip(dithers.chunks(333)) {
                write_row(cpu, &mut model, &mut coder, levels, dithers);
            }
            coder.finish(&mut bytes);
            bytes
        };
        for cpu in Cpu::all() {
            let bytes = written(Cpu::portable());
            assert_eq!(written(cpu), bytes, "{cpu:?}");
            let (mut coder, mut model) = (Decoder::new(&bytes).unwrap(), LevelModel::new(333, 3, -4));
            let mut read = vec![0; 5000];
            for (read, dithers) in read.chunks_mut(333).zip(dithers.chunks(333)) {
                read_row(cpu, &mut model, &mut coder, read, dithers);
            }
            assert_eq!((read, coder.finish()), (levels.clone(), Ok(())), "{cpu:?}");
        }
    }

    #[test]
    fn a_few_bytes_stand_for_a_row_of_noise_at_most() {
        let head = [1, 2, 3, 4, 10, 0, 0, 0];
        let mut rows = 0;
        let refused = decode(&[&head[..], &[1, 0, 9]].concat(), 1 << 18, 4, |_| rows += 1);
        assert_eq!((refused, rows), (Err(SectionError::Truncated), 0));
    }
}
