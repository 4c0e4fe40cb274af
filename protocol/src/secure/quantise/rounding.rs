//! From rotated coordinates to integers: rounded at random without bias, and with a norm that is bounded for certain.

use crate::seed::SecretStream;

/// How often the rounding is repeated if its norm is above the bound.
const REDRAWS: usize = 8;

/// Rounds values to multiples of `step`, up or down at random, so that the mean is the value (Kairouz, Liu and Steinke
/// 2021, algorithm 1). A rounding whose squared norm is above `norm_squared_max` is drawn again, and scaled down in the
/// end.
pub(super) fn round(values: &[f64], step: f64, norm_squared_max: u64, random: &mut SecretStream) -> Vec<i64> {
    let mut rounded = vec![0; values.len()];
    for _ in 0..=REDRAWS {
        for (rounded, value) in rounded.iter_mut().zip(values) {
            // Values are bounded by the clip, so quotients by the levels times the root of the coordinates.
            *rounded = (value / step + random.unit()).floor() as i64;
        }
        if norm_squared(&rounded) <= u128::from(norm_squared_max) {
            return rounded;
        }
    }
    shrink(&mut rounded, norm_squared_max);
    rounded
}

fn norm_squared(values: &[i64]) -> u128 {
    values.iter().map(|value| u128::from(value.unsigned_abs()).pow(2)).sum()
}

/// Scales integers down to a norm: `sign(x) floor(|x| B / R)`, with B the root of the bound, rounded down, and R the
/// norm, rounded up.
fn shrink(values: &mut [i64], norm_squared_max: u64) {
    let squared = norm_squared(values);
    let root = squared.isqrt();
    let norm = root + u128::from(root * root < squared);
    let bound = u128::from(norm_squared_max.isqrt());
    if norm > bound {
        for value in values {
            let magnitude = u128::from(value.unsigned_abs()) * bound / norm;
            *value = magnitude as i64 * value.signum();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of the clip of central noise, whose formula this is.
    #[test]
    fn integers_are_clipped_as_in_the_vectors() {
        let shrunk = |values: &[i64], bound: u64| {
            let mut values = values.to_vec();
            shrink(&mut values, bound * bound);
            values
        };
        assert_eq!(shrunk(&[3, -4, 12], 13), [3, -4, 12]);
        assert_eq!(shrunk(&[3, -4, 12], 10), [2, -3, 9]);
        assert_eq!(shrunk(&[1_048_576, -1_048_576, 5, 0], 1_048_576), [741_454, -741_454, 3, 0]);
        assert_eq!(shrunk(&[7; 8], 10), [3; 8]);
        assert_eq!(shrunk(&[-1_000_000, 1], 1000), [-999, 0]);
    }

    #[test]
    fn a_multiple_of_the_step_is_exact_and_others_are_one_of_two() {
        let mut random = SecretStream::of([1; 32]);
        assert_eq!(round(&[0.0, 0.5, -1.5], 0.5, 100, &mut random), [0, 1, -3]);
        let rounded = round(&[0.3; 1000], 1.0, 1000, &mut random);
        assert!(rounded.iter().all(|value| [0, 1].contains(value)));
        assert!((250..350).contains(&rounded.iter().sum::<i64>()));
    }

    #[test]
    fn a_rounding_that_cannot_fit_is_scaled_down() {
        let rounded = round(&[10.0; 4], 1.0, 100, &mut SecretStream::of([1; 32]));
        assert_eq!(rounded, [5; 4]);
    }
}
