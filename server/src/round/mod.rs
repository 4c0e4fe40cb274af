//! The round engine: rules as functions of facts. No database, no network, no clock, no tokio.
//!
//! | question | function |
//! |---|---|
//! | may this client take part? | [`admit`] |
//! | who takes part? | [`choose_cohort`] |
//! | what happens next to this round? | [`next_step`] |
//! | when may the next round open, and which? | [`next_round`], by its job's [`Calendar`] |
//! | what does a job keep of its past? | [`keeps_version`], [`history_before_ms`] |
//! | why did a round take so long, or end without a result? | [`explain`], [`phases`], [`what_if`] |
//! | what course did a session take, and how do classes of devices fare? | [`Session::shape`], [`class_stats`] |
//! | how does a job learn, and at what price? | [`curve`] |
//! | when should a client come back? | [`retry_window_ms`] |

mod admit;
mod calendar;
mod cohort;
mod curve;
mod explain;
mod pace;
mod retention;
mod schedule;
mod session;
mod step;

pub use admit::{Candidate, Ineligible, Terms, admit};
pub use calendar::{Calendar, CalendarError};
pub use cohort::choose_cohort;
pub use curve::{CurveRow, curve};
pub use explain::{RoundStory, explain, phases, what_if};
pub use pace::{RetryReason, retry_window_ms};
pub use retention::{history_before_ms, keeps_version, separation_needs_from};
pub use schedule::{JobFacts, NextRound, may_open_at_ms, next_round};
pub(crate) use session::percentile;
pub use session::{Session, class_stats, funnel};
pub use step::{RoundFacts, Step, TaskPolicy, next_step};
