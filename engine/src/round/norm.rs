//! The norm bound of a training round.

use tributary_protocol::job_file::{AdaptiveNorm, NormMax};

/// Fewest norms that an adaptive bound is derived from. One or two clients would choose it for all others.
const NORMS_MIN: usize = 5;
/// Doublings of an adaptive bound at most; more would change nothing for any f32 update.
const DOUBLINGS_MAX: u32 = 128;

/// The largest L2 norm of an update in a round that opens now; none if there is no bound.
///
/// `recent` are the norms of the updates that the job accepted in the last [`AdaptiveNorm::rounds`] rounds, in any
/// order. An adaptive bound is their quantile (the smallest norm that at least this part of them does not exceed) times
/// the factor. Each abandoned round in a row since doubles it: clients whose honest norms grow beyond it are refused,
/// their norms are never stored, and the bound could not follow them otherwise.
pub(super) fn norm_bound(norm_max: NormMax, recent: &[f64], abandoned_in_a_row: u32) -> Option<f64> {
    let AdaptiveNorm { quantile, factor, start, .. } = match norm_max {
        NormMax::Fixed(norm) => return Some(norm),
        NormMax::Adaptive(adaptive) => adaptive,
    };
    let bound = if recent.len() < NORMS_MIN {
        start?
    } else {
        let mut recent = recent.to_vec();
        recent.sort_unstable_by(f64::total_cmp);
        let rank = (quantile * recent.len() as f64).ceil() as usize;
        match recent[rank.clamp(1, recent.len()) - 1] * factor {
            // Clients that learnt nothing say nothing about those that do.
            0.0 => start?,
            bound => bound,
        }
    };
    Some(bound * 2f64.powi(abandoned_in_a_row.min(DOUBLINGS_MAX).cast_signed()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn adaptive(quantile: f64, start: Option<f64>) -> NormMax {
        NormMax::Adaptive(AdaptiveNorm { quantile, factor: 2.0, rounds: 10, start })
    }

    #[test]
    fn a_fixed_bound_is_the_same_in_every_round() {
        assert_eq!(norm_bound(NormMax::Fixed(3.0), &[9.0; 20], 7), Some(3.0));
    }

    #[test]
    fn an_adaptive_bound_is_a_quantile_of_the_norms_times_the_factor() {
        let norms = [5.0, 1.0, 3.0, 2.0, 4.0];
        for (quantile, bound) in [(0.01, 2.0), (0.2, 2.0), (0.21, 4.0), (0.5, 6.0), (0.8, 8.0), (1.0, 10.0)] {
            assert_eq!(norm_bound(adaptive(quantile, None), &norms, 0), Some(bound), "{quantile}");
        }
    }

    #[test]
    fn the_first_rounds_have_the_bound_of_the_start_or_none() {
        for norms in [&mut [][..], &mut [1.0; 4], &mut [0.0; 9]] {
            assert_eq!(norm_bound(adaptive(0.5, None), norms, 3), None);
            assert_eq!(norm_bound(adaptive(0.5, Some(7.0)), norms, 0), Some(7.0));
        }
    }

    #[test]
    fn abandoned_rounds_widen_the_bound_until_the_job_goes_on() {
        assert_eq!(norm_bound(adaptive(0.5, None), &[1.0; 5], 3), Some(16.0));
        assert!(norm_bound(adaptive(0.5, None), &[1.0; 5], u32::MAX).unwrap().is_finite());
    }

    proptest! {
        #[test]
        fn a_minority_cannot_raise_the_bound_of_the_median_above_the_honest_norms(
            honest in prop::collection::vec(0.1f64..10.0, 5..40), hostile in 0.0f64..1e9, offenders in 0usize..4,
        ) {
            let largest = honest.iter().fold(0.0, |largest: f64, norm| largest.max(*norm));
            let mut norms = honest.clone();
            norms.extend(std::iter::repeat_n(hostile, offenders));
            let bound = norm_bound(adaptive(0.5, None), &norms, 0).unwrap();
            prop_assert!(bound <= 2.0 * largest);
        }
    }
}
