//! One release with Gaussian noise, exactly (Balle and Wang 2018, <https://arxiv.org/abs/1805.06530>, theorem 8).
//!
//! `mu` is what a unit can change divided by the standard deviation of the noise.

/// Steps of a bisection: more than the bits of a number.
const BISECTIONS: usize = 200;
/// Bounds within which epsilons and mus are sought.
const EPSILON_MAX: f64 = 1e6;
const MU_MIN: f64 = 1e-9;
const MU_MAX: f64 = 1e3;

/// The chance that a release with this mu tells more than epsilon.
pub fn delta(mu: f64, epsilon: f64) -> f64 {
    let (middle, shift) = (mu / 2.0, epsilon / mu);
    (log_below(middle - shift).exp() - (epsilon + log_below(-middle - shift)).exp()).max(0.0)
}

/// The least epsilon that a release with this mu keeps but for a chance of delta.
pub fn epsilon(mu: f64, delta: f64) -> f64 {
    if self::delta(mu, 0.0) <= delta {
        0.0
    } else {
        bisect(0.0, EPSILON_MAX, |epsilon| self::delta(mu, epsilon) <= delta)
    }
}

/// The largest mu with which a release keeps epsilon but for a chance of delta.
pub fn mu(epsilon: f64, delta: f64) -> f64 {
    // Delta grows with mu.
    bisect(MU_MIN, MU_MAX, |mu| self::delta(mu, epsilon) > delta)
}

/// The boundary between the values for which `is_beyond` is false and those above for which it is true.
pub fn bisect(low: f64, high: f64, is_beyond: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (low, high);
    for _ in 0..BISECTIONS {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if is_beyond(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

/// The logarithm of the chance that a normal number is below `value`.
pub(super) fn log_below(value: f64) -> f64 {
    let scaled = -value / std::f64::consts::SQRT_2;
    match scaled {
        // From here on the function underflows: its asymptotic series, whose first terms are exact to 1e-9.
        scaled if scaled > 25.0 => {
            let square = scaled * scaled;
            let series = 1.0 - 0.5 / square + 0.75 / (square * square) - 1.875 / (square * square * square);
            -square + (series / (2.0 * scaled * std::f64::consts::PI.sqrt())).ln()
        }
        scaled => (0.5 * libm::erfc(scaled)).ln(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, wanted: f64, within: f64) {
        assert!((got - wanted).abs() <= within, "{got} is not {wanted}");
    }

    #[test]
    fn the_largest_mu_of_a_budget_is_as_printed() {
        for (budget, chance, wanted) in [
            (1.0, 1e-8, 0.196_066_560),
            (2.0, 1e-8, 0.376_942_180),
            (8.0, 1e-8, 1.336_194_170),
            (1.0, 1e-6, 0.236_704_381),
            (2.0, 1e-6, 0.448_334_740),
            (8.0, 1e-6, 1.531_545_118),
        ] {
            near(mu(budget, chance), wanted, 1e-8);
            near(epsilon(wanted, chance), budget, 1e-6);
            near(delta(wanted, budget) / chance, 1.0, 1e-5);
        }
        near(1.0 / mu(1.0, 1e-6), 4.224_678_889, 1e-7);
        near(1.0 / mu(0.5, 1e-6), 8.057_618_481, 1e-7);
        near(1.0 / mu(1.0, 1e-8), 5.100_308_788, 1e-7);
        near(1.0 / mu(2.0, 1e-6), 2.230_476_271, 1e-7);
        near(1.0 / mu(8.0, 1e-6), 0.652_935_384, 1e-7);
    }

    #[test]
    fn nothing_is_spent_by_much_noise_and_more_by_less() {
        assert_eq!(epsilon(1e-8, 1e-6), 0.0);
        let epsilons = [0.1, 0.5, 1.0, 5.0, 20.0].map(|mu| epsilon(mu, 1e-9));
        assert!(epsilons.windows(2).all(|pair| pair[0] < pair[1]), "{epsilons:?}");
        near(log_below(-36.0), -652.503_228, 1e-3);
        near(log_below(-35.0) - log_below(-35.4), log_between(35.0, 35.4), 1e-6);
    }

    /// The difference of two logarithms by the tail's asymptotic form on one side of the change of formulas.
    fn log_between(one: f64, other: f64) -> f64 {
        let tail =
            |value: f64| -value * value / 2.0 - (value).ln() + (1.0 - 1.0 / (value * value) + 3.0 / value.powi(4)).ln();
        tail(one) - tail(other)
    }
}
