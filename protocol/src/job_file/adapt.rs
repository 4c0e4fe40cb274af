//! Deadlines and cohorts that follow the measured times (`[round] adapt`).

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::JobFileError;
use super::error::require;

/// Most recent rounds whose times may be read.
const ROUNDS_MAX: u32 = 1_000;
/// Longest name of an attribute.
const CLASS_BYTES_MAX: usize = 64;

/// Deadlines and cohorts that follow the times of recent rounds (`[round] adapt`). `deadline_ms` holds until enough is
/// measured, and `over_selection` is the largest one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Adapt {
    /// Shortest deadline, in milliseconds. Default: 30,000.
    pub deadline_min_ms: u64,
    /// Longest deadline, in milliseconds. Default: 3,600,000.
    pub deadline_max_ms: u64,
    /// Rounds whose times are read, 1 to 1,000. Default: 20.
    pub rounds: u32,
    /// The attribute that tells classes of devices apart. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Smallest goal, 2 to `updates_goal`. The goal of each round then follows the diversity of the updates of recent
    /// rounds, between this number and `updates_goal`. Default: none, every round has `updates_goal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updates_goal_min: Option<u32>,
    /// Smallest share of a class that reports in time, as a factor of the share of all clients, 0 to 1. Default: 0.5.
    pub class_share_min: f64,
}

impl Default for Adapt {
    fn default() -> Self {
        Self {
            deadline_min_ms: 30_000,
            deadline_max_ms: 3_600_000,
            rounds: 20,
            class: None,
            updates_goal_min: None,
            class_share_min: 0.5,
        }
    }
}

impl Adapt {
    /// `goals` are the fewest and the most updates of a round.
    pub(super) fn check(&self, deadline_ms_max: u64, goals: RangeInclusive<u32>) -> Result<(), JobFileError> {
        let Self { deadline_min_ms, deadline_max_ms, rounds, class, updates_goal_min, class_share_min } = self;
        require(*deadline_min_ms >= 1_000, "[round] adapt deadline_min_ms", "at least 1000")?;
        let is_range = deadline_min_ms <= deadline_max_ms && *deadline_max_ms <= deadline_ms_max;
        require(is_range, "[round] adapt deadline_max_ms", "at least deadline_min_ms and at most 30 days")?;
        require((1..=ROUNDS_MAX).contains(rounds), "[round] adapt rounds", "1 to 1000")?;
        let is_name = class.as_ref().is_none_or(|class| (1..=CLASS_BYTES_MAX).contains(&class.len()));
        require(is_name, "[round] adapt class", "1 to 64 bytes long")?;
        let is_goal = updates_goal_min.is_none_or(|least| least >= 2 && goals.contains(&least));
        let range = "at least 2 and updates_min, and at most updates_goal";
        require(is_goal, "[round] adapt updates_goal_min", range)?;
        require((0.0..=1.0).contains(class_share_min), "[round] adapt class_share_min", "0 to 1")
    }
}
