//! How often a client takes the newest model, and how often it sends an update.

use serde::{Deserialize, Serialize};

/// Largest number of updates between two fetches, and of trainings behind an update.
pub const CADENCE_MAX: u32 = 1_000;

/// How often a client of a buffered job takes the newest model, and how often it sends an update (Downpour SGD, Dean et
/// al. 2012). Between two fetches it continues from its own weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Cadence {
    /// Updates from one fetch of the model to the next, 1 to 1,000. With 1, each training begins with the newest model.
    pub fetch_every: u32,
    /// Local trainings behind an update, each from the weights that the one before reached, 1 to 1,000.
    pub push_every: u32,
}

impl Default for Cadence {
    fn default() -> Self {
        Self { fetch_every: 1, push_every: 1 }
    }
}

impl Cadence {
    /// Whether each update is one training from the newest model.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// Whether clients keep weights of their own between two fetches.
    pub fn keeps_weights(&self) -> bool {
        self.fetch_every > 1
    }
}
