//! Secure aggregation: sums of updates that the coordinator cannot read one by one.
//!
//! The members of a **group** agree on keys with their neighbours, and add masks to their values that cancel in the
//! sum. Once the survivors are fixed, they give away what takes off the masks that are left. The protocol is SecAgg+
//! (Bell, Bonawitz, Gascon, Lepoint and Raykova 2020, ePrint 2020/704). Integers are little-endian on the wire and in
//! everything that is hashed.
//!
//! | module | contents |
//! |---|---|
//! | [`context`], [`record`], [`roster`] | what a group computes, who its members are, who is whose neighbour |
//! | [`survivors`] | the members whose bodies are in the sum |
//! | [`keys`] | X25519 and the keys that follow from it |
//! | [`mask`], [`words`], [`packed`] | masks of values and slots; values modulo 2^bits; masked bodies as bytes |
//! | [`shamir`], [`sealing`] | secrets in shares, and shares on their way through the coordinator |
//! | [`signing`], [`messages`] | what is signed; the bodies of all requests and answers |
//! | [`quantise`] | from a model delta to integers, and from the sum of a group back |
//! | [`noised`] | noise of the members, so that the sum is private too |
//! | [`open`] | the coordinator's half: from shares to the masks that are left in a sum |
//! | [`sizes`] | how many bits, bytes and members a group needs |
//!
//! Nothing here draws random bytes, reads a clock or does I/O: callers bring all of it.

pub mod context;
pub mod keys;
pub mod mask;
pub mod messages;
pub mod noised;
pub mod open;
#[cfg(test)]
mod open_tests;
pub mod packed;
pub mod quantise;
pub mod record;
pub mod roster;
pub mod sealing;
pub mod shamir;
pub mod signing;
pub mod sizes;
pub mod slots;
pub mod survivors;
#[cfg(test)]
mod vectors;
mod wire;
pub mod words;

pub use context::{Context, NO_MODEL, Suite};
pub use keys::SecretBytes;
pub use mask::{Mask, Masks, Sign};
pub use record::Record;
pub use roster::Roster;
pub use survivors::Survivors;
pub use wire::DecodeError;
pub use words::{Words, WordsMut};

/// Everything that is hashed, signed or derived begins with it, so that no other protocol gives the same bytes.
const LABEL: &[u8] = b"tributary-secagg-1 ";

/// Fewest members of a group: among two, each learns the other's values from the sum.
pub const MEMBERS_MIN: u16 = 3;
/// Most members of a group.
pub const MEMBERS_MAX: u16 = 4096;
/// Most neighbours of a member: the places of their shares are the numbers from 1 to 255 of one byte.
pub const DEGREE_MAX: u16 = 254;
/// Most bits of a masked value.
pub const BITS_MAX: u8 = 64;
/// Most slots behind the values of a body.
pub const SLOTS_MAX: usize = 256;
