//! What a client knows of a group before it joins, and demands of it.

use serde::{Deserialize, Serialize};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::plan::GroupTrust;
use tributary_protocol::secure::sizes;

/// What an assignment, its plan and the app's floors say about a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// The job of the assignment.
    pub job: JobId,
    /// The round of the assignment. With [`NO_MODEL`](tributary_protocol::secure::NO_MODEL) its group may be one of a
    /// later round.
    pub round: u64,
    /// Hash of the model that was trained, or [`NO_MODEL`](tributary_protocol::secure::NO_MODEL).
    pub model: Sha256Hash,
    /// Hash of the plan.
    pub plan: Sha256Hash,
    /// Coordinates of the rotated delta.
    pub length: u32,
    /// Who is trusted.
    pub trust: GroupTrust,
    /// Fewest members of a group.
    pub members_min: u16,
    /// Fewest survivors, whatever the share of losses allows.
    pub survivors_min: u16,
    /// Fewest neighbours of a member, unless all others are neighbours.
    pub degree_min: u16,
    /// Share of members that may be lost.
    pub dropouts: f64,
    /// Share of members that may lie.
    pub corrupt: f64,
}

impl Terms {
    /// Fewest survivors of a group with so many members.
    pub(super) fn survivors_min(&self, members: u16) -> u16 {
        self.survivors_min.max(sizes::survivors_min(members, self.dropouts)).max(2)
    }
}
