//! Connections to PostgreSQL, and transactions on them.
//!
//! sqlx's pool asks each connection that is taken, and each that is given back, whether it still answers. These are two
//! round trips and a task for a statement that takes one round trip. Here a connection is asked only when it has
//! rested, or when an answer is missing.

use std::ops::{Deref, DerefMut};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::FutureExt;
use sqlx::{ConnectOptions, Connection};
use sqlx_postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::DbError;
use super::watched::Commit;
use crate::runtime::entropy::random;
use crate::runtime::lock::Locked;

const CONNECTIONS_MAX: usize = 8;
/// A connection that was used within this time is not asked whether it still answers. A database that restarts costs
/// each connection one failed statement within it.
const RESTED: Duration = Duration::from_secs(1);
/// Longest wait for the answer of a connection whose user went away.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Statements that each connection keeps prepared. The texts with several rows differ by their number of rows, so there
/// are more than sqlx's default of 100.
const STATEMENTS_MAX: usize = 500;

pub(super) const BEGIN_WRITING: &str = "begin";
/// Begins a transaction whose commit returns before it is on the disk.
pub(super) const BEGIN_LOSABLE: &str = "begin; set local synchronous_commit to off";
pub(super) const BEGIN_READING: &str = "begin isolation level repeatable read read only";

/// Connections to one database, at most so many at a time.
#[derive(Clone, Debug)]
pub struct Connections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: PgConnectOptions,
    idle: Mutex<Vec<Idle>>,
    places: Arc<Semaphore>,
    /// Longest wait for a connection.
    longest: Duration,
    /// Begins each notification of these connections, so that their own listener knows them.
    sender: Arc<str>,
}

#[derive(Debug)]
struct Idle {
    connection: PgConnection,
    since: Instant,
}

/// Connects within `longest`, which is also the longest wait for a connection later. The pool beside the connections is
/// for migrations and notifications, which sqlx takes from a pool of its own kind.
///
/// # Errors
/// [`DbError::Unavailable`] with the cause of the last attempt.
pub(super) async fn open(url: &str, longest: Duration) -> Result<(Connections, PgPool), DbError> {
    let options = PgConnectOptions::from_str(url).map_err(DbError::Unavailable)?;
    let options = options
        .options([("statement_timeout", "30000"), ("idle_in_transaction_session_timeout", "30000")])
        .statement_cache_capacity(STATEMENTS_MAX);
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
    let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(longest);
    let pool = pool.connect_with(options.clone()).await.map_err(|error| match (error, cause) {
        (sqlx::Error::PoolTimedOut, Some(cause)) => DbError::Unavailable(cause),
        (error, _) => DbError::Unavailable(error),
    })?;
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let sender = format!("{:016x}", u64::from_le_bytes(random())).into();
    let shared = Shared { options, idle: Mutex::default(), places, longest, sender };
    Ok((Connections(Arc::new(shared)), pool))
}

impl Shared {
    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.locked()
    }

    fn give_back(&self, connection: PgConnection) {
        if !self.places.is_closed() {
            self.idle().push(Idle { connection, since: Instant::now() });
        }
    }
}

impl Connections {
    /// A connection on which each statement is a transaction of its own.
    ///
    /// # Errors
    /// [`sqlx::Error::PoolTimedOut`] when none was free for too long, or why none could be opened.
    pub(super) async fn single(&self) -> sqlx::Result<PostgresTx> {
        let shared = Arc::clone(&self.0);
        let place = tokio::time::timeout(shared.longest, Arc::clone(&shared.places).acquire_owned()).await;
        let place = place.map_err(|_| sqlx::Error::PoolTimedOut)?.map_err(|_| sqlx::Error::PoolClosed)?;
        let connection = match self.rested().await {
            Some(connection) => connection,
            None => {
                let connecting = tokio::time::timeout(shared.longest, shared.options.connect()).await;
                connecting.map_err(|_| sqlx::Error::PoolTimedOut)??
            }
        };
        Ok(PostgresTx { connection: Some(connection), is_open: false, unanswered: 0, shared, place: Some(place) })
    }

    /// The connection that was used last, if one still answers.
    async fn rested(&self) -> Option<PgConnection> {
        loop {
            let Idle { mut connection, since } = self.0.idle().pop()?;
            if since.elapsed() < RESTED || connection.ping().await.is_ok() {
                return Some(connection);
            }
        }
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// Those of [`Self::single`], and when it cannot begin.
    pub(super) async fn begun(&self, statement: &'static str) -> sqlx::Result<PostgresTx> {
        let mut tx = self.single().await?;
        // Open from here on: if the caller is cancelled now, the server may have begun.
        tx.is_open = true;
        let begun = sqlx::raw_sql(statement).execute(&mut *tx).await;
        tx.answered(&begun);
        begun.map(|_| tx)
    }

    /// What a notification of another coordinator says; none for one of these connections.
    pub(crate) fn of_others<'a>(&self, payload: &'a str) -> Option<&'a str> {
        let (sender, news) = payload.split_once(' ')?;
        (sender != &*self.0.sender).then_some(news)
    }

    /// Closes every connection, and waits for those in use.
    pub(super) async fn close(&self) {
        let all = self.0.places.acquire_many(CONNECTIONS_MAX as u32).await;
        self.0.places.close();
        drop(all);
        let idle = std::mem::take(&mut *self.0.idle());
        for Idle { connection, .. } in idle {
            // Nothing is left to be stored.
            let _ = connection.close().await;
        }
    }
}

/// A transaction, or a connection without one. Dropping it without a commit rolls back.
#[derive(Debug)]
pub struct PostgresTx {
    /// There until it is dropped.
    connection: Option<PgConnection>,
    /// Whether a transaction has begun.
    is_open: bool,
    /// Statements that were given to the connection and are not known to have succeeded.
    unanswered: u32,
    shared: Arc<Shared>,
    /// There until it is dropped.
    place: Option<OwnedSemaphorePermit>,
}

impl Commit for PostgresTx {
    async fn commit(mut self) -> sqlx::Result<()> {
        if self.is_open {
            let committed = sqlx::raw_sql("commit").execute(&mut *self).await;
            self.answered(&committed);
            committed?;
            self.is_open = false;
        }
        Ok(())
    }

    fn answered<R>(&mut self, result: &sqlx::Result<R>) {
        if result.is_ok() {
            self.unanswered = 0;
        }
    }
}

impl Drop for PostgresTx {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        if self.unanswered == 0 {
            // Sent, and not waited for: the next statement of the connection comes after it.
            if self.is_open {
                let _ = sqlx::raw_sql("rollback").execute(&mut connection).now_or_never();
            }
            return self.shared.give_back(connection);
        }
        // A statement failed, or its caller went away before the answer: it may still run, and the connection may be
        // broken. The next user of a connection does not wait for it.
        let (Ok(runtime), is_open) = (Handle::try_current(), self.is_open) else { return };
        let (shared, place) = (Arc::clone(&self.shared), self.place.take());
        runtime.spawn(async move {
            let asked = async {
                match is_open {
                    true => sqlx::raw_sql("rollback").execute(&mut connection).await.map(drop),
                    false => connection.ping().await,
                }
            };
            if let Ok(Ok(())) = tokio::time::timeout(ANSWER_MAX, asked).await {
                shared.give_back(connection);
            }
            drop(place);
        });
    }
}

impl PostgresTx {
    /// What its notifications begin with.
    pub(super) fn sender(&self) -> Arc<str> {
        Arc::clone(&self.shared.sender)
    }
}

impl Deref for PostgresTx {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.connection.as_ref().expect("it is there until the transaction is dropped")
    }
}

impl DerefMut for PostgresTx {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.unanswered += 1;
        self.connection.as_mut().expect("it is there until the transaction is dropped")
    }
}
