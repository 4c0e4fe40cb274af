//! Opening a database of PostgreSQL, and beginning its transactions.

use std::ops::{Deref, DerefMut};
use std::str::FromStr;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{Connection, Transaction};
use sqlx_postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions, Postgres};

use super::DbError;
use super::watched::Commit;

const CONNECTIONS_MAX: u32 = 8;

pub(super) const BEGIN_WRITING: &str = "begin";
pub(super) const BEGIN_READING: &str = "begin isolation level repeatable read read only";

/// Connects within `longest`, which is also the longest wait for a connection of the pool.
///
/// # Errors
/// [`DbError::Unavailable`] with the cause of the last attempt.
pub(super) async fn open(url: &str, longest: Duration) -> Result<PgPool, DbError> {
    let options = PgConnectOptions::from_str(url).map_err(DbError::Unavailable)?;
    let options = options.options([("statement_timeout", "30000"), ("idle_in_transaction_session_timeout", "30000")]);
    // The pool tries again until its time is up, because a database may start after its coordinator. It then reports
    // the time alone, so the cause is taken from an attempt of our own.
    let cause = match tokio::time::timeout(longest, PgConnection::connect_with(&options)).await {
        Ok(Ok(connection)) => {
            let _ = connection.close().await;
            None
        }
        Ok(Err(error)) => Some(error),
        Err(_) => None,
    };
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS_MAX).acquire_timeout(longest);
    pool.connect_with(options).await.map_err(|error| match (error, cause) {
        (sqlx::Error::PoolTimedOut, Some(cause)) => DbError::Unavailable(cause),
        (error, _) => DbError::Unavailable(error),
    })
}

/// Begins a transaction in a task of its own, so that a cancelled caller does not cancel the beginning. sqlx would
/// forget that the server may have begun, and the connection's next user would be in that transaction.
pub(super) async fn begun(pool: &PgPool, statement: &'static str) -> sqlx::Result<PostgresTx> {
    let pool = pool.clone();
    let beginning = tokio::spawn(async move { pool.begin_with(statement).await });
    beginning.await.map_err(|failed| sqlx::Error::Io(std::io::Error::other(failed)))?.map(PostgresTx::Open)
}

/// A transaction, or a connection without one.
#[derive(Debug)]
pub enum PostgresTx {
    /// Dropping it without a commit rolls it back.
    Open(Transaction<'static, Postgres>),
    /// Each statement is a transaction of its own.
    Single(PoolConnection<Postgres>),
}

impl Commit for PostgresTx {
    async fn commit(self) -> sqlx::Result<()> {
        match self {
            Self::Open(transaction) => transaction.commit().await,
            Self::Single(_) => Ok(()),
        }
    }
}

impl Deref for PostgresTx {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match self {
            Self::Open(transaction) => transaction,
            Self::Single(connection) => connection,
        }
    }
}

impl DerefMut for PostgresTx {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match self {
            Self::Open(transaction) => transaction,
            Self::Single(connection) => connection,
        }
    }
}
