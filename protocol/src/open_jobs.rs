//! What the running jobs of a population require of examples.

use serde::{Deserialize, Serialize};

use crate::analysis::Analysis;
use crate::id::Name;
use crate::inputs::Inputs;
use crate::plan::Loss;

/// The running jobs of a population, for an app that checks its examples before it enrols.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OpenJobs {
    /// The newest first, at most 100.
    pub jobs: Vec<OpenJob>,
}

/// What a running job requires of examples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OpenJob {
    /// Name of the job.
    pub name: Name,
    /// The example set that it trains on. Absent: the examples without a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Name>,
    /// Shape of one input. Absent for an app's own network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Vec<usize>>,
    /// Shape of the network's output for one input; its last length is the number of classes. Absent for an app's own
    /// network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Vec<usize>>,
    /// Loss function: whether the targets are classes or values.
    pub loss: Loss,
    /// The columns of a table, as far as the job names them, and what it predicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Inputs>,
    /// What an analysis asks. Absent for jobs that train.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analysis: Option<Analysis>,
}
