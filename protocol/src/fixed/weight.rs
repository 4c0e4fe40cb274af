//! Weights of updates in fixed point.

use std::fmt;

/// The weight of an update or of a sum of updates, as an integer multiple of 2^-16 examples.
///
/// Weights are integers, so sums of weights, like the sums of weighted values, do not depend on the order of addition.
/// A weight that is not a whole number of examples (a discounted update) is rounded once, when it is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(u64);

impl Weight {
    /// Binary places of a weight. No sum has fewer places, so a factor `weight * 2^point` is always an integer.
    pub const PLACES: u32 = 16;

    /// The weight of an update that was computed from this many examples.
    pub const fn examples(examples: u32) -> Self {
        Self((examples as u64) << Self::PLACES)
    }

    /// The same of the updates of a sum; none above 2^48 examples.
    pub const fn of_examples(examples: u64) -> Option<Self> {
        match examples >> (u64::BITS - Self::PLACES) {
            0 => Some(Self(examples << Self::PLACES)),
            _ => None,
        }
    }

    /// The weight as an integer: units of 2^-16 examples.
    pub const fn units(self) -> u64 {
        self.0
    }

    /// The weight of so many units of 2^-16 examples.
    pub const fn of_units(units: u64) -> Self {
        Self(units)
    }

    /// The weight times a factor of at most 1, rounded once to the nearest multiple. It stays above 0: an update that
    /// was accepted counts.
    #[must_use]
    pub fn discounted(self, factor: f64) -> Self {
        // Without a discount nothing is rounded, whatever the size.
        if factor >= 1.0 { self } else { Self(((self.0 as f64 * factor).round() as u64).clamp(1, self.0.max(1))) }
    }

    /// The weight in units of examples. Exact below 2^37 examples, nearest otherwise.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / (1u64 << Self::PLACES) as f64
    }

    /// The whole examples of the weight.
    pub fn whole_examples(self) -> u64 {
        self.0 >> Self::PLACES
    }

    /// Whether the weight is 0, so that an update with it would change no sum.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The weight of this many updates of this weight; none above 2^48 examples.
    pub fn checked_times(self, updates: u32) -> Option<Self> {
        self.0.checked_mul(u64::from(updates)).map(Self)
    }

    /// `self * 2^binary_point`: what a value of an update is multiplied by. Exact for weights below 2^37 examples.
    /// `binary_point` is at least [`Self::PLACES`].
    pub fn factor(self, binary_point: u32) -> f64 {
        self.0 as f64 * (1u64 << (binary_point - Self::PLACES)) as f64
    }
}

/// Prints the weight in examples.
impl fmt::Display for Weight {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_f64().fmt(formatter)
    }
}

/// The part of an update in a sum's count and total weight. A sum of several updates is a contribution too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contribution {
    /// Weight, in the mean's divisor.
    pub weight: Weight,
    /// Number of updates.
    pub updates: u32,
}

impl Contribution {
    /// One update of this weight.
    pub fn of_one(weight: Weight) -> Self {
        Self { weight, updates: 1 }
    }

    /// Both together. It saturates, far beyond the caps of any sum.
    pub fn plus(self, other: Self) -> Self {
        Self {
            weight: Weight(self.weight.0.saturating_add(other.weight.0)),
            updates: self.updates.saturating_add(other.updates),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_examples_are_exact() {
        for examples in [1, 2, 600, 10_000, u32::MAX] {
            let weight = Weight::examples(examples);
            assert_eq!(weight.as_f64(), f64::from(examples));
            assert_eq!(weight.factor(40), f64::from(examples) * (1u64 << 40) as f64);
            assert_eq!(weight.to_string(), examples.to_string());
            assert_eq!(weight.units(), u64::from(examples) << 16);
            assert_eq!(Weight::of_units(weight.units()), weight);
        }
    }

    #[test]
    fn a_product_that_does_not_fit_is_noticed() {
        assert_eq!(Weight::examples(3).checked_times(4), Some(Weight::examples(12)));
        assert_eq!(Weight::examples(u32::MAX).checked_times(u32::MAX), None);
    }
}
