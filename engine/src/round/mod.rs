//! Rules of rounds as functions of facts.
//!
//! | question | function |
//! |---|---|
//! | what does a job do next? | [`decide`] |
//! | with which policy, norm bound and seed does a round open? | [`opening`] |
//! | may this client take part? | [`admit`], [`admit_to_buffer`] |
//! | which part of the data is held too rarely for a coded round? | [`Coding::lacking`] |
//! | how many updates can these candidates bring? | [`places`] |
//! | which of two jobs draws a client first? | [`leaves_to`] |
//! | in which minutes may training rounds open? | [`Calendar`] |
//! | may this member begin work now? | [`Clocks`] |
//! | what do the named scalars of a round's reports come to? | [`summaries`] |
//! | what do the accuracies of clients come to, and how sure is that? | [`measured`] |
//! | which versions and rounds does a job keep? | [`keeps_version`], [`history_before_ms`] |
//! | when should a client check in again? | [`Pace`] |
//! | what is next for a group of masked updates? | [`masking`] |
//! | what is next for groups that add up among themselves? | [`ring`] |
//!
//! [`decide`] and [`opening`] compose every other rule of this folder. Coordinator, simulation and tests call these
//! two, so all of them play the same rounds.

mod adapt;
mod admit;
mod buffer;
mod calendar;
mod candidate;
mod clip;
mod clocks;
mod coded;
mod coded_tree;
mod cohort;
mod decide;
mod diversity;
mod draw;
mod known;
pub mod masking;
mod measured;
mod member;
mod norm;
mod opening;
mod pace;
mod panel;
#[cfg(test)]
mod played;
mod policy;
mod proximal;
mod relay;
mod retention;
pub mod ring;
mod scalars;
mod schedule;
mod step;
mod sums;
mod term;
mod times;
mod turns;
mod utility;
mod view;
mod wait;

pub use adapt::PastWork;
pub use admit::{Contributed, EligibilityRules, Ineligible, Needs, admit, admit_to_buffer, admit_unit};
pub use calendar::{Calendar, CalendarError};
pub use candidate::Candidate;
pub use clocks::Clocks;
pub use coded::Coding;
pub use decide::{Act, Decision, decide};
pub use diversity::{DIVERSITY_ROUNDS, DiverseRound, useful};
pub use known::LastReport;
pub use measured::{Accuracy, examples_for, interval, measured, measured_centrally};
pub use member::Member;
pub use opening::{History, LastRound, Lookback, Opening, Trained, opening};
pub use pace::{CHECKINS_PER_SECOND_MAX, HELD_MS_MIN, Pace, RetryReason};
pub use policy::{TaskPolicy, Tempo, staleness};
pub use proximal::Proximal;
pub use relay::{Offer, offer, places};
pub use retention::{history_before_ms, keeps_version, separation_needs_from};
pub use scalars::summaries;
pub use schedule::may_open_at_ms;
pub use step::Step;
pub use term::Term;
pub(crate) use times::Times;
pub use times::WorkEnd;
pub use turns::{PATIENCE_MS, Rival, Turn, leaves_to};
pub use view::{Budget, Descriptions, FixedModels, JobFacts, JobView, OpenRound, OpenWork, Source};
