//! The two disturbances of each simulated day: a coordinator is killed while a round trains, and an upgrade is made.

use std::sync::Arc;

use serde::Serialize;
use tokio::time::{Duration, sleep};
use tributary_protocol::id::JobId;
use tributary_protocol::operator::{PageQuery, Round};
use tributary_protocol::state::{Phase, Task};

use super::device::World;
use super::tally::Count;
use tributary::error::CliError;
use tributary::stopwatch::Stopwatch;

/// The times of day, as shares of it. Most devices are awake at 0.5.
const FAILOVER_AT: f64 = 0.4;
const UPGRADE_AT: f64 = 0.7;
/// How long a killed coordinator is gone: alone as long as a service manager takes, beside another one longer than the
/// lease, so that the other one takes its jobs over.
const ALONE_GONE: Duration = Duration::from_secs(2);
const GONE: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(100);
/// How long a disturbance waits for a round that trains, for acknowledgements, and for the end of that round.
const WAIT_S_MAX: u64 = 120;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Failover,
    Upgrade,
}

/// Programs rely on the names of its members.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Disturbance {
    pub(super) kind: Kind,
    pub(super) day: f64,
    /// The coordinator that drove the job, for a failover.
    pub(super) node: usize,
    /// The coordinator that drove the job when a killed one was about to come back.
    pub(super) driven_by: Option<usize>,
    /// For an upgrade: until the process of each coordinator had ended, from SIGTERM on, the longest of them.
    pub(super) ends_s: Option<f64>,
    /// From the signal to the first update that any coordinator acknowledged afterwards.
    pub(super) silence_s: Option<f64>,
    /// The round that trained then, its end and how long after the signal that was.
    pub(super) round: Option<u32>,
    pub(super) round_became: Option<Phase>,
    pub(super) round_ended_s: Option<f64>,
}

impl Disturbance {
    /// Whether the job of a killed coordinator should have been another one's by the time at which it came back.
    pub(super) fn lacked_driver(&self, coordinators: u32) -> bool {
        coordinators > 1 && self.kind == Kind::Failover && self.driven_by.is_none()
    }
}

/// The disturbances that begin within so many days from the first midnight on, in order.
pub(super) fn plan(days: f64) -> Vec<(f64, Kind)> {
    let daily = [(FAILOVER_AT, Kind::Failover), (UPGRADE_AT, Kind::Upgrade)];
    let all = (0..days.ceil() as u32).flat_map(|day| daily.map(|(at, kind)| (f64::from(day) + at, kind)));
    all.filter(|(at, _)| *at < days).collect()
}

pub(super) async fn disturb(world: &Arc<World>, job: JobId, kind: Kind) -> Result<Disturbance, CliError> {
    let trains = training_round(world, job).await;
    let cluster = &world.network.cluster;
    let node = driver(world, job).await.unwrap_or(0);
    let day = world.now_days();
    let silence = tokio::spawn(silence(Arc::clone(world), world.tally.count(Count::Acknowledged)));
    let number = trains.map(|round| round.number);
    let ended = tokio::spawn(ended(Arc::clone(world), job, number));
    let (mut ends_s, mut driven_by): (Option<f64>, _) = (None, None);
    match kind {
        Kind::Failover => {
            cluster.kill(node);
            sleep(if cluster.size() == 1 { ALONE_GONE } else { GONE }).await;
            driven_by = driver(world, job).await.filter(|driver| *driver != node);
            cluster.start_node(node).await?;
        }
        Kind::Upgrade => {
            // One after the other, as a rolling update.
            for node in 0..cluster.size() {
                let stopping = Stopwatch::start();
                cluster.stop(node).await?;
                let stopped_s = stopping.elapsed().as_secs_f64();
                ends_s = Some(ends_s.unwrap_or_default().max(stopped_s));
                cluster.upgrade(node);
                cluster.start_node(node).await?;
            }
        }
    }
    let ended = ended.await.map_err(CliError::task)?;
    Ok(Disturbance {
        kind,
        day,
        node,
        driven_by,
        ends_s,
        silence_s: silence.await.map_err(CliError::task)?,
        round: number,
        round_became: ended.map(|(phase, _)| phase),
        round_ended_s: ended.map(|(_, seconds)| seconds),
    })
}

/// A round that trains now, and already has reports.
async fn training_round(world: &World, job: JobId) -> Option<Round> {
    let clock = Stopwatch::start();
    while clock.elapsed().as_secs() < WAIT_S_MAX {
        if let Some(round) = latest(world, job).await
            && round.phase == Phase::Training
            && round.reported > 0
        {
            return Some(round);
        }
        sleep(POLL).await;
    }
    None
}

async fn latest(world: &World, job: JobId) -> Option<Round> {
    world.network.cluster.api()?.latest_rounds(job, Task::Train, 1).await.ok()?.pop()
}

/// The coordinator that has the lease of the job.
async fn driver(world: &World, job: JobId) -> Option<usize> {
    let nodes = world.network.cluster.api()?.nodes(PageQuery::default()).await.ok()?.items;
    let drives = nodes.iter().find(|node| node.leases.iter().any(|lease| lease.job == job))?;
    world.network.cluster.named(drives.id.as_str())
}

/// Seconds until more than `before` updates are acknowledged.
async fn silence(world: Arc<World>, before: u64) -> Option<f64> {
    let clock = Stopwatch::start();
    while clock.elapsed().as_secs() < WAIT_S_MAX {
        if world.tally.count(Count::Acknowledged) > before {
            return Some(clock.elapsed().as_secs_f64());
        }
        sleep(POLL / 10).await;
    }
    None
}

/// How a round ended, and when.
async fn ended(world: Arc<World>, job: JobId, number: Option<u32>) -> Option<(Phase, f64)> {
    let number = number?;
    let clock = Stopwatch::start();
    while clock.elapsed().as_secs() < WAIT_S_MAX {
        if let Some(api) = world.network.cluster.api()
            && let Ok(round) = api.round(job, number, Task::Train).await
            && round.round.ended_at_ms.is_some()
        {
            return Some((round.round.phase, clock.elapsed().as_secs_f64()));
        }
        sleep(POLL).await;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_day_has_a_failover_and_an_upgrade() {
        let days: Vec<_> = plan(2.5).into_iter().map(|(at, kind)| ((at * 10.0).round(), kind)).collect();
        let (failover, upgrade) = (Kind::Failover, Kind::Upgrade);
        assert_eq!(days, [(4.0, failover), (7.0, upgrade), (14.0, failover), (17.0, upgrade), (24.0, failover)]);
        assert!(plan(0.3).is_empty());
    }
}
