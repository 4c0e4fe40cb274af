//! The database: SQLite or PostgreSQL behind one `Db`, transactions behind one [`Tx`].
//!
//! Every query is one text and one method on `Tx`, in the file of its table group. The function that owns a step begins
//! and commits its transaction, so the transaction is visible in one place.

mod accepted;
mod accounts;
mod assignments;
mod audit;
mod blobs;
mod buffers;
mod changes;
mod clients;
mod cluster;
mod connect;
mod counts;
mod devices;
mod downloading;
mod downloads;
mod error;
mod events;
mod file;
mod filing;
mod followers;
mod jobs;
mod log_sync;
mod measured;
mod members;
mod model_files;
mod names;
mod notices;
mod orders;
mod overview;
#[cfg(feature = "postgres")]
mod postgres;
mod privacy;
mod recent;
mod retention;
mod round_list;
mod rounds;
mod scalars;
mod schedules;
mod secure;
mod served;
mod sessions;
mod sqlite;
mod staged;
mod system;
mod test_sets;
mod tokens;
mod traffic;
mod transition;
mod tx;
mod upkeep;
mod watched;
mod works;

pub use accepted::AcceptedRow;
pub use accounts::{NewSession, SignedInRow};
pub use assignments::{AssignmentRow, NewAssignment, Report, Times};
pub use audit::NewAudit;
pub use blobs::{BLOB_CHUNK_BYTES, ObjectRow, StoredChunk};
pub use clients::{ClientRow, ClientsList};
pub use cluster::{Holder, TakeoverRow, renew_every_ms};
pub use connect::Db;
pub(crate) use connect::{sqlite_path, sqlite_schema};
pub use devices::{CaRow, KnownClient, ReEnrolment};
pub(crate) use downloads::Download;
pub use error::DbError;
pub use events::JobPosition;
pub use jobs::{JobRow, NewJob};
pub use model_files::ModelFileRow;
pub use names::{MadeFor, UnknownForm, masked_key, model_file_key, model_key, test_set_key, update_key};
pub use notices::NoticeRow;
pub use orders::{OrderRow, PartFigures};
pub use overview::{JobTotals, Measured};
#[cfg(test)]
pub(crate) use recent::BYTES_MAX as RECENT_CLIENTS_BYTES_MAX;
pub use round_list::{RoundFilter, RoundPlace};
pub use rounds::{EvaluationSummary, NewRound, RoundKey, RoundRow, RoundStatistics};
pub use schedules::RunEnd;
pub use secure::{NewSecureGroup, SecureGroupRow, SecureMemberRow, SecureShareRow, ShareStage};
pub use served::{ClaimError, Served};
pub use staged::{NewStaged, StagedRow, chunk_name};
pub use test_sets::TestSetRow;
pub(crate) use tokens::stored_hash;
pub use tokens::{Enrolment, TokenRow};
pub use transition::{Became, JobCause, Transition};
pub use tx::{Json, Text, Tx};
