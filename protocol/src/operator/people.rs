//! Clients: history, and statistics by class of device.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Assignment;
use crate::id::JobId;
use crate::state::{ClassVerdict, Task};

/// An assignment in the history of its client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClientAssignment {
    /// Id of the job.
    pub job: JobId,
    /// Number of the round.
    pub round: u32,
    /// Task of the round.
    pub task: Task,
    /// The assignment.
    #[serde(flatten)]
    pub assignment: Assignment,
}

/// The name of an attribute that clients of a population have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttributeName {
    /// Name of the attribute.
    pub name: String,
    /// Number of distinct values.
    pub values: u64,
}

/// Statistics of the clients with one value of an attribute, over the newest training assignments of their population.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClassStats {
    /// Value of the attribute. Empty for clients without the attribute.
    pub value: String,
    /// Number of clients with this value.
    pub clients: u64,
    /// Number of their assignments.
    pub assigned: u64,
    /// Number of assignments that ended with a report.
    pub reported: u64,
    /// Number of assignments whose update was rejected.
    pub rejected: u64,
    /// Number of assignments that the client gave up.
    pub failed: u64,
    /// Number of assignments whose round closed first.
    pub expired: u64,
    /// Number of those that were spares; see the field of a round.
    #[serde(default)]
    pub spare: u64,
    /// Share of ended assignments that were dropped, 0 to 1: those without an accepted report, spares left out.
    pub drop_rate: f64,
    /// Share of ended assignments with an accepted report, 0 to 1. Spares count here: their updates do not reach the
    /// model either.
    #[serde(default)]
    pub counted_rate: f64,
    /// Lower end of the 95 % confidence interval of `counted_rate` (Wilson 1927).
    #[serde(default)]
    pub counted_rate_low: f64,
    /// Upper end of that interval.
    #[serde(default)]
    pub counted_rate_high: f64,
    /// Whether the class counts as often as the others, by Fisher's exact test at the level of 1 %, divided by the
    /// number of classes.
    #[serde(default = "unknown")]
    pub verdict: ClassVerdict,
    /// Median work time, in milliseconds. Absent if less than half of the clients' work was finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_ms_p50: Option<u64>,
    /// 90th percentile of the work time, in milliseconds. Absent if less than 90 % of the work was finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_ms_p90: Option<u64>,
    /// Time within which unfinished work was not done: where a percentile is absent, it is longer than this. Median of
    /// the unfinished assignments, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_ms_over: Option<u64>,
    /// Courses of their sessions, most frequent first.
    pub shapes: Vec<ShapeCount>,
}

fn unknown() -> ClassVerdict {
    ClassVerdict::Unknown
}

/// How often sessions took one course.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ShapeCount {
    /// The course, as in the field `shape` of an assignment.
    pub shape: String,
    /// Number of sessions with this course.
    pub count: u64,
    /// The same number by value of the attribute in the query.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_class: BTreeMap<String, u64>,
}
