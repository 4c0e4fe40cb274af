//! The driver: moves jobs on, one stored step at a time.
//!
//! One task per job reads what is stored, asks the engine for the next step, performs it, and looks again. It remembers
//! nothing: a crash between two steps loses nothing, since the next look derives the same step. A panic, a failure or a
//! long commit of one job delays no other job. Leases are renewed by a separate task (`cluster/lease.rs`).

mod context;
mod error;
mod job;
mod round;
mod seen;
mod shards;
mod tell;

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio::task::JoinSet;
use tributary_protocol::id::{JobId, Name};

use crate::db::DbError;
use crate::runtime::signals::Listening;
pub use context::Driver;
pub use error::DriverError;
use job::{Look, move_job};

/// Pause after the first failed look at a job, in milliseconds. It doubles with each further failure in a row, so that
/// the driver neither spins nor fills the log while the database is away.
const RETRY_MS: i64 = 1_000;
/// Longest pause after a failed look.
const RETRY_MS_MAX: i64 = 30_000;

impl Driver {
    /// Moves jobs on until the coordinator stops: each in a separate task, at once when it changes and when its
    /// deadline comes.
    pub async fn run(&self) {
        let services = &self.services;
        let (mut tasks, mut driven) = (JoinSet::new(), HashSet::new());
        loop {
            let retry_at_ms = match self.start_tasks(&mut tasks, &mut driven).await {
                Ok(()) => i64::MAX,
                Err(error) => {
                    tracing::error!(%error, "the driver could not read the jobs; it tries again");
                    services.clock.now_ms() + RETRY_MS
                }
            };
            tokio::select! {
                () = services.stopping.cancelled() => break,
                () = services.signals.unknown_changed() => {}
                () = services.clock.sleep_until(retry_at_ms) => {}
                Some(ended) = tasks.join_next() => match ended {
                    Ok(job) => { driven.remove(&job); }
                    // A job's task contains its panics, so this is the runtime's end.
                    Err(error) => tracing::error!(%error, "a driver task ended"),
                },
            }
        }
        while tasks.join_next().await.is_some() {}
    }

    /// Starts a task for each live job that has none.
    async fn start_tasks(&self, tasks: &mut JoinSet<JobId>, driven: &mut HashSet<JobId>) -> Result<(), DbError> {
        let jobs = self.services.db.look().await?.live_jobs().await?;
        for (job, population) in jobs {
            if driven.insert(job) {
                let driver = self.clone();
                tasks.spawn(async move {
                    driver.drive(job, population).await;
                    job
                });
            }
        }
        Ok(())
    }

    /// Moves one job on until it ends or the coordinator stops.
    async fn drive(&self, job: JobId, population: Name) {
        let services = &self.services;
        let listening = services.signals.listen(job, population);
        let mut failures = 0;
        loop {
            let wake_at_ms = match self.try_move(job, Some(&listening)).await {
                Ok(Look::Ended) => return,
                Ok(Look::Quiet { until_ms }) => {
                    failures = 0;
                    until_ms
                }
                Err(error) => {
                    tracing::error!(%error, %job, "the driver could not move the job on; it tries again");
                    let pause_ms = RETRY_MS.saturating_mul(1 << failures.min(10)).min(RETRY_MS_MAX);
                    failures += 1;
                    // No signal ends this pause: each check-in would cause another attempt.
                    tokio::select! {
                        () = services.stopping.cancelled() => return,
                        () = services.clock.sleep_until(services.clock.now_ms() + pause_ms) => continue,
                    }
                }
            };
            tokio::select! {
                () = services.stopping.cancelled() => return,
                () = listening.changed() => {}
                () = services.clock.sleep_until(wake_at_ms) => {}
            }
        }
    }

    /// Moves a job as far as it goes now. A panic becomes an error, so that the job's task goes on.
    async fn try_move(&self, job: JobId, listening: Option<&Listening>) -> Result<Look, DriverError> {
        let moved = AssertUnwindSafe(move_job(self, job, listening)).catch_unwind().await;
        let moved = moved.unwrap_or(Err(DriverError::Panicked));
        if moved.is_err() {
            self.services.metrics.driver_failed();
        }
        moved
    }

    /// Renews the leases if that is due, and moves every job as far as it goes now, one after the other. Returns when
    /// the next deadline is. For tests, which move the clock themselves; [`Self::run`] serves.
    ///
    /// # Errors
    /// Of the first job that could not be moved. Jobs after it were moved all the same.
    pub async fn run_once(&self) -> Result<Option<i64>, DriverError> {
        let mut wake_at_ms = self.leases.renew(&self.services).await?;
        let jobs = self.services.db.look().await?.live_jobs().await?;
        let mut failed = None;
        for (job, _) in jobs {
            match self.try_move(job, None).await {
                Ok(Look::Quiet { until_ms }) => wake_at_ms = wake_at_ms.min(until_ms),
                Ok(Look::Ended) => {}
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(Some(wake_at_ms)), Err)
    }
}
