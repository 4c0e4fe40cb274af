//! The coordinator itself, and what operators did to it.

use serde::{Deserialize, Serialize};

use super::{Node, ScheduledWork};
use crate::id::{AuditId, TokenId};
use crate::job_file::JobFile;
use crate::state::AuditAction;

/// How a coordinator and its database are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct System {
    /// Release of the coordinator that answers.
    pub version: String,
    /// When it started.
    pub started_at_ms: i64,
    /// The database.
    pub engine: Engine,
    /// All coordinators of the database, with their leases.
    pub nodes: Vec<Node>,
    /// Check-ins per second at the coordinator that answers, over the last minute.
    pub checkins_per_s: f64,
    /// Clients that it holds.
    pub held_clients: u64,
    /// Updates that it receives.
    pub updates_in_flight: u64,
    /// How fast its database answers.
    pub db: DbLatency,
    /// What is stored.
    pub storage: Storage,
    /// Work that is done by the clock.
    pub schedules: Vec<ScheduledWork>,
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

/// How fast a database answers, over the last transactions of the coordinator that tells it; none before the first ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DbLatency {
    /// Median of the time to get a snapshot to read from, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ms_p50: Option<f64>,
    /// The time that 99 of 100 stay below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ms_p99: Option<f64>,
    /// Median of the time to get a transaction that writes, in milliseconds: on SQLite, writers queue for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_ms_p50: Option<f64>,
    /// The time that 99 of 100 stay below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_ms_p99: Option<f64>,
}

/// What is stored, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Storage {
    /// Size of the database; none where it does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_bytes: Option<u64>,
    /// Bodies of models, wherever they are.
    pub models_bytes: u64,
    /// Bodies of updates in open rounds, wherever they are.
    pub updates_bytes: u64,
}

/// Something that an operator did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    /// Its id.
    pub id: AuditId,
    /// When.
    pub at_ms: i64,
    /// The operator token that was used.
    pub token: TokenId,
    /// The token's label.
    pub label: String,
    /// What was done, as `job.pause`.
    pub action: AuditAction,
    /// To what: an id or a name.
    pub subject: String,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// A job file that was only tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobDraft {
    /// The file as the coordinator understands it: with every default that it has.
    pub job: JobFile,
    /// The same as TOML.
    pub toml: String,
    /// Parameters of its model.
    pub parameters: u64,
}
