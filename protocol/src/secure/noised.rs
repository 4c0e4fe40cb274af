//! The noise that members of a group add to their updates before they mask them, so that nobody sees an exact sum.
//!
//! Each member adds a discrete Gaussian of variance `sigma^2 / h`, where h is the fewest honest survivors of the group.
//! So every sum has a variance of `sigma^2` or more, even if as many members are lost, and as many lie, as may be. A
//! sum of discrete Gaussians with deviations of [`DEVIATION_MIN`] or more is as good as one of the summed variance: the
//! difference has a factor `exp(-pi^2 deviation^2)` (Kairouz, Liu and Steinke 2021,
//! <https://arxiv.org/abs/2102.06387>, theorem 1).

use super::quantise::{Quantised, Quantiser};
use crate::noise::DiscreteGaussian;
use crate::seed::SecretStream;

/// Least standard deviation of one member's noise, in steps of the grid. With it, the factor above is below 1e-26.
pub const DEVIATION_MIN: f64 = 2.5;

/// Steps of the bit of one member, so that its noise is wide enough as well.
const BIT: i64 = 1 << 16;

/// Noise that no member can add: its deviation is below [`DEVIATION_MIN`] steps, or too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the noise of a member is no deviation of 2.5 to 2^40 steps: more levels make the steps finer")]
pub struct BadNoise;

/// What one member adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberNoise {
    values: DiscreteGaussian,
    count: Option<DiscreteGaussian>,
}

impl MemberNoise {
    /// The part of one of `honest` members. `values` is the standard deviation of the noise of a sum, in clips; `count`
    /// that of the count of updates within the clip, in updates.
    ///
    /// # Errors
    /// [`BadNoise`] if members cannot add it.
    pub fn new(quantiser: &Quantiser, honest: u16, values: f64, count: Option<f64>) -> Result<Self, BadNoise> {
        let part = 1.0 / f64::from(honest.max(1)).sqrt();
        let of = |deviation: f64| {
            let sampler = DiscreteGaussian::at_least(deviation * part).ok_or(BadNoise)?;
            if sampler.deviation() >= DEVIATION_MIN { Ok(sampler) } else { Err(BadNoise) }
        };
        let bound = (quantiser.norm_squared_max() as f64).sqrt();
        // A bit is -1 or 1, twice as far apart as the update that it counts.
        let count = count.map(|count| of(2.0 * count * BIT as f64)).transpose()?;
        Ok(Self { values: of(values * bound)?, count })
    }

    /// Standard deviation of a value of the sum of so many members, in steps of the grid.
    pub fn deviation_of_sum(&self, members: u32) -> f64 {
        self.values.deviation() * f64::from(members).sqrt()
    }

    /// Adds the noise of one member. The random numbers must be secret, and no noise is drawn twice for one update.
    pub fn add(&self, quantised: &mut Quantised, random: &mut SecretStream) {
        for value in &mut quantised.values {
            *value += self.values.draw(random);
        }
    }

    /// What a member tells of its clip: a noised bit, or nothing where the clip follows no count.
    pub fn bit(&self, is_whole: bool, random: &mut SecretStream) -> u64 {
        let Some(count) = self.count else { return 0 };
        let bit = if is_whole { BIT } else { -BIT };
        (bit + count.draw(random)).cast_unsigned()
    }

    /// Members within the clip, of so many, from the sum of their bits; all of them where they told nothing.
    pub fn whole(&self, sum: u64, members: u32) -> u32 {
        if self.count.is_none() {
            return members;
        }
        let twice = sum.cast_signed() as f64 / BIT as f64 + f64::from(members);
        (twice / 2.0).round().clamp(0.0, f64::from(members)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::roster;
    use super::*;

    fn random(seed: u8) -> SecretStream {
        SecretStream::of([seed; 32])
    }

    /// Goal: the sum of the fewest honest members has the noise that was asked for, in clips. Method: 40 sums of
    /// members whose delta is zero, restored; the mean square of a value is that of the noise.
    #[test]
    fn the_sum_of_honest_members_has_the_noise_of_the_plan() {
        const SUMS: u32 = 40;
        let (honest, values) = (9, 500);
        for keep in [1.0, 0.5] {
            let quantiser = Quantiser::new(values, 0.5, 8, keep).unwrap();
            let noise = MemberNoise::new(&quantiser, honest, 2.0, None).unwrap();
            let (mut random, mut squares) = (random(3), 0.0);
            for time in 0..SUMS {
                let roster = crate::hash::Sha256Hash::of(&time.to_le_bytes());
                let mut sum = vec![0; quantiser.body_values(&roster)];
                for _ in 0..honest {
                    let mut own = quantiser.quantise(&vec![0.0; values], &roster, &mut random).unwrap();
                    noise.add(&mut own, &mut random);
                    sum.iter_mut().zip(&own.values).for_each(|(sum, value)| *sum += value);
                }
                let restored = quantiser.restore(&sum, &roster).unwrap();
                squares += restored.iter().map(|value| value * value).sum::<f64>();
            }
            // What is kept stands for all, so the noise of a value is larger by the root of what is left out.
            let deviation = (squares / f64::from(SUMS) / values as f64).sqrt() * f64::sqrt(keep);
            assert!((deviation / (2.0 * 0.5) - 1.0).abs() < 0.03, "{keep}: {deviation}");
        }
        let quantiser = Quantiser::new(values, 0.5, 8, 1.0).unwrap();
        let noise = MemberNoise::new(&quantiser, honest, 2.0, None).unwrap();
        let of_the_sum = noise.deviation_of_sum(honest.into()) * quantiser.step();
        assert!((of_the_sum / (2.0 * 0.5) - 1.0).abs() < 0.01, "{of_the_sum}");
    }

    #[test]
    fn a_noised_count_is_near_the_count_and_within_the_members() {
        let quantiser = Quantiser::new(500, 0.5, 8, 1.0).unwrap();
        let noise = MemberNoise::new(&quantiser, 64, 1.0, Some(1.0)).unwrap();
        let (mut random, members) = (random(4), 100);
        let (mut errors, sums) = (0.0, 200);
        for _ in 0..sums {
            let bits = (0..members).map(|member| noise.bit(member < 70, &mut random));
            let counted = noise.whole(bits.fold(0, u64::wrapping_add), members);
            errors += (f64::from(counted) - 70.0).powi(2);
        }
        // Of 100 members a little more than of 64, and rounding.
        let deviation = (errors / f64::from(sums)).sqrt();
        assert!((1.0..1.6).contains(&deviation), "{deviation}");
        assert_eq!((noise.whole(0, 10), noise.whole(u64::MAX / 2, 10), noise.whole(1 << 63, 10)), (5, 10, 0));
        let fixed = MemberNoise::new(&quantiser, 64, 1.0, None).unwrap();
        assert_eq!((fixed.bit(true, &mut random), fixed.whole(7, 10)), (0, 10));
    }

    #[test]
    fn noise_that_is_too_narrow_for_the_steps_is_refused() {
        let coarse = Quantiser::new(16, 1.0, 1, 1.0).unwrap();
        assert_eq!(MemberNoise::new(&coarse, 64, 1.0, None), Err(BadNoise));
        let finer = Quantiser::new(16, 1.0, 64, 1.0).unwrap();
        assert!(MemberNoise::new(&finer, 64, 1.0, None).is_ok());
        for none in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(MemberNoise::new(&finer, 64, none, None), Err(BadNoise));
            assert_eq!(MemberNoise::new(&finer, 64, 1.0, Some(none)), Err(BadNoise));
        }
        // The roster is that of the printed vectors: noise needs no group to be made.
        let mut quantised = finer.quantise(&[0.5; 16], &roster().hash(), &mut random(1)).unwrap();
        let before = quantised.clone();
        MemberNoise::new(&finer, 64, 1.0, None).unwrap().add(&mut quantised, &mut random(2));
        assert_ne!(before, quantised);
    }
}
