//! All jobs at a glance.

use serde::{Deserialize, Serialize};

use super::{Population, Round};
use crate::id::{JobId, Name};
use crate::job_file::StopPolicy;
use crate::state::{AssignmentState, JobState};
use crate::update::Codec;

/// What a coordinator does right now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Overview {
    /// Release of the coordinator.
    pub version: String,
    /// What its clock shows.
    pub now_at_ms: i64,
    /// The populations, by name.
    pub populations: Vec<Population>,
    /// The jobs: those that may still run first, then the others; of each the newest first. At most 100.
    pub jobs: Vec<JobOverview>,
}

/// A job at a glance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobOverview {
    /// The job.
    pub job: JobSummary,
    /// Its open rounds, training and evaluation.
    pub open_rounds: Vec<OpenRound>,
    /// The last training round that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_round: Option<Round>,
    /// Best accuracy of any of its versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_accuracy: Option<f64>,
    /// Accuracy of the newest measured version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Loss of the newest measured version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Bytes that clients sent in all of its rounds.
    pub bytes_up: u64,
    /// Bytes that clients fetched in all of its rounds.
    pub bytes_down: u64,
    /// At most 60 points of its learning curve.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<(u32, Option<f64>, Option<f64>)>))]
    pub spark: Vec<SparkPoint>,
}

/// Round, accuracy, and loss (measured, or else the training loss) of a point of a small learning curve.
pub type SparkPoint = (u32, Option<f64>, Option<f64>);

/// What a list of jobs shows of one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobSummary {
    /// Its id.
    pub id: JobId,
    /// Its name.
    pub name: Name,
    /// Whose clients learn it.
    pub population: Name,
    /// Where it stands.
    pub state: JobState,
    /// Newest model version; none while the job waits for version 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_version: Option<u32>,
    /// Parameters of the model.
    pub parameters: u64,
    /// Rounds opened so far.
    pub rounds_opened: u32,
    /// Rounds committed so far.
    pub rounds_committed: u32,
    /// When it was made.
    pub created_at_ms: i64,
    /// When it stopped or was completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<i64>,
    /// How its updates are encoded.
    pub codec: Codec,
    /// When it is complete.
    pub stop: StopPolicy,
    /// No training round opens before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds_not_before_ms: Option<i64>,
}

/// An open round and its cohort.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OpenRound {
    /// The round.
    #[serde(flatten)]
    pub round: Round,
    /// Its cohort by client number; at most 500 of it.
    pub cells: Vec<Cell>,
}

/// A member of a cohort.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Cell {
    /// The client's number in the order of enrolment.
    pub number: u64,
    /// Where its assignment stands.
    pub state: AssignmentState,
    /// Why it was rejected or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
