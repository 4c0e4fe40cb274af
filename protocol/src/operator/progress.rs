//! How far a job has come.

use serde::{Deserialize, Serialize};

use super::MeasuredOn;

/// How far a job has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Progress {
    /// Accuracy of the newest evaluated version, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// What that accuracy was measured on. Absent without an accuracy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_on: Option<MeasuredOn>,
    /// Loss of the newest evaluated version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// The best evaluated version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<BestVersion>,
    /// Time until the job has committed the rounds of its stop policy, at the median pace of its last rounds, in
    /// milliseconds. Absent if the job does not run, has no such limit or a schedule, has not had two rounds, or has
    /// them all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_in_ms: Option<u64>,
    /// Whether the job has committed all its rounds and ends with the evaluation that is still waited for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub awaits_evaluation: bool,
    /// Bytes that clients uploaded in all rounds.
    pub bytes_up: u64,
    /// Bytes that clients downloaded in all rounds.
    pub bytes_down: u64,
    /// How many updates a round can use. Absent unless the job runs, before five rounds of at least two updates have
    /// ended, and for rules without a mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub useful_updates: Option<UsefulUpdates>,
}

/// How many updates a round can use, by the gradient diversity of the last rounds (Yin et al. 2018).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsefulUpdates {
    /// Updates beyond which further ones repeat what the others say. Absent where the updates have no common direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updates: Option<u32>,
    /// Examples of this many updates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// One sentence with the reason.
    pub text: String,
}

/// The version whose accuracy has the highest lower bound, or without accuracies the lowest loss. Of equal ones, the
/// oldest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BestVersion {
    /// Number of the version.
    pub version: u32,
    /// Training round that made it.
    pub round: u32,
    /// Accuracy of its evaluation, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// What that accuracy was measured on. Absent without an accuracy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_on: Option<MeasuredOn>,
    /// Loss of its evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
}
