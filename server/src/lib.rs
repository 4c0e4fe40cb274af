//! The Tributary coordinator.
//!
//! A map, from the foundations upwards. Each room uses only rooms above its own line; `tests/` keeps it so.
//!
//! | room | what it holds |
//! |---|---|
//! | [`runtime`] | time, randomness, threads, signals |
//! | [`metrics`] | the coordinator's metrics, for Prometheus |
//! | [`guard`] | limits of what one caller may hold or ask for |
//! | [`net`] | connections: accepted, limited, handed to the router |
//! | [`db`] | the database, SQLite or PostgreSQL: one query, one text, one method |
//! | [`blob`] | bodies of models and updates, in the database or an object store |
//! | [`services`], [`specs`] | services that every room below receives |
//! | [`notify`] | notifications of a webhook |
//! | [`cluster`] | several coordinators on one database: leases, notifications |
//! | [`fleet`] | clients that wait at this coordinator: lobby, seats, pace |
//! | `lifecycle` | the only place where a phase or a state changes |
//! | [`updates`] | the way in: from an update's first byte to its round's sum |
//! | [`models`] | the way out: from a sum to the next version and its files |
//! | `releases` | released models: their files, and which one a client gets |
//! | [`evaluator`], [`central`] | evaluations on the coordinator: what computes networks, and when |
//! | [`people`] | who signs in: passwords, attempts, refusals |
//! | [`devices`] | how clients prove who they are: certificates, attestation |
//! | [`scheduled`] | scheduled work: retention, upkeep |
//! | [`driver`] | one task per job: moves it on, one stored step at a time |
//! | [`api`] | the HTTP APIs |
//! | [`watch`] | changes of the jobs' health, for the webhooks |
//! | [`app`], [`load`], [`coordinator`], [`backup`] | all of it together, and copies of a SQLite database |
//!
//! Every rule is a pure function of the `tributary-engine` crate.

pub mod api;
pub mod app;
pub mod backup;
pub mod blob;
#[cfg(test)]
mod budgets;
pub mod central;
pub mod cluster;
pub mod coordinator;
pub mod db;
pub mod devices;
pub mod driver;
pub mod evaluator;
mod first;
pub mod fleet;
pub mod guard;
mod lifecycle;
pub mod load;
mod masking;
pub mod metrics;
pub mod models;
pub mod net;
pub mod notify;
pub mod people;
pub mod relay;
mod releases;
mod ring;
pub mod runtime;
pub mod scheduled;
pub mod services;
pub mod specs;
pub mod updates;
pub mod watch;

pub use coordinator::{Config, Coordinator, RelaySettings, ServeError};
pub use first::FirstClients;
pub use models::CommitError;
