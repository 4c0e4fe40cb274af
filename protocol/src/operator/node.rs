//! Coordinator processes, and the jobs that they drive.

use serde::{Deserialize, Serialize};

use crate::id::{JobId, Name};
use crate::state::NodeState;

/// A coordinator process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Node {
    /// Name of the coordinator.
    pub id: Name,
    /// Release that it runs.
    pub version: String,
    /// Time at which it started.
    pub started_at_ms: i64,
    /// Time of its last sign of life in the database.
    pub seen_at_ms: i64,
    /// Whether it lives, by its lease. A dead one stays in the list for a day.
    #[serde(default = "alive")]
    pub state: NodeState,
    /// Leases of the jobs that it drives.
    pub leases: Vec<Lease>,
    /// The shards of sums that it adds up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<NodeShard>,
    /// Where clients reach it, if it tells them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// A range of the parameters of a job whose updates one coordinator adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NodeShard {
    /// Id of the job.
    pub job: JobId,
    /// Number of the shard, from 0.
    pub shard: u16,
}

fn alive() -> NodeState {
    NodeState::Alive
}

/// The temporary right of one coordinator to drive a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Lease {
    /// Id of the job.
    pub job: JobId,
    /// How often the job's coordinator has changed.
    pub token: u64,
    /// Time at which the lease ends unless it is renewed.
    pub expires_at_ms: i64,
}
