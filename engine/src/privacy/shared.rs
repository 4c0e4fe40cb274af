//! What the releases of several jobs spend together, of a budget that they share.
//!
//! Each release is a Gaussian mechanism, so the squares of what they can change, in deviations of their noise, add up
//! (Dong, Roth and Su 2022, <https://arxiv.org/abs/1905.02383>, section 3). Draws count for nothing here: who sees
//! two jobs may know from one of them who took part in the other.

use tributary_protocol::job_file::Mechanism;
use tributary_protocol::noise::epsilon_of_integers;

use super::gaussian;
use super::terms::{Charged, Terms};

/// What releases can change together: one Gaussian release of the same effect.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Together {
    /// The square of what one unit can change, in deviations of the noise.
    pub squares: f64,
    /// Whether noise of integers is among it, for which divergences of whole orders alone are proven.
    pub of_integers: bool,
}

impl Together {
    /// These releases and those.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self { squares: self.squares + other.squares, of_integers: self.of_integers || other.of_integers }
    }

    /// The epsilon that they spend, but for a chance of delta.
    #[must_use]
    pub fn epsilon(&self, delta: f64) -> f64 {
        match (self.squares > 0.0, self.of_integers) {
            (false, _) => 0.0,
            (true, false) => gaussian::epsilon(self.squares.sqrt(), delta),
            (true, true) => epsilon_of_integers(self.squares.sqrt().recip(), 1, delta),
        }
    }
}

impl Charged {
    /// The same after one more release, in which the unit with the most updates takes part.
    #[must_use]
    pub fn after_one(self) -> Self {
        Self { releases: self.releases + 1, participations: self.participations + 1 }
    }
}

impl Terms {
    /// What the releases of the job that were charged can change: against the coordinator, where clients add the noise.
    #[must_use]
    pub fn spends(&self, charged: Charged) -> Together {
        let noise = self.noise_multiplier;
        let squares = match &self.blt {
            // Correlated releases are one.
            Some(_) if charged.releases == 0 => 0.0,
            Some(_) => (self.sensitivity / noise).powi(2),
            None => f64::from(charged.participations.min(self.participation.times)) / (noise * noise),
        };
        Together { squares, of_integers: squares > 0.0 && self.mechanism == Mechanism::Distributed }
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::job_file::JobFile;

    use super::*;
    use crate::privacy::{Charge, resolve, spent};

    fn terms(privacy: &str) -> Terms {
        let text = format!(
            "name = 'a'\npopulation = 'b'\nmodel.parameters = [{{ name = 'w', shape = [2] }}]\n\
             training.steps = 1\ntraining.optimizer = {{ kind = 'sgd', learning_rate = 0.1 }}\n\
             aggregation.combine = 'uniform_mean'\nstop.rounds = 40\n[privacy]\nepsilon = 2\ndelta = 1e-6\n{privacy}"
        );
        let mut file = JobFile::parse(&text).unwrap();
        resolve(&mut file).unwrap();
        Terms::of(&file).unwrap()
    }

    /// Goal: jobs with noise of both kinds spend together what the accountants say of all their releases. Method: a job
    /// with correlated noise, charged once, beside one whose unit took part three times.
    #[test]
    fn jobs_spend_together_what_all_their_releases_do() {
        let (blt, gaussian) = (terms(""), terms("mechanism = 'gaussian'"));
        let of = |releases, participations| Charged { releases, participations };
        assert_eq!(blt.spends(Charged::default()), Together::default());
        let whole = blt.spends(of(1, 1));
        assert_eq!(whole, blt.spends(of(39, 4)), "all its releases are one");
        assert!((whole.epsilon(1e-6) - 2.0).abs() < 1e-5, "{}", whole.epsilon(1e-6));
        let both = whole.with(gaussian.spends(of(9, 3)));
        let charges = [
            Charge::Correlated { mu: whole.squares.sqrt() },
            Charge::Gaussian { noise_multiplier: gaussian.noise_multiplier, times: 3 },
        ];
        let exact = spent(&charges, 1e-6).unwrap().epsilon;
        assert!((both.epsilon(1e-6) - exact).abs() < 2e-3, "{} is not {exact}", both.epsilon(1e-6));
        assert!(both.epsilon(1e-6) < 4.0, "less than both alone");
        // A unit takes part no more often than it may.
        assert_eq!(gaussian.spends(of(9, 3).after_one()), gaussian.spends(of(99, 99)));
    }

    #[test]
    fn noise_of_integers_is_counted_by_whole_orders() {
        let one = Together { squares: 0.25, of_integers: true };
        assert_eq!(one.epsilon(1e-6).to_bits(), epsilon_of_integers(2.0, 1, 1e-6).to_bits());
        let both = one.with(Together { squares: 0.25, of_integers: false });
        assert!(both.of_integers && both.epsilon(1e-6) > gaussian::epsilon(0.5f64.sqrt(), 1e-6));
    }
}
