//! Scheduled work, done once for all coordinators: retention and upkeep.
//!
//! The database stores when work is due. Every coordinator looks at each tick, and the one that advances the schedule
//! does the run. Like the driver it is level-triggered: runs that were missed while no coordinator served are done once
//! at the start, and the next run finds what an interrupted run left.

mod retention;
mod work;

use std::sync::Arc;

use tokio::sync::Notify;
use tokio_cron_scheduler::{Job, JobScheduler, JobSchedulerError};
use tributary_protocol::operator::ScheduledWork;

pub use work::Work;

use crate::db::{DbError, RunEnd};
use crate::notify::{self, About, Notice};
use crate::runtime::entropy;
use crate::services::Services;
use tributary_engine::round::Calendar;

/// When to look for due work: at the start of every minute. The scheduled jobs of the library are not used, because
/// they store a time zone as a fixed offset, and schedules in memory or in tables of their own.
const TICKS: &str = "0 * * * * *";
const SCHEDULES_MAX: u32 = 100;
const MINUTE_MS: i64 = 60_000;

/// Does due work at the start and at every tick, until the coordinator stops.
pub async fn run(services: &Services) {
    let ticks = Arc::new(Notify::new());
    let mut ticker = match start_ticker(Arc::clone(&ticks)).await {
        Ok(ticker) => ticker,
        Err(error) => {
            tracing::error!(%error, "the scheduler could not start; scheduled work is left to other coordinators");
            return;
        }
    };
    while !services.stopping.is_cancelled() {
        if let Err(error) = run_due(services).await {
            tracing::error!(%error, "the schedules could not be read; the next tick tries again");
        }
        tokio::select! {
            () = services.stopping.cancelled() => {}
            () = ticks.notified() => {}
        }
    }
    if let Err(error) = ticker.shutdown().await {
        tracing::warn!(%error, "the scheduler did not shut down cleanly");
    }
}

async fn start_ticker(ticks: Arc<Notify>) -> Result<JobScheduler, JobSchedulerError> {
    let ticker = JobScheduler::new().await?;
    let tick = Job::new(TICKS, move |_, _| ticks.notify_one())?;
    ticker.add(tick).await?;
    ticker.start().await?;
    Ok(ticker)
}

/// Does the work that is due and that no other coordinator has claimed. Returns the work that this one did.
///
/// # Errors
/// [`DbError`] when the schedules cannot be read or written. A run that fails is recorded in its schedule instead.
pub async fn run_due(services: &Services) -> Result<Vec<Work>, DbError> {
    let mut done = Vec::new();
    for schedule in arranged(services).await? {
        // Unknown work belongs to a newer release, whose coordinators do it.
        let Some(work) = Work::named(&schedule.name) else { continue };
        let now_ms = services.clock.now_ms();
        if schedule.next_at_ms <= now_ms && claim(services, &schedule, now_ms).await? {
            let had_failed = schedule.last.as_ref().is_some_and(|last| last.failed);
            perform(services, work, had_failed, now_ms).await?;
            done.push(work);
        }
    }
    Ok(done)
}

/// All schedules. Those that do not exist yet are stored first.
async fn arranged(services: &Services) -> Result<Vec<ScheduledWork>, DbError> {
    let stored = services.db.read().await?.schedules("", SCHEDULES_MAX).await?;
    let missing: Vec<Work> =
        Work::ALL.iter().copied().filter(|work| stored.iter().all(|known| known.name != work.as_str())).collect();
    if missing.is_empty() {
        return Ok(stored);
    }
    let mut tx = services.db.begin().await?;
    for work in missing {
        let cron = work.default_cron(u64::from_le_bytes(entropy::random()));
        let calendar = calendar_of(&cron, "UTC")?;
        tx.insert_schedule(work.as_str(), &cron, "UTC", next_run_ms(&calendar, services.clock.now_ms())).await?;
    }
    let arranged = tx.schedules("", SCHEDULES_MAX).await?;
    tx.commit().await?;
    Ok(arranged)
}

async fn claim(services: &Services, schedule: &ScheduledWork, now_ms: i64) -> Result<bool, DbError> {
    let calendar = calendar_of(&schedule.cron, &schedule.time_zone)?;
    let next_at_ms = next_run_ms(&calendar, now_ms);
    let mut tx = services.db.begin().await?;
    let claimed = tx.claim_run(&schedule.name, schedule.next_at_ms, next_at_ms, services.node.as_str(), now_ms).await?;
    tx.commit().await?;
    Ok(claimed)
}

async fn perform(services: &Services, work: Work, had_failed: bool, started_at_ms: i64) -> Result<(), DbError> {
    let (failed, outcome) = match work.run(services).await {
        Ok(outcome) => (false, outcome),
        Err(error) => {
            tracing::error!(%error, work = work.as_str(), "scheduled work failed; the next run continues it");
            (true, error.to_string())
        }
    };
    services.metrics.scheduled(work.as_str(), failed);
    // Only changes: hourly work that fails for a day is one notification.
    let notice = match (had_failed, failed) {
        (false, true) => Some(Notice::WorkFailed { work: work.as_str(), outcome: outcome.clone() }),
        (true, false) => Some(Notice::WorkRecovered { work: work.as_str() }),
        _ => None,
    };
    let end = RunEnd { started_at_ms, ended_at_ms: services.clock.now_ms(), failed, outcome };
    let mut tx = services.db.begin().await?;
    if let Some(notice) = notice {
        notify::post(services, &mut tx, About::deployment(), &notice, end.ended_at_ms).await?;
    }
    tx.end_run(work.as_str(), services.node.as_str(), &end).await?;
    tx.commit().await
}

fn calendar_of(cron: &str, time_zone: &str) -> Result<Calendar, DbError> {
    Calendar::parse(cron, time_zone).map_err(|error| DbError::Corrupt(format!("schedules.cron: {error}")))
}

/// The first matching minute after now. All runs that were missed until now are one run.
fn next_run_ms(calendar: &Calendar, now_ms: i64) -> i64 {
    let next_minute_ms = (now_ms.div_euclid(MINUTE_MS) + 1).saturating_mul(MINUTE_MS);
    calendar.next_ms(next_minute_ms).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_run_is_in_a_later_minute() {
        let cases = [
            ("* * * * *", 0, MINUTE_MS),
            ("* * * * *", MINUTE_MS - 1, MINUTE_MS),
            ("30 * * * *", 30 * MINUTE_MS, 90 * MINUTE_MS),
            ("30 * * * *", 29 * MINUTE_MS, 30 * MINUTE_MS),
            // Many runs were missed; the next one is after now.
            ("30 * * * *", 1_000 * 60 * MINUTE_MS, (1_000 * 60 + 30) * MINUTE_MS),
        ];
        for (cron, now_ms, next_ms) in cases {
            let calendar = Calendar::parse(cron, "UTC").unwrap();
            assert_eq!(next_run_ms(&calendar, now_ms), next_ms, "{cron} at {now_ms}");
        }
    }
}
