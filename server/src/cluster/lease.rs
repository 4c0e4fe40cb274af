//! Leases: which coordinator drives a job.
//!
//! A keeper task renews all leases of this coordinator on a timer of its own, so that a long commit or a panic of one
//! job never lets a lease expire.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tributary_protocol::id::JobId;

use super::takeover;
use crate::db::{DbError, Holder, renew_every_ms};
use crate::runtime::lock::Locked;
use crate::services::Services;

/// Length of a lease unless the configuration says otherwise: the longest time until a dead driver's jobs are taken
/// over.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(10);
/// How long a dead coordinator stays in the list, in milliseconds: until somebody has surely looked.
const NODES_KEPT_MS: i64 = 24 * 3600 * 1000;
/// Pause after a renewal that failed, in milliseconds.
const RETRY_MS: i64 = 1_000;

/// The leases of this coordinator.
#[derive(Debug)]
pub struct Leases {
    length_ms: i64,
    started_at_ms: i64,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// When each lease of this coordinator ends.
    until_ms: HashMap<JobId, i64>,
    /// When the leases were last renewed, and the coordinator's row with them.
    renewed_at_ms: Option<i64>,
}

/// The answer to a request for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// This coordinator drives the job until then, and longer while the lease is renewed.
    Ours { until_ms: i64 },
    /// Another coordinator drives it at least until then.
    Theirs { until_ms: i64 },
}

impl Leases {
    /// No lease yet, for a process that starts now.
    pub fn new(length: Duration, now_ms: i64) -> Self {
        let length_ms = i64::try_from(length.as_millis()).unwrap_or(i64::MAX).max(8);
        Self { length_ms, started_at_ms: now_ms, held: Mutex::default() }
    }

    pub fn started_at_ms(&self) -> i64 {
        self.started_at_ms
    }

    /// The number of jobs that this coordinator drives.
    pub fn count(&self, now_ms: i64) -> usize {
        self.held.locked().until_ms.values().filter(|until_ms| now_ms < **until_ms).count()
    }

    /// Whether this coordinator drives a job.
    pub fn holds(&self, job: JobId, now_ms: i64) -> bool {
        self.held.locked().until_ms.get(&job).is_some_and(|until_ms| now_ms < *until_ms)
    }

    /// Leases are renewed after an eighth of their length: six failures in a row lose nothing.
    fn renew_every_ms(&self) -> i64 {
        renew_every_ms(self.length_ms)
    }

    /// Takes the lease on a job. Does not touch the database while this coordinator holds it.
    pub async fn take(&self, services: &Services, job: JobId) -> Result<Lease, DbError> {
        let now_ms = services.clock.now_ms();
        if let Some(until_ms) = self.held.locked().until_ms.get(&job).copied().filter(|until_ms| now_ms < *until_ms) {
            return Ok(Lease::Ours { until_ms });
        }
        let until_ms = now_ms + self.length_ms;
        let mut tx = services.db.begin().await?;
        let held = |holder: &Holder| holder.node != services.node && now_ms < holder.expires_at_ms;
        let mut holder = tx.holder(job).await?;
        if !holder.as_ref().is_some_and(held) {
            // Locked only now, because coordinators that do not drive the job look here at each of its changes.
            tx.lock_job(job).await?;
            holder = tx.holder(job).await?;
        }
        if !holder.as_ref().is_some_and(held) && tx.take_lease(job, &services.node, now_ms, until_ms).await? {
            let dead = holder.filter(|holder| holder.node != services.node);
            if let Some(dead) = &dead {
                takeover::record(services, &mut tx, job, dead, now_ms).await?;
            }
            tx.commit().await?;
            if self.held.locked().until_ms.insert(job, until_ms).is_none() {
                services.metrics.lease_taken();
            }
            if let Some(dead) = dead {
                let silent_ms = now_ms - dead.seen_at_ms();
                tracing::warn!(%job, node = %services.node, from = %dead.node, silent_ms, "a job was taken over from a dead coordinator");
                services.signals.changed(job);
            }
            return Ok(Lease::Ours { until_ms });
        }
        self.lost(services, job);
        let until_ms = holder.map_or(now_ms, |holder| holder.expires_at_ms).max(now_ms + 1);
        Ok(Lease::Theirs { until_ms })
    }

    /// Forgets the lease on a job that has ended; its row goes with the job.
    pub fn forget(&self, job: JobId) {
        self.held.locked().until_ms.remove(&job);
    }

    fn lost(&self, services: &Services, job: JobId) {
        if self.held.locked().until_ms.remove(&job).is_some() {
            tracing::warn!(%job, node = %services.node, "another coordinator has taken this job over");
            services.metrics.lease_lost();
            services.signals.changed(job);
        }
    }

    /// Renews all leases of this coordinator and records that it is alive, if that is due. Returns the time of the next
    /// renewal.
    pub async fn renew(&self, services: &Services) -> Result<i64, DbError> {
        let now_ms = services.clock.now_ms();
        let (due_at_ms, jobs) = {
            let held = self.held.locked();
            let due_at_ms = held.renewed_at_ms.map_or(now_ms, |at_ms| at_ms + self.renew_every_ms());
            (due_at_ms, held.until_ms.keys().copied().collect::<Vec<_>>())
        };
        if now_ms < due_at_ms {
            return Ok(due_at_ms);
        }
        let until_ms = now_ms + self.length_ms;
        let mut tx = services.db.begin_losable().await?;
        let (version, url) = (env!("CARGO_PKG_VERSION"), services.node_url.as_deref());
        tx.node_seen(&services.node, version, self.started_at_ms, now_ms, self.length_ms, url).await?;
        tx.forget_nodes(now_ms - NODES_KEPT_MS, now_ms - self.length_ms * 2).await?;
        let renewed = tx.renew_leases(&services.node, until_ms).await?;
        tx.commit().await?;
        let mut held = self.held.locked();
        held.renewed_at_ms = Some(now_ms);
        for job in &renewed {
            // A lease that was taken while this ran keeps its own time.
            held.until_ms.entry(*job).and_modify(|ends_ms| *ends_ms = until_ms.max(*ends_ms));
        }
        drop(held);
        for job in jobs.into_iter().filter(|job| !renewed.contains(job)) {
            self.lost(services, job);
        }
        Ok(now_ms + self.renew_every_ms())
    }

    /// Renews the leases until the coordinator stops.
    pub async fn keep(&self, services: &Services) {
        loop {
            let next_at_ms = match self.renew(services).await {
                Ok(next_at_ms) => next_at_ms,
                Err(error) => {
                    tracing::warn!(%error, "the leases could not be renewed; trying again");
                    services.clock.now_ms() + RETRY_MS.min(self.renew_every_ms())
                }
            };
            tokio::select! {
                () = services.stopping.cancelled() => return,
                () = services.clock.sleep_until(next_at_ms) => {}
            }
        }
    }

    /// Gives all leases up, so that other coordinators need not wait for them to expire.
    pub async fn leave(&self, services: &Services) -> Result<(), DbError> {
        let mut tx = services.db.begin().await?;
        tx.node_leaves(&services.node).await?;
        tx.notify("left").await?;
        tx.commit().await
    }
}
