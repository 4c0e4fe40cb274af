//! What a step of a group is decided from: counts and times, no rows.

use tributary_protocol::hash::Sha256Hash;

/// What one snapshot says of the groups of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingFacts {
    /// Whether members send their own updates.
    pub is_star: bool,
    /// Whether the sum of a group is stored.
    pub is_counted: bool,
    /// Attempts so far.
    pub attempts: u32,
    /// Members that are ready for the next attempt.
    pub ready: u32,
    /// Clients that may still become ready: they train, or their last attempt has failed and they have not come back.
    pub awaited: u32,
    /// When the last attempt failed.
    pub failed_at_ms: i64,
    /// The open attempt.
    pub open: Option<AttemptFacts>,
}

/// What one snapshot says of an open attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptFacts {
    pub members: u32,
    /// Of them: those whose assignments have ended.
    pub gone: u32,
    /// Whether a member could not go on.
    pub is_stalled: bool,
    /// The sums that members have, and how many have each.
    pub outcomes: Vec<(Sha256Hash, u32)>,
    /// When the last of them came.
    pub outcome_at_ms: i64,
    /// Once members agree.
    pub agreed: Option<Agreement>,
}

/// Members agree on a sum, and one of them brings it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// Since when this member has been the one.
    pub since_ms: i64,
    /// Others that have the sum and were not asked yet.
    pub others: u32,
}
