//! The noise that a client adds to what it sends in the clear, so that nobody sees its exact values.

use std::ops::Range;

use super::clip::SquareSum;
use super::normal::{NOISE_PLACES, Normal};

/// Most noise, in clips: that of a client's own vector is a few clips, and no answer has more than a million.
pub const LOCAL_NOISE_MAX: f64 = 50_000.0;

/// Deviations of noise beyond which no value is: of a normal value, the chance is below 1e-50.
const DEVIATIONS_MAX: f64 = 15.0;

/// The largest value of a vector with this noise, whose values were at most 1.
#[must_use]
pub fn local_magnitude_max(multiplier: f64) -> f32 {
    (1.0 + DEVIATIONS_MAX * multiplier) as f32
}

/// Clips the values of these ranges to a norm of 1, all together, and adds noise with a standard deviation of
/// `multiplier`: the exact rounding of a Gaussian, in integers of which the deviation has 2^20. The key must be secret,
/// and no vector is noised twice. Values outside of the ranges are not touched.
///
/// What is not a number counts as 0.
pub fn add_local_noise(values: &mut [f32], ranges: &[Range<usize>], multiplier: f64, key: &[u8; 32]) {
    let step = multiplier / f64::from(1u32 << NOISE_PLACES);
    // Rounded down, so that the noise is never less than the multiplier says.
    let bound = (f64::from(1u32 << NOISE_PLACES) / multiplier) as u64;
    let places = || ranges.iter().cloned().flatten();
    let mut steps: Vec<i64> = places().map(|place| (f64::from(values[place]) / step).round() as i64).collect();
    let mut squares = SquareSum::default();
    squares.add(&steps);
    if let Some(clip) = squares.clip(bound) {
        clip.apply(&mut steps);
    }
    let mut normal = Normal::new(*key);
    for (place, steps) in places().zip(steps) {
        // Rounding to f32 reads nothing but the noised integer.
        values[place] = ((steps + normal.rounded(NOISE_PLACES)) as f64 * step) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the noise is that of the multiplier, and only where it is asked for. Method: 200 vectors of one value.
    #[test]
    fn noise_is_added_where_it_is_asked_for() {
        for multiplier in [0.5, 4.2, 900.0] {
            let mut squares = 0.0;
            let mut mean = 0.0;
            for key in 0..200u8 {
                let mut values = [0.25f32; 50];
                add_local_noise(&mut values, &[3..5, 10..40], multiplier, &[key; 32]);
                let untouched = |place: usize| !(3..5).contains(&place) && !(10..40).contains(&place);
                assert!(
                    (0..50).filter(|place| untouched(*place)).all(|place| values[place].to_bits() == 0.25f32.to_bits())
                );
                // 32 values of 0.25 have a norm of 1.41, and are clipped to 1.
                let noise = (3..5).chain(10..40).map(|place| f64::from(values[place]) - f64::from(1.0 / 32f32.sqrt()));
                for noise in noise {
                    assert!(noise.abs() < f64::from(local_magnitude_max(multiplier)));
                    squares += noise * noise;
                    mean += noise;
                }
            }
            let count = 200.0 * 32.0;
            assert!(((squares / count).sqrt() / multiplier - 1.0).abs() < 0.03, "{multiplier}");
            assert!((mean / count / multiplier).abs() < 0.05, "{multiplier}");
        }
    }

    #[test]
    fn no_value_of_a_client_moves_the_integers_by_more_than_the_bound() {
        let noised = |mut values: [f32; 3]| {
            add_local_noise(&mut values, &[0..1, 1..3], 2.0, &[5; 32]);
            values.map(|value| f64::from(value) * f64::from(1u32 << 19))
        };
        let nothing = noised([0.0; 3]);
        for values in [[1.0, 0.0, 0.0], [1e30, -1e30, 1e30], [f32::INFINITY, f32::NAN, 7.0], [0.6, -0.8, 0.0]] {
            let moved: f64 = noised(values).iter().zip(nothing).map(|(with, without)| (with - without).powi(2)).sum();
            // A value beyond 2^24 steps would be rounded; these are not.
            assert!(moved.sqrt() <= f64::from(1u32 << 19), "{values:?} moves by {}", moved.sqrt());
        }
    }
}
