//! The details of one round.

use serde::{Deserialize, Serialize};

use super::{MeasuredOn, Round, RoundGroup, RoundRing, StalenessCount};
use crate::classes::ClassCounts;
use crate::state::Phase;

/// A round with its phases, an explanation and alternatives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RoundDetail {
    /// The round.
    pub round: Round,
    /// The phases so far, in order.
    pub phases: Vec<PhaseSpan>,
    /// One sentence for people: what the round waits for, what took its time, or why it was abandoned.
    pub explanation: String,
    /// The evaluation of the resulting model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<Round>,
    /// Counts by class: of this evaluation, or of the evaluation of the resulting model. The sums over all reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<ClassCounts>,
    /// What these counts were measured on: their evaluation's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes_measured_on: Option<MeasuredOn>,
    /// The effect of other deadlines. Empty until the round has closed, and after its assignments were deleted.
    pub what_if: Vec<WhatIf>,
    /// How stale the accepted updates of this round and the 19 before it were, least first. Empty unless the job is
    /// buffered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub staleness: Vec<StalenessCount>,
    /// The clocks of the members of a stale-synchronous job, by the number of the client, while the round is open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<MemberClock>,
    /// The groups of a round whose updates are masked, in the order in which they formed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<RoundGroup>,
    /// Clients that have finished and wait for a group.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waiting_for_group: u32,
    /// How members added up among themselves. Absent in jobs without `[group]`, and in other rounds than trainings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<RoundRing>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A member of a stale-synchronous job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MemberClock {
    /// Number of the client in its population.
    pub client_number: u64,
    /// Updates that it has contributed, counted from the clock at which it came.
    pub clock: u32,
    /// Whether it is at work now.
    pub is_working: bool,
    /// Time since which it could begin its next work and does not wait for it. Absent unless that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_at_ms: Option<i64>,
}

/// The time that a round spent in one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PhaseSpan {
    /// `selecting`, `training` or `aggregating`.
    pub phase: Phase,
    /// Beginning of the phase.
    pub began_at_ms: i64,
    /// End of the phase. Absent while it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<i64>,
}

/// The effect that another deadline would have had on a closed round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WhatIf {
    /// The deadline as a time since the draw of the cohort, in milliseconds.
    pub deadline_ms: u64,
    /// Number of clients without a report in time, including those that gave up or were rejected.
    pub dropped: u32,
}
