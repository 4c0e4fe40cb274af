//! Database errors, by what a caller can do about them.

use sqlx::migrate::MigrateError;

#[derive(Debug, thiserror::Error)]
pub enum DbError {
    #[error("the database ({0}:..) is neither a file's path nor a sqlite: or postgres: URL")]
    UnknownKind(String),
    #[error("this program was built without PostgreSQL; build it with --features postgres (releases have it)")]
    NotBuilt,
    /// The file exists and is not a SQLite database of ours.
    #[error("{path}: this file is not a SQLite database; name another one with --database")]
    NotADatabase { path: String },
    /// A newer release has migrated it.
    #[error(
        "the database was written by a newer release (migration {0}); update this program, or use another database"
    )]
    TooNew(i64),
    /// An applied migration differs from the one of the same number in this release.
    #[error(
        "the database's schema differs from this release's (migration {0}); it was not written by a release of Tributary"
    )]
    ForeignSchema(i64),
    /// The file or its directory cannot be read or written.
    #[error("{path}: cannot open the database: {source}")]
    CannotOpen { path: String, source: sqlx::Error },
    /// The file was deleted, or another one has its name. What is written would be lost.
    #[error("{path}: the database was deleted or replaced while it was in use; stop the coordinator and restore it")]
    Replaced { path: String },
    /// A unique key exists already.
    #[error("the row exists already")]
    Duplicate,
    /// A stored value is not one that this release writes.
    #[error("the database holds an invalid value: {0}")]
    Corrupt(String),
    /// Unreachable, out of disk, or timed out.
    #[error("the database does not answer: {0}")]
    Unavailable(#[source] sqlx::Error),
}

impl DbError {
    /// Nobody knows whether a transaction was stored: its task has panicked.
    pub(crate) fn lost() -> Self {
        Self::Unavailable(sqlx::Error::WorkerCrashed)
    }

    pub(crate) fn corrupt(what: &str, why: impl std::fmt::Display) -> Self {
        Self::Corrupt(format!("{what}: {why}"))
    }
}

impl From<sqlx::Error> for DbError {
    fn from(error: sqlx::Error) -> Self {
        // `constraint()` is None on SQLite; both engines report the kind of violation.
        if error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation) {
            return Self::Duplicate;
        }
        match error {
            sqlx::Error::ColumnDecode { index, source } => Self::corrupt(&index, source),
            other => Self::Unavailable(other),
        }
    }
}

impl From<MigrateError> for DbError {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::VersionMissing(version) | MigrateError::VersionTooNew(version, _) => Self::TooNew(version),
            MigrateError::VersionMismatch(version) => Self::ForeignSchema(version),
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => error.into(),
            other => Self::Unavailable(sqlx::Error::Migrate(Box::new(other))),
        }
    }
}
