//! A member of a stale-synchronous job, as it is stored.

use tributary_protocol::id::ClientId;

/// A member of a stale-synchronous job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub client: ClientId,
    /// Updates that it has contributed, counted from the clock at which it came.
    pub clock: u32,
    /// Whether it has an open assignment.
    pub is_working: bool,
    /// Since when a driver misses it: it could begin its next work, and does not wait for it.
    pub missed_at_ms: Option<i64>,
}
