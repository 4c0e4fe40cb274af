//! From a model delta to the integers that are masked, and from the sum of a group back to the sum of its deltas.
//!
//! The delta is clipped to the norm C, rotated so that its coordinates are alike, thinned to a random subset that all
//! members share, and rounded at random to multiples of `D = C / (levels sqrt d)`. Here d is the number of rotated
//! coordinates, with those of padding.
//!
//! | module | what it does |
//! |---|---|
//! | `layout` | spreads the values over blocks |
//! | `rotation` | rotates a block, and bounds its norm |
//! | `keep` | selects coordinates |
//! | `rounding` | rounds, and clips the integers |

mod keep;
mod layout;
mod rotation;
mod rounding;

use self::keep::Kept;
use self::layout::Layout;
use crate::hash::Sha256Hash;
use crate::seed::SecretStream;

/// Most levels: standard deviations of a coordinate of a delta of norm C, in steps of the grid.
pub const LEVELS_MAX: u32 = 4096;
/// Bounds of a clip.
const CLIP_MIN: f64 = 1e-12;
const CLIP_MAX: f64 = 1e12;

/// How the deltas of a job become integers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantiser {
    layout: Layout,
    clip: f64,
    levels: u32,
    keep: f64,
}

/// Settings with which nothing can be quantised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not {1}")]
pub struct BadQuantiser(&'static str, &'static str);

/// A delta that cannot be quantised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantiseError {
    /// It has another number of values.
    #[error("there are {given} values and not {expected}")]
    Length {
        /// Values of the delta.
        given: usize,
        /// Values of the model.
        expected: usize,
    },
    /// Some value is infinite or no number.
    #[error("a value is infinite or no number")]
    NotFinite,
}

/// A delta as integers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantised {
    /// The values of the body, before noise and masks, in steps of the grid.
    pub values: Vec<i64>,
    /// Whether the delta was longer than the clip.
    pub is_clipped: bool,
}

impl Quantiser {
    /// A quantiser of deltas with so many values. `clip` is the norm C, `keep` the share of coordinates that are sent.
    ///
    /// # Errors
    /// [`BadQuantiser`] names the setting that is outside its limits.
    pub fn new(values: usize, clip: f64, levels: u32, keep: f64) -> Result<Self, BadQuantiser> {
        let layout = Layout::new(values).ok_or(BadQuantiser("the number of values", "1 to 4294901760"))?;
        if !(CLIP_MIN..=CLIP_MAX).contains(&clip) {
            return Err(BadQuantiser("the clip", "1e-12 to 1e12"));
        }
        if !(1..=LEVELS_MAX).contains(&levels) {
            return Err(BadQuantiser("the number of levels", "1 to 4096"));
        }
        if !(keep > 0.0 && keep <= 1.0) {
            return Err(BadQuantiser("the share that is kept", "above 0 and at most 1"));
        }
        Ok(Self { layout, clip, levels, keep })
    }

    /// Coordinates of a rotated delta: [`Context::length`](super::Context::length).
    pub fn coordinates(&self) -> u32 {
        self.layout.coordinates() as u32
    }

    /// Values of a body: the coordinates that the group keeps.
    pub fn body_values(&self, roster: &Sha256Hash) -> usize {
        match self.keep < 1.0 {
            true => Kept::new(self.keep, self.layout.coordinates(), roster).count(),
            false => self.layout.coordinates(),
        }
    }

    /// Whether there is more than one block, so that [`value_bits`](super::sizes::value_bits) takes one bit more.
    pub fn has_several_blocks(&self) -> bool {
        self.layout.blocks().count() > 1
    }

    /// The step D of the grid.
    pub fn step(&self) -> f64 {
        self.clip / (f64::from(self.levels) * (self.layout.coordinates() as f64).sqrt())
    }

    /// The norm of the integers of a body is at most the root of this: `levels^2 d + d / 4`, rounded down.
    pub fn norm_squared_max(&self) -> u64 {
        let (levels, coordinates) = (u64::from(self.levels), self.layout.coordinates() as u64);
        levels * levels * coordinates + coordinates / 4
    }

    /// Clips, rotates, thins and rounds a delta. The random numbers must be secret.
    ///
    /// # Errors
    /// [`QuantiseError`] if this is no delta of the model.
    pub fn quantise(
        &self,
        delta: &[f32],
        roster: &Sha256Hash,
        random: &mut SecretStream,
    ) -> Result<Quantised, QuantiseError> {
        let expected = self.layout.values();
        if delta.len() != expected {
            return Err(QuantiseError::Length { given: delta.len(), expected });
        }
        if !delta.iter().all(|value| value.is_finite()) {
            return Err(QuantiseError::NotFinite);
        }
        let norm = delta.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
        let is_clipped = norm > self.clip;
        let scale = if is_clipped { self.clip / norm } else { 1.0 };
        let mut rotated = vec![0.0; self.layout.coordinates()];
        for (value, place) in delta.iter().zip(self.layout.places()) {
            rotated[place] = f64::from(*value) * scale;
        }
        let several = self.has_several_blocks();
        for block in self.layout.blocks() {
            let values = &mut rotated[block.clone()];
            rotation::rotate(values, block.start, roster);
            if several {
                let share = block.len() as f64 / self.layout.coordinates() as f64;
                rotation::bound(values, 2.0 * self.clip * share.sqrt());
            }
        }
        if self.keep < 1.0 {
            let mut kept = Kept::new(self.keep, rotated.len(), roster);
            rotated.retain(|_| kept.next_is_kept());
        }
        let values = rounding::round(&rotated, self.step(), self.norm_squared_max(), random);
        Ok(Quantised { values, is_clipped })
    }

    /// The sum of deltas from the sum of their integers: rotated back, and divided by the share that was kept.
    ///
    /// # Errors
    /// [`QuantiseError::Length`] if the sum has not [`Self::body_values`].
    pub fn restore(&self, sum: &[i64], roster: &Sha256Hash) -> Result<Vec<f64>, QuantiseError> {
        let expected = self.body_values(roster);
        if sum.len() != expected {
            return Err(QuantiseError::Length { given: sum.len(), expected });
        }
        let step = self.step() / self.keep;
        let mut next = sum.iter().map(|value| *value as f64 * step);
        let mut rotated = vec![0.0; self.layout.coordinates()];
        let mut kept = Kept::new(self.keep, rotated.len(), roster);
        for coordinate in &mut rotated {
            if self.keep >= 1.0 || kept.next_is_kept() {
                *coordinate = next.next().expect("as many are kept as there are values");
            }
        }
        for block in self.layout.blocks() {
            rotation::rotate_back(&mut rotated[block.clone()], block.start, roster);
        }
        Ok(self.layout.places().map(|place| rotated[place]).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::vectors::roster;
    use super::*;

    fn random(seed: u8) -> SecretStream {
        SecretStream::of([seed; 32])
    }

    fn norm(values: impl IntoIterator<Item = f64>) -> f64 {
        values.into_iter().map(|value| value * value).sum::<f64>().sqrt()
    }

    fn delta(values: usize, length: f64, seed: u8) -> Vec<f32> {
        let mut random = random(seed);
        let values: Vec<f64> = (0..values).map(|_| random.unit() - 0.5).collect();
        let norm = norm(values.iter().copied());
        values.iter().map(|value| (value / norm * length) as f32).collect()
    }

    /// Rounding moves each coordinate by less than a step, and blocks are rotated back to where values were.
    #[test]
    fn a_delta_comes_back_but_for_the_rounding() {
        for values in [1, 2, 3, 8, 1000, 65_536, 65_537, 200_000] {
            let quantiser = Quantiser::new(values, 2.0, 64, 1.0).unwrap();
            let delta = delta(values, 1.0, 1);
            let quantised = quantiser.quantise(&delta, &roster().hash(), &mut random(2)).unwrap();
            assert!(!quantised.is_clipped);
            let back = quantiser.restore(&quantised.values, &roster().hash()).unwrap();
            let error = norm(back.iter().zip(&delta).map(|(back, value)| back - f64::from(*value)));
            let most = quantiser.step() * f64::from(quantiser.coordinates()).sqrt();
            assert!(error < most, "{values}: {error} {most}");
        }
    }

    #[test]
    fn a_longer_delta_is_clipped_and_keeps_its_direction() {
        let quantiser = Quantiser::new(500, 0.5, 32, 1.0).unwrap();
        let delta = delta(500, 100.0, 1);
        let quantised = quantiser.quantise(&delta, &roster().hash(), &mut random(2)).unwrap();
        assert!(quantised.is_clipped);
        let back = quantiser.restore(&quantised.values, &roster().hash()).unwrap();
        assert!((norm(back.iter().copied()) - 0.5).abs() < 0.02);
        let product: f64 = back.iter().zip(&delta).map(|(back, value)| back * f64::from(*value)).sum();
        assert!(product > 0.99 * 0.5 * 100.0, "{product}");
    }

    /// Goal: neither thinning nor rounding has a bias. Method: the mean over many rosters and roundings.
    #[test]
    fn the_mean_of_many_is_the_delta() {
        let quantiser = Quantiser::new(6, 1.0, 1, 0.5).unwrap();
        let delta = [0.1f32, -0.2, 0.3, 0.0, -0.4, 0.5];
        let mut sum = [0.0; 6];
        let (times, mut random) = (2000u32, random(3));
        for time in 0..times {
            let roster = Sha256Hash::of(&time.to_le_bytes());
            let quantised = quantiser.quantise(&delta, &roster, &mut random).unwrap();
            assert_eq!(quantised.values.len(), quantiser.body_values(&roster));
            let back = quantiser.restore(&quantised.values, &roster).unwrap();
            sum.iter_mut().zip(back).for_each(|(sum, value)| *sum += value);
        }
        for (sum, value) in sum.iter().zip(delta) {
            let mean = sum / f64::from(times);
            assert!((mean - f64::from(value)).abs() < 0.05, "{mean} {value}");
        }
    }

    /// A vector with all its length in one block is scaled down there.
    #[test]
    fn no_block_has_more_than_twice_its_part_of_the_norm() {
        let values = 400_000;
        let quantiser = Quantiser::new(values, 1.0, 8, 1.0).unwrap();
        assert!(quantiser.has_several_blocks());
        let mut delta = vec![0.0; values];
        let places: Vec<usize> = quantiser.layout.places().collect();
        delta.iter_mut().zip(places).filter(|(_, place)| *place < 65_536).for_each(|(value, _)| *value = 1.0);
        let quantised = quantiser.quantise(&delta, &roster().hash(), &mut random(2)).unwrap();
        let norm = norm(quantised.values[..65_536].iter().map(|value| *value as f64)) * quantiser.step();
        let bound = 2.0 * (65_536.0 / f64::from(quantiser.coordinates())).sqrt();
        assert!(norm < 1.02 * bound && norm > 0.98 * bound, "{norm} {bound}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_norm_of_the_integers_is_bounded(
            values in prop::collection::vec(-1e6f32..1e6, 1..400), clip in 0.001f64..1e3, levels in 1u32..20,
            keep in 0.05f64..=1.0) {
            let quantiser = Quantiser::new(values.len(), clip, levels, keep).unwrap();
            let quantised = quantiser.quantise(&values, &roster().hash(), &mut random(2)).unwrap();
            let squared: u128 = quantised.values.iter().map(|value| u128::from(value.unsigned_abs()).pow(2)).sum();
            prop_assert!(squared <= u128::from(quantiser.norm_squared_max()));
            prop_assert_eq!(quantised.values.len(), quantiser.body_values(&roster().hash()));
            prop_assert!(quantiser.restore(&quantised.values, &roster().hash()).unwrap().len() == values.len());
        }
    }

    #[test]
    fn what_is_no_delta_and_settings_that_make_no_sense_are_refused() {
        let quantiser = Quantiser::new(2, 1.0, 8, 1.0).unwrap();
        let quantise = |delta: &[f32]| quantiser.quantise(delta, &roster().hash(), &mut random(1)).map(drop);
        assert_eq!(quantise(&[1.0]), Err(QuantiseError::Length { given: 1, expected: 2 }));
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(quantise(&[0.0, value]), Err(QuantiseError::NotFinite));
        }
        assert_eq!(quantise(&[f32::MAX, f32::MIN]), Ok(()));
        assert!(quantiser.restore(&[1], &roster().hash()).is_err());
        for (values, clip, levels, keep) in [
            (0, 1.0, 8, 1.0),
            (usize::MAX, 1.0, 8, 1.0),
            (2, 0.0, 8, 1.0),
            (2, f64::NAN, 8, 1.0),
            (2, f64::INFINITY, 8, 1.0),
            (2, 1.0, 0, 1.0),
            (2, 1.0, LEVELS_MAX + 1, 1.0),
            (2, 1.0, 8, 0.0),
            (2, 1.0, 8, 1.1),
            (2, 1.0, 8, f64::NAN),
        ] {
            assert!(Quantiser::new(values, clip, levels, keep).is_err());
        }
    }
}
