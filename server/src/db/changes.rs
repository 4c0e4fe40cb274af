//! What transactions change about clients, for those who remember clients.

use tributary_protocol::device::Attributes;
use tributary_protocol::id::Name;

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
    pub(super) sdk: Option<Name>,
    pub(super) examples: u64,
    pub(super) at_ms: i64,
}
