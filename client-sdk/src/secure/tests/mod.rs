//! Whole groups in memory: real members, and the coordinator's half of the protocol crate.

#[cfg(feature = "native")]
pub(in crate::secure) mod authority;
mod coordinator;
mod fixtures;
#[cfg(feature = "native")]
mod forged;
mod groups;
mod refusals;
