//! Whole groups in memory: real members, and the coordinator's half of the protocol crate.

mod coordinator;
mod fixtures;
#[cfg(feature = "native")]
mod forged;
mod groups;
mod refusals;
