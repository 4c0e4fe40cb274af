//! The exact rounded Gaussian, from the words of a key.
//!
//! The sampler is algorithm N of Karney 2016 (<https://arxiv.org/abs/1303.6257>): it decides with comparisons of
//! uniform deviates alone, whose bits are drawn as they are needed, so that no floating-point number has a part in the
//! noise. (A Gaussian that was computed in floating point tells by its last bits what it was added to: Mironov 2012.)

use hkdf::Hkdf;
use sha2::Sha256;

use super::uniform::{Uniform, falls, half};
use crate::seed::SecretStream;

/// Binary places of a value of [`Normal::fixed`].
pub const FIXED_PLACES: u32 = 120;

/// Binary places of the noise of a sum: its standard deviation is 2^20 steps of the grid.
pub const NOISE_PLACES: u32 = 20;

/// Parameters whose noise has one key.
pub const NOISE_BLOCK: usize = 1 << 12;

/// Draws from the normal distribution, exactly.
#[derive(Debug)]
pub struct Normal(SecretStream);

/// A draw before it is rounded: `k + x` with its sign.
struct Drawn {
    whole: u64,
    part: Uniform,
    is_negative: bool,
}

impl Normal {
    /// The draws of a key.
    pub fn new(key: [u8; 32]) -> Self {
        Self(SecretStream::of(key))
    }

    /// The next draw times `2^places`, rounded to the nearest integer; halves are rounded away from zero.
    ///
    /// # Panics
    /// With more than 55 places.
    pub fn rounded(&mut self, places: u32) -> i64 {
        assert!(places <= 55, "a draw times 2^{places} does not fit");
        let Drawn { whole, part, is_negative } = self.draw();
        let magnitude = (whole << places) + (((part.first >> (63 - places)) + 1) >> 1);
        if is_negative { -magnitude.cast_signed() } else { magnitude.cast_signed() }
    }

    /// The next draw with [`FIXED_PLACES`] binary places, rounded towards zero.
    pub fn fixed(&mut self) -> i128 {
        let Drawn { whole, part, is_negative } = self.draw();
        let [first, second] = part.two_words(&mut self.0);
        let places = (u128::from(first) << (FIXED_PLACES - 64)) | u128::from(second >> (128 - FIXED_PLACES));
        let magnitude = ((u128::from(whole) << FIXED_PLACES) | places).cast_signed();
        if is_negative { -magnitude } else { magnitude }
    }

    fn draw(&mut self) -> Drawn {
        loop {
            let mut whole = 0u64;
            while half(&mut self.0) {
                whole += 1;
            }
            if !(0..whole * whole.saturating_sub(1)).all(|_| half(&mut self.0)) {
                continue;
            }
            let mut part = Uniform::draw(&mut self.0);
            if (0..=whole).all(|_| falls(whole, &mut part, &mut self.0)) {
                return Drawn { whole, part, is_negative: self.0.next_u64() >> 63 == 1 };
            }
        }
    }
}

/// The key of the noise of one block of [`NOISE_BLOCK`] parameters: HKDF-SHA256 (RFC 5869) of the round's key, with the
/// job's seed as salt.
pub fn block_key(key: &[u8; 32], salt: &[u8], round: u64, block: u32) -> [u8; 32] {
    let mut derived = [0; 32];
    let info: [&[u8]; 3] = [b"tributary noise 1", &round.to_le_bytes(), &block.to_le_bytes()];
    Hkdf::<Sha256>::new(Some(salt), key)
        .expand_multi_info(&info, &mut derived)
        .expect("32 bytes are fewer than HKDF can make");
    derived
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting() -> [u8; 32] {
        std::array::from_fn(|at| at as u8)
    }

    #[test]
    fn draws_are_those_of_the_printed_vectors() {
        let mut normal = Normal::new(counting());
        let drawn: Vec<i64> = (0..12).map(|_| normal.rounded(20)).collect();
        let wanted = [
            -245_761, -658_510, -1_001_317, -32_098, 236_261, 62_615, 1_401_393, 1_384_105, -1_690_596, -2_297_283,
            -943_768, -44_157,
        ];
        assert_eq!(drawn, wanted);
        let mut normal = Normal::new([0; 32]);
        let drawn: Vec<i64> = (0..6).map(|_| normal.rounded(20)).collect();
        assert_eq!(drawn, [137_383, -393_142, 681_819, -914_080, 808_234, 37_368]);
    }

    #[test]
    fn a_draw_with_more_places_is_the_same_draw() {
        let (mut fixed, mut rounded) = (Normal::new(counting()), Normal::new(counting()));
        let (fixed, rounded) = (fixed.fixed(), rounded.rounded(20));
        let (steps, unit) = (fixed.unsigned_abs() as f64 / 2f64.powi(100), 2f64.powi(100));
        assert!((steps - rounded.unsigned_abs() as f64).abs() <= 0.5, "{steps} of {unit} against {rounded}");
        assert_eq!(fixed < 0, rounded < 0);
    }

    /// Draws of a test; `cargo test --release` makes more.
    const DRAWS: usize = if cfg!(debug_assertions) { 400_000 } else { 10_000_000 };

    /// Goal: the draws are normal. Method: many draws of one key; mean and variance within four deviations, and the
    /// distance of the empirical distribution to the normal one (Kolmogorov and Smirnov; 1.95 has p = 0.001).
    #[test]
    fn many_draws_are_normal() {
        let mut normal = Normal::new(counting());
        let unit = f64::from(1u32 << 20);
        let mut drawn: Vec<f64> = (0..DRAWS).map(|_| normal.rounded(20) as f64 / unit).collect();
        let count = DRAWS as f64;
        let mean = drawn.iter().sum::<f64>() / count;
        let variance = drawn.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        let deviation = count.sqrt().recip();
        let is_near = mean.abs() < 4.0 * deviation && (variance - 1.0).abs() < 4.0 * 2f64.sqrt() * deviation;
        assert!(is_near, "{mean} {variance}");
        drawn.sort_by(f64::total_cmp);
        let cumulated = |value: f64| 0.5 * libm::erfc(-value / std::f64::consts::SQRT_2);
        let distance = drawn.iter().enumerate().map(|(at, value)| (cumulated(*value) - at as f64 / count).abs());
        let distance = distance.fold(0.0, f64::max);
        assert!(distance * count.sqrt() < 1.95, "{distance}");
    }

    /// Goal: rounding is exact. Method: chi-squared of draws with 2 places (a standard deviation of 4) against the
    /// printed probabilities.
    #[test]
    fn rounded_draws_have_the_printed_probabilities() {
        let probabilities =
            [0.099_476_449_66, 0.096_431_541_843, 0.087_844_704_279, 0.075_198_576_196, 0.060_492_435_716];
        let mut counts = [0usize; 5];
        let mut normal = Normal::new([7; 32]);
        for _ in 0..DRAWS {
            if let Some(count) = counts.get_mut(normal.rounded(2).unsigned_abs() as usize) {
                *count += 1;
            }
        }
        let squared: f64 = probabilities
            .iter()
            .zip(counts)
            .enumerate()
            .map(|(at, (probability, count))| {
                let wanted = if at == 0 { *probability } else { 2.0 * probability } * DRAWS as f64;
                (count as f64 - wanted).powi(2) / wanted
            })
            .sum();
        assert!(squared < 20.5, "chi squared of five classes is {squared}: p < 0.001");
    }

    /// The expansion is that of RFC 5869: another round, block or job has another key.
    #[test]
    fn each_block_has_its_key() {
        let key = counting();
        let one = block_key(&key, b"job", 1, 0);
        assert_eq!(one, block_key(&key, b"job", 1, 0));
        let others = [block_key(&key, b"job", 2, 0), block_key(&key, b"job", 1, 1), block_key(&key, b"jot", 1, 0)];
        assert!(others.iter().all(|other| *other != one));
    }
}
