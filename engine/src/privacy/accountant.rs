//! What releases spend: two accountants, of which one checks the other.

use std::collections::BTreeMap;

use super::charge::Charge;
use super::gaussian::bisect;
use super::{pld, rdp};

/// The tight accountant may exceed the other one by this, for the grid of its losses.
const AGREEMENT: f64 = 1e-3;
/// Bounds within which noise is sought.
const NOISE_MIN: f64 = 0.05;
const NOISE_MAX: f64 = 1e7;
/// The relative width at which the search for noise ends.
const NOISE_WIDTH: f64 = 1e-4;
/// By which noise is raised that the other accountant found enough, and this one not quite.
const NOISE_STEP: f64 = 1.1;

/// What was spent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spent {
    /// By the tight accountant: what is printed.
    pub epsilon: f64,
    /// By the other one, which is always valid and larger.
    pub epsilon_renyi: f64,
}

/// The accountants do not agree, so one of them is wrong.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("the accountants disagree: {tight} by privacy losses, and only {renyi} by Rényi divergences")]
pub struct AccountantError {
    pub tight: f64,
    pub renyi: f64,
}

/// What these charges spend together but for a chance of delta; nothing for none.
///
/// # Errors
/// [`AccountantError`] when the tight accountant finds more than the other one.
pub fn spent(charges: &[Charge], delta: f64) -> Result<Spent, AccountantError> {
    let charges = merged(charges);
    if charges.is_empty() {
        return Ok(Spent { epsilon: 0.0, epsilon_renyi: 0.0 });
    }
    let (epsilon, epsilon_renyi) = (pld::epsilon(&charges, delta), rdp::epsilon(&charges, delta).epsilon);
    match epsilon <= epsilon_renyi + AGREEMENT {
        true => Ok(Spent { epsilon, epsilon_renyi }),
        false => Err(AccountantError { tight: epsilon, renyi: epsilon_renyi }),
    }
}

/// The same releases once each, with how often there were. Gaussian releases become one of the same mu.
fn merged(charges: &[Charge]) -> Vec<Charge> {
    let (mut squares, mut sampled, mut laplace) = (0.0, BTreeMap::<_, u32>::new(), BTreeMap::<_, u32>::new());
    for charge in charges {
        match *charge {
            Charge::Gaussian { noise_multiplier, times } => squares += f64::from(times) / noise_multiplier.powi(2),
            Charge::Correlated { mu } => squares += mu * mu,
            Charge::Sampled { rate: 1.0, noise_multiplier, times } => {
                squares += f64::from(times) / noise_multiplier.powi(2);
            }
            Charge::Sampled { noise_multiplier, rate, times } => {
                *sampled.entry((noise_multiplier.to_bits(), rate.to_bits())).or_default() += times;
            }
            Charge::Laplace { scale, times } => *laplace.entry(scale.to_bits()).or_default() += times,
        }
    }
    let gaussian = (squares > 0.0).then(|| Charge::Correlated { mu: squares.sqrt() });
    let sampled = sampled.into_iter().map(|((noise, rate), times)| Charge::Sampled {
        noise_multiplier: f64::from_bits(noise),
        rate: f64::from_bits(rate),
        times,
    });
    let laplace = laplace.into_iter().map(|(scale, times)| Charge::Laplace { scale: f64::from_bits(scale), times });
    gaussian.into_iter().chain(sampled).chain(laplace).filter(|charge| charge.times() > 0.0).collect()
}

/// The least noise with which so many sampled releases stay within a budget, at most [`NOISE_WIDTH`] too much.
///
/// # Errors
/// As [`spent`].
pub(super) fn noise_of_sampled((epsilon, delta): (f64, f64), rate: f64, times: u32) -> Result<f64, AccountantError> {
    let charge = |noise_multiplier: f64| [Charge::Sampled { noise_multiplier, rate, times }];
    let excess = |noise: f64| (pld::epsilon(&charge(noise), delta) / epsilon).max(1e-12).ln();
    // The other accountant is quick, and finds a little too much.
    let renyi = |noise: f64| rdp::epsilon(&charge(noise), delta).epsilon <= epsilon;
    let mut high = (bisect(NOISE_MIN.ln(), NOISE_MAX.ln(), |noise| renyi(noise.exp())).exp(), 0.0);
    high.1 = excess(high.0);
    while high.1 > 0.0 {
        if high.0 >= NOISE_MAX {
            // Not even the most noise is enough: it is more than any job may have, so the job is refused.
            return Ok(NOISE_MAX);
        }
        high = (high.0 * NOISE_STEP, excess(high.0 * NOISE_STEP));
    }
    let mut low = high;
    while low.1 <= 0.0 && low.0 > NOISE_MIN {
        (high, low) = (low, (low.0 / 1.5, excess(low.0 / 1.5)));
    }
    // The method of false positions, with the value of an end halved that stays (Illinois).
    let mut last_was_high = None;
    while high.0 / low.0 > 1.0 + NOISE_WIDTH {
        let share = (low.1 / (low.1 - high.1)).clamp(0.05, 0.95);
        let noise = low.0 * (high.0 / low.0).powf(share);
        let found = excess(noise);
        if found <= 0.0 {
            high = (noise, found);
            low.1 *= if last_was_high == Some(true) { 0.5 } else { 1.0 };
        } else {
            low = (noise, found);
            high.1 *= if last_was_high == Some(false) { 0.5 } else { 1.0 };
        }
        last_was_high = Some(found <= 0.0);
    }
    spent(&charge(high.0), delta).map(|_| high.0)
}

/// How many sampled releases with this noise stay within a budget, at most `most`.
///
/// # Errors
/// As [`spent`].
pub(super) fn releases_of_sampled(
    (epsilon, delta): (f64, f64),
    rate: f64,
    noise: f64,
    most: u32,
) -> Result<u32, AccountantError> {
    let charge = |times: u32| [Charge::Sampled { noise_multiplier: noise, rate, times }];
    let is_kept = |times: u32| pld::epsilon(&charge(times), delta) <= epsilon;
    let kept = if is_kept(most) {
        most
    } else {
        // The other accountant is quick, and finds too few.
        let sure = largest(most, |times| rdp::epsilon(&charge(times), delta).epsilon <= epsilon);
        sure + largest(most - sure, |more| is_kept(sure + more))
    };
    spent(&charge(kept.max(1)), delta).map(|_| kept)
}

/// The largest number up to `most` that is kept, where all smaller ones above 0 are as well; 0 if none is.
pub(super) fn largest(most: u32, is_kept: impl Fn(u32) -> bool) -> u32 {
    let (mut kept, mut broken) = (0, most.saturating_add(1));
    while broken - kept > 1 {
        let middle = kept + (broken - kept) / 2;
        if is_kept(middle) {
            kept = middle;
        } else {
            broken = middle;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_in_parts_is_the_whole() {
        let one = |times| Charge::Sampled { noise_multiplier: 1.0, rate: 0.01, times };
        let whole = spent(&[one(100)], 1e-6).unwrap();
        assert_eq!(spent(&vec![one(1); 100], 1e-6).unwrap(), whole);
        assert_eq!(spent(&[one(60), one(40)], 1e-6).unwrap(), whole);
        assert_eq!(spent(&[], 1e-6).unwrap().epsilon, 0.0);
    }

    #[test]
    fn releases_with_the_same_noise_become_one_charge() {
        let sampled = |noise_multiplier, rate, times| Charge::Sampled { noise_multiplier, rate, times };
        // 4 / 2^2 + 2^2 + 3 / 0.5^2 = 17.
        let plain = [
            Charge::Gaussian { noise_multiplier: 2.0, times: 4 },
            Charge::Correlated { mu: 2.0 },
            sampled(0.5, 1.0, 3),
        ];
        assert_eq!(merged(&plain), [Charge::Correlated { mu: 17f64.sqrt() }]);
        let laplace = |scale, times| Charge::Laplace { scale, times };
        let mixed =
            [laplace(2.0, 3), sampled(1.0, 0.5, 2), laplace(2.0, 4), sampled(1.0, 0.25, 1), sampled(1.0, 0.5, 5)];
        assert_eq!(merged(&mixed), [sampled(1.0, 0.25, 1), sampled(1.0, 0.5, 7), laplace(2.0, 7)]);
        assert_eq!(merged(&[sampled(1.0, 0.5, 0), laplace(1.0, 0)]), []);
    }

    /// Who knows the cohorts of a sampled job may see many releases with little noise.
    #[test]
    fn many_releases_with_little_noise_are_what_they_are_exactly() {
        for times in [9, 45, 150] {
            let told = spent(&[Charge::Gaussian { noise_multiplier: 1.0, times }], 1e-6).unwrap().epsilon;
            let exact = crate::privacy::gaussian::epsilon(f64::from(times).sqrt(), 1e-6);
            assert!((told / exact - 1.0).abs() < 1e-3, "{told} is not {exact}");
        }
    }

    #[test]
    fn epsilon_grows_with_rounds_rate_less_noise_and_less_delta() {
        let of = |noise_multiplier, rate, times, delta| {
            spent(&[Charge::Sampled { noise_multiplier, rate, times }], delta).unwrap().epsilon
        };
        let middle = of(1.0, 0.01, 200, 1e-6);
        for more in
            [of(0.9, 0.01, 200, 1e-6), of(1.0, 0.02, 200, 1e-6), of(1.0, 0.01, 300, 1e-6), of(1.0, 0.01, 200, 1e-7)]
        {
            assert!(more > middle, "{more} {middle}");
        }
    }

    #[test]
    fn the_least_noise_of_a_budget_is_as_printed() {
        for (epsilon, wanted) in [(1.0, 0.8167), (8.0, 0.4687)] {
            let noise = noise_of_sampled((epsilon, 1e-8), 1e-3, 2_000).unwrap();
            assert!((noise - wanted).abs() <= 2e-4, "{epsilon}: {noise} is not {wanted}");
        }
        let releases = releases_of_sampled((4.0, 1e-5), 0.1, 1.5, 1_000).unwrap();
        let of = |times| spent(&[Charge::Sampled { noise_multiplier: 1.5, rate: 0.1, times }], 1e-5).unwrap().epsilon;
        assert!(of(releases) <= 4.0 && of(releases + 1) > 4.0, "{releases}");
    }

    /// Both printed epsilons: the first with coarser orders, of which finer ones may find a little less.
    #[test]
    fn the_examples_of_users_spend_what_is_printed() {
        for (rate, noise_multiplier, times, delta, by_orders, by_losses) in [
            (0.001, 1.0, 2000, 1e-8, 1.265_675_754_5, 0.362_800_74),
            (0.001, 1.0, 2000, 1e-6, 0.881_911_572_3, 0.252_281_82),
            (0.001, 0.6, 2000, 1e-8, 4.525_222_332_8, 3.713_880_59),
            (6_500.0 / 3e6, 1.0, 2000, 1e-10, 1.982_726_536, 1.162_936_81),
            (0.005, 1.0, 1000, 1e-7, 1.724_802_429_2, 1.202_189_93),
            (0.02, 1.0, 500, 1e-6, 3.602_588_087_3, 3.213_576_87),
            (0.1, 1.0, 200, 1e-5, 11.063_104_146_8, 9.971_275_03),
            (0.1, 2.0, 200, 1e-5, 3.679_745_845_6, 3.359_660_74),
            (0.2, 4.0, 100, 1e-4, 1.985_261_561_7, 1.781_157_49),
            (1.0, 10.0, 50, 1e-3, 2.330_461_158_2, 2.053_334_57),
        ] {
            let charges = [Charge::Sampled { noise_multiplier, rate, times }];
            let renyi = rdp::epsilon(&charges, delta).epsilon;
            assert!((0.99 * by_orders..=by_orders * (1.0 + 1e-6)).contains(&renyi), "{renyi} is not {by_orders}");
            let tight = pld::epsilon(&charges, delta);
            assert!((tight - by_losses).abs() <= 1e-3 * by_losses.max(1.0), "{tight} is not {by_losses}");
        }
    }

    /// Random ledgers: each takes a second in a build for tests, so `cargo test --release` plays more.
    const LEDGERS: usize = if cfg!(debug_assertions) { 8 } else { 1_000 };

    /// Goal: the tight accountant never spends more than the other. Method: random ledgers of a fixed seed.
    #[test]
    fn the_accountants_agree_on_random_ledgers() {
        let mut stream = tributary_protocol::seed::Seed(9).stream();
        for _ in 0..LEDGERS {
            let charges: Vec<Charge> = (0..1 + stream.below(3))
                .map(|_| {
                    let noise_multiplier = 0.4 + 6.0 * stream.unit() * stream.unit();
                    let times = 1 + stream.below(300) as u32;
                    match stream.below(4) {
                        0 => Charge::Gaussian { noise_multiplier: 4.0 * noise_multiplier, times: 1 + times / 50 },
                        1 => Charge::Laplace { scale: 20.0 * noise_multiplier, times: 1 + times / 50 },
                        _ => Charge::Sampled { noise_multiplier, rate: 0.3 * stream.unit().powi(2), times },
                    }
                })
                .collect();
            spent(&charges, 1e-6).unwrap_or_else(|error| panic!("{error}: {charges:?}"));
        }
    }
}
