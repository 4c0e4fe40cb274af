//! Opens the file of a database, and says what is wrong with it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx_sqlite::{SqliteConnectOptions, SqliteConnection};

use crate::db::DbError;

/// Longest wait for another process that locks the database briefly.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a copy is begun again because a body was deleted before it was copied.
pub(super) const COPY_ATTEMPTS: u32 = 5;

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// PostgreSQL has its own tools for this.
    #[error("this database is a PostgreSQL server's: save it with pg_dump, load it with pg_restore")]
    Postgres,
    /// The URL names no file.
    #[error(transparent)]
    Url(DbError),
    #[error("{}: there is no such database", .0.display())]
    Missing(PathBuf),
    /// The file is not a database of Tributary.
    #[error("{}: this is not a Tributary database", .0.display())]
    Foreign(PathBuf),
    /// A Tributary database that this release cannot use.
    #[error("{}: {source}", path.display())]
    Schema { path: PathBuf, source: DbError },
    /// The file is damaged or truncated.
    #[error("{}: the database is damaged: {detail}", path.display())]
    Damaged {
        path: PathBuf,
        /// The first defect that SQLite reports.
        detail: String,
    },
    #[error("{}: another process uses this database; stop its coordinator first", .0.display())]
    InUse(PathBuf),
    #[error("{}: {source}", path.display())]
    Body { path: PathBuf, source: std::io::Error },
    #[error("{}: models or updates were deleted during each of {COPY_ATTEMPTS} attempts to copy them", .0.display())]
    Moving(PathBuf),
    /// Any other error of SQLite.
    #[error("{}: {source}", path.display())]
    Engine { path: PathBuf, source: sqlx::Error },
}

impl BackupError {
    /// The same error with the name of another file: the one that the checked file is a copy of.
    #[must_use]
    pub fn of_file(mut self, file: &Path) -> Self {
        match &mut self {
            Self::Missing(path)
            | Self::Foreign(path)
            | Self::InUse(path)
            | Self::Schema { path, .. }
            | Self::Damaged { path, .. }
            | Self::Engine { path, .. } => file.clone_into(path),
            Self::Postgres | Self::Url(_) | Self::Body { .. } | Self::Moving(_) => {}
        }
        self
    }
}

pub(super) fn options(database: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new().filename(database).create_if_missing(false).busy_timeout(BUSY_TIMEOUT)
}

pub(super) async fn open(database: &Path, options: SqliteConnectOptions) -> Result<SqliteConnection, BackupError> {
    if !database.is_file() {
        return Err(BackupError::Missing(database.to_owned()));
    }
    options.connect().await.map_err(|source| engine(database, source))
}

/// Classifies errors of SQLite by code (<https://www.sqlite.org/rescode.html>).
pub(super) fn engine(database: &Path, source: sqlx::Error) -> BackupError {
    let path = database.to_owned();
    let code = source.as_database_error().and_then(sqlx::error::DatabaseError::code).and_then(|code| code.parse().ok());
    // The low byte is the primary code.
    match code.map(|code: u32| code & 0xff) {
        // SQLITE_BUSY, SQLITE_LOCKED
        Some(5 | 6) => BackupError::InUse(path),
        // SQLITE_CORRUPT
        Some(11) => BackupError::Damaged { path, detail: source.to_string() },
        // SQLITE_NOTADB
        Some(26) => BackupError::Foreign(path),
        _ => BackupError::Engine { path, source },
    }
}
