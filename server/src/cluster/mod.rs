//! Several coordinators on one database.
//!
//! PostgreSQL is the distributed engine; here is only what each process says to the others through it:
//!
//! | part | what it does |
//! |---|---|
//! | [`lease`] | who drives a job: a row that expires |
//! | [`seats`] | which clients are held where: rows, written behind |
//! | [`bell`] | something changed: LISTEN and NOTIFY, with a look every second should that fail |
//!
//! On SQLite there is one coordinator; leases are taken there too (its node has a fixed name, so a restart takes them back
//! at once), seats and bell are not needed.

pub mod bell;
pub mod lease;
pub mod seats;
