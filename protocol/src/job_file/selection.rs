//! Which of the available clients form a cohort (`[round] selection`).

use serde::{Deserialize, Serialize};

use super::error::require;
use super::{COHORT_MAX, JobFileError};

/// Which of the available clients form the cohort of a training round. Each is drawn from the round's seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Selection {
    /// Every available client with the same chance.
    #[default]
    Uniform,
    /// With chances by the numbers of examples that the clients declared.
    Weighted,
    /// Candidates are drawn by their examples, and those with the largest losses form the cohort (power of choice with
    /// the losses of the clients' last updates, Cho et al. 2020). Clients without an update come first.
    PowerOfChoice {
        /// Number of candidates, at least the size of a cohort. With as many as a cohort has, this is `weighted`.
        candidates: u32,
    },
}

impl Selection {
    pub(super) fn is_uniform(&self) -> bool {
        *self == Self::Uniform
    }

    pub(super) fn check(self, cohort: u32) -> Result<(), JobFileError> {
        let Self::PowerOfChoice { candidates } = self else { return Ok(()) };
        let range = format!("the size of a cohort, {cohort}, to {}", 10 * COHORT_MAX);
        require((cohort..=10 * COHORT_MAX).contains(&candidates), "[round] selection candidates", &range)
    }
}
