//! Privacy loss distributions: the second accountant, which is tight (Koskela, Jälkö and Honkela 2020,
//! <https://arxiv.org/abs/1906.03049>).
//!
//! The loss of a release is the logarithm of how much likelier its outcome is with a unit's data than without. Losses
//! of many releases add up, so their distribution is a convolution. Each atom of a release's loss is split between the
//! two grid points beside it so that the probability with and the probability without are both kept (Doroshenko et al.
//! 2022, <https://arxiv.org/abs/2207.04380>): then no epsilon comes out too small.
//!
//! The chances that matter are as small as delta, far below the rounding errors of a Fourier transform. So the
//! distributions are tilted first: multiplied by `exp(tilt x loss)`, after which the losses near epsilon are the likely
//! ones, and divided by it at the end.

use rustfft::FftPlanner;
use rustfft::num_complex::Complex;

use super::charge::Charge;
use super::gaussian::bisect;
use super::rdp;

/// Largest epsilon that is computed here: its power, and that of its losses, is a number.
const EPSILON_MAX: f64 = 150.0;
/// Points of the grid of losses.
const POINTS: usize = 1 << 20;
/// Distance of neighbouring points where nothing asks for another.
const STEP: f64 = 1e-4;
/// Never nearer.
const STEP_MIN: f64 = 1e-5;
/// Points within a standard deviation of the loss of one release.
const POINTS_PER_DEVIATION: f64 = 1_000.0;
/// Standard deviations of all losses together that the grid spans.
const DEVIATIONS: f64 = 40.0;
/// Outcomes that are farther out, in standard deviations of the noise, count as a loss without a bound.
const TAIL: f64 = 10.5;
/// Widest piece of outcomes over which density and loss are taken to be smooth, in standard deviations.
const PIECE: f64 = 0.02;
/// Gauss-Legendre nodes and weights of three points on [-1, 1].
const NODES: [(f64, f64); 3] =
    [(-0.774_596_669_241_483_4, 5.0 / 9.0), (0.0, 8.0 / 9.0), (0.774_596_669_241_483_4, 5.0 / 9.0)];

/// Whether data of a unit are taken out or put in: sampled releases lose differently.
#[derive(Clone, Copy, Debug)]
enum Direction {
    Out,
    In,
}

/// What these charges spend together but for a chance of delta.
///
/// Beyond 150 it is what the other accountant finds: no budget is as large, and chances would overflow.
pub fn epsilon(charges: &[Charge], delta: f64) -> f64 {
    let renyi = rdp::epsilon(charges, delta);
    if renyi.epsilon > EPSILON_MAX {
        return renyi.epsilon;
    }
    let tilt = renyi.order - 1.0;
    let of = |direction| {
        let losses = Losses::of(charges, direction, tilt);
        if losses.delta(0.0) <= delta {
            0.0
        } else {
            bisect(0.0, losses.most(), |epsilon| losses.delta(epsilon) <= delta)
        }
    };
    of(Direction::Out).max(of(Direction::In))
}

/// The distribution of all losses together.
struct Losses {
    step: f64,
    /// The loss at the first point.
    first: f64,
    /// At each point: the chance of a loss of it or more, and of the same without the unit's data times the exponential
    /// of the point's own loss, which no epsilon makes overflow. Both are divided by `exp(scale)`.
    chances: Vec<[f64; 2]>,
    scale: f64,
    /// The chance of a loss without a bound.
    unbounded: f64,
}

impl Losses {
    fn of(charges: &[Charge], direction: Direction, tilt: f64) -> Self {
        let step = step_of(charges);
        let mut planner = FftPlanner::new();
        let forward = planner.plan_fft_forward(POINTS);
        let mut product = vec![Complex::new(1.0, 0.0); POINTS];
        let (mut mean, mut scale, mut unbounded, mut begins) = (0.0, 0.0, 0.0, 0i64);
        for charge in charges {
            let times = charge.times();
            let release = Release::of(charge, direction, step, tilt);
            mean += times * release.mean;
            scale += times * release.log_total;
            unbounded += times * release.unbounded;
            begins += times as i64 * release.begins;
            let mut values: Vec<Complex<f64>> = vec![Complex::default(); POINTS];
            for (at, chance) in release.chances.iter().enumerate() {
                values[at % POINTS].re += chance;
            }
            forward.process(&mut values);
            for (product, value) in product.iter_mut().zip(values) {
                *product *= value.powf(times);
            }
        }
        planner.plan_fft_inverse(POINTS).process(&mut product);
        // The window of points lies around the mean: the transform repeats itself beyond it.
        let middle = (mean / step).round() as i64;
        let first = middle - (POINTS / 2) as i64;
        let at = |point: usize| (first + point as i64 - begins).rem_euclid(POINTS as i64) as usize;
        let norm = 1.0 / POINTS as f64;
        let mut chances = vec![[0.0; 2]; POINTS + 1];
        for point in (0..POINTS).rev() {
            let chance = (product[at(point)].re * norm).max(0.0);
            let loss = (first + point as i64) as f64 * step;
            let above = chances[point + 1];
            // Relative to the tilted mean, so that nothing overflows.
            let with = chance * (-tilt * (loss - mean)).exp();
            chances[point] = [above[0] + with, above[1] * (-step).exp() + with];
        }
        Self { step, first: first as f64 * step, chances, scale: scale - tilt * mean, unbounded }
    }

    /// The chance of more than epsilon: that of a larger loss, less what epsilon allows.
    fn delta(&self, epsilon: f64) -> f64 {
        let point = ((epsilon - self.first) / self.step).ceil().clamp(0.0, (self.chances.len() - 1) as f64) as usize;
        let [with, without] = self.chances[point];
        let loss = self.first + point as f64 * self.step;
        let told = self.scale.exp() * (with - (epsilon - loss).min(0.0).exp() * without) + self.unbounded;
        // Where a number overflowed, nothing is known to be kept.
        if told.is_nan() { 1.0 } else { told.clamp(0.0, 1.0) }
    }

    fn most(&self) -> f64 {
        (self.first + self.step * self.chances.len() as f64).max(self.step)
    }
}

/// The distance of points with which the grid spans all losses, and resolves those of one release.
fn step_of(charges: &[Charge]) -> f64 {
    let deviation = |charge: &Charge| charge.loss_deviation();
    let finest = charges.iter().map(|charge| deviation(charge) / POINTS_PER_DEVIATION).fold(STEP, f64::min);
    let variance: f64 = charges.iter().map(|charge| charge.times() * deviation(charge).powi(2)).sum();
    let widest = charges.iter().map(Charge::loss_most).fold(0.0, f64::max);
    // Losses have a mean of half their variance.
    let span = 2.0 * (DEVIATIONS * variance.sqrt() + variance + widest);
    finest.max(STEP_MIN).max(span / POINTS as f64)
}

/// The tilted losses of one release.
struct Release {
    /// Of the first point.
    begins: i64,
    /// At each point, tilted, adding up to 1.
    chances: Vec<f64>,
    /// The logarithm of what they added up to.
    log_total: f64,
    mean: f64,
    unbounded: f64,
}

impl Release {
    fn of(charge: &Charge, direction: Direction, step: f64, tilt: f64) -> Self {
        let mut atoms = Atoms::new(step);
        let unbounded = match *charge {
            Charge::Gaussian { noise_multiplier, .. } => sampled(&mut atoms, 1.0, noise_multiplier, direction),
            Charge::Correlated { mu } => sampled(&mut atoms, 1.0, 1.0 / mu, direction),
            Charge::Sampled { noise_multiplier, rate, .. } => sampled(&mut atoms, rate, noise_multiplier, direction),
            Charge::Laplace { scale, .. } => laplace(&mut atoms, scale),
        };
        atoms.tilted(tilt, unbounded)
    }
}

/// Outcomes of a release: loss and chance.
struct Atoms {
    step: f64,
    outcomes: Vec<(f64, f64)>,
}

impl Atoms {
    fn new(step: f64) -> Self {
        Self { step, outcomes: Vec::new() }
    }

    fn add(&mut self, loss: f64, chance: f64) {
        self.outcomes.push((loss, chance));
    }

    /// The chances at the points of the grid from the first one on: each outcome is split between the points beside it.
    fn on_grid(&self) -> (i64, Vec<f64>) {
        let below = |loss: f64| (loss / self.step).floor() as i64;
        let points = || self.outcomes.iter().map(|(loss, _)| below(*loss));
        let (begins, ends) = (points().min().unwrap_or(0), points().max().unwrap_or(0));
        let mut chances = vec![0.0; (ends - begins) as usize + 2];
        let whole = -(-self.step).exp_m1();
        for (loss, chance) in &self.outcomes {
            let point = below(*loss);
            let over = loss - point as f64 * self.step;
            // What keeps both chances: a + b = 1, a + b exp(-step) = exp(-over).
            let lower = (whole + (-over).exp_m1()) / whole;
            let at = (point - begins) as usize;
            chances[at] += chance * lower;
            chances[at + 1] += chance * (1.0 - lower);
        }
        (begins, chances)
    }

    fn tilted(self, tilt: f64, unbounded: f64) -> Release {
        let (begins, chances) = self.on_grid();
        let loss = |at: usize| (begins + at as i64) as f64 * self.step;
        // Tilted relative to the largest value, so that nothing overflows.
        let logarithms: Vec<f64> =
            chances.iter().enumerate().map(|(at, chance)| chance.ln() + tilt * loss(at)).collect();
        let largest = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut chances: Vec<f64> = logarithms.iter().map(|logarithm| (logarithm - largest).exp()).collect();
        let total: f64 = chances.iter().sum();
        chances.iter_mut().for_each(|chance| *chance /= total);
        let mean: f64 = chances.iter().enumerate().map(|(at, chance)| chance * loss(at)).sum();
        Release { begins, chances, log_total: largest + total.ln(), mean, unbounded }
    }
}

/// The losses of a Gaussian release of units that are each drawn with this chance. Returns the chance of those without
/// a bound.
fn sampled(atoms: &mut Atoms, rate: f64, noise: f64, direction: Direction) -> f64 {
    let density = |at: f64| (-0.5 * at * at / (noise * noise)).exp() / (noise * (2.0 * std::f64::consts::PI).sqrt());
    let ratio = |at: f64| {
        let exponent = (2.0 * at - 1.0) / (2.0 * noise * noise);
        // ln(1 - q + q e^x), without a loss of digits for small rates. At a rate of 1 it is x: the other
        // formula gives minus infinity for small x, and pieces of outcomes would be halved for ever.
        if rate >= 1.0 || exponent > 30.0 { exponent + rate.ln() } else { (rate * exponent.exp_m1()).ln_1p() }
    };
    let (low, high) = (-TAIL * noise, 1.0 + TAIL * noise);
    let (loss, mass): (&dyn Fn(f64) -> f64, &dyn Fn(f64) -> f64) = match direction {
        Direction::Out => (&ratio, &|at| (1.0 - rate) * density(at) + rate * density(at - 1.0)),
        Direction::In => (&|at| -ratio(at), &density),
    };
    // Pieces over which the loss moves by less than a step of the grid.
    let mut at = low;
    while at < high {
        let slope = (loss(at + 1e-6) - loss(at)).abs() / 1e-6;
        let slope_ahead = (loss(at + PIECE * noise) - loss(at)).abs() / (PIECE * noise);
        let width = (atoms.step / slope.max(slope_ahead).max(1e-300)).min(PIECE * noise).min(high - at).max(1e-12);
        for (node, weight) in NODES {
            let place = at + width * (1.0 + node) / 2.0;
            atoms.add(loss(place), mass(place) * weight * width / 2.0);
        }
        at += width;
    }
    // Beyond the tails nothing bounds the loss where it grows, and what is beyond both tails is counted at once.
    libm::erfc(TAIL / std::f64::consts::SQRT_2)
}

/// The losses of a Laplace release.
fn laplace(atoms: &mut Atoms, scale: f64) -> f64 {
    // Outcomes below 0 and above 1 have one loss each.
    let most = 1.0 / scale;
    atoms.add(most, 0.5);
    atoms.add(-most, 0.5 * (-most).exp());
    let pieces = ((2.0 * most / atoms.step).ceil().max(50.0)) as usize;
    let width = 1.0 / pieces as f64;
    for piece in 0..pieces {
        for (node, weight) in NODES {
            let place = (piece as f64 + (1.0 + node) / 2.0) * width;
            let mass = 0.5 / scale * (-place / scale).exp();
            atoms.add((1.0 - 2.0 * place) / scale, mass * weight * width / 2.0);
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, wanted: f64) {
        assert!((got - wanted).abs() <= 1e-3 * wanted.max(1.0), "{got} is not {wanted}");
    }

    fn of_sampled(rate: f64, noise_multiplier: f64, times: u32, delta: f64) -> f64 {
        epsilon(&[Charge::Sampled { noise_multiplier, rate, times }], delta)
    }

    #[test]
    fn epsilons_of_sampled_rounds_are_as_printed() {
        for (rate, noise, times, delta, wanted) in [
            (0.04, 1.5, 2250, 1e-5, 6.768_787_37),
            (0.001, 1.0, 30_000, 1e-7, 1.098_199_81),
            (0.1, 1.0, 100, 1e-5, 7.046_602_88),
            (0.001, 0.8, 2000, 1e-9, 1.453_978_65),
            (0.01, 0.5, 100, 1e-5, 6.476_210_22),
        ] {
            near(of_sampled(rate, noise, times, delta), wanted);
        }
    }

    #[test]
    fn epsilons_of_plain_and_mixed_releases_are_as_printed() {
        let gaussian = |noise_multiplier, times| Charge::Gaussian { noise_multiplier, times };
        for (noise, times, delta, wanted) in [
            (1.0, 1, 1e-6, 4.886_554_12),
            (5.0, 1, 1e-6, 0.834_117_56),
            (5.0, 10, 1e-6, 2.921_600_59),
            (10.0, 10, 1e-6, 1.367_571_49),
            (20.0, 100, 1e-6, 2.254_084_66),
            (7.0, 6, 1e-10, 2.124_076_84),
        ] {
            near(epsilon(&[gaussian(noise, times)], delta), wanted);
        }
        near(epsilon(&[Charge::Correlated { mu: 0.376_942_180 }], 1e-8), 2.0);
        let mixed = [
            Charge::Sampled { noise_multiplier: 1.0, rate: 0.01, times: 500 },
            Charge::Sampled { noise_multiplier: 1.2, rate: 0.02, times: 300 },
            gaussian(10.0, 1),
            Charge::Laplace { scale: 20.0, times: 1 },
        ];
        near(epsilon(&mixed, 1e-6), 2.349_908_28);
    }

    fn delta(charges: &[Charge], epsilon: f64) -> f64 {
        let tilt = rdp::epsilon(charges, 1e-6).order - 1.0;
        let of = |direction| Losses::of(charges, direction, tilt).delta(epsilon);
        of(Direction::Out).max(of(Direction::In))
    }

    #[test]
    fn an_epsilon_beyond_all_budgets_is_that_of_the_other_accountant() {
        let charges = [Charge::Sampled { noise_multiplier: 0.8726, rate: 0.4612, times: 2753 }];
        assert_eq!(epsilon(&charges, 5.72e-8), rdp::epsilon(&charges, 5.72e-8).epsilon);
        let charges = [Charge::Gaussian { noise_multiplier: 1.0, times: 150 }];
        let spent = epsilon(&charges, 1e-6);
        let exact = crate::privacy::gaussian::epsilon(150f64.sqrt(), 1e-6);
        assert!((spent / exact - 1.0).abs() < 1e-3, "{spent} is not {exact}");
    }

    /// The sums of `chance`, `chance e^-loss` and `chance loss`.
    fn sums(outcomes: impl IntoIterator<Item = (f64, f64)>) -> [f64; 3] {
        outcomes.into_iter().fold([0.0; 3], |[with, without, mean], (loss, chance)| {
            [with + chance, without + chance * (-loss).exp(), mean + chance * loss]
        })
    }

    fn all_near(got: [f64; 3], wanted: [f64; 3], within: f64) {
        let is_near = got.iter().zip(wanted).all(|(got, wanted)| (got - wanted).abs() <= within);
        assert!(is_near, "{got:?} is not {wanted:?}");
    }

    /// Chances with and without the unit's data add up to 1, and the mean loss is the divergence of Kullback and
    /// Leibler: `1 / (2 noise^2)` for Gaussian noise, `1 / scale + e^(-1 / scale) - 1` for Laplace noise. That of a
    /// sampled release is a sum over a fine grid of outcomes, computed independently.
    #[test]
    fn the_losses_of_a_release_have_the_chances_and_the_mean_of_its_noise() {
        for (rate, noise, direction, mean) in [
            (1.0, 0.5, Direction::Out, 2.0),
            (1.0, 2.0, Direction::In, 0.125),
            (0.25, 0.75, Direction::Out, 0.080_474_541_275),
            (0.25, 0.75, Direction::In, 0.057_293_317_821),
        ] {
            let mut atoms = Atoms::new(1e-3);
            let unbounded = sampled(&mut atoms, rate, noise, direction);
            all_near(sums(atoms.outcomes), [1.0, 1.0, mean], 1e-9);
            assert!((unbounded / 8.638e-26 - 1.0).abs() < 1e-3, "{unbounded}");
        }
        // A loss that is far beyond the largest exponential: a quarter of the outcomes lies around 1.
        let mut atoms = Atoms::new(0.1);
        sampled(&mut atoms, 0.25, 0.03, Direction::Out);
        let mean = 0.75 * 0.75f64.ln() + 0.25 * (0.5 / (0.03 * 0.03) + 0.25f64.ln());
        all_near(sums(atoms.outcomes), [1.0, 1.0, mean], 1e-9);
        for scale in [0.5, 2.0, 20.0] {
            let mut atoms = Atoms::new(1e-3);
            assert_eq!(laplace(&mut atoms, scale), 0.0);
            all_near(sums(atoms.outcomes), [1.0, 1.0, 1.0 / scale + (-1.0 / scale).exp_m1()], 1e-9);
        }
    }

    #[test]
    fn an_outcome_is_split_between_two_points_so_that_both_chances_are_kept() {
        let mut atoms = Atoms::new(0.5);
        atoms.add(0.7, 0.25);
        atoms.add(-1.1, 0.75);
        let wanted = sums(atoms.outcomes.clone());
        let (begins, chances) = atoms.on_grid();
        assert_eq!((begins, chances.len()), (-3, 6), "points from -1.5 to 1.0");
        let [with, without, mean] = sums((-3..).map(|point| f64::from(point) * 0.5).zip(chances));
        all_near([with, without, 0.0], [wanted[0], wanted[1], 0.0], 1e-12);
        assert!(mean > wanted[2], "splitting makes losses larger");
    }

    /// The tilted losses of Gaussian noise are Gaussian: with mu = 2, a loss has mean and half variance 2, so
    /// `E exp(tilt loss) = exp(2 tilt + 2 tilt^2)`, and the tilted mean is `2 + 4 tilt`.
    #[test]
    fn tilted_losses_of_gaussian_noise_have_their_mean_and_their_total() {
        let charge = Charge::Gaussian { noise_multiplier: 0.5, times: 3 };
        for (charge, tilt) in [(charge, 1.5), (Charge::Correlated { mu: 2.0 }, 0.5)] {
            let Release { chances, log_total, mean, .. } = Release::of(&charge, Direction::Out, 1e-3, tilt);
            all_near(
                [chances.iter().sum(), log_total, mean],
                [1.0, 2.0 * tilt + 2.0 * tilt * tilt, 2.0 + 4.0 * tilt],
                1e-5,
            );
        }
    }

    /// Three releases with a noise of 3 are one with a mu of the root of a third, whose chances have a closed form.
    #[test]
    fn deltas_of_gaussian_releases_are_exact_for_each_epsilon() {
        let charges = [Charge::Gaussian { noise_multiplier: 3.0, times: 3 }];
        let losses = Losses::of(&charges, Direction::Out, 4.0);
        let mu = (1.0f64 / 3.0).sqrt();
        for epsilon in [0.0, 0.5, 1.0, 2.0, 3.0, 4.0] {
            let exact = crate::privacy::gaussian::delta(mu, epsilon);
            let ratio = losses.delta(epsilon) / exact;
            assert!((ratio - 1.0).abs() < 1e-4, "{epsilon}: {ratio}");
        }
        assert_eq!((losses.delta(losses.most() + 1.0), losses.delta(-1e9)), (losses.unbounded, 1.0));
    }

    /// The distance is a thousandth of a release's deviation, within bounds, or more if the grid would not span all.
    #[test]
    fn the_grid_spans_all_losses_and_resolves_those_of_one_release() {
        let sampled = |noise_multiplier, rate| Charge::Sampled { noise_multiplier, rate, times: 1 };
        // 40 deviations, the variance and the largest loss of a release, on either side.
        let span = |deviation: f64, variance: f64, most: f64| 2.0 * (40.0 * deviation + variance + most) / 1_048_576.0;
        let deviation = 0.2 * (1.0f64 / 16.0).exp_m1().sqrt();
        for (charge, wanted) in [
            (Charge::Gaussian { noise_multiplier: 1.0, times: 1 }, 1e-4),
            (Charge::Gaussian { noise_multiplier: 1.0, times: 100 }, span(10.0, 100.0, 10.5)),
            (sampled(4.0, 0.2), deviation / 1_000.0),
            (sampled(4.0, 0.01), 1e-5),
        ] {
            let step = step_of(&[charge]);
            assert!((step / wanted - 1.0).abs() < 1e-12, "{step} is not {wanted}");
        }
    }

    #[test]
    fn deltas_are_as_printed() {
        let charges = [Charge::Sampled { noise_multiplier: 1.0, rate: 0.01, times: 1000 }];
        let (first, second) = (delta(&charges, 1.0) / 2.612_496_806e-3, delta(&charges, 2.0) / 2.665_721_979e-6);
        assert!((first - 1.0).abs() < 0.01 && (second - 1.0).abs() < 0.01, "{first} {second}");
    }
}
