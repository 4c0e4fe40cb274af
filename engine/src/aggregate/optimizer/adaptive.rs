//! FedAdagrad, FedAdam and FedYogi (Reddi et al. 2021, <https://arxiv.org/abs/2003.00295>, algorithm 2).

use tributary_protocol::job_file::BiasCorrection;
use tributary_protocol::model::Companion;

use super::step::Optimizer;

/// `m = beta1 m + (1 - beta1) D`, v by [`Moment`], and the step `rate m / (sqrt(v) + tau)`. D is the combined update.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adaptive {
    pub(super) rate: f64,
    pub(super) beta1: f64,
    pub(super) moment: Moment,
    pub(super) tau: f64,
    /// v before the first step.
    pub(super) v0: f64,
}

/// How the second moment follows the squared update.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moment {
    /// Adagrad: `v + D^2`.
    Sum,
    /// Adam: `beta2 v + (1 - beta2) D^2`.
    Decaying { beta2: f64 },
    /// Yogi: `v - (1 - beta2) D^2 sign(v - D^2)`.
    Bounded { beta2: f64 },
}

impl Moment {
    fn moved(self, v: f64, update: f64) -> f64 {
        let square = update * update;
        match self {
            Self::Sum => v + square,
            Self::Decaying { beta2 } => beta2 * v + (1.0 - beta2) * square,
            Self::Bounded { beta2 } if v > square => v - (1.0 - beta2) * square,
            Self::Bounded { beta2 } if v < square => v + (1.0 - beta2) * square,
            Self::Bounded { .. } => v,
        }
    }
}

/// The factor of Adam's learning rate in the round that starts from this version.
pub(super) fn bias_correction(correction: BiasCorrection, [beta1, beta2]: [f64; 2], version: u32) -> f64 {
    let step = i32::try_from(version).unwrap_or(i32::MAX - 2) + 1;
    let corrected = |step| (1.0 - beta2.powi(step)).sqrt() / (1.0 - beta1.powi(step));
    match correction {
        BiasCorrection::None => 1.0,
        BiasCorrection::Kingma => corrected(step),
        BiasCorrection::Flower => corrected(step + 1),
    }
}

impl Optimizer for Adaptive {
    fn companions(&self) -> &'static [Companion] {
        // Without a decay rate the first moment is the update itself.
        if self.beta1 == 0.0 { &[Companion::SecondMoment] } else { &[Companion::SecondMoment, Companion::Momentum] }
    }

    fn initial(&self, companion: Companion) -> f64 {
        if companion == Companion::SecondMoment { self.v0 } else { 0.0 }
    }

    fn step(&self, block: &mut [f64], companions: &mut [Vec<f64>]) {
        let Self { rate, beta1, moment, tau, .. } = *self;
        let [second, first @ ..] = companions else { return };
        if let [momentum] = first {
            for (m, value) in momentum.iter_mut().zip(&*block) {
                *m = beta1 * *m + (1.0 - beta1) * value;
            }
        }
        for (index, (value, v)) in block.iter_mut().zip(second).enumerate() {
            *v = moment.moved(*v, *value);
            let m = first.first().map_or(*value, |momentum| momentum[index]);
            *value = rate * m / (v.sqrt() + tau);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_moment_of_yogi_moves_towards_the_square_and_stays_where_it_is() {
        let moved = |v| Moment::Bounded { beta2: 0.75 }.moved(v, 2.0);
        assert_eq!([moved(8.0), moved(4.0), moved(1.0)], [7.0, 4.0, 2.0]);
    }
}
