//! The figures of a buffer.

use serde::{Deserialize, Serialize};

use crate::id::ClientId;

/// What a round of a buffered job has beside its counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RoundBuffer {
    /// Most clients that work at a time.
    pub concurrency: u32,
    /// Largest number of versions that an update may be behind. Absent in a stale-synchronous job, where the slack
    /// bounds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staleness_max: Option<u32>,
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
    /// Sum of their examples; one each in a private job.
    pub examples: u64,
}

/// A client whose updates were behind, among the newest 20,000 updates of its job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StaleClient {
    /// Id of the client.
    pub client: ClientId,
    /// Its enrolment number.
    pub client_number: u64,
    /// Number of its accepted updates.
    pub updates: u64,
    /// Mean number of versions behind.
    pub staleness_mean: f64,
    /// Largest number of versions behind.
    pub staleness_max: u32,
    /// Sum of the examples of its updates; one each in a private job.
    pub examples: u64,
    /// Weight, in examples, that staleness took from them.
    pub lost_weight: f64,
}
