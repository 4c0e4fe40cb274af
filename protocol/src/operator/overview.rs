//! The overview of all jobs.

use serde::{Deserialize, Serialize};

use super::{Health, JobHead, MeasuredOn, Population, Round};
use crate::id::Name;
use crate::job_file::StopPolicy;
use crate::state::AssignmentState;
use crate::update::Codec;

/// Overview of a deployment: populations and jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Overview {
    /// Release of the coordinator that answers.
    pub version: String,
    /// Current time of that coordinator. Clients compute ages from it, not from their own clocks.
    pub now_at_ms: i64,
    /// Populations, ordered by name.
    pub populations: Vec<Population>,
    /// At most 100 jobs: first those that have not ended, then the others, each group newest first.
    /// Archived ones only if they are asked for.
    pub jobs: Vec<JobOverview>,
}

/// A job with its open rounds and its progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobOverview {
    /// Summary of the job.
    pub job: JobSummary,
    /// How the job is: what there is to say, most severe first. At least one line.
    pub health: Vec<Health>,
    /// Open rounds, of training and evaluation.
    pub open_rounds: Vec<OpenRound>,
    /// The training round that ended last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_round: Option<Round>,
    /// Accuracy of the best evaluated version, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_accuracy: Option<f64>,
    /// What the best accuracy was measured on. Absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_measured_on: Option<MeasuredOn>,
    /// Training round that made the best evaluated version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_round: Option<u32>,
    /// Time until the job has committed the rounds of its stop policy, as in the progress of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_in_ms: Option<u64>,
    /// Accuracy of the newest evaluated version, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// What that accuracy was measured on. Absent without an accuracy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_on: Option<MeasuredOn>,
    /// Loss of the newest evaluated version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Bytes that clients uploaded in all rounds.
    pub bytes_up: u64,
    /// Bytes that clients downloaded in all rounds.
    pub bytes_down: u64,
    /// At most 60 points of the learning curve: round, accuracy, loss.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<(u32, Option<f64>, Option<f64>)>))]
    pub spark: Vec<SparkPoint>,
}

/// A point of a small learning curve: round, accuracy, and the loss of the evaluation or else of training.
pub type SparkPoint = (u32, Option<f64>, Option<f64>);

/// Summary of a job in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobSummary {
    /// Id, state and numbers.
    #[serde(flatten)]
    pub head: JobHead,
    /// Name of the job.
    pub name: Name,
    /// Population whose clients train the model.
    pub population: Name,
    /// Codec of the updates.
    pub codec: Codec,
    /// Learning rate of the clients' optimizer.
    pub learning_rate: f64,
    /// When the job is complete.
    pub stop: StopPolicy,
}

/// An open round with its cohort.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OpenRound {
    /// The round.
    #[serde(flatten)]
    pub round: Round,
    /// At most 500 members of the cohort, ordered by client number.
    pub cells: Vec<Cell>,
}

/// A member of a cohort.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Cell {
    /// Number of the client in the order of enrolment.
    pub number: u64,
    /// State of its assignment.
    pub state: AssignmentState,
    /// Why the update was rejected or the client gave up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
