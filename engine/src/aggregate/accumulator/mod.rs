//! The running weighted sum of updates, in fixed point: integer addition has no order.

use std::ops::Range;
use std::sync::Mutex;

use tributary_protocol::fixed::{CapsError, Contribution, SumCaps, Weight};

use super::combine::Combined;
use super::stripes::{Stripes, lock};

/// Sum over updates of `weight * value`, one i64 per parameter, with the number of updates and their total weight.
///
/// Each weighted value is rounded once, to the nearest multiple of 2^-s (s follows from the caps). Everything after
/// that is exact. Two accumulators are equal when they hold the same sum.
///
/// Many threads add at once: the sums are cut into stripes with a lock each. An update is added in blocks
/// ([`Self::add`]) and counted once it is complete ([`Self::count`]). Blocks of a refused update are subtracted again
/// ([`Self::take`]).
#[derive(Debug)]
pub struct Accumulator {
    stripes: Stripes,
    caps: SumCaps,
    binary_point: u32,
    counted: Mutex<Contribution>,
}

/// Why an update cannot be counted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FoldError {
    #[error("an update's weight must be at least 1")]
    ZeroWeight,
    #[error("the weight {got} is above the maximum of {weight_max}")]
    WeightTooLarge { got: Weight, weight_max: Weight },
    #[error("the sum already holds its maximum of {updates_max} updates")]
    Full { updates_max: u32 },
}

impl Accumulator {
    /// An empty sum for a model of this many parameters. It takes 8 bytes per parameter.
    ///
    /// # Errors
    /// When no exact sum is possible under these caps.
    pub fn new(parameters_total: usize, caps: SumCaps) -> Result<Self, CapsError> {
        Self::at(parameters_total, caps, caps.binary_point()?)
    }

    /// An empty sum with this binary point: sums are added to it that were made under other caps.
    ///
    /// # Errors
    /// When no exact sum with this binary point is possible under these caps.
    pub fn at(parameters_total: usize, caps: SumCaps, binary_point: u32) -> Result<Self, CapsError> {
        caps.check_binary_point(binary_point)?;
        Ok(Self { stripes: Stripes::zeros(parameters_total), caps, binary_point, counted: Mutex::default() })
    }

    /// Adds a block of an update, whose first value belongs to parameter `first`. The caller guarantees that the values
    /// are within the caps, and that the update is either counted when it is complete or subtracted again.
    ///
    /// # Panics
    /// If the block reaches past the last parameter, which is a mistake of the caller.
    pub fn add(&self, first: usize, values: &[f32], weight: Weight) {
        self.stripes.add_dense(first, values, weight.factor(self.binary_point));
    }

    /// Subtracts a block that was added. Rounding is symmetric, so this is the exact inverse.
    ///
    /// # Panics
    /// As [`Self::add`].
    pub fn take(&self, first: usize, values: &[f32], weight: Weight) {
        self.stripes.add_dense(first, values, -weight.factor(self.binary_point));
    }

    /// Adds `values[i]` to parameter `first + indices[i]`. Indices ascend; values that are absent are zero.
    ///
    /// # Panics
    /// As [`Self::add`].
    pub fn add_sparse(&self, first: usize, indices: &[u32], values: &[f32], weight: Weight) {
        self.stripes.add_sparse(first, indices, values, weight.factor(self.binary_point));
    }

    /// Subtracts sparse values that were added.
    ///
    /// # Panics
    /// As [`Self::add`].
    pub fn take_sparse(&self, first: usize, indices: &[u32], values: &[f32], weight: Weight) {
        self.stripes.add_sparse(first, indices, values, -weight.factor(self.binary_point));
    }

    /// Adds a block of a sum of updates, whose first value belongs to parameter `first`. The caller guarantees that the
    /// sum has this binary point and is within the caps, and that it is either counted when it is complete or
    /// subtracted again.
    ///
    /// # Panics
    /// As [`Self::add`].
    pub fn add_sum(&self, first: usize, values: &[i64]) {
        self.stripes.add_integers(first, values);
    }

    /// Subtracts a block of a sum that was added: the exact inverse.
    ///
    /// # Panics
    /// As [`Self::add`].
    pub fn take_sum(&self, first: usize, values: &[i64]) {
        self.stripes.take_integers(first, values);
    }

    /// The integers of these parameters: 0 where nothing was added.
    ///
    /// # Panics
    /// If the range reaches past the last parameter, which is a mistake of the caller.
    pub fn integers(&self, block: Range<usize>) -> Vec<i64> {
        self.stripes.integers(block)
    }

    /// Counts an update, or a sum of updates, whose blocks were all added.
    ///
    /// # Errors
    /// When the weight is zero or above the cap, or the sum is full. Nothing is counted then.
    pub fn count(&self, contribution: Contribution) -> Result<(), FoldError> {
        let updates_max = self.caps.updates_max;
        let mut counted = lock(&self.counted);
        if contribution.updates > updates_max - counted.updates {
            return Err(FoldError::Full { updates_max });
        }
        self.check_weight(contribution)?;
        *counted = counted.plus(contribution);
        Ok(())
    }

    /// The updates in the sum and their total weight.
    pub fn counted(&self) -> Contribution {
        *lock(&self.counted)
    }

    /// Binary places of the sum's integers.
    pub fn binary_point(&self) -> u32 {
        self.binary_point
    }

    /// The caps of the sum, fixed when it was made.
    pub fn caps(&self) -> SumCaps {
        self.caps
    }

    /// Checks the weight of a contribution against the caps of its updates.
    ///
    /// # Errors
    /// When it is zero or above the cap.
    pub fn check_weight(&self, Contribution { weight, updates }: Contribution) -> Result<(), FoldError> {
        // Within the caps the product fits: the accumulator was made with them.
        let weight_max = self.caps.weight_max.checked_times(updates).unwrap_or(self.caps.weight_max);
        if weight.is_zero() {
            Err(FoldError::ZeroWeight)
        } else if weight > weight_max {
            Err(FoldError::WeightTooLarge { got: weight, weight_max })
        } else {
            Ok(())
        }
    }
}

/// The weighted mean of the updates, `sum / total weight`.
impl Combined for Accumulator {
    fn parameters_total(&self) -> usize {
        self.stripes.parameters_total()
    }

    fn mean(&self, block: Range<usize>) -> Option<Vec<f64>> {
        let Contribution { weight, updates } = self.counted();
        (updates > 0).then(|| self.stripes.quotients(block, weight.factor(self.binary_point)))
    }
}

impl Clone for Accumulator {
    fn clone(&self) -> Self {
        Self { stripes: self.stripes.clone(), counted: Mutex::new(self.counted()), ..*self }
    }
}

impl PartialEq for Accumulator {
    fn eq(&self, other: &Self) -> bool {
        self.caps == other.caps
            && self.binary_point == other.binary_point
            && self.counted() == other.counted()
            && self.stripes == other.stripes
    }
}

#[cfg(test)]
mod tests;
