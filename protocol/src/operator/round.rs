//! One round in detail, and all rounds of a job as a curve.

use serde::{Deserialize, Serialize};

use super::Round;
use crate::state::Phase;

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Smallest first.
    #[default]
    Asc,
    /// Largest first; `after` then means "below".
    Desc,
}

/// A round, and what to make of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RoundDetail {
    /// The round.
    pub round: Round,
    /// The phases that it went through, in order.
    pub phases: Vec<PhaseSpan>,
    /// One sentence: what it waits for, why it took so long, or why it was abandoned.
    pub explanation: String,
    /// The evaluation of the model that it made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<Round>,
    /// What other deadlines would have dropped; empty before it closed and after its assignments were deleted.
    pub what_if: Vec<WhatIf>,
}

/// A phase of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PhaseSpan {
    /// Which phase: selecting, training or aggregating.
    pub phase: Phase,
    /// When it began.
    pub began_at_ms: i64,
    /// When it ended; none while it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<i64>,
}

/// What another deadline would have done to a round that has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WhatIf {
    /// The deadline, from the selection of the cohort, in milliseconds.
    pub deadline_ms: u64,
    /// Members of the cohort whose report would not have come in time (those that gave up or were refused count too).
    pub dropped: u32,
}

/// The learning curve of a job, thinned out by the coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Curve {
    /// Ended training rounds in order; the first, the last, and the best and worst of each stretch in between.
    pub points: Vec<CurvePoint>,
    /// How many rounds they stand for.
    pub rounds: u64,
    /// What it took to reach accuracies, as far as they were reached.
    pub targets: Vec<Target>,
}

/// An ended training round as a point of a curve. What is cumulative counts all training rounds up to this one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CurvePoint {
    /// Its number.
    pub round: u32,
    /// When it ended.
    pub at_ms: i64,
    /// Time from the job's creation to that, in milliseconds.
    pub wall_ms: i64,
    /// Time that clients worked, cumulative, in milliseconds.
    pub clients_ms: u64,
    /// Bytes that clients sent, cumulative.
    pub bytes_up: u64,
    /// Bytes that clients fetched, cumulative.
    pub bytes_down: u64,
    /// Mean training loss of its updates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training_loss: Option<f64>,
    /// Loss of its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Accuracy of its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Reports counted.
    pub reported: u32,
    /// Clients selected.
    pub cohort: u32,
    /// Whether it ended without a result.
    pub abandoned: bool,
}

/// What it took to reach an accuracy for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Target {
    /// The accuracy.
    pub accuracy: f64,
    /// The round whose model reached it.
    pub round: u32,
    /// When that round ended.
    pub at_ms: i64,
    /// Time that clients had worked by then, in milliseconds.
    pub clients_ms: u64,
    /// Bytes that clients had sent by then.
    pub bytes_up: u64,
}
