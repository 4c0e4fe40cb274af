//! Explanations for people. No rule reads them.
//!
//! | question | function |
//! |---|---|
//! | why did a round take so long, or end without a result? | [`explain`], [`phases`], [`what_if`] |
//! | which course did a session take, and how do device classes compare? | [`Session::shape`], [`class_stats`], [`funnel`] |
//! | how does a job learn, and at what cost? | [`curve`] |

mod curve;
mod explain;
mod session;

pub use curve::{CurveRow, curve};
pub use explain::{RoundStory, explain, phases, what_if};
pub use session::{Session, class_stats, funnel, percentile};
