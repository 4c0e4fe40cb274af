//! Whether the sum of a group can be that of honest members.

/// Deviations by which the norm of noise may exceed its mean.
const NOISE_DEVIATIONS: f64 = 7.0;

/// The largest norm of the sum of this many honest members whose updates have at most the norm `clip`, with noise of
/// this standard deviation on each of its values. All are in one unit.
///
/// A sum with a larger norm is [`Norm`](tributary_protocol::state::GroupFailure::Norm): a member lied, or the sum has
/// wrapped. Nobody knows which member it was, so the failure is counted for all of them.
pub fn sum_norm_max(survivors: u32, clip: f64, sum_sigma: f64, values: u64) -> f64 {
    f64::from(survivors) * clip + sum_sigma * ((values as f64).sqrt() + NOISE_DEVIATIONS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn honest_members_agree_at_most_and_their_noise_is_about_as_long_as_it_is_wide() {
        assert_eq!(sum_norm_max(100, 0.5, 0.0, 1_000_000), 50.0);
        assert_eq!(sum_norm_max(100, 0.5, 0.01, 1_000_000), 50.0 + 10.07);
        assert_eq!(sum_norm_max(0, 0.5, 0.0, 10), 0.0);
    }
}
