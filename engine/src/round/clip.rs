//! The norm of clipping, as it follows a quantile of the updates' norms (Andrew et al. 2021,
//! <https://arxiv.org/abs/1905.03871>, section 2.1).

use tributary_protocol::job_file::AdaptiveClip;

/// Bounds of the norm. It moves by factors, so it would need hundreds of rounds to come back from farther away.
const NORM_RANGE: (f64, f64) = (1e-9, 1e9);

/// The norm of the round after one that clipped to `before` and accepted updates with these norms. With `b`, the part
/// of them that does not exceed `before`, it is `before * exp(-rate * (b - quantile))`: a gradient step on the quantile
/// loss, taken in the logarithm of the norm. A round without updates changes nothing.
///
/// One client moves it by a factor of at most `exp(rate / updates)` a round, however long its update is.
pub(super) fn next_clip_norm(AdaptiveClip { quantile, rate }: AdaptiveClip, before: f64, norms: &[f64]) -> f64 {
    if norms.is_empty() {
        return before;
    }
    let within = norms.iter().filter(|norm| **norm <= before).count() as f64 / norms.len() as f64;
    let next = before * (-rate * (within - quantile)).exp();
    // Libraries differ in the last bit of an exponential. Rounded to f32, the norm is the same everywhere.
    f64::from(next.clamp(NORM_RANGE.0, NORM_RANGE.1) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEDIAN: AdaptiveClip = AdaptiveClip { quantile: 0.5, rate: 0.2 };

    fn after_rounds(settings: AdaptiveClip, start: f64, norms: &[f64], rounds: usize) -> f64 {
        (0..rounds).fold(start, |norm, _| next_clip_norm(settings, norm, norms))
    }

    #[test]
    fn a_round_moves_the_norm_by_the_formula() {
        for (norms, exponent) in [
            (&[1.0, 2.0][..], -0.1),
            (&[1.0, 3.0], 0.0),
            (&[3.0, 4.0], 0.1),
            (&[2.0, 2.0, 2.0, 3.0], -0.05),
            (&[], 0.0),
        ] {
            let next = next_clip_norm(MEDIAN, 2.0, norms);
            assert!((next - 2.0 * f64::exp(exponent)).abs() < 1e-6, "{norms:?}: {next}");
        }
    }

    #[test]
    fn the_norm_settles_at_the_quantile_from_either_side() {
        let norms: Vec<f64> = (1..=99).map(|norm| f64::from(norm) / 10.0).collect();
        for quantile in [0.1, 0.5, 0.9] {
            for start in [0.01, 1000.0] {
                let settled = after_rounds(AdaptiveClip { quantile, rate: 0.2 }, start, &norms, 500);
                assert!((settled - 10.0 * quantile).abs() < 0.15, "{quantile}, {start}: {settled}");
            }
        }
    }

    #[test]
    fn a_client_moves_the_norm_by_a_bounded_factor() {
        let honest = [1.0; 9];
        let with = |norm: f64| next_clip_norm(MEDIAN, 1.0, &[&honest[..], &[norm]].concat());
        for norm in [0.0, 1e30, f64::INFINITY] {
            let moved = with(norm) / with(1.0);
            assert!(moved >= 1.0 && moved <= f64::exp(0.2 / 10.0) + 1e-6, "{norm}: {moved}");
        }
    }

    #[test]
    fn the_norm_stays_in_its_range() {
        let fast = AdaptiveClip { quantile: 0.5, rate: 10.0 };
        assert!((after_rounds(fast, 1.0, &[1e30], 20) - 1e9).abs() < 1.0);
        assert!((after_rounds(fast, 1.0, &[0.0], 20) - 1e-9).abs() < 1e-15);
    }
}
