//! How far a job has come.

use serde::{Deserialize, Serialize};

/// How far a job has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Progress {
    /// Accuracy of the newest evaluated version, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Loss of the newest evaluated version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// The best evaluated version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<BestVersion>,
    /// Time until the job has committed the rounds of its stop policy, at the median pace of its last rounds, in
    /// milliseconds. Absent if the job does not run, has no such limit or a schedule, or has not had two rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_in_ms: Option<u64>,
    /// Bytes that clients uploaded in all rounds.
    pub bytes_up: u64,
    /// Bytes that clients downloaded in all rounds.
    pub bytes_down: u64,
}

/// The version with the highest accuracy, or without accuracies the lowest loss. Of equal ones, the oldest.
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
    /// Loss of its evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
}
