//! The clip that follows its updates.

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
    use super::*;

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
