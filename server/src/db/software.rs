//! The SDK of a client, as it calls itself.

use tributary_protocol::abilities::Abilities;
use tributary_protocol::id::Name;

/// The SDK of a client. A client that never checked in has told nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Software {
    pub kind: Option<Name>,
    pub version: Option<String>,
    pub abilities: Abilities,
}
