//! A job.

use serde::{Deserialize, Serialize};

use super::{Health, Progress};
use crate::hash::Sha256Hash;
use crate::id::{JobId, Name};
use crate::job_file::JobFile;
use crate::state::JobState;

/// Request for a new job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateJob {
    /// The job file.
    pub job: JobFile,
}

/// What lists and details say of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobHead {
    /// Id of the job.
    pub id: JobId,
    /// State of the job.
    pub state: JobState,
    /// Newest model version. Absent while the job waits for the upload of version 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_version: Option<u32>,
    /// Number of parameters of the model.
    pub parameters: u64,
    /// Number of training rounds opened so far.
    pub rounds_opened: u32,
    /// Number of training rounds committed so far.
    pub rounds_committed: u32,
    /// Time of creation.
    pub created_at_ms: i64,
    /// Time at which the job stopped or completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<i64>,
    /// Time before which no training round opens, because of the schedule or the pause after abandoned rounds. Absent
    /// if a round may open now, or only after an operator acts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds_not_before_ms: Option<i64>,
    /// Tags, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Name>,
    /// Notes for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// Time at which the job was archived. Absent unless it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived_at_ms: Option<i64>,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Job {
    /// Id, state and numbers.
    #[serde(flatten)]
    pub head: JobHead,
    /// The job file, with the seed that the coordinator drew and all changes since.
    pub file: JobFile,
    /// SHA-256 of the plan that its clients follow.
    pub plan_hash: Sha256Hash,
    /// How the job is: what there is to say, most severe first. Absent in the answer to a change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health: Vec<Health>,
    /// How far it has come. Absent in lists and in the answer to a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
}
