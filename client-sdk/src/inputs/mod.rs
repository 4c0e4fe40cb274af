//! What a network is fed: from raw examples to inputs, and from outputs to classes and numbers.
//!
//! [`Preparation`] is the only place that applies a job's `[model.inputs]`: trainers, evaluators, the coordinator's
//! test set and predictions all pass through it.

mod dates;
mod describe;
mod prepare;

pub use dates::days;
pub use describe::{DESCRIBE_FLOOR, describe};
pub use prepare::{Preparation, PrepareError, prepared_rows};
