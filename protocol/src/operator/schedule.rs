//! Scheduled work of the coordinators.

use serde::{Deserialize, Serialize};

/// Scheduled work. At each due time one of the coordinators does it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScheduledWork {
    /// Kind of work: `retention` or `upkeep`.
    pub name: String,
    /// Cron expression of the due times: minute, hour, day of month, month, day of week.
    pub cron: String,
    /// IANA time zone of the expression.
    pub time_zone: String,
    /// Next due time.
    pub next_at_ms: i64,
    /// The last run. Absent before the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<ScheduledRun>,
}

/// A run of scheduled work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScheduledRun {
    /// Time at which the run began.
    pub started_at_ms: i64,
    /// Name of the coordinator that ran it.
    pub node: String,
    /// Time at which the run ended. Absent while it runs, or if its coordinator was killed; the next run then does the
    /// rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<i64>,
    /// Whether the run failed.
    pub failed: bool,
    /// Summary of the work done, or the error.
    pub outcome: String,
}
