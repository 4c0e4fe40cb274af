//! Explanations for people. No rule reads them.
//!
//! | question | function |
//! |---|---|
//! | why did a round take so long, or end without a result? | [`explain`], [`phases`], [`what_if`] |
//! | what would other deadlines have done to the last rounds? | [`outlook`] |
//! | why does a round have its goal, its deadline and its cohort? | [`adapted_goal`], [`adaptation`] |
//! | what became of the groups of a round whose updates are masked? | [`grouped`] |
//! | what became of the groups of a round that add up among themselves? | [`ringed`] |
//! | what became of a client that did not report? | [`Ending`] |
//! | which course did a session take, how do classes compare? | [`Session::shape`], [`class_stats`], [`funnel`] |
//! | do the updates of a device class count as often as those of the others? | [`verdicts`] |
//! | how does a job learn, and at what cost? | [`curve`], [`scalar_curve`] |
//! | how many updates can a round use? | [`useful_updates`] |
//! | which clients are always stale? | [`stalest`] |
//! | when does a job have its rounds? | [`ends_in_ms`] |
//! | what does the privacy of a job come to? | [`explained`], [`course`] |
//! | what does a job file probably not mean? | [`remarks`] |
//! | which clients cannot follow a plan? | [`incapable`] |
//! | how is a job, and what can be done about it? | [`health`] |
//! | which changes of that are worth a notification? | [`health_changes`] |

mod adapted;
mod bias;
mod buffers;
mod changes;
mod curve;
mod diversity;
mod explain;
mod groups;
mod health;
mod listeners;
mod marks;
mod outlook;
mod pace;
mod phases;
mod privacy;
mod remarks;
mod rings;
mod session;
mod software;
mod stale;
mod straggler;
mod tables;
mod what_if;
mod words;

pub use adapted::{adaptation, adapted_goal};
pub use bias::{Share, verdicts};
pub use buffers::BufferWanted;
pub use changes::{Finding, HealthChange, SETTLED_MS, health_changes};
pub use curve::{CurveRow, curve, scalar_curve};
pub use diversity::useful_updates;
pub use explain::{RoundStory, Takeover, Undriven, Wanted, explain};
pub use groups::{GroupWanted, grouped};
pub use health::{EndedRound, EvaluatorsWanted, HealthFacts, Lost, SelectingRound, ShutOut, health};
pub use listeners::Listeners;
pub use marks::marks;
pub use outlook::{Arrival, OUTLOOK_ROUNDS, PlayedRound, Policy, outlook};
pub use pace::{PACE_ROUNDS, ends_in_ms};
pub use phases::phases;
pub use privacy::{PlanPoint, course, explained};
pub use remarks::remarks;
pub use rings::ringed;
pub use session::{Session, class_stats, funnel, percentile};
pub use software::{SdkClients, Unable, incapable};
pub use stale::{STALE_UPDATES_MAX, StaleUpdate, stalest};
pub use straggler::Ending;
pub use tables::OtherTables;
pub use what_if::what_if;
pub use words::duration as in_words;
