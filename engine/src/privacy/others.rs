//! What the product does not offer, as references beside which its own mechanisms are measured.
//!
//! Correlated noise by the square root of prefix sums, in bands (Fichtenberger, Henzinger and Upadhyay 2023; Kalinin
//! and Lampert 2024), by a binary tree, and none at all; and the bound on draws of a fixed size (Wang, Balle and
//! Kasiviswanathan 2019, theorem 27).

use tributary_protocol::noise::epsilon_at;

use super::blt::{Blt, Participation, distance, moved_squared};
use super::charge::Charge;
use super::rdp;

fn near(got: f64, wanted: f64, within: f64) {
    assert!((got / wanted - 1.0).abs() <= within, "{got} is not {wanted}");
}

/// The square root of prefix sums, of which this many coefficients are kept.
fn square_root(versions: u32, bands: u32) -> Vec<f64> {
    let coefficient = |before: &mut f64, at: u32| {
        let at = f64::from(at);
        *before *= if at > 0.0 { (2.0 * at - 1.0) / (2.0 * at) } else { 1.0 };
        Some(*before)
    };
    let kept = (0..bands.min(versions)).scan(1.0, coefficient);
    kept.chain(std::iter::repeat(0.0)).take(versions as usize).collect()
}

/// The inverse of a matrix by its first column: what fresh noise becomes.
fn inverse(coefficients: &[f64]) -> Vec<f64> {
    let mut inverse = vec![1.0];
    for at in 1..coefficients.len() {
        let taken: f64 = (1..=at).map(|back| coefficients[back] * inverse[at - back]).sum();
        inverse.push(-taken);
    }
    inverse
}

/// The worst version of a binary tree of sums, each with its noise: as many sums as its number has ones.
fn of_tree(Participation { versions, separation, times }: Participation) -> f64 {
    let levels = versions.next_power_of_two().ilog2();
    let meets = |first: u32| -> u32 {
        let updates: Vec<u32> = (0..times).map(|at| first + at * separation).filter(|at| *at < versions).collect();
        let squares = |level: u32| -> u32 {
            updates.chunk_by(|one, other| one >> level == other >> level).map(|met| (met.len() as u32).pow(2)).sum()
        };
        (0..=levels).map(squares).sum()
    };
    let most = (0..separation.min(versions)).map(meets).max().unwrap_or(0);
    let worst = (1..=versions).map(u32::count_ones).max().unwrap_or(0);
    f64::from(most * worst).sqrt()
}

#[test]
fn the_square_root_has_the_printed_coefficients_and_noise() {
    let coefficients = square_root(8, 8);
    assert_eq!(coefficients, [1.0, 0.5, 0.375, 0.3125, 0.2734375, 0.24609375, 0.2255859375, 0.20947265625]);
    let noise = [1.0, -0.5, -0.125, -0.0625, -0.0390625, -0.02734375, -0.0205078125, -0.01611328125];
    assert_eq!(inverse(&coefficients), noise);
    let (fresh, banded) = ([1.0, -2.0, 0.0, 3.0, 1.0, 0.0, 0.0, 2.0], inverse(&square_root(8, 4)));
    let of = |version: usize| -> f64 { (0..=version).map(|at| fresh[at] * banded[version - at]).sum() };
    let trace = [1.0, -2.5, 0.875, 3.1875, -0.140625, -1.3984375, -0.244140625, 2.6904296875];
    assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(of), trace);
    for ((versions, separation, times), [squared, last, mean]) in
        [((4, 4, 1), [1.488_281, 1.488_281, 1.381_417]), ((16, 4, 4), [5.953_125, 4.938_534, 3.882_391])]
    {
        let participation = Participation { versions, separation, times };
        let coefficients = square_root(versions, 4);
        near(moved_squared(&coefficients, participation), squared, 1e-6);
        let found = distance(inverse(&coefficients).into_iter(), moved_squared(&coefficients, participation));
        near(found.last, last, 1e-6);
        near(found.mean, mean, 1e-6);
    }
}

/// Goal: the buffers are as good as the square root in as many bands as there are versions between two updates, all of
/// which it stores; and far better than a tree or independent noise. Method: the printed table.
#[test]
fn buffers_are_as_good_as_what_stores_far_more() {
    for ((versions, separation, times), [independent, tree, narrow, wide]) in [
        ((100, 100, 1), [10.0, 6.928, 3.482, 2.531]),
        ((100, 20, 5), [22.361, 21.354, 7.786, 7.311]),
        ((2000, 500, 4), [89.443, 26.077, 28.020, 8.190]),
        ((2000, 100, 20), [200.0, 96.229, 62.654, 29.848]),
    ] {
        let participation = Participation { versions, separation, times };
        let of_bands = |bands| {
            let coefficients = square_root(versions, bands);
            distance(inverse(&coefficients).into_iter(), moved_squared(&coefficients, participation)).last
        };
        near(of_bands(1), independent, 5e-5);
        near(of_tree(participation), tree, 5e-5);
        near(of_bands(16), narrow, 2e-4);
        near(of_bands(separation), wide, 2e-4);
        let buffers = Blt::fit(participation).distance(participation).last;
        assert!(buffers <= wide * 1.005 && buffers < narrow && buffers < tree, "{participation:?}: {buffers}");
    }
}

/// The divergence of a release of a cohort of a fixed size, at a whole order; `noise` is in units of what exchanging
/// one member changes.
fn fixed_size(rate: f64, noise: f64, order: u32) -> f64 {
    let log_moment = |order: f64| order * (order + 1.0) / (2.0 * noise * noise);
    let binomial =
        |of: u32, taken: u32| -> f64 { (0..taken).map(|at| f64::from(of - at) / f64::from(at + 1)).product() };
    // Differences of the moments, of this order.
    let difference = |order: u32| -> f64 {
        let term = |at: u32| {
            let sign = if (order - at).is_multiple_of(2) { 1.0 } else { -1.0 };
            sign * binomial(order, at) * log_moment(f64::from(at) - 1.0).exp()
        };
        (0..=order).map(term).sum()
    };
    let at_two = 1.0 / (noise * noise);
    let of = |drawn: u32| {
        let bound = match drawn {
            2 => (4.0 * at_two.exp_m1()).min(2.0 * at_two.exp()),
            _ => {
                let both = difference(2 * (drawn / 2)) * difference(2 * drawn.div_ceil(2));
                (4.0 * both.sqrt()).min(2.0 * log_moment(f64::from(drawn - 1)).exp())
            }
        };
        binomial(order, drawn) * rate.powi(drawn.cast_signed()) * bound
    };
    (2..=order).map(of).sum::<f64>().ln_1p() / f64::from(order - 1)
}

#[test]
fn the_bound_on_draws_of_a_fixed_size_is_as_printed() {
    for (rate, noise, wanted) in [
        (
            0.02,
            1.0,
            [
                2.172_264_387_166e-3,
                3.410_961_330_246e-3,
                4.786_247_478_841e-3,
                2.706_504_425_106e-2,
                3.873_401_590_797,
                11.984_142_290_55,
            ],
        ),
        (
            0.1,
            2.0,
            [
                1.129_696_498_924e-2,
                1.763_009_227_180e-2,
                2.431_699_800_966e-2,
                5.269_026_352_905e-2,
                0.112_636_035_377_1,
                1.650_021_505_380,
            ],
        ),
    ] {
        for (order, wanted) in [2, 3, 4, 8, 16, 32].into_iter().zip(wanted) {
            near(fixed_size(rate, noise, order), wanted, 1e-9);
        }
    }
}

/// A job with a cohort of a fixed size claims less than could be proven of its draws. Exchanging a member is two
/// changes of one clip, so the bound has half of the noise.
#[test]
fn a_cohort_of_a_fixed_size_is_charged_more_than_its_bound() {
    let (rate, times, delta) = (0.02, 500, 1e-6);
    let of = |order: u32| epsilon_at(f64::from(times) * fixed_size(rate, 1.0, order), f64::from(order), delta);
    let bound = (2..=16).map(of).fold(f64::INFINITY, f64::min);
    near(bound, 6.005_941_959, 1e-6);
    let charged = rdp::epsilon(&[Charge::Gaussian { noise_multiplier: 2.0, times }], delta).epsilon;
    assert!(charged > 10.0 * bound, "{charged} against {bound}");
}
