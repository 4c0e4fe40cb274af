//! Opening the database: URLs, pools, pragmas, migrations.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::Connection;
use sqlx::SqliteConnection;
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use tokio::time::Instant;
use tributary_protocol::operator::DbLatency;

use super::watched::Watched;
use super::{DbError, Tx};
use crate::metrics::waits::{Waits, latency};
use crate::metrics::{DbOperation, Metrics};
use crate::runtime::clock::Stopwatch;

static MIGRATIONS: Migrator = sqlx::migrate!("../migrations");

/// Waits of this process for transactions.
static READS: Waits = Waits::new();
static WRITES: Waits = Waits::new();

/// Longest wait for a connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections to PostgreSQL.
const CONNECTIONS_MAX: u32 = 8;
/// Readers of SQLite for each processor, and how few and how many there are. Each is a thread with its pages and statements,
/// 1 to 2 MB: with eight instead of four on two processors, a coordinator of large models takes 10 MB more, and answers a
/// twentieth more check-ins.
const READERS_PER_PROCESSOR: usize = 2;
const READERS_MIN: usize = 4;
const READERS_MAX: usize = 16;
/// Memory of each reader of SQLite for pages, as the pragma has it: minus KiB. Pages that were read lately are in the
/// system's cache anyway; SQLite's own 2 MB for each would be a third of what the coordinator takes.
const READER_CACHE: &str = "-512";
/// Bytes of a page of a new database. Of a large update SQLite copies, checks and writes twice every page by itself: with its
/// own 4 KiB the coordinator takes a quarter more processor time for 40 MB, with this small transactions take 5 % more.
const PAGE_BYTES: u32 = 8192;
/// Pages in SQLite's log after which they are copied into the database. Its own 1,000 are a few parts of a body: those of
/// one large update would be as many copies, each with two syncs.
const LOG_PAGES: &str = "3000";
/// How writers of SQLite begin. The first is for what is acknowledged: the log is synced at its commit.
const BEGIN_DURABLE: &str = "pragma synchronous = full; begin immediate";
/// The second leaves that to a later commit of the first kind, which syncs all of the log.
const BEGIN_LOSABLE: &str = "pragma synchronous = normal; begin immediate";

/// How transactions of PostgreSQL begin.
const BEGIN_WRITING: &str = "begin";
const BEGIN_READING: &str = "begin isolation level repeatable read read only";

/// A handle to the database; cheap to clone.
#[derive(Clone, Debug)]
pub enum Db {
    /// The embedded default.
    Sqlite {
        /// Snapshots.
        readers: SqlitePool,
        /// SQLite has one writer at a time. One connection makes writers queue fairly in the pool, where SQLite's own
        /// busy handler would put them to sleep for milliseconds.
        writer: SqlitePool,
        /// Where times and failures are counted.
        metrics: Arc<Metrics>,
    },
    /// For more than one coordinator.
    Postgres {
        /// Connections.
        pool: PgPool,
        /// Where times and failures are counted.
        metrics: Arc<Metrics>,
    },
}

impl Db {
    /// Opens the database that `url` names (a file path, `sqlite:...` or `postgres://...`), creates the file if it is
    /// missing, and brings the schema up to date.
    ///
    /// # Errors
    /// [`DbError`] tells a file that is no database from one that is too new and from one that cannot be opened.
    pub async fn open(url: &str) -> Result<Self, DbError> {
        Self::open_watched(url, Metrics::off()).await
    }

    /// The same, counting times and failures.
    pub async fn open_watched(url: &str, metrics: Arc<Metrics>) -> Result<Self, DbError> {
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return Self::open_postgres(url, metrics).await;
        }
        Self::open_sqlite(sqlite_path(url)?, metrics).await
    }

    async fn open_sqlite(path: &str, metrics: Arc<Metrics>) -> Result<Self, DbError> {
        // What both have in common; what changes the file is the writer's alone.
        let common = SqliteConnectOptions::new()
            .filename(PathBuf::from(path))
            .foreign_keys(true)
            .busy_timeout(Duration::from_secs(10));
        let writing = common
            .clone()
            .create_if_missing(true)
            // What retention deletes can be given back to the file system (`Db::tidy`).
            .auto_vacuum(SqliteAutoVacuum::Incremental)
            .page_size(PAGE_BYTES)
            .journal_mode(SqliteJournalMode::Wal)
            .pragma("wal_autocheckpoint", LOG_PAGES)
            // An acknowledged update is durable: the log is synced at every commit.
            .synchronous(SqliteSynchronous::Full);
        let opened = |error: sqlx::Error| match error.as_database_error().and_then(sqlx::error::DatabaseError::code) {
            // SQLITE_NOTADB
            Some(code) if code == "26" => DbError::NotADatabase { path: path.to_owned() },
            _ => DbError::CannotOpen { path: path.to_owned(), source: error },
        };
        // A file does not hang up. Each test would be two switches of threads.
        let pool = |connections| {
            let options = SqlitePoolOptions::new().max_connections(connections);
            options.acquire_timeout(ACQUIRE_TIMEOUT).test_before_acquire(false)
        };
        // On a full disk SQLite ends a transaction by itself. sqlx then believes for ever that one is open, and could begin
        // no other: such a connection is closed, and the next one is new.
        let writer = pool(1).after_release(|connection, _| {
            Box::pin(async move {
                if connection.is_in_transaction() {
                    // One that was dropped is about to be rolled back; the answer comes after that.
                    connection.ping().await?;
                }
                Ok(!connection.is_in_transaction())
            })
        });
        let writer = writer.connect_with(writing).await.map_err(opened)?;
        MIGRATIONS.run(&writer).await?;
        let reading = common.read_only(true).pragma("cache_size", READER_CACHE);
        let readers = pool(readers_max()).connect_with(reading).await.map_err(opened)?;
        Ok(Self::Sqlite { readers, writer, metrics })
    }

    async fn open_postgres(url: &str, metrics: Arc<Metrics>) -> Result<Self, DbError> {
        let options = PgConnectOptions::from_str(url).map_err(DbError::Unavailable)?;
        let options =
            options.options([("statement_timeout", "30000"), ("idle_in_transaction_session_timeout", "30000")]);
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS_MAX).acquire_timeout(ACQUIRE_TIMEOUT);
        let pool = pool.connect_with(options).await.map_err(DbError::Unavailable)?;
        MIGRATIONS.run(&pool).await?;
        Ok(Self::Postgres { pool, metrics })
    }

    /// Begins a transaction that writes.
    pub async fn begin(&self) -> Result<Tx, DbError> {
        self.begin_writing(BEGIN_DURABLE).await
    }

    /// The same for what may be lost by a power failure unless a later transaction counts on it: its commit returns before
    /// it is on the disk. Nothing that a later commit of [`Self::begin`] builds on is lost: the log has one order.
    pub async fn begin_losable(&self) -> Result<Tx, DbError> {
        let mut tx = self.begin_writing(BEGIN_LOSABLE).await?;
        tx.may_be_lost().await?;
        Ok(tx)
    }

    async fn begin_writing(&self, begin_sqlite: &'static str) -> Result<Tx, DbError> {
        let began = Instant::now();
        let (stopwatch, operation) = (Stopwatch::start(), DbOperation::BeginWrite);
        let tx = match self {
            Self::Sqlite { writer, metrics, .. } => {
                // A read transaction that turns into a writer would fail at once, whatever the busy timeout.
                let begun = writer.begin_with(begin_sqlite).await;
                Tx::Sqlite(Watched::begun(begun, operation, stopwatch, metrics)?)
            }
            Self::Postgres { pool, metrics } => {
                Tx::Postgres(Watched::begun(begun(pool, BEGIN_WRITING).await, operation, stopwatch, metrics)?)
            }
        };
        WRITES.took(began.elapsed());
        Ok(tx)
    }

    /// Begins a transaction that only reads: a snapshot.
    pub async fn read(&self) -> Result<Tx, DbError> {
        let began = Instant::now();
        let (stopwatch, operation) = (Stopwatch::start(), DbOperation::BeginRead);
        let tx = match self {
            Self::Sqlite { readers, metrics, .. } => {
                Tx::Sqlite(Watched::begun(readers.begin().await, operation, stopwatch, metrics)?)
            }
            Self::Postgres { pool, metrics } => {
                Tx::Postgres(Watched::begun(begun(pool, BEGIN_READING).await, operation, stopwatch, metrics)?)
            }
        };
        READS.took(began.elapsed());
        Ok(tx)
    }

    /// How fast the database has answered lately.
    #[must_use]
    pub fn latency(&self) -> DbLatency {
        latency(&READS, &WRITES)
    }

    /// Where its times and failures are counted.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        match self {
            Self::Sqlite { metrics, .. } | Self::Postgres { metrics, .. } => metrics,
        }
    }

    /// Closes every connection; waits for those in use.
    pub async fn close(&self) {
        match self {
            Self::Sqlite { readers, writer, .. } => {
                readers.close().await;
                writer.close().await;
            }
            Self::Postgres { pool, .. } => pool.close().await,
        }
    }
}

fn readers_max() -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (READERS_PER_PROCESSOR * processors).clamp(READERS_MIN, READERS_MAX) as u32
}

/// The file that a URL of SQLite, or a plain path, names.
pub(crate) fn sqlite_path(url: &str) -> Result<&str, DbError> {
    let path = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:")).unwrap_or(url);
    // Readers and writer must see the same database, so one in memory cannot be; a query would become part of the name.
    if path.is_empty() || path.contains("://") || path.contains([':', '?']) {
        // Only the scheme: the rest may hold a password.
        return Err(DbError::UnknownKind(url.split(':').next().unwrap_or_default().to_owned()));
    }
    Ok(path)
}

/// Whether a SQLite database has a schema of ours that this release knows, or can bring up to date.
///
/// # Errors
/// [`DbError::NotADatabase`] for somebody else's database, [`DbError::TooNew`], [`DbError::ForeignSchema`].
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

/// Begins a transaction of PostgreSQL, to the end even if nobody waits for it any more: of a beginning that is given up sqlx
/// forgets that the server may have begun, and the connection's next user would be in that transaction.
async fn begun(pool: &PgPool, statement: &'static str) -> sqlx::Result<sqlx::Transaction<'static, sqlx::Postgres>> {
    let pool = pool.clone();
    let beginning = tokio::spawn(async move { pool.begin_with(statement).await });
    beginning.await.map_err(|failed| sqlx::Error::Io(std::io::Error::other(failed)))?
}
