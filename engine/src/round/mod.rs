//! Rules of rounds as functions of facts.
//!
//! | question | function |
//! |---|---|
//! | may this client take part? | [`admit`] |
//! | which clients form the cohort? | [`choose_cohort`] |
//! | what happens next to this round? | [`next_step`]; in a buffered job [`next_buffer_step`], with clocks [`next_clocked_step`] |
//! | which members may begin, and which have left? | [`Clocks`] |
//! | when does the next round open, and which? | [`next_round`], within the job's [`Calendar`] |
//! | how large may an update be? | [`norm_bound`] |
//! | to which norm are updates clipped? | [`next_clip_norm`] |
//! | what do the named scalars of its reports come to? | [`summaries`] |
//! | which versions and rounds does a job keep? | [`keeps_version`], [`history_before_ms`] |
//! | which deadline and cohort do the times of recent rounds give? | [`adapt`] |
//! | which goal does the diversity of recent rounds give? | [`follow_diversity`] |
//! | when should a client check in again? | [`Pace`] |

mod adapt;
mod admit;
mod buffer;
mod calendar;
mod clip;
mod clocks;
mod cohort;
mod diversity;
mod draw;
mod known;
mod metrics;
mod norm;
mod pace;
mod proximal;
mod retention;
mod schedule;
mod step;
mod times;
mod utility;

pub use adapt::{PastWork, adapt};
pub use admit::{Candidate, EligibilityRules, Ineligible, admit};
pub use buffer::{BufferFacts, is_overdue, next_buffer_step, staleness};
pub use calendar::{Calendar, CalendarError};
pub use clip::next_clip_norm;
pub use clocks::{Absence, Clocks, Member, next_clocked_step};
pub use cohort::choose_cohort;
pub use diversity::{DIVERSITY_ROUNDS, DiverseRound, follow_diversity, useful};
pub use known::{Known, LastReport};
pub use metrics::summaries;
pub use norm::norm_bound;
pub use pace::{CHECKINS_PER_SECOND_MAX, HELD_MS_MIN, Pace, RetryReason};
pub use proximal::Proximal;
pub use retention::{history_before_ms, keeps_version, separation_needs_from};
pub use schedule::{JobFacts, NextRound, gives_way, has_trained, may_open_at_ms, next_round};
pub use step::{BufferPolicy, RoundFacts, Step, TaskPolicy, next_step};
pub(crate) use times::Times;
pub use times::WorkEnd;
