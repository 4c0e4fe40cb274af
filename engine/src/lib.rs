//! The rules of Tributary as pure functions.
//!
//! | module | what it decides or computes |
//! |---|---|
//! | [`job`] | everything that follows from a job file |
//! | [`round`] | who may take part, who is drawn, what happens next, when the next round opens |
//! | [`aggregate`] | the exact sum of a round's updates, the aggregation rules, update statistics |
//! | [`analysis`] | what the answers of an analysis say, with the intervals of their noise |
//! | [`coded`] | what redundant computation costs and saves |
//! | [`inputs`] | the means and deviations that follow from the sums of all tables |
//! | [`release`] | which clients a released model is meant for, and whether an evaluation lets it out |
//! | [`story`] | explanations of rounds, sessions and curves for people; no rule reads them |
//!
//! The crate performs no I/O: its dependencies include neither a database, nor HTTP, nor tokio. The current time and
//! every random seed are arguments, so each decision can be repeated from its inputs.

pub mod aggregate;
pub mod analysis;
pub mod coded;
pub mod inputs;
pub mod job;
pub mod privacy;
pub mod release;
pub mod round;
pub mod story;
