//! What accountants add up: releases with their noise.

/// One or several releases with the same noise, for a unit that can change each by at most one clip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Charge {
    /// Independent Gaussian noise; the standard deviation is in clips.
    Gaussian { noise_multiplier: f64, times: u32 },
    /// The same for units that are each drawn by a secret coin with this chance.
    Sampled { noise_multiplier: f64, rate: f64, times: u32 },
    /// Releases with correlated noise, all together: what a unit can change, divided by the fresh noise's deviation.
    Correlated { mu: f64 },
    /// Laplace noise; the scale is in clips.
    Laplace { scale: f64, times: u32 },
}

impl Charge {
    pub(super) fn times(&self) -> f64 {
        match *self {
            Self::Gaussian { times, .. } | Self::Sampled { times, .. } | Self::Laplace { times, .. } => times.into(),
            Self::Correlated { .. } => 1.0,
        }
    }

    /// About the standard deviation of the loss of one release.
    pub(super) fn loss_deviation(&self) -> f64 {
        match *self {
            Self::Gaussian { noise_multiplier, .. } => 1.0 / noise_multiplier,
            Self::Correlated { mu } => mu,
            Self::Sampled { noise_multiplier, rate, .. } => {
                rate * (noise_multiplier.powi(-2).min(50.0).exp_m1()).sqrt().min(1.0 / (rate * noise_multiplier))
            }
            Self::Laplace { scale, .. } => 1.0 / scale,
        }
    }

    /// About the largest loss of one release that has a part in anything.
    pub(super) fn loss_most(&self) -> f64 {
        match *self {
            Self::Gaussian { noise_multiplier, .. } | Self::Sampled { noise_multiplier, .. } => {
                10.0 / noise_multiplier + 0.5 / (noise_multiplier * noise_multiplier)
            }
            Self::Correlated { mu } => 10.0 * mu + mu * mu / 2.0,
            Self::Laplace { scale, .. } => 1.0 / scale,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_and_largest_losses_are_those_of_the_noise() {
        let sampled = |noise_multiplier, rate| Charge::Sampled { noise_multiplier, rate, times: 3 };
        for (charge, times, deviation, most) in [
            (Charge::Gaussian { noise_multiplier: 2.0, times: 5 }, 5.0, 0.5, 5.125),
            (Charge::Correlated { mu: 2.0 }, 1.0, 2.0, 22.0),
            (Charge::Laplace { scale: 4.0, times: 7 }, 7.0, 0.25, 0.25),
            // q sqrt(e^(1 / noise^2) - 1), and never more than without a draw.
            (sampled(2.0, 0.125), 3.0, 0.125 * 0.25f64.exp_m1().sqrt(), 5.125),
            (sampled(0.1, 0.5), 3.0, 10.0, 150.0),
        ] {
            let near = |got: f64, wanted: f64| (got / wanted - 1.0).abs() < 1e-12;
            assert_eq!(charge.times(), times);
            assert!(near(charge.loss_deviation(), deviation), "{charge:?}: {}", charge.loss_deviation());
            assert!(near(charge.loss_most(), most), "{charge:?}: {}", charge.loss_most());
        }
    }
}
