//! Stochastic rounding with a dither that both sides know.

use crate::cpu::Cpu;
use crate::for_each_cpu;
use crate::seed::Stream;

/// The dither of a section's values: the `u` of [levels](super::levels), truncated to multiples of 2^-16.
///
/// Each is a hash of the section's seed and of the value's place, so that a row of them is computed at once. A stream
/// of random numbers would be drawn one by one.
#[derive(Debug)]
pub(super) struct Dither {
    keys: [u32; 2],
    next: u32,
}

impl Dither {
    pub(super) fn new(seed: [u8; 4]) -> Self {
        let first = mix(u32::from_le_bytes(seed) ^ GOLDEN);
        Self { keys: [first, mix(first.wrapping_add(GOLDEN))], next: 0 }
    }

    /// Draws the dither of the next row, in units of 2^-16.
    pub(super) fn fill(&mut self, row: &mut [u16]) {
        fill(Cpu::best(), row, self.keys, self.next);
        self.next = self.next.wrapping_add(row.len() as u32);
    }
}

/// 2^32 divided by the golden ratio: the multiples of it spread evenly (Knuth, The Art of Computer Programming 6.4).
const GOLDEN: u32 = 0x9E37_79B9;

/// A permutation of 32-bit numbers whose every bit depends on every bit (`lowbias32`; C. Wellons, Prospecting for Hash
/// Functions, 2018).
#[inline(always)]
fn mix(number: u32) -> u32 {
    let number = (number ^ number >> 16).wrapping_mul(0x7FEB_352D);
    let number = (number ^ number >> 15).wrapping_mul(0x846C_A68B);
    number ^ number >> 16
}

for_each_cpu! {
    fn fill(row: &mut [u16], keys: [u32; 2], first: u32) {
        for (dither, place) in row.iter_mut().zip(0u32..) {
            let number = first.wrapping_add(place).wrapping_mul(GOLDEN);
            *dither = (mix((number ^ keys[0]).wrapping_add(keys[1])) >> 16) as u16;
        }
    }
}

/// Rounds the magnitude of each number up or down: the number of thresholds `u`, `u + 1`, .. below it. Magnitudes are
/// at most 2^22.
///
/// The dither decides except once in 65,536 times, when the remainder of `u` is drawn from `rest`. The probability of
/// rounding up is therefore exactly the fraction of the magnitude.
pub(super) fn round(numbers: &[f32], dithers: &[u16], levels: &mut [i32], rest: &mut Stream) {
    if !round_truncated(Cpu::best(), numbers, dithers, levels) {
        return;
    }
    for ((number, dither), level) in numbers.iter().zip(dithers).zip(levels) {
        let (_, steps, remainder) = parts(*number);
        if steps == i32::from(*dither) && rest.unit() < f64::from(remainder) {
            *level += if *number < 0.0 { -1 } else { 1 };
        }
    }
}

for_each_cpu! {
    /// Rounds down where the fraction, truncated, equals the dither. Returns whether there was such a number.
    fn round_truncated(numbers: &[f32], dithers: &[u16], levels: &mut [i32]) -> bool {
        let mut ties = 0;
        for ((number, dither), level) in numbers.iter().zip(dithers).zip(levels) {
            let (whole, steps, _) = parts(*number);
            let magnitude = whole + i32::from(steps > i32::from(*dither));
            ties |= i32::from(steps == i32::from(*dither));
            *level = if *number < 0.0 { -magnitude } else { magnitude };
        }
        ties != 0
    }
}

/// A magnitude's whole part, its fraction truncated to units of 2^-16, and the rest in the same units.
#[inline(always)]
fn parts(number: f32) -> (i32, i32, f32) {
    let magnitude = number.abs();
    let (whole, fraction) = truncate(magnitude);
    let fraction = fraction * 65_536.0;
    let (steps, remainder) = truncate(fraction);
    (whole, steps, remainder)
}

/// The whole part of a number from 0 to 2^22, and the rest. Only additions and comparisons of floats, which vectorise
/// on every CPU; a cast does not.
#[inline(always)]
fn truncate(number: f32) -> (i32, f32) {
    /// Floats from here to its double are whole numbers, which their lowest 23 bits count.
    const WHOLE: f32 = 8_388_608.0;
    let nearest = (number + WHOLE) - WHOLE;
    let whole = nearest - if nearest > number { 1.0 } else { 0.0 };
    (((whole + WHOLE).to_bits() & 0x7F_FFFF) as i32, number - whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;
    use crate::update::coding::testing::normal;

    fn rounded(x: f32, dithers: &[u16], stream: &mut Stream) -> i64 {
        let mut levels = vec![0; dithers.len()];
        round(&vec![x; dithers.len()], dithers, &mut levels, stream);
        levels.into_iter().map(i64::from).sum()
    }

    #[test]
    fn a_value_is_rounded_up_as_often_as_its_fraction_says() {
        let mut stream = Seed(1).stream();
        let all: Vec<u16> = (0..=u16::MAX).collect();
        for x in [0.0, 0.25, 0.999_99, 1.0, 2.75, 3.000_01, 100.5f32, -0.75] {
            let sum = rounded(x, &all, &mut stream);
            // Of 65,536 dithers one at most is left to chance.
            assert!((sum as f64 - f64::from(x) * 65_536.0).abs() <= 1.0, "{x}: {sum}");
        }
        // Far below the dither's unit: once in 2^20, so about 65,536 * 160 / 2^20 = 10 times.
        let ups: i64 = (0..160).map(|_| rounded(2f32.powi(-20), &all, &mut stream)).sum();
        assert!((1..30).contains(&ups), "{ups}");
    }

    #[test]
    fn dithers_are_uniform_in_every_section_and_at_every_place() {
        let (mut sums, mut products, mut low) = ([0.0; 64], [0.0; 64], [0u32; 64]);
        for seed in 0..4096u32 {
            let (mut row, mut dither) = ([0; 65], Dither::new((seed * 977).to_le_bytes()));
            dither.fill(&mut row[..40]);
            dither.fill(&mut row[40..]);
            let unit = |place: usize| f64::from(row[place]) / 65_536.0 - 0.5;
            for place in 0..64 {
                sums[place] += unit(place);
                products[place] += unit(place) * unit(place + 1);
                low[place] += u32::from(row[place] < 1 << 10);
            }
        }
        // Five standard deviations of 4096 draws.
        for place in 0..64 {
            assert!(sums[place].abs() < 5.0 * 64.0 / 12f64.sqrt(), "place {place}: {}", sums[place]);
            assert!(products[place].abs() < 5.0 * 64.0 / 12.0, "places {place}, {}: {}", place + 1, products[place]);
            assert!((24..104).contains(&low[place]), "place {place}: {} below 2^-6", low[place]);
        }
    }

    #[test]
    fn every_cpu_draws_and_rounds_the_same() {
        let numbers: Vec<f32> = normal(1001, 3).into_iter().map(|value| value * 3.0).collect();
        let drawn = |cpu| {
            let (mut dithers, mut levels) = (vec![0; 1001], vec![0; 1001]);
            fill(cpu, &mut dithers, [3, 9], u32::MAX - 500);
            let ties = round_truncated(cpu, &numbers, &dithers, &mut levels);
            (dithers, levels, ties)
        };
        Cpu::all().into_iter().for_each(|cpu| assert_eq!(drawn(cpu), drawn(Cpu::portable()), "{cpu:?}"));
    }
}
