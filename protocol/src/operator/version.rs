//! The versions of a model.

use serde::{Deserialize, Serialize};

use super::MeasuredOn;
use crate::hash::Sha256Hash;

/// A version of a job's model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelVersion {
    /// Number of the version, from 0.
    pub version: u32,
    /// Training round that made the version. Absent for version 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// SHA-256 of its plain f32 safetensors file.
    pub sha256: Sha256Hash,
    /// Length of that file in bytes.
    pub bytes: u64,
    /// Time at which the version was stored.
    pub created_at_ms: i64,
    /// Time at which the file was deleted under the job's retention policy. This entry stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at_ms: Option<i64>,
    /// Accuracy of its evaluation, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// What that accuracy was measured on. Absent without an accuracy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_on: Option<MeasuredOn>,
    /// Loss of its evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Whether its evaluation is the best of the job.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub best: bool,
    /// Time at which an operator pinned it. Retention keeps a pinned version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned_at_ms: Option<i64>,
}
