//! Relays: coordinators between clients and a coordinator.
//!
//! Goal: a tree of relays has the bits of the flat round, and no update that a relay acknowledged is lost or counted
//! twice, whatever ends.

mod buffered;
mod drift;
mod masked;
mod refusals;
mod reports;
mod tree;
