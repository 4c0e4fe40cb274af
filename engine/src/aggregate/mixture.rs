//! Sums of updates times real coefficients, in fixed point.

use std::ops::Range;

use super::combine::Combined;
use super::stripes::Stripes;

/// Binary places of a mixture at most. Steps of 2^-100 are far below the resolution of f32.
const BINARY_POINT_MAX: i32 = 100;

/// `sum c_k d_k` of updates d_k with coefficients c_k that are known before the first value is added.
///
/// Each product is rounded once, to the nearest multiple of 2^-s; everything after that is exact, so the order of
/// addition does not change a bit.
#[derive(Debug)]
pub struct Mixture {
    stripes: Stripes,
    /// `2^s`.
    scale: f64,
}

impl Mixture {
    /// An empty sum, for these finite coefficients of updates whose values are at most `magnitude_max`. It takes 8
    /// bytes per parameter.
    pub fn new(parameters_total: usize, coefficients: &[f64], magnitude_max: f32) -> Self {
        let total: f64 = coefficients.iter().map(|coefficient| coefficient.abs()).sum();
        let largest = (total * f64::from(magnitude_max)).max(f64::MIN_POSITIVE);
        // One place less than would fit, for the roundings of as many updates.
        let point = 61 - (largest.log2().ceil() as i32);
        Self { stripes: Stripes::zeros(parameters_total), scale: 2f64.powi(point.min(BINARY_POINT_MAX)) }
    }

    /// Adds a block of an update, whose first value belongs to parameter `first`.
    ///
    /// # Panics
    /// If the block reaches past the last parameter, which is a mistake of the caller.
    pub fn add(&self, first: usize, values: &[f32], coefficient: f64) {
        self.stripes.add_dense(first, values, coefficient * self.scale);
    }

    /// Adds `values[i]` to parameter `first + indices[i]`. Indices ascend; values that are absent are zero.
    ///
    /// # Panics
    /// As [`Self::add`].
    pub fn add_sparse(&self, first: usize, indices: &[u32], values: &[f32], coefficient: f64) {
        self.stripes.add_sparse(first, indices, values, coefficient * self.scale);
    }
}

impl Combined for Mixture {
    fn parameters_total(&self) -> usize {
        self.stripes.parameters_total()
    }

    fn mean(&self, block: Range<usize>) -> Option<Vec<f64>> {
        Some(self.stripes.quotients(block, self.scale))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_mixture_is_the_sum_whatever_the_order(
            updates in prop::collection::vec((prop::collection::vec(-32.0f32..32.0, 4), 0.0f64..3.0), 1..20),
        ) {
            let coefficients: Vec<f64> = updates.iter().map(|(_, coefficient)| *coefficient).collect();
            let [forwards, backwards] = [0, 1].map(|_| Mixture::new(4, &coefficients, 32.0));
            for (update, coefficient) in &updates {
                forwards.add(0, update, *coefficient);
            }
            for (update, coefficient) in updates.iter().rev() {
                backwards.add(1, &update[1..], *coefficient);
                backwards.add_sparse(0, &[0], &update[..1], *coefficient);
            }
            let mixed = forwards.mean(0..4).unwrap();
            prop_assert_eq!(&mixed, &backwards.mean(0..4).unwrap());
            for (index, value) in mixed.into_iter().enumerate() {
                let expected: f64 = updates.iter().map(|(update, c)| f64::from(update[index]) * c).sum();
                prop_assert!((value - expected).abs() < 1e-11, "{value} instead of {expected}");
            }
        }
    }

    #[test]
    fn one_update_with_coefficient_one_stays_as_it_is() {
        let update = [1.0, -31.999998, 1e-9, 0.0];
        let mixture = Mixture::new(4, &[1.0], 32.0);
        mixture.add(0, &update, 1.0);
        let mixed: Vec<f32> = mixture.mean(0..4).unwrap().iter().map(|value| *value as f32).collect();
        assert_eq!(mixed, update);
    }
}
