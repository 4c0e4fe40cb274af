//! What would come of a job file.

use serde::{Deserialize, Serialize};

use super::privacy::JobPrivacy;
use crate::job_file::JobFile;
use crate::layers::LayerRow;

/// A job file that was checked without creating the job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobDraft {
    /// The job with all defaults filled in.
    pub job: JobFile,
    /// The same job as a TOML file.
    pub toml: String,
    /// Number of parameters of its model.
    pub parameters: u64,
    /// The layers of its model, in order. Empty for an app's own network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerRow>,
    /// What its privacy comes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privacy: Option<JobPrivacy>,
    /// What is allowed and probably not meant, in sentences for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}
