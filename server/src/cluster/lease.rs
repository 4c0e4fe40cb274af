//! Leases: which coordinator drives a job.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tributary_protocol::id::{JobId, Name};

use crate::app::App;
use crate::db::DbError;

/// Length of a lease unless the configuration says otherwise: a dead driver's jobs are taken over within it.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(10);

/// What this process knows of leases.
#[derive(Debug)]
pub struct Leases {
    node: Name,
    length_ms: i64,
    started_at_ms: i64,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// When each lease of ours ends.
    until_ms: HashMap<JobId, i64>,
    /// When this node last said that it is alive.
    seen_at_ms: Option<i64>,
}

/// What came of asking for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// This node drives the job; ask again at this time.
    Ours {
        /// When to renew.
        renew_at_ms: i64,
    },
    /// Another node does; it may be gone at this time.
    Theirs {
        /// When its lease ends.
        until_ms: i64,
    },
}

impl Leases {
    /// For a process that starts now.
    #[must_use]
    pub fn new(node: Name, length: Duration, now_ms: i64) -> Self {
        let length_ms = i64::try_from(length.as_millis()).unwrap_or(i64::MAX).max(3);
        Self { node, length_ms, started_at_ms: now_ms, held: Mutex::default() }
    }

    /// This process's name among the coordinators.
    #[must_use]
    pub fn node(&self) -> &Name {
        &self.node
    }

    /// When this process started.
    #[must_use]
    pub fn started_at_ms(&self) -> i64 {
        self.started_at_ms
    }

    /// A lease of ours is renewed when a third of it has passed: two failures in a row lose nothing.
    fn renew_at_ms(&self, until_ms: i64) -> i64 {
        until_ms - self.length_ms * 2 / 3
    }

    fn fresh(&self, job: JobId, now_ms: i64) -> Option<i64> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.until_ms.get(&job).map(|until_ms| self.renew_at_ms(*until_ms)).filter(|renew_at_ms| now_ms < *renew_at_ms)
    }

    /// Remembers until when a lease is ours, or that it is not; says whether it was before.
    fn remember(&self, job: JobId, until_ms: Option<i64>) -> bool {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        match until_ms {
            Some(until_ms) => held.until_ms.insert(job, until_ms),
            None => held.until_ms.remove(&job),
        }
        .is_some()
    }

    /// How many jobs this node drives now.
    #[must_use]
    pub fn held(&self, now_ms: i64) -> usize {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.until_ms.values().filter(|until_ms| now_ms < **until_ms).count()
    }

    /// Whether it is time to say that this node is alive; says so at most once in a third of a lease.
    fn heartbeat_due(&self, now_ms: i64) -> bool {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let due = held.seen_at_ms.is_none_or(|seen_at_ms| now_ms - seen_at_ms >= self.length_ms / 3);
        if due {
            held.seen_at_ms = Some(now_ms);
        }
        due
    }
}

/// Takes or renews the lease on a job, without touching the database while our lease is fresh.
///
/// # Errors
/// [`DbError`].
pub async fn ask(app: &App, job: JobId) -> Result<Asked, DbError> {
    let leases = &app.leases;
    let now_ms = app.clock.now_ms();
    if let Some(renew_at_ms) = leases.fresh(job, now_ms) {
        return Ok(Asked::Ours { renew_at_ms });
    }
    let until_ms = now_ms + leases.length_ms;
    let mut tx = app.db.begin().await?;
    if tx.take_lease(job, &leases.node, now_ms, until_ms).await? {
        tx.commit().await?;
        if !leases.remember(job, Some(until_ms)) {
            app.metrics.lease_taken();
        }
        return Ok(Asked::Ours { renew_at_ms: leases.renew_at_ms(until_ms) });
    }
    if leases.remember(job, None) {
        app.metrics.lease_lost();
    }
    let until_ms = tx.lease_expires_at_ms(job).await?.unwrap_or(now_ms).max(now_ms + 1);
    Ok(Asked::Theirs { until_ms })
}

/// Says that this node is alive, when it is time to, and forgets nodes that are gone. Returns when the next time is.
///
/// # Errors
/// [`DbError`].
pub async fn heartbeat(app: &App) -> Result<i64, DbError> {
    let leases = &app.leases;
    let now_ms = app.clock.now_ms();
    if leases.heartbeat_due(now_ms) {
        let mut tx = app.db.begin_losable().await?;
        tx.node_seen(&leases.node, env!("CARGO_PKG_VERSION"), leases.started_at_ms, now_ms).await?;
        tx.forget_nodes(now_ms - leases.length_ms * 2).await?;
        tx.commit().await?;
    }
    Ok(now_ms + leases.length_ms / 3)
}

/// Gives up what this node holds, so that others need not wait for it to expire.
///
/// # Errors
/// [`DbError`].
pub async fn leave(app: &App) -> Result<(), DbError> {
    let mut tx = app.db.begin().await?;
    tx.node_leaves(&app.leases.node).await?;
    tx.notify("left").await?;
    tx.commit().await
}
