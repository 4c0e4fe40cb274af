//! The combined updates of a round, as rules and update statistics read them.

use std::ops::Range;
use std::sync::Arc;

/// The combined updates of a round: one value per parameter of the model, computed block by block.
///
/// The exact weighted mean ([`super::Accumulator`]) implements it. Aggregation rules and update statistics read it and
/// need not know how the updates were combined.
pub trait Combined {
    /// Number of parameters.
    fn parameters_total(&self) -> usize;

    /// The combined value of each parameter of a block, in order; none when there is no update.
    ///
    /// # Panics
    /// If the block reaches past [`Self::parameters_total`], which is a mistake of the caller.
    fn mean(&self, block: Range<usize>) -> Option<Vec<f64>>;
}

/// Combined updates that are read from several places.
pub type SharedCombined = Arc<dyn Combined + Send + Sync>;

/// Combined values that were computed before and are held: 8 bytes per parameter, as many as a sum takes.
impl Combined for Vec<f64> {
    fn parameters_total(&self) -> usize {
        self.len()
    }

    fn mean(&self, block: Range<usize>) -> Option<Vec<f64>> {
        Some(self[block].to_vec())
    }
}

impl<C: Combined + ?Sized> Combined for &C {
    fn parameters_total(&self) -> usize {
        (**self).parameters_total()
    }

    fn mean(&self, block: Range<usize>) -> Option<Vec<f64>> {
        (**self).mean(block)
    }
}

impl<C: Combined + ?Sized> Combined for Arc<C> {
    fn parameters_total(&self) -> usize {
        (**self).parameters_total()
    }

    fn mean(&self, block: Range<usize>) -> Option<Vec<f64>> {
        (**self).mean(block)
    }
}
