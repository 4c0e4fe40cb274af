//! Whether the sum of a group can be that of honest members.

use tributary_protocol::plan::Masking;
use tributary_protocol::secure::noised::MemberNoise;
use tributary_protocol::secure::quantise::Quantiser;

/// Deviations by which the norm of noise may exceed its mean.
const NOISE_DEVIATIONS: f64 = 7.0;
/// How much longer a clipped update may be once its values are rounded.
const ROUNDED: f64 = 1.25;

/// The largest norm of the sum of this many honest members whose updates have at most the norm `clip`, with noise of
/// this standard deviation on each of its values. All are in one unit.
///
/// A sum with a larger norm is [`Norm`](tributary_protocol::state::GroupFailure::Norm): a member lied, or the sum has
/// wrapped. Nobody knows which member it was, so the failure is counted for all of them.
pub fn sum_norm_max(survivors: u32, clip: f64, sum_sigma: f64, values: u64) -> f64 {
    f64::from(survivors) * clip + sum_sigma * ((values as f64).sqrt() + NOISE_DEVIATIONS)
}

/// The largest norm of the sum of this many honest members whose updates are masked so, and noised if members do that.
///
/// A random part of the values stands for all of them, so the sum of what was kept may be longer by as much.
pub fn masked_norm_max(
    survivors: u32,
    (masking, quantiser): (&Masking, &Quantiser),
    noise: Option<&MemberNoise>,
    values: u64,
) -> f64 {
    let deviation = noise.map_or(0.0, |noise| noise.deviation_of_sum(survivors) * quantiser.step());
    sum_norm_max(survivors, masking.clip * ROUNDED / masking.keep, deviation / masking.keep.sqrt(), values)
}

#[cfg(test)]
mod tests {
    use tributary_protocol::plan::GroupTrust;

    use super::*;

    #[test]
    fn rounding_and_what_is_left_out_may_make_a_sum_longer() {
        let trust = GroupTrust::Honest;
        let noise = None;
        let masking = Masking {
            group_min: 3,
            corrupt: 0.1,
            dropouts: 0.3,
            levels: 8,
            keep: 1.0,
            clip: 0.5,
            trust,
            any_version: false,
            noise,
        };
        let quantiser = Quantiser::new(100, 0.5, 8, 1.0).unwrap();
        let most = |masking: &Masking, noise| masked_norm_max(8, (masking, &quantiser), noise, 100);
        assert_eq!(most(&masking, None), 5.0);
        assert_eq!(most(&Masking { keep: 0.25, ..masking }, None), 20.0);
        // Eight members of which eight are honest: a deviation of one clip in each of 100 values, and seven more.
        let noise = MemberNoise::new(&quantiser, 8, 1.0, None).unwrap();
        assert!((most(&masking, Some(&noise)) - (5.0 + 0.5 * 17.0)).abs() < 0.05);
    }

    #[test]
    fn honest_members_agree_at_most_and_their_noise_is_about_as_long_as_it_is_wide() {
        assert_eq!(sum_norm_max(100, 0.5, 0.0, 1_000_000), 50.0);
        assert_eq!(sum_norm_max(100, 0.5, 0.01, 1_000_000), 50.0 + 10.07);
        assert_eq!(sum_norm_max(0, 0.5, 0.0, 10), 0.0);
    }
}
