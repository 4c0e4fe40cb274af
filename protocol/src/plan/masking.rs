//! How updates are masked before they are sent.

use serde::{Deserialize, Serialize};

use crate::secure::sizes;

/// Who is trusted to tell all members of a group the same: who the others are, and who survived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum GroupTrust {
    /// The coordinator: it reads no update if it follows the protocol.
    Honest,
    /// Nobody: members sign rosters and survivors with the keys of their device certificates.
    Signed,
}

/// Masking of the updates of a round. All members of a group have the same.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Masking {
    /// Fewest members of a group. A client gives no update to a smaller one.
    pub group_min: u32,
    /// Share of the members that may work together with a dishonest coordinator.
    pub corrupt: f64,
    /// Share of the members that may be lost after they joined.
    pub dropouts: f64,
    /// Steps of a value on either side of zero, as the root of the mean square of a clipped update.
    pub levels: u32,
    /// Share of the values that are sent.
    pub keep: f64,
    /// L2 norm to which the delta is clipped in this round.
    pub clip: f64,
    /// Who is trusted to form groups.
    pub trust: GroupTrust,
}

impl Masking {
    /// Fewest of this many members whose updates make a sum.
    pub fn survivors_min(&self, members: u32) -> u32 {
        let members = u16::try_from(members).unwrap_or(u16::MAX);
        sizes::survivors_min(members, self.dropouts).into()
    }
}
