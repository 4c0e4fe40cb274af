//! Deadlines and cohorts that follow the measured times (`[round] adapt`).

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
    /// Smallest share of a class that reports in time, as a factor of the share of all clients, 0 to 1. Default: 0.5.
    pub class_share_min: f64,
}

impl Default for Adapt {
    fn default() -> Self {
        Self { deadline_min_ms: 30_000, deadline_max_ms: 3_600_000, rounds: 20, class: None, class_share_min: 0.5 }
    }
}

impl Adapt {
    pub(super) fn check(&self, deadline_ms_max: u64) -> Result<(), JobFileError> {
        let Self { deadline_min_ms, deadline_max_ms, rounds, class, class_share_min } = self;
        require(*deadline_min_ms >= 1_000, "[round] adapt deadline_min_ms", "at least 1000")?;
        let is_range = deadline_min_ms <= deadline_max_ms && *deadline_max_ms <= deadline_ms_max;
        require(is_range, "[round] adapt deadline_max_ms", "at least deadline_min_ms and at most 30 days")?;
        require((1..=ROUNDS_MAX).contains(rounds), "[round] adapt rounds", "1 to 1000")?;
        let is_name = class.as_ref().is_none_or(|class| (1..=CLASS_BYTES_MAX).contains(&class.len()));
        require(is_name, "[round] adapt class", "1 to 64 bytes long")?;
        require((0.0..=1.0).contains(class_share_min), "[round] adapt class_share_min", "0 to 1")
    }
}
