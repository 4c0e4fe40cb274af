//! Connections to a SQLite file, and transactions on them.
//!
//! sqlx runs each statement on a thread of the connection, so a statement costs two thread switches. Its pool and its
//! transactions add up to eight: to begin, to end, and to ask each connection that is given back whether it still
//! answers. Here a transaction begins together with its first statement, and only a commit is waited for: one that
//! reads with n statements costs 2 n + 1 switches.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::{FutureExt, TryStreamExt};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Either, Executor, SqlSafeStr, SqlStr};
use sqlx_sqlite::{Sqlite, SqliteArguments, SqliteConnectOptions, SqliteConnection};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::watched::Commit;
use crate::runtime::lock::Locked;

/// Messages that a connection's thread may have before it. A transaction that is dropped leaves its rollback without
/// waiting for a place, so there must be one: a dropped request leaves two messages.
const MESSAGES_MAX: usize = 1 << 12;

/// Connections to one file, at most so many at a time.
#[derive(Clone, Debug)]
pub struct Connections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: SqliteConnectOptions,
    /// What stands before the first statement of a transaction.
    begins: &'static str,
    idle: Mutex<Vec<SqliteConnection>>,
    places: Arc<Semaphore>,
    count: u32,
    /// Longest wait for a connection.
    longest: Duration,
}

impl Shared {
    fn idle(&self) -> MutexGuard<'_, Vec<SqliteConnection>> {
        self.idle.locked()
    }
}

/// A transaction, or a connection on which none has begun. Dropping it without a commit rolls back.
#[derive(Debug)]
pub struct SqliteTx {
    /// There until it is dropped.
    connection: Option<SqliteConnection>,
    /// What stands before the next statement.
    begins: &'static str,
    /// Whether a transaction has begun.
    is_open: bool,
    shared: Arc<Shared>,
    _place: OwnedSemaphorePermit,
}

impl Connections {
    /// Opens the first connection. Further ones are opened when they are needed, and kept. `begins` ends with a
    /// semicolon.
    pub(super) async fn open(
        options: SqliteConnectOptions,
        begins: &'static str,
        count: u32,
        longest: Duration,
    ) -> sqlx::Result<Self> {
        let options = options.command_buffer_size(MESSAGES_MAX);
        let first = options.connect().await?;
        let (idle, places) = (Mutex::new(vec![first]), Arc::new(Semaphore::new(count as usize)));
        Ok(Self(Arc::new(Shared { options, begins, idle, places, count, longest })))
    }

    /// A connection, on which a transaction begins with the first statement that is given by [`SqliteTx::text`].
    /// Others run by themselves.
    ///
    /// # Errors
    /// [`sqlx::Error::PoolTimedOut`] when none was free for too long.
    pub async fn acquire(&self) -> sqlx::Result<SqliteTx> {
        let shared = Arc::clone(&self.0);
        let place = tokio::time::timeout(shared.longest, Arc::clone(&shared.places).acquire_owned()).await;
        let place = place.map_err(|_| sqlx::Error::PoolTimedOut)?.map_err(|_| sqlx::Error::PoolClosed)?;
        // The one that was used last: its thread and its pages are warm.
        let idle = shared.idle().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => shared.options.connect().await?,
        };
        let begins = shared.begins;
        Ok(SqliteTx { connection: Some(connection), begins, is_open: false, shared, _place: place })
    }

    pub(super) fn options(&self) -> &SqliteConnectOptions {
        &self.0.options
    }

    /// Closes every connection, and waits for those in use.
    pub(super) async fn close(&self) {
        let all = self.0.places.acquire_many(self.0.count).await;
        self.0.places.close();
        drop(all);
        let idle = std::mem::take(&mut *self.0.idle());
        for connection in idle {
            // Nothing is left to be stored.
            let _ = connection.close().await;
        }
    }
}

impl SqliteTx {
    /// The connection alone: each statement is a transaction of its own.
    pub(super) fn without_transaction(mut self) -> Self {
        self.begins = "";
        self
    }

    /// What stands before the next statement: the transaction's beginning before the first one.
    pub(super) fn begins(&mut self) -> &'static str {
        let begins = std::mem::take(&mut self.begins);
        self.is_open |= !begins.is_empty();
        begins
    }

    /// The text of the next statement.
    pub(super) fn text(&mut self, sql: &'static str) -> SqlStr {
        match self.begins() {
            "" => sql.into_sql_str(),
            begins => AssertSqlSafe(format!("{begins}{sql}")).into_sql_str(),
        }
    }

    /// Runs a statement. Returns the number of rows that it changed: of several statements, the last.
    pub(super) async fn run(&mut self, query: Query<'_, Sqlite, SqliteArguments>) -> sqlx::Result<u64> {
        let mut results = (&mut **self).fetch_many(query);
        let mut changed = 0;
        while let Some(result) = results.try_next().await? {
            if let Either::Left(done) = result {
                changed = done.rows_affected();
            }
        }
        Ok(changed)
    }
}

impl Commit for SqliteTx {
    async fn commit(mut self) -> sqlx::Result<()> {
        if self.is_open {
            sqlx::query("commit").execute(&mut *self).await?;
            self.is_open = false;
        }
        Ok(())
    }
}

impl Drop for SqliteTx {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        // Sent, and not waited for: the next statement of the connection comes after it. SQLite may have ended the
        // transaction by itself, on a full disk for example; then the rollback fails, and changes nothing.
        let sent = self.is_open.then(|| sqlx::query("rollback").execute(&mut connection).now_or_never()).flatten();
        if !matches!(sent, Some(Err(sqlx::Error::WorkerCrashed))) {
            self.shared.idle().push(connection);
        }
    }
}

impl Deref for SqliteTx {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        self.connection.as_ref().expect("it is there until the transaction is dropped")
    }
}

impl DerefMut for SqliteTx {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        self.connection.as_mut().expect("it is there until the transaction is dropped")
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    const SOON: Duration = Duration::from_secs(60);

    /// A file with a table of one column, and its only connection.
    async fn opened() -> (TempDir, Connections) {
        let folder = TempDir::new().unwrap();
        let options = SqliteConnectOptions::new().filename(folder.path().join("a.db")).create_if_missing(true);
        let connections = Connections::open(options, "begin immediate; ", 1, SOON).await.unwrap();
        run(&connections, "create table numbers (number bigint)").await;
        (folder, connections)
    }

    /// Runs a statement in a transaction of its own. Answers how many rows it changed.
    async fn run(connections: &Connections, sql: &'static str) -> u64 {
        let mut tx = connections.acquire().await.unwrap();
        let query = sqlx::query(tx.text(sql));
        let changed = tx.run(query).await.unwrap();
        tx.commit().await.unwrap();
        changed
    }

    async fn count(connections: &Connections) -> i64 {
        let mut tx = connections.acquire().await.unwrap();
        let query = sqlx::query_as(tx.text("select count(*) from numbers"));
        let (count,) = query.fetch_one(&mut *tx).await.unwrap();
        count
    }

    #[tokio::test]
    async fn what_is_dropped_is_rolled_back_and_the_connection_serves_the_next() {
        let (_folder, connections) = opened().await;
        for kept in [false, true, false] {
            let mut tx = connections.acquire().await.unwrap();
            for sql in ["insert into numbers values (1)", "insert into numbers values (2)"] {
                let query = sqlx::query(tx.text(sql));
                assert_eq!(tx.run(query).await.unwrap(), 1);
            }
            if kept {
                tx.commit().await.unwrap();
            }
        }
        assert_eq!(count(&connections).await, 2);
    }

    #[tokio::test]
    async fn a_connection_without_a_transaction_leaves_none_behind() {
        let (_folder, connections) = opened().await;
        let mut single = connections.acquire().await.unwrap().without_transaction();
        let query = sqlx::query(single.text("insert into numbers values (1)"));
        assert_eq!(single.run(query).await.unwrap(), 1);
        drop(single);
        assert_eq!(count(&connections).await, 1, "the statement was a transaction of its own");
        assert_eq!(run(&connections, "insert into numbers values (2)").await, 1);
    }

    /// SQLite counts the rows of the last statement that changed any, and beginning changes none.
    #[tokio::test]
    async fn a_first_statement_is_not_told_the_rows_of_the_transaction_before() {
        let (_folder, connections) = opened().await;
        assert_eq!(run(&connections, "insert into numbers values (1), (2), (3)").await, 3);
        assert_eq!(run(&connections, "update numbers set number = 0 where number > 3").await, 0);
        assert_eq!(run(&connections, "delete from numbers where number > 1").await, 2);
    }

    #[tokio::test]
    async fn statements_that_fail_or_are_cancelled_leave_a_connection_that_works() {
        let (_folder, connections) = opened().await;
        for _ in 0..100 {
            let mut tx = connections.acquire().await.unwrap();
            let query = sqlx::query(tx.text("insert into numbers values (1)"));
            // Sent, and dropped before its answer.
            let _ = tx.run(query).now_or_never();
        }
        let mut tx = connections.acquire().await.unwrap();
        let query = sqlx::query(tx.text("insert into nothing values (1)"));
        assert!(tx.run(query).await.is_err());
        drop(tx);
        // A transaction that SQLite has ended by itself, as on a full disk.
        let mut tx = connections.acquire().await.unwrap();
        let query = sqlx::query(tx.text("insert into numbers values (1)"));
        tx.run(query).await.unwrap();
        sqlx::query("rollback").execute(&mut *tx).await.unwrap();
        drop(tx);
        assert_eq!(count(&connections).await, 0);
        assert_eq!(run(&connections, "insert into numbers values (1)").await, 1);
        assert_eq!(connections.0.idle().len(), 1, "all of them used one connection");
    }

    #[tokio::test]
    async fn closing_waits_for_those_in_use_and_lets_nobody_in() {
        let (_folder, connections) = opened().await;
        let tx = connections.acquire().await.unwrap();
        let closing = tokio::spawn({
            let connections = connections.clone();
            async move { connections.close().await }
        });
        tokio::task::yield_now().await;
        assert!(!closing.is_finished());
        drop(tx);
        closing.await.unwrap();
        assert!(matches!(connections.acquire().await, Err(sqlx::Error::PoolClosed)));
    }
}
