//! The only place where the phase of a round, the state of a job or an assignment, or the standing of a client changes.
//!
//! Each function is one transaction. It locks the job's row first, changes the state by a conditional update, and
//! records the transition as an event. A second driver or a late request that comes to the same step finds the
//! condition false and changes nothing.

pub(crate) mod acceptance;
pub(crate) mod assignments;
pub(crate) mod budget;
pub(crate) mod buffers;
mod coded;
mod drawn;
pub(crate) mod erasure;
mod expiry;
pub(crate) mod groups;
pub(crate) mod jobs;
pub(crate) mod members;
mod open_groups;
pub(crate) mod orders;
pub(crate) mod parts;
pub(crate) mod privacy;
pub(crate) mod releases;
pub(crate) mod removal;
pub(crate) mod rings;
pub(crate) mod rounds;
pub(crate) mod shards;
pub(crate) mod standings;
