//! Clients: their history, and how classes of devices fare.

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
    /// By number, first enrolled first.
    #[default]
    Number,
    /// Last heard of first.
    LastSeen,
    /// Those that most often ended without a report first.
    DropRate,
}

/// An assignment in the history of its client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClientAssignment {
    /// Of which job.
    pub job: JobId,
    /// In which round.
    pub round: u32,
    /// Training or evaluation.
    pub task: Task,
    /// The assignment.
    #[serde(flatten)]
    pub assignment: Assignment,
}

/// A name that clients of a population have an attribute under.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttributeName {
    /// The name.
    pub name: String,
    /// How many different values there are.
    pub values: u64,
}

/// How the clients with one value of an attribute fare, over the newest assignments of their population.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClassStats {
    /// The value; empty for clients without the attribute.
    pub value: String,
    /// Clients that have it.
    pub clients: u64,
    /// Their assignments.
    pub assigned: u64,
    /// Those that reported.
    pub reported: u64,
    /// Those whose report was rejected.
    pub rejected: u64,
    /// Those that gave up.
    pub failed: u64,
    /// Those that were too late.
    pub expired: u64,
    /// Share of the ended assignments that did not report, 0 to 1.
    pub drop_rate: f64,
    /// Median of the time worked for a report, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_ms_p50: Option<u64>,
    /// The time that nine of ten reports took less than, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_ms_p90: Option<u64>,
    /// Their sessions by shape, most frequent first.
    pub shapes: Vec<ShapeCount>,
}

/// How often a session took a course.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ShapeCount {
    /// The shape, as in `Assignment::shape`.
    pub shape: String,
    /// How many sessions had it.
    pub count: u64,
    /// The same by the value of the attribute that was asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_class: BTreeMap<String, u64>,
}
