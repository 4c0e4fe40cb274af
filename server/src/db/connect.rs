//! Opening the database: URLs, pools, pragmas, migrations. PostgreSQL's part is in `postgres`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx_sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use tokio::time::Instant;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::operator::{DbLatency, Engine};

use super::file::DbFile;
use super::followers::Followers;
use super::log_sync::LogSync;
#[cfg(feature = "postgres")]
use super::postgres;
use super::sqlite::{Connections, SqliteTx};
use super::watched::Watched;
use super::{Authenticated, DbError, Tx};
use crate::metrics::{DbOperation, Metrics};
use crate::runtime::clock::Stopwatch;

static MIGRATIONS: Migrator = sqlx::migrate!("../migrations");

/// Longest wait for a connection before the request is answered with 503.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// Readers of SQLite for each processor, with their limits. Each reader is a thread with page cache and statements, 1
/// to 2 MB. Measured on two processors: eight readers instead of four cost 10 MB more with large models, and answer 5 %
/// more check-ins.
const READERS_PER_PROCESSOR: usize = 2;
const READERS_MIN: usize = 4;
const READERS_MAX: usize = 16;
/// Page cache of each reader of SQLite, in the unit of the pragma (minus KiB). Pages that were read lately are in the
/// system's cache anyway. SQLite's default of 2 MB per reader would be a third of the coordinator's memory.
const READER_CACHE: &str = "-512";
/// Bytes of a page of a new database. SQLite copies, checks and writes each page of a large update twice. Measured:
/// with SQLite's default of 4 KiB an update of 40 MB takes 25 % more processor time; with 8 KiB small transactions take
/// 5 % more.
const PAGE_BYTES: u32 = 8192;
/// Pages in SQLite's write-ahead log after which they are copied into the database. SQLite's default of 1,000 is a few
/// chunks of a body, so one large update would cause many copies, each with two syncs.
const LOG_PAGES: &str = "3000";
/// How transactions of SQLite begin.
const BEGIN_READING: &str = "begin; ";
/// How those begin that write. Without `immediate`, a read transaction that turns into a writer fails at once, whatever
/// the busy timeout.
const BEGIN_WRITING: &str = "begin immediate; ";

/// A handle to the database; cheap to clone.
#[derive(Clone, Debug)]
pub enum Db {
    /// The embedded default.
    Sqlite {
        /// Read-only connections; each transaction sees a snapshot.
        readers: Connections,
        /// SQLite has one writer at a time. With one connection, writers queue fairly for it. SQLite's own busy handler
        /// would make them sleep for milliseconds.
        writer: Connections,
        file: Arc<DbFile>,
        /// Makes commits durable, several at once.
        sync: Arc<LogSync>,
        followers: Arc<Followers>,
        /// Receives times and failures.
        metrics: Arc<Metrics>,
    },
    /// Required for more than one coordinator.
    #[cfg(feature = "postgres")]
    Postgres {
        connections: postgres::Connections,
        /// The connection for notifications.
        pool: sqlx_postgres::PgPool,
        followers: Arc<Followers>,
        /// Receives times and failures.
        metrics: Arc<Metrics>,
    },
}

impl Db {
    /// Opens the database that `url` names (a file path, `sqlite:...` or `postgres://...`), creates the file if it is
    /// missing, and brings the schema up to date.
    ///
    /// # Errors
    /// [`DbError`] distinguishes a file that is no database, one that a newer release wrote, and one that cannot be
    /// opened.
    pub async fn open(url: &str) -> Result<Self, DbError> {
        Self::open_watched(url, Metrics::off()).await
    }

    /// Like [`Self::open`], with times and failures recorded in `metrics`.
    pub async fn open_watched(url: &str, metrics: Arc<Metrics>) -> Result<Self, DbError> {
        if Self::is_shared(url) {
            #[cfg(feature = "postgres")]
            {
                let (connections, pool) = postgres::open(url, ACQUIRE_TIMEOUT).await?;
                MIGRATIONS.run(&pool).await?;
                let followers = Arc::new(Followers::default());
                return Ok(Self::Postgres { connections, pool, followers, metrics });
            }
            #[cfg(not(feature = "postgres"))]
            return Err(DbError::NotBuilt);
        }
        Self::open_sqlite(sqlite_path(url)?, metrics).await
    }

    /// Whether several coordinators may serve this database: it is one of PostgreSQL.
    pub(super) fn is_shared(url: &str) -> bool {
        url.starts_with("postgres://") || url.starts_with("postgresql://")
    }

    async fn open_sqlite(path: &str, metrics: Arc<Metrics>) -> Result<Self, DbError> {
        // Options of readers and writer. Options that change the file belong to the writer alone.
        let common = SqliteConnectOptions::new()
            .filename(PathBuf::from(path))
            .foreign_keys(true)
            .busy_timeout(Duration::from_secs(10));
        let writing = common
            .clone()
            .create_if_missing(true)
            // Lets `Db::tidy` return the pages that retention freed to the file system.
            .auto_vacuum(SqliteAutoVacuum::Incremental)
            .page_size(PAGE_BYTES)
            .journal_mode(SqliteJournalMode::Wal)
            .pragma("wal_autocheckpoint", LOG_PAGES)
            // Zeroes what is deleted where that needs no further write: an update should not outlive its round.
            .pragma("secure_delete", "FAST")
            // Commits do not sync the log; checkpoints do. An acknowledged update is durable by `LogSync`.
            .synchronous(SqliteSynchronous::Normal);
        let opened = |error: sqlx::Error| match error.as_database_error().and_then(sqlx::error::DatabaseError::code) {
            // SQLITE_NOTADB
            Some(code) if code == "26" => DbError::NotADatabase { path: path.to_owned() },
            _ => DbError::CannotOpen { path: path.to_owned(), source: error },
        };
        make_private(path).map_err(|error| opened(sqlx::Error::Io(error)))?;
        let writer = Connections::open(writing.clone(), BEGIN_WRITING, 1, ACQUIRE_TIMEOUT).await.map_err(opened)?;
        // sqlx migrates with a pool: its future for a connection alone is not `Send`.
        let migrating = SqlitePoolOptions::new().max_connections(1).connect_with(writing).await.map_err(opened)?;
        MIGRATIONS.run(&migrating).await?;
        migrating.close().await;
        let reading = common.read_only(true).pragma("cache_size", READER_CACHE);
        let readers =
            Connections::open(reading, BEGIN_READING, readers_max(), ACQUIRE_TIMEOUT).await.map_err(opened)?;
        let file = DbFile::of(Path::new(path)).map_err(|error| opened(sqlx::Error::Io(error)))?;
        let sync = LogSync::of(Path::new(path)).map_err(|error| opened(sqlx::Error::Io(error)))?;
        Ok(Self::Sqlite {
            readers,
            writer,
            file: Arc::new(file),
            sync: Arc::new(sync),
            followers: Arc::new(Followers::remembering()),
            metrics,
        })
    }

    /// Begins a transaction that writes. Its commit is durable.
    pub async fn begin(&self) -> Result<Tx, DbError> {
        self.begin_writing(true).await
    }

    /// Begins a transaction that a power failure may undo: its commit returns before it is on the disk. A later commit
    /// of [`Self::begin`] makes it durable as well, because the log has one order.
    pub async fn begin_losable(&self) -> Result<Tx, DbError> {
        self.begin_writing(false).await
    }

    async fn begin_writing(&self, is_durable: bool) -> Result<Tx, DbError> {
        let began = Instant::now();
        let (stopwatch, operation) = (Stopwatch::start(), DbOperation::BeginWrite);
        let tx = match self {
            Self::Sqlite { writer, file, sync, followers, metrics, .. } => {
                file.check()?;
                let begun = writer.acquire().await;
                let tx =
                    Watched::begun(begun, operation, stopwatch, metrics)?.followed_by(Arc::clone(followers) as Arc<_>);
                Tx::Sqlite(if is_durable { tx.synced_by(sync) } else { tx })
            }
            #[cfg(feature = "postgres")]
            Self::Postgres { connections, followers, metrics, .. } => {
                let statement = if is_durable { postgres::BEGIN_WRITING } else { postgres::BEGIN_LOSABLE };
                let begun = connections.begun(statement).await;
                Tx::Postgres(
                    Watched::begun(begun, operation, stopwatch, metrics)?.followed_by(Arc::clone(followers) as Arc<_>),
                )
            }
        };
        self.metrics().writes.took(began.elapsed());
        Ok(tx)
    }

    /// Begins a transaction that reads a snapshot.
    pub async fn read(&self) -> Result<Tx, DbError> {
        let began = Instant::now();
        let (stopwatch, operation) = (Stopwatch::start(), DbOperation::BeginRead);
        let tx = match self {
            Self::Sqlite { readers, file, metrics, .. } => {
                // A new connection would read the other file.
                file.check()?;
                Tx::Sqlite(Watched::begun(readers.acquire().await, operation, stopwatch, metrics)?)
            }
            #[cfg(feature = "postgres")]
            Self::Postgres { connections, metrics, .. } => {
                let begun = connections.begun(postgres::BEGIN_READING).await;
                Tx::Postgres(Watched::begun(begun, operation, stopwatch, metrics)?)
            }
        };
        self.metrics().reads.took(began.elapsed());
        Ok(tx)
    }

    /// A connection on which each statement reads what is stored when it begins: for a single one, and for those that
    /// need no common snapshot. Beginning and ending one would cost as much as a statement, and two round trips to
    /// PostgreSQL.
    pub async fn look(&self) -> Result<Tx, DbError> {
        let began = Instant::now();
        let (stopwatch, operation) = (Stopwatch::start(), DbOperation::BeginRead);
        let tx = match self {
            Self::Sqlite { readers, file, metrics, .. } => {
                file.check()?;
                let connection = readers.acquire().await.map(SqliteTx::without_transaction);
                Tx::Sqlite(Watched::begun(connection, operation, stopwatch, metrics)?)
            }
            #[cfg(feature = "postgres")]
            Self::Postgres { connections, metrics, .. } => {
                Tx::Postgres(Watched::begun(connections.single().await, operation, stopwatch, metrics)?)
            }
        };
        self.metrics().reads.took(began.elapsed());
        Ok(tx)
    }

    /// The client with this hash of its secret, or of its next secret. One that authenticated lately takes no query.
    pub async fn client_by_secret(&self, secret: &Sha256Hash) -> Result<Option<Authenticated>, DbError> {
        let Some(recent) = &self.followers().recent else {
            return self.look().await?.client_by_secret(secret).await;
        };
        let began = match recent.find(secret) {
            Ok(known) => return Ok(Some(Authenticated { known, has_work: None })),
            Err(began) => began,
        };
        let client = self.look().await?.client_by_secret(secret).await?;
        // A next secret is not remembered: its first use is a change.
        if let Some(Authenticated { known, .. }) = client.as_ref().filter(|of| of.known.secret_sha256 == *secret) {
            recent.remember(began, known);
        }
        Ok(client)
    }

    /// The file of a SQLite database.
    pub fn file(&self) -> Option<PathBuf> {
        match self {
            Self::Sqlite { writer, .. } => Some(writer.options().get_filename().to_owned()),
            #[cfg(feature = "postgres")]
            Self::Postgres { .. } => None,
        }
    }

    pub fn engine(&self) -> Engine {
        match self {
            Self::Sqlite { .. } => Engine::Sqlite,
            #[cfg(feature = "postgres")]
            Self::Postgres { .. } => Engine::Postgres,
        }
    }

    /// Whether no other coordinator serves this database.
    pub(super) fn is_alone(&self) -> bool {
        matches!(self, Self::Sqlite { .. })
    }

    pub(super) fn followers(&self) -> &Followers {
        match self {
            Self::Sqlite { followers, .. } => followers,
            #[cfg(feature = "postgres")]
            Self::Postgres { followers, .. } => followers,
        }
    }

    /// Recent waiting times of transactions.
    pub fn latency(&self) -> DbLatency {
        let Metrics { reads, writes, .. } = &**self.metrics();
        let ((read_ms_p50, read_ms_p99), (write_ms_p50, write_ms_p99)) =
            (reads.percentiles_ms(), writes.percentiles_ms());
        DbLatency { read_ms_p50, read_ms_p99, write_ms_p50, write_ms_p99 }
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        match self {
            Self::Sqlite { metrics, .. } => metrics,
            #[cfg(feature = "postgres")]
            Self::Postgres { metrics, .. } => metrics,
        }
    }

    /// Closes every connection, and waits for those in use.
    pub async fn close(&self) {
        match self {
            Self::Sqlite { readers, writer, .. } => {
                readers.close().await;
                writer.close().await;
            }
            #[cfg(feature = "postgres")]
            Self::Postgres { connections, pool, .. } => {
                connections.close().await;
                pool.close().await;
            }
        }
    }
}

fn readers_max() -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (READERS_PER_PROCESSOR * processors).clamp(READERS_MIN, READERS_MAX) as u32
}

/// The file that a `sqlite:` URL or a plain path names.
pub(crate) fn sqlite_path(url: &str) -> Result<&str, DbError> {
    let path = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:")).unwrap_or(url);
    // Readers and writer must see the same database, which excludes one in memory. A query would become part of the
    // file's name.
    if path.is_empty() || path.contains("://") || path.contains([':', '?']) {
        // Only the scheme is reported, because the rest may contain a password.
        return Err(DbError::UnknownKind(url.split(':').next().unwrap_or_default().to_owned()));
    }
    Ok(path)
}

/// Checks that a SQLite database has our schema, in a version that this release knows or can bring up to date.
///
/// # Errors
/// [`DbError::NotADatabase`] for the database of another program, [`DbError::TooNew`], [`DbError::ForeignSchema`].
pub(crate) async fn sqlite_schema(connection: &mut SqliteConnection) -> Result<(), DbError> {
    let sql = "select count(*) from sqlite_master where type = 'table' and name in ('_sqlx_migrations', 'populations')";
    let (tables,): (i64,) = sqlx::query_as(sql).fetch_one(&mut *connection).await?;
    if tables < 2 {
        return Err(DbError::NotADatabase { path: String::new() });
    }
    let sql = "select version, checksum from _sqlx_migrations order by version";
    let applied: Vec<(i64, Vec<u8>)> = sqlx::query_as(sql).fetch_all(connection).await?;
    for (version, checksum) in applied {
        let ours = MIGRATIONS.iter().find(|ours| ours.version == version).ok_or(DbError::TooNew(version))?;
        if *ours.checksum != *checksum {
            return Err(DbError::ForeignSchema(version));
        }
    }
    Ok(())
}

/// Makes the file of a new database, readable for its owner alone: it holds updates until their round ends, and hashes
/// of secrets. SQLite gives its log the same permissions. An existing file keeps its own.
fn make_private(path: &str) -> std::io::Result<()> {
    if path.starts_with(':') || std::path::Path::new(path).exists() {
        return Ok(());
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}
