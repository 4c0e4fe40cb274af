//! Rényi differential privacy: the first accountant (Mironov, Talwar and Zhang 2019,
//! <https://arxiv.org/abs/1908.10530>; conversion by Canonne, Kamath and Steinke 2020,
//! <https://arxiv.org/abs/2004.00010>, proposition 12).

use tributary_protocol::noise::epsilon_at;

use super::charge::Charge;
use super::gaussian::log_below;

/// Terms of a series after which an order is given up: it converges slowly for small orders and large rates.
const TERMS_MAX: usize = 2_000;
/// A series ends where its terms are below this logarithm.
const NEGLIGIBLE: f64 = -35.0;

/// The orders of dp-accounting: 1.1 to 10.9 in tenths, 11 to 63, and four large ones.
fn orders() -> impl Iterator<Item = f64> {
    let tenths = (11..110).map(|tenths| f64::from(tenths) / 10.0);
    tenths.chain((11..64).map(f64::from)).chain([128.0, 256.0, 512.0, 1024.0])
}

/// The least epsilon over all orders.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Renyi {
    pub epsilon: f64,
    /// The order that gives it.
    pub order: f64,
}

/// What these charges spend together but for a chance of delta.
pub fn epsilon(charges: &[Charge], delta: f64) -> Renyi {
    let of = |order: f64| {
        let spent: f64 = charges.iter().map(|charge| charge.times() * divergence(charge, order)).sum();
        Renyi { epsilon: epsilon_at(spent, order, delta), order }
    };
    orders().map(of).min_by(|one, other| one.epsilon.total_cmp(&other.epsilon)).expect("there are orders")
}

/// The Rényi divergence of one release, the larger of both directions.
pub(super) fn divergence(charge: &Charge, order: f64) -> f64 {
    match *charge {
        Charge::Gaussian { noise_multiplier, .. } => order / (2.0 * noise_multiplier * noise_multiplier),
        Charge::Correlated { mu } => order * mu * mu / 2.0,
        Charge::Sampled { noise_multiplier, rate, .. } => sampled(rate, noise_multiplier, order),
        Charge::Laplace { scale, .. } => {
            let up = (order / (2.0 * order - 1.0)).ln() + (order - 1.0) / scale;
            let down = ((order - 1.0) / (2.0 * order - 1.0)).ln() - order / scale;
            log_sum(up, down) / (order - 1.0)
        }
    }
}

/// A Gaussian release of units that are each drawn with this chance.
fn sampled(rate: f64, noise: f64, order: f64) -> f64 {
    match rate {
        0.0 => 0.0,
        1.0 => order / (2.0 * noise * noise),
        _ if order.fract() == 0.0 => whole(rate, noise, order as u32) / (order - 1.0),
        _ => fractional(rate, noise, order).map_or(f64::INFINITY, |logarithm| logarithm / (order - 1.0)),
    }
}

fn whole(rate: f64, noise: f64, order: u32) -> f64 {
    let (mut sum, mut binomial) = (f64::NEG_INFINITY, 0.0f64);
    for at in 0..=order {
        let (drawn, left) = (f64::from(at), f64::from(order - at));
        let power = (drawn * drawn - drawn) / (2.0 * noise * noise);
        sum = log_sum(sum, binomial + left * (-rate).ln_1p() + drawn * rate.ln() + power);
        binomial += left.ln() - (drawn + 1.0).ln();
    }
    sum
}

/// The series of section 3.3; none where it does not converge in time.
fn fractional(rate: f64, noise: f64, order: f64) -> Option<f64> {
    let variance = noise * noise;
    let turn = variance * (1.0 / rate - 1.0).ln() + 0.5;
    let (ln_rate, ln_rest) = (rate.ln(), (-rate).ln_1p());
    let (mut binomial, mut is_negative) = (0.0f64, false);
    let mut sums = [Signed::default(); 2];
    for at in 0..TERMS_MAX {
        let (up, down) = (at as f64, order - at as f64);
        // The logarithm of half an erfc is that of a normal chance.
        let above = |value: f64| log_below(-value / noise);
        let first = binomial + up * ln_rate + down * ln_rest + (up * up - up) / (2.0 * variance) + above(up - turn);
        let second =
            binomial + down * ln_rate + up * ln_rest + (down * down - down) / (2.0 * variance) + above(turn - down);
        sums[0].add(first, is_negative);
        sums[1].add(second, is_negative);
        if first.max(second) < NEGLIGIBLE && up > order {
            return Some(log_sum(sums[0].logarithm, sums[1].logarithm));
        }
        binomial += down.abs().ln() - (up + 1.0).ln();
        is_negative ^= down < 0.0;
    }
    None
}

/// A sum of terms of either sign, as its logarithm. The terms alternate after the order, and fall, so the sum stays
/// above 0.
#[derive(Clone, Copy, Debug)]
struct Signed {
    logarithm: f64,
}

impl Default for Signed {
    fn default() -> Self {
        Self { logarithm: f64::NEG_INFINITY }
    }
}

impl Signed {
    fn add(&mut self, term: f64, is_negative: bool) {
        self.logarithm = match is_negative {
            false => log_sum(self.logarithm, term),
            true if term < self.logarithm => self.logarithm + (-(term - self.logarithm).exp()).ln_1p(),
            true => f64::NEG_INFINITY,
        };
    }
}

/// The logarithm of the sum of two numbers from theirs.
pub(super) fn log_sum(one: f64, other: f64) -> f64 {
    let (large, small) = if one > other { (one, other) } else { (other, one) };
    if small == f64::NEG_INFINITY { large } else { large + (small - large).exp().ln_1p() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, wanted: f64, within: f64) {
        assert!((got / wanted - 1.0).abs() <= within, "{got} is not {wanted}");
    }

    #[test]
    fn whole_orders_are_as_printed() {
        for (rate, noise, order, wanted) in [
            (0.01, 1.0, 2.0, 1.718_134_220_746e-4),
            (0.01, 1.0, 3.0, 2.646_375_745_847e-4),
            (0.01, 1.0, 8.0, 8.936_439_076_06e-4),
            (0.01, 1.0, 16.0, 3.087_850_783_696),
            (0.01, 1.0, 64.0, 27.321_731_874_55),
            (0.1, 1.0, 5.0, 0.129_877_433_284),
            (0.1, 1.0, 8.0, 1.378_361_411_348),
            (0.04, 1.5, 16.0, 0.167_009_279_369_7),
            (0.001, 0.8, 8.0, 1.770_729_904_908e-5),
            // Noise of integers with a variance of 4, 100 and 1/2, where one unit moves them by 3, 10 and 1.
            (0.1, 2.0 / 3.0, 2.0, 8.146_694_683_734e-2),
            (0.1, 2.0 / 3.0, 5.0, 2.748_189_022_958),
            (0.2, std::f64::consts::FRAC_1_SQRT_2, 3.0, 0.787_710_908_144_7),
        ] {
            near(sampled(rate, noise, order), wanted, 1e-9);
        }
        for (order, wanted) in
            [(1.5, 6.500_7e-4), (2.5, 1.085_487_1e-3), (5.0, 2.180_756_56e-3), (50.0, 2.384_603_75e-2)]
        {
            near(50.0 * sampled(0.01, 2.5, order), wanted, 1e-4);
        }
    }

    #[test]
    fn epsilons_of_sampled_rounds_are_as_printed() {
        for (rate, noise, times, delta, wanted) in [
            (0.04, 1.5, 2250, 1e-5, 7.329_111_171_5),
            (0.0025, 1.3, 6000, 1e-5, 0.724_223_402_6),
            (0.001, 1.0, 30_000, 1e-7, 1.415_498_849_5),
            (0.01, 4.0, 10_000, 1e-5, 1.035_490_066),
            (0.1, 1.0, 100, 1e-5, 7.899_255_002_4),
            (0.001, 0.8, 2000, 1e-9, 2.421_577_108_5),
            (0.01, 0.5, 100, 1e-5, 8.030_725_352_8),
            (0.5, 2.0, 20, 1e-5, 6.228_417_325_4),
        ] {
            let charge = Charge::Sampled { noise_multiplier: noise, rate, times };
            near(epsilon(&[charge], delta).epsilon, wanted, 2e-6);
        }
    }

    #[test]
    fn epsilons_of_plain_and_mixed_releases_are_as_printed() {
        let gaussian = |noise_multiplier, times| Charge::Gaussian { noise_multiplier, times };
        for (noise, times, delta, wanted) in [
            (1.0, 1, 1e-6, 5.221_539_631_2),
            (5.0, 1, 1e-6, 0.899_938_504_2),
            (5.0, 10, 1e-6, 3.131_089_774_9),
            (10.0, 10, 1e-6, 1.471_656_267_9),
            (20.0, 100, 1e-6, 2.419_102_488_7),
            (7.0, 6, 1e-10, 2.224_832_082_1),
            (5.0, 10, 1e-5, 2.813_653_247_1),
        ] {
            near(epsilon(&[gaussian(noise, times)], delta).epsilon, wanted, 1e-9);
        }
        let mixed = [
            Charge::Sampled { noise_multiplier: 1.0, rate: 0.01, times: 500 },
            Charge::Sampled { noise_multiplier: 1.2, rate: 0.02, times: 300 },
            gaussian(10.0, 1),
            Charge::Laplace { scale: 20.0, times: 1 },
        ];
        near(epsilon(&mixed, 1e-6).epsilon, 2.623_136_934_3, 1e-6);
    }
}
