//! What transactions change about clients, for those who remember clients.

use tributary_protocol::device::Attributes;
use tributary_protocol::id::{ClientId, Name};

use super::downloads::Download;
use super::software::Software;

/// What a transaction changes about a client.
#[derive(Clone, Debug)]
pub(super) enum ClientChange {
    /// What it declared at a check-in.
    Seen(Box<Seen>),
    /// What it authenticates with, or its standing.
    Identity,
    /// Its assignment ended, with what was downloaded for it.
    Ended,
}

/// What a client declares at a check-in.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) attributes: Attributes,
    pub(super) software: Software,
    pub(super) examples: u64,
    pub(super) sets: Vec<Name>,
    pub(super) at_ms: i64,
}

/// Follows what transactions change about clients. A trait, so that transactions need not know who remembers clients.
pub(super) trait Follower: std::fmt::Debug + Send + Sync {
    /// Whether anybody remembers clients.
    fn remembers(&self) -> bool;

    /// Follows the changes of a transaction that was stored, or may have been.
    fn follow(&self, changes: Vec<(ClientId, ClientChange)>, is_stored: bool);

    /// What a client downloaded for its open assignment and is not stored.
    fn downloaded(&self, client: ClientId) -> Download;

    /// Forgets what a client downloaded.
    fn forget_downloads(&self, client: ClientId);
}
