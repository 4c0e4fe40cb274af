//! The learning curve of a job.

use serde::{Deserialize, Serialize};

use super::MeasuredOn;

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
    /// What that accuracy was measured on. Absent without an accuracy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_on: Option<MeasuredOn>,
    /// Number of accepted reports.
    pub reported: u32,
    /// Number of clients drawn.
    pub cohort: u32,
    /// Whether the round was abandoned.
    pub abandoned: bool,
}

/// The cost of reaching an accuracy for the first time, with the lower bound of its interval.
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
