//! A transaction whose times are measured, and which counts what it did once it has committed.

use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use tributary_protocol::id::ClientId;

use super::changes::{ClientChange, Follower};
use super::downloads::Download;
use super::log_sync::LogSync;
use crate::metrics::{Counted, DbOperation, Metrics};
use crate::runtime::clock::Stopwatch;

/// A transaction of an engine.
pub trait Commit: Send + 'static {
    /// Stores what it did.
    fn commit(self) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// A statement has its answer.
    fn answered<R>(&mut self, _result: &sqlx::Result<R>) {}
}

/// An open transaction of one engine. It stands for it wherever a query wants one.
#[derive(Debug)]
pub struct Watched<T> {
    tx: T,
    metrics: Arc<Metrics>,
    counted: Vec<Counted>,
    /// What makes its commit durable, where the commit itself does not.
    sync: Option<Arc<LogSync>>,
    /// Who follows its changes of clients once they are committed; none where it only reads.
    follower: Option<Arc<dyn Follower>>,
    changes: Vec<(ClientId, ClientChange)>,
}

impl<T: Commit> Watched<T> {
    pub(super) fn begun(
        begun: Result<T, sqlx::Error>,
        operation: DbOperation,
        stopwatch: Stopwatch,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, sqlx::Error> {
        metrics.database(operation, stopwatch, &begun);
        Ok(Self {
            tx: begun?,
            metrics: Arc::clone(metrics),
            counted: Vec::new(),
            sync: None,
            follower: None,
            changes: Vec::new(),
        })
    }

    /// Lets the commit wait for a sync of the log.
    pub(super) fn synced_by(self, sync: &Arc<LogSync>) -> Self {
        Self { sync: Some(Arc::clone(sync)), ..self }
    }

    /// Tells what it changes about clients.
    pub(super) fn followed_by(self, follower: Arc<dyn Follower>) -> Self {
        Self { follower: Some(follower), ..self }
    }

    /// What it changes about a client, for those who remember clients.
    pub(super) fn changes(&mut self, client: ClientId, change: impl FnOnce() -> ClientChange) {
        if self.follower.as_ref().is_some_and(|follower| follower.remembers()) {
            self.changes.push((client, change()));
        }
    }

    /// What was downloaded for a client's assignment and is not stored. The assignment ends.
    pub(super) fn downloaded(&mut self, client: ClientId) -> Download {
        let Some(follower) = &self.follower else { return Download::default() };
        self.changes.push((client, ClientChange::Ended));
        follower.downloaded(client)
    }

    /// The beginning of a client's assignment: bytes that were downloaded for an earlier one do not belong to it.
    pub(super) fn forgets_downloads(&self, client: ClientId) {
        if let Some(follower) = &self.follower {
            follower.forget_downloads(client);
        }
    }

    /// A query has ended.
    pub(super) fn asked<R>(&mut self, stopwatch: Stopwatch, result: &Result<R, sqlx::Error>) {
        self.tx.answered(result);
        self.metrics.database(DbOperation::Query, stopwatch, result);
    }

    /// What it does, to be counted if it commits.
    pub(super) fn counts(&mut self, counted: Counted) {
        if self.metrics.is_on() {
            self.counted.push(counted);
        }
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(super) async fn commit(self) -> Result<(), sqlx::Error> {
        if self.changes.is_empty() {
            return self.commit_now().await;
        }
        // A task of its own: a request that is cancelled here may have committed, and its change must be followed.
        tokio::spawn(self.commit_now()).await.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()))
    }

    async fn commit_now(self) -> Result<(), sqlx::Error> {
        let Self { tx, metrics, counted, sync, follower, changes } = self;
        let stopwatch = Stopwatch::start();
        let mut committed = tx.commit().await;
        if let (Ok(()), Some(sync)) = (&committed, sync) {
            committed = sync.synced().await.map_err(sqlx::Error::Io);
        }
        if let Some(follower) = follower {
            follower.follow(changes, committed.is_ok());
        }
        metrics.database(DbOperation::Commit, stopwatch, &committed);
        committed?;
        for counted in &counted {
            metrics.count(counted);
        }
        Ok(())
    }
}

impl<T> Deref for Watched<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.tx
    }
}

impl<T> DerefMut for Watched<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.tx
    }
}
