//! What transactions change about clients, for those who remember clients.

use tributary_protocol::device::Attributes;
use tributary_protocol::id::{ClientId, Name};

/// What a transaction changes about a client.
#[derive(Clone, Debug)]
pub(super) enum ClientChange {
    /// What it declared at a check-in.
    Seen(Box<Seen>),
    /// What it authenticates with, or its standing.
    Identity,
}

/// What a client declares at a check-in.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) attributes: Attributes,
    pub(super) sdk: Option<Name>,
    pub(super) examples: u64,
    pub(super) at_ms: i64,
}

/// Remembers clients, and follows what becomes of them.
pub(super) trait Follower: std::fmt::Debug + Send + Sync {
    /// Follows the changes of a transaction that has committed, or may have.
    fn follow(&self, changes: Vec<(ClientId, ClientChange)>);
}
