//! Whole groups in memory: real members, and the coordinator's half of the protocol crate.

mod coordinator;
mod fixtures;
mod groups;
mod refusals;
