//! What the members of a group exchange while they train.

use serde::{Deserialize, Serialize};

/// The exchanges within a training. All members make the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Exchange {
    /// After so many optimiser steps, and after the last one, each member goes on with the mean of all members' models.
    pub every: u32,
}
