//! Several coordinators on one database. PostgreSQL is the distributed engine.
//!
//! | part | what it is |
//! |---|---|
//! | [`lease`] | rows that expire: which coordinator drives which job |
//! | [`bell`] | notifications by LISTEN and NOTIFY, with a look every second in case one is lost |
//!
//! Correctness depends on neither: every step of a driver is a conditional update, and a driver adds the updates that
//! other coordinators accepted from the store.
//!
//! Which coordinator holds which waiting client is in `fleet/seats.rs`. A SQLite database has one coordinator. It takes
//! leases too, under a fixed name, so that a restart has them back at once.

#[cfg(feature = "postgres")]
pub mod bell;
pub mod lease;
mod takeover;
