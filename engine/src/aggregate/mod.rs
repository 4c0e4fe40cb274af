//! Aggregation: updates to one exact sum, and the sum to the next model version.
//!
//! Each update is added to an [`Accumulator`] when it arrives. Addition of integers has no order, so the result is
//! bit-identical for every order of arrival and every number of threads or coordinators. A [`Rule`] turns the combined
//! updates ([`Combined`]) into the step of the model.
//!
//! | item | what it is |
//! |---|---|
//! | [`SumCaps`] | limits of a round's sum; they determine its binary point |
//! | [`Weight`], [`Contribution`] | weight of an update, in fixed point |
//! | [`Accumulator`] | the running sum: add, subtract, count, mean |
//! | [`Rule`], [`step`], [`advance`] | from the mean to the next model |
//! | [`mean_norm`], [`diversity`], [`cosine`], [`MeanDot`] | update statistics |

mod accumulator;
mod caps;
mod combine;
mod kernel;
mod rule;
mod statistics;
mod weight;

pub use accumulator::{Accumulator, FoldError};
pub use caps::{CapsError, SumCaps};
pub use combine::Combined;
pub use rule::{AggregateError, FedAvg, Rule, advance, rounded, rule_of, step};
pub use statistics::{MeanDot, cosine, diversity, mean_norm};
pub use weight::{Contribution, Weight};
