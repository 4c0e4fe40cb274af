//! The orders of lists.

use serde::{Deserialize, Serialize};

/// Order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Smallest first.
    #[default]
    Asc,
    /// Largest first. `after` then selects items below.
    Desc,
}

/// The order of a list of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ClientOrder {
    /// By number, in the order of enrolment.
    #[default]
    Number,
    /// By last request, newest first.
    LastSeen,
    /// By the share of ended assignments that were dropped, highest first.
    DropRate,
}
