//! What releases with noise in integers spend, by Rényi divergences.

/// Largest order that is tried.
const ORDER_MAX: u32 = 1024;

/// The epsilon of so many releases whose noise is a discrete Gaussian, or a sum of wide ones, but for a chance of
/// delta. `noise_multiplier` is their standard deviation divided by what one unit can change.
///
/// Divergences of whole orders are those of the continuous Gaussian, in any dimension, where a unit changes integers;
/// of other orders nothing is claimed (Canonne, Kamath and Steinke 2020, <https://arxiv.org/abs/2004.00010>,
/// proposition 5).
#[must_use]
pub fn epsilon_of_integers(noise_multiplier: f64, times: u32, delta: f64) -> f64 {
    if times == 0 {
        return 0.0;
    }
    // What is no number promises nothing, and the larger of it and 0 would be 0.
    if noise_multiplier.is_nan() || noise_multiplier <= 0.0 || delta.is_nan() {
        return f64::INFINITY;
    }
    let of = |order: u32| {
        let order = f64::from(order);
        epsilon_at(f64::from(times) * order / (2.0 * noise_multiplier * noise_multiplier), order, delta)
    };
    (2..=ORDER_MAX).map(of).fold(f64::INFINITY, f64::min)
}

/// The epsilon that follows from a Rényi divergence of this order (the same, proposition 12).
#[must_use]
pub fn epsilon_at(divergence: f64, order: f64, delta: f64) -> f64 {
    if delta * delta + (-divergence).exp() - 1.0 > 0.0 {
        return 0.0;
    }
    (divergence + (1.0 - 1.0 / order).ln() - (delta * order).ln() / (order - 1.0)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed for noise that members add: what a unit changes in deviations, releases, epsilon at delta 1e-6.
    #[test]
    fn noise_of_integers_spends_what_is_printed() {
        for (change, times, wanted) in [
            (1.000_570_91, 1, 5.225_855_12),
            (1.000_570_91, 10, 20.970_116_3),
            (0.257_772_653, 1, 1.181_125_23),
            (0.257_772_653, 10, 4.149_751_97),
            (1.000_260_25, 1, 5.223_990_34),
            (1.000_260_25, 10, 20.960_792_4),
            (1.008_178_19, 1, 5.271_698_48),
            (1.008_178_19, 10, 21.199_333_1),
        ] {
            let got = epsilon_of_integers(1.0 / change, times, 1e-6);
            assert!((got / wanted - 1.0).abs() < 1e-6, "{change} {times}: {got} is not {wanted}");
        }
        assert_eq!(epsilon_of_integers(1.0, 0, 1e-6), 0.0);
        for none in [0.0, -1.0, f64::NAN] {
            assert!(epsilon_of_integers(none, 1, 1e-6).is_infinite());
        }
        assert!(epsilon_of_integers(1.0, 1, f64::NAN).is_infinite());
    }
}
