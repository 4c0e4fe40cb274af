//! What an accuracy was measured on.

use serde::{Deserialize, Serialize};

/// What an accuracy was measured on, and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MeasuredOn {
    /// Number of examples: the sum of the weights of the reports that have an accuracy.
    pub examples: u64,
    /// Number of clients whose reports have one; 0 where the coordinator evaluated.
    pub clients: u32,
    /// Lower end of the 95 % interval (Wilson's), 0 to 1. The best version, `[stop]` and targets go by it.
    pub low: f64,
    /// Upper end of the 95 % interval, 0 to 1.
    pub high: f64,
    /// Lowest accuracy of a client. Absent with fewer than two clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<f64>,
    /// The accuracy that a tenth of the clients do not exceed (nearest rank). Absent with fewer than two clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p10: Option<f64>,
}
