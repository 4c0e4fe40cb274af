//! Clipping in integers, and the clip that follows its updates.

/// Integers beyond this magnitude count as this: far above every bound, and so small that no sum of squares overflows.
const MAGNITUDE_MAX: u64 = 1 << 40;

fn magnitude(value: i64) -> u128 {
    value.unsigned_abs().min(MAGNITUDE_MAX).into()
}

/// The sum of squares of an update's integers, which come in blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SquareSum(u128);

impl SquareSum {
    /// Takes the next integers.
    pub fn add(&mut self, values: &[i64]) {
        self.0 += values.iter().map(|value| magnitude(*value).pow(2)).sum::<u128>();
    }

    /// What shortens the integers so that their L2 norm is at most `bound`; nothing if it is already.
    #[must_use]
    pub fn clip(&self, bound: u64) -> Option<IntegerClip> {
        let bound = u128::from(bound);
        (self.0 > bound * bound).then(|| {
            let root = self.0.isqrt();
            // Rounded up, so that the shortened integers are never too long.
            IntegerClip { bound, root: root + u128::from(root * root < self.0) }
        })
    }
}

/// Shortens integers with an L2 norm of at most `root` to one of at most `bound`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntegerClip {
    bound: u128,
    root: u128,
}

impl IntegerClip {
    /// Each value times `bound / root`, rounded towards zero.
    pub fn apply(&self, values: &mut [i64]) {
        for value in values {
            // At most the bound, because no value is larger than the norm.
            let shortened = i64::try_from(magnitude(*value) * self.bound / self.root).unwrap_or(0);
            *value = if *value < 0 { -shortened } else { shortened };
        }
    }
}

/// The noise of a release, split between the values and the count that the clip follows (Andrew et al. 2021,
/// <https://arxiv.org/abs/1905.03871>, section 3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoiseSplit {
    /// Standard deviation of the noise of the values, in clips.
    pub values: f64,
    /// Standard deviation of the noise of the count, in updates.
    pub count: f64,
}

impl NoiseSplit {
    /// The split with which both together cost what values alone with this noise do. `count` is the standard deviation
    /// of the count's noise; it is raised where values could not have enough noise beside it.
    pub fn new(noise_multiplier: f64, count: f64) -> Self {
        // A bit is 1/2 or -1/2, so the count's own noise multiplier is twice its deviation. It must exceed that of the
        // whole; with the double, values have at most a sixth more noise.
        let count = count.max(noise_multiplier);
        Self { values: (noise_multiplier.powi(-2) - (2.0 * count).powi(-2)).powf(-0.5), count }
    }
}

/// The next clip, from the noised share of updates within the one before.
pub fn next_clip(clip: f64, share: f64, quantile: f64, rate: f64) -> f64 {
    clip * (-rate * (share.clamp(0.0, 1.0) - quantile)).exp()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn clipped(values: &[i64], bound: u64) -> Vec<i64> {
        let mut squares = SquareSum::default();
        values.chunks(2).for_each(|block| squares.add(block));
        let mut values = values.to_vec();
        if let Some(clip) = squares.clip(bound) {
            clip.apply(&mut values);
        }
        values
    }

    #[test]
    fn integers_are_clipped_as_printed() {
        assert_eq!(clipped(&[3, -4, 12], 13), [3, -4, 12]);
        assert_eq!(clipped(&[3, -4, 12], 10), [2, -3, 9]);
        assert_eq!(clipped(&[1_048_576, -1_048_576, 5, 0], 1_048_576), [741_454, -741_454, 3, 0]);
        assert_eq!(clipped(&[7; 8], 10), [3; 8]);
        assert_eq!(clipped(&[-1_000_000, 1], 1000), [-999, 0]);
    }

    proptest! {
        #[test]
        fn nothing_is_longer_than_the_bound(values in prop::collection::vec(any::<i64>(), 1..20), bound in 1u64..1 << 40) {
            let squares: u128 = clipped(&values, bound).iter().map(|value| u128::from(value.unsigned_abs()).pow(2)).sum();
            prop_assert!(squares <= u128::from(bound).pow(2));
        }
    }

    fn near(got: f64, wanted: f64) {
        assert!((got - wanted).abs() < 1e-10, "{got} is not {wanted}");
    }

    #[test]
    fn the_noise_is_split_as_printed() {
        for (noise, updates, values) in
            [(1.0, 100.0, 1.005_037_815_3), (1.0, 50.0, 1.020_620_726_2), (1.0, 20.0, 1.154_700_538_4)]
        {
            near(NoiseSplit::new(noise, updates / 20.0).values, values);
        }
        near(NoiseSplit::new(0.5, 0.5).values, 0.577_350_269_2);
        let raised = NoiseSplit::new(10.0, 1.0);
        assert!(raised.count == 10.0 && raised.values < 11.6, "{raised:?}");
    }

    #[test]
    fn the_clip_moves_as_printed() {
        for (share, clip) in [(1.0, 0.090_483_741_8), (0.8, 0.094_176_453_4), (0.5, 0.1), (0.2, 0.106_183_654_7)] {
            near(next_clip(0.1, share, 0.5, 0.2), clip);
        }
        near(next_clip(0.1, 0.0, 0.5, 0.2), 0.110_517_091_8);
        // Counts of 100 updates with their noise.
        let counts: [(f64, f64); 6] = [(90.0, 3.2), (80.0, -4.1), (70.0, 0.7), (61.0, -2.5), (55.0, 6.0), (48.0, -1.3)];
        let mut clip = 0.1;
        let clips = counts.map(|(count, noise)| {
            clip = next_clip(clip, (count - 50.0 + noise) / 100.0 + 0.5, 0.5, 0.2);
            clip
        });
        let wanted = [0.091_722_726_693, 0.087_092_448_943, 0.083_560_438_633, 0.082_151_917_527, 0.080_364_311_112];
        clips.iter().zip(wanted).for_each(|(got, wanted)| near(*got, wanted));
        near(clips[5], 0.080_896_469_757);
    }
}
