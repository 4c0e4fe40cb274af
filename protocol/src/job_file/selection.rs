//! Which of the available clients form a cohort (`[round] selection`).

use serde::{Deserialize, Serialize};

use super::error::require;
use super::{COHORT_MAX, JobFileError};

/// Which of the available clients form the cohort of a training round. Each is drawn from the round's seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// Each available client by itself, with this chance (Poisson sampling). The number of clients varies; those beyond
    /// the size of a cohort are left out at random.
    Poisson {
        /// The chance, above 0 and at most 1.
        rate: f64,
    },
    /// Clients whose examples are many and badly learned, and who are fast, among those with an update; and some
    /// without one (Oort, Lai et al. 2021).
    Utility(Utility),
}

/// Settings of the selection `utility`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Utility {
    /// Share of clients without an update in the first cohort, 0 to 1. Default: 0.9.
    pub exploration: f64,
    /// Factor of this share from round to round, above 0 and at most 1. Default: 0.98.
    pub exploration_decay: f64,
    /// The share does not fall below, 0 to 1. Default: 0.2.
    pub exploration_min: f64,
    /// A client that trains longer, in milliseconds, has its utility multiplied by `(preferred_ms / time)^speed`.
    /// Default: none, time does not matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred_ms: Option<u64>,
    /// The exponent, 0 to 10. Default: 2.
    pub speed: f64,
}

impl Default for Utility {
    fn default() -> Self {
        Self { exploration: 0.9, exploration_decay: 0.98, exploration_min: 0.2, preferred_ms: None, speed: 2.0 }
    }
}

impl Selection {
    pub(super) fn is_uniform(&self) -> bool {
        *self == Self::Uniform
    }

    pub(super) fn check(self, cohort: u32) -> Result<(), JobFileError> {
        let share = 0.0..=1.0;
        let above_0 = |value: f64| value > 0.0 && value <= 1.0;
        match self {
            Self::Uniform | Self::Weighted => Ok(()),
            Self::PowerOfChoice { candidates } => {
                let range = format!("the size of a cohort, {cohort}, to {}", 10 * COHORT_MAX);
                require((cohort..=10 * COHORT_MAX).contains(&candidates), "[round] selection candidates", &range)
            }
            Self::Poisson { rate } => require(above_0(rate), "[round] selection rate", "above 0 and at most 1"),
            Self::Utility(utility) => {
                require(share.contains(&utility.exploration), "[round] selection exploration", "0 to 1")?;
                let decay = above_0(utility.exploration_decay);
                require(decay, "[round] selection exploration_decay", "above 0 and at most 1")?;
                require(share.contains(&utility.exploration_min), "[round] selection exploration_min", "0 to 1")?;
                require(utility.preferred_ms != Some(0), "[round] selection preferred_ms", "at least 1")?;
                require((0.0..=10.0).contains(&utility.speed), "[round] selection speed", "0 to 10")
            }
        }
    }
}
