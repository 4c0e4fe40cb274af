//! The details of one round, and the learning curve of a job.

use serde::{Deserialize, Serialize};

use super::{Round, StalenessCount};
use crate::classes::ClassCounts;
use crate::state::Phase;

/// Order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Smallest first.
    #[default]
    Asc,
    /// Largest first. `after` then selects items below.
    Desc,
}

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
    /// The effect of other deadlines. Empty until the round has closed, and after its assignments were deleted.
    pub what_if: Vec<WhatIf>,
    /// How stale the accepted updates of this round and the 19 before it were, least first. Empty unless the job is
    /// buffered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub staleness: Vec<StalenessCount>,
    /// The clocks of the members of a stale-synchronous job, by the number of the client, while the round is open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<MemberClock>,
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

/// The learning curve of a job, reduced to the requested number of points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Curve {
    /// Ended training rounds in order: the first, the last, and the best and worst of each interval in between.
    pub points: Vec<CurvePoint>,
    /// Number of ended training rounds before the reduction.
    pub rounds: u64,
    /// The cost of reaching given accuracies, for those that were reached.
    pub targets: Vec<Target>,
    /// What happened to the job itself, in order: pauses, changes of its settings, other coordinators.
    #[serde(default)]
    pub marks: Vec<CurveMark>,
}

/// An event of the job itself in its learning curve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CurveMark {
    /// Time of the event.
    pub at_ms: i64,
    /// Time from the job's creation to the event, in milliseconds.
    pub wall_ms: i64,
    /// The last training round that had ended, 0 before the first.
    pub round: u32,
    /// The new state of the job, or `taken_over`.
    pub became: String,
    /// The reason, such as `operator` or `round_policy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// An ended training round as a point of a learning curve. Cumulative fields sum over all training rounds up to this
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CurvePoint {
    /// Number of the round.
    pub round: u32,
    /// Time at which the round ended.
    pub at_ms: i64,
    /// Time from the job's creation to the end of the round, in milliseconds.
    pub wall_ms: i64,
    /// Work time of clients, cumulative, in milliseconds.
    pub clients_ms: u64,
    /// Bytes that clients uploaded, cumulative.
    pub bytes_up: u64,
    /// Bytes that clients downloaded, cumulative.
    pub bytes_down: u64,
    /// Mean training loss of the round's updates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training_loss: Option<f64>,
    /// Loss of the resulting model in its evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Accuracy of the resulting model in its evaluation, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Number of accepted reports.
    pub reported: u32,
    /// Number of clients drawn.
    pub cohort: u32,
    /// Whether the round was abandoned.
    pub abandoned: bool,
}

/// The cost of reaching an accuracy for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Target {
    /// The accuracy, 0 to 1.
    pub accuracy: f64,
    /// Number of the round whose model reached it.
    pub round: u32,
    /// Time at which that round ended.
    pub at_ms: i64,
    /// Work time of clients until then, in milliseconds.
    pub clients_ms: u64,
    /// Bytes that clients uploaded until then.
    pub bytes_up: u64,
}
