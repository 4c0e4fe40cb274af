//! Clients: history, and statistics by class of device.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Assignment;
use crate::id::JobId;
use crate::state::Task;

/// The order of a list of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ClientOrder {
    /// By number, in the order of enrolment.
    #[default]
    Number,
    /// By last request, newest first.
    LastSeen,
    /// By the share of ended assignments without a report, highest first.
    DropRate,
}

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

/// Statistics of the clients with one value of an attribute, over the newest assignments of their population.
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
    /// Share of ended assignments without a report, 0 to 1.
    pub drop_rate: f64,
    /// Median work time per report, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_ms_p50: Option<u64>,
    /// 90th percentile of the work time per report, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_ms_p90: Option<u64>,
    /// Courses of their sessions, most frequent first.
    pub shapes: Vec<ShapeCount>,
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
