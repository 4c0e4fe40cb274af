//! The events of a job.

use serde::{Deserialize, Serialize};

use crate::id::{AssignmentId, JobId};
use crate::state::Task;

/// An event of a job: a change of phase or state. The round or assignment itself has the details.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Event {
    /// Increases by one with each event of the job.
    pub sequence: u64,
    /// Time of the event.
    pub at_ms: i64,
    /// Id of the job.
    pub job: JobId,
    /// Number of the round. Absent for events of the job itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// Task of the round. Present whenever `round` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// Id of the assignment. Absent for events of the round or job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignment: Option<AssignmentId>,
    /// The new phase of the round, or the new state of the assignment or job.
    pub became: String,
    /// The reason, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}
