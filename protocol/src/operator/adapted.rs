//! What the rounds before gave to a round.

use serde::{Deserialize, Serialize};

/// A goal that follows from the diversity of the rounds before (`[round] adapt updates_goal_min`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AdaptedGoal {
    /// Rounds whose diversity was measured.
    pub rounds: u32,
    /// Updates that a round can use. Absent if the updates have no common direction, so that each further one helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub useful: Option<u32>,
    /// Smallest goal of the job.
    pub least: u32,
    /// Largest goal of the job.
    pub most: u32,
}

/// A deadline and a cohort that follow from the times of the rounds before (`[round] adapt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Adapted {
    /// Pieces of work that were measured.
    pub works: u32,
    /// The deadline, from the draw of the cohort, in milliseconds.
    pub deadline_ms: u64,
    /// Share of clients that are expected to miss it, in thousandths.
    pub dropout_permille: u32,
    /// Number of clients that are drawn.
    pub cohort: u32,
    /// Expected updates per hour.
    pub updates_per_hour: u32,
    /// The deadline with the most updates per hour. Absent unless it is shorter, because a class of devices needs
    /// longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fastest_ms: Option<u64>,
}
