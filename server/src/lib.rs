//! The Tributary coordinator.
//!
//! A map, from the rules outwards:
//!
//! | module | what it is |
//! |---|---|
//! | [`round`] | rules of rounds as functions of facts: who may take part, who does, what comes next |
//! | [`aggregate`] | the exact sum and the aggregation rules |
//! | [`spec`] | what follows from a job file |
//! | [`db`] | the database, SQLite or PostgreSQL: one query, one text, one method |
//! | [`lobby`], [`sums`], [`uploads`] | what may be forgotten: clients that wait, sums of open rounds, who is sending |
//! | [`meters`] | what a coordinator measures of itself |
//! | [`cluster`] | several coordinators on one database: leases, shared seats, notifications |
//! | [`driver`] | moves jobs on, one stored step at a time |
//! | [`metrics`] | what it measures of itself, for Prometheus |
//! | [`scheduled`] | what is done by the clock: retention, upkeep |
//! | [`api`] | the HTTP APIs |
//! | [`backup`] | copies of a SQLite database |
//! | [`coordinator`] | all of it together |
//!
//! `round` and `aggregate` know nothing of the others: no database, no network, no clock, no tokio.

pub mod aggregate;
pub mod api;
pub mod app;
pub mod backup;
pub mod blob;
pub mod clock;
pub mod cluster;
mod commit;
pub mod coordinator;
pub mod db;
pub mod driver;
pub mod entropy;
mod folding;
mod initial;
mod listen;
pub mod lobby;
mod measured;
pub mod meters;
pub mod metrics;
mod rebuild;
pub mod round;
pub mod scheduled;
pub mod spec;
pub mod sums;
pub mod upload_memory;
pub mod uploads;
mod version;

pub use commit::CommitError;
pub use coordinator::{Config, Coordinator, ServeError};
