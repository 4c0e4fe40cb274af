//! Aggregation: updates to one exact sum, and the sum to the next model version.
//!
//! Pure: no database, no HTTP, no async. An update is folded into an [`Accumulator`] when it arrives; integer addition
//! has no order, so the result is bit-identical whichever update came first, on however many threads or coordinators the
//! parts were summed. A rule, one file each, makes the next model of the current one and the sum.
//!
//! | part | what it does |
//! |---|---|
//! | [`SumCaps`] | what one round may add up at most; they fix the binary point |
//! | [`Accumulator`] | the running sum: fold, unfold, merge, mean |
//! | [`fedavg()`] | federated averaging |
//! | [`mean_norm`], [`diversity`], [`cosine`] | how the updates of a round lie to each other |

mod accumulator;
mod caps;
mod fedavg;
mod kernel;
mod measures;

pub use accumulator::{Accumulator, FoldError, MergeError};
pub use caps::{CapsError, SumCaps};
pub use fedavg::{add_step, fedavg, fedavg_step};
pub use measures::{MeanDot, cosine, diversity, mean_norm};

/// Why a sum makes no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AggregateError {
    /// There is nothing to average.
    #[error("no update was folded in")]
    NoUpdates,
    /// The sum belongs to another model.
    #[error("a model of {model} parameters cannot take a sum of {sum}")]
    WrongLength {
        /// Parameters of the model.
        model: usize,
        /// Parameters of the sum.
        sum: usize,
    },
    /// The new model would hold an infinity or a NaN.
    #[error("parameter {index} of the new model would not be finite")]
    NotFinite {
        /// Its place in the flat vector.
        index: usize,
    },
}
