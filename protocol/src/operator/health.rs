//! How a job is, in lines.

use serde::{Deserialize, Serialize};

use crate::state::{HealthKind, Severity};

/// How a job is: one line of what there is to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Health {
    /// How urgently the job needs attention.
    pub severity: Severity,
    /// What it is about.
    pub kind: HealthKind,
    /// The cause in one sentence, for people.
    pub text: String,
    /// What an operator can do about it. Absent when nothing needs to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}
