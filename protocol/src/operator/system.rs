//! The coordinator and its database.

use serde::{Deserialize, Serialize};

use super::{Node, ScheduledWork};

/// State of a coordinator and its database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct System {
    /// Release of the coordinator that answers.
    pub version: String,
    /// Time at which it started.
    pub started_at_ms: i64,
    /// Kind of database.
    pub engine: Engine,
    /// Address of the coordinator whose [relay](crate::relay) this one is. Absent at a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// All coordinators of the database, with their leases.
    pub nodes: Vec<Node>,
    /// Check-ins per second at the coordinator that answers, averaged over the last minute.
    pub checkins_per_s: f64,
    /// Number of check-ins that it holds until there is work.
    pub held_clients: u64,
    /// Number of clients that are here now: they wait for work at any coordinator, or are at work.
    #[serde(default)]
    pub online_clients: u64,
    /// Those of them that are at work.
    #[serde(default)]
    pub working_clients: u64,
    /// Accepted updates per second at the coordinator that answers, averaged over the last minute.
    #[serde(default)]
    pub updates_per_s: f64,
    /// Number of updates that it is receiving.
    pub updates_in_flight: u64,
    /// Latency of its database.
    pub db: DbLatency,
    /// Size of the stored data.
    pub storage: Storage,
    /// Scheduled work.
    pub schedules: Vec<ScheduledWork>,
    /// The load of the coordinator that answers, twice a minute for an hour at most, oldest first. It is in memory, so
    /// it begins with the process.
    #[serde(default)]
    pub history: Vec<LoadSample>,
}

/// The load of one coordinator at one time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LoadSample {
    /// Time of the sample.
    pub at_ms: i64,
    /// Check-ins per second, averaged over the minute before.
    pub checkins_per_s: f64,
    /// Accepted updates per second, averaged over the minute before.
    pub updates_per_s: f64,
    /// Memory of the process in bytes. Absent where the system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Size of the database in bytes. Absent where it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_bytes: Option<u64>,
}

/// A kind of database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// SQLite, inside the coordinator.
    Sqlite,
    /// PostgreSQL.
    Postgres,
}

/// Latency of the database, over the last transactions of one coordinator. Fields are absent before the first ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DbLatency {
    /// Median time to begin a reading transaction, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ms_p50: Option<f64>,
    /// 99th percentile of that time, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ms_p99: Option<f64>,
    /// Median time to begin a writing transaction, in milliseconds. On SQLite, writers queue for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_ms_p50: Option<f64>,
    /// 99th percentile of that time, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_ms_p99: Option<f64>,
}

/// Size of the stored data in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Storage {
    /// Size of the database. Absent where the database does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_bytes: Option<u64>,
    /// Bodies of models, in the database and in the object store.
    pub models_bytes: u64,
    /// Bodies of updates in open rounds, in the database and in the object store.
    pub updates_bytes: u64,
    /// Free space on the disk of the SQLite database. Absent for PostgreSQL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// Time until that disk is full if it fills as in the last 24 hours, in milliseconds. Absent if it does not fill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_in_ms: Option<u64>,
}
