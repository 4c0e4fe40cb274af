//! The figures of a buffer.

use serde::{Deserialize, Serialize};

/// What a round of a buffered job has beside its counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RoundBuffer {
    /// Most clients that work at a time.
    pub concurrency: u32,
    /// Largest number of versions that an update may be behind. In a stale-synchronous job, the slack bounds it.
    pub staleness_max: u32,
    /// In a stale-synchronous job: how far members may be ahead of the slowest when they begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slack: Option<u32>,
    /// Mean staleness of the accepted updates. Absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staleness_mean: Option<f64>,
    /// Weight, in examples, that staleness took from the accepted updates.
    pub lost_weight: f64,
}

/// Accepted updates that were the same number of versions behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StalenessCount {
    /// Number of versions behind.
    pub staleness: u32,
    /// Number of updates.
    pub updates: u64,
    /// Sum of their examples.
    pub examples: u64,
}
