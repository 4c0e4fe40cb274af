//! Samples of a running soak: memory, disk, times and outcomes, every few seconds.

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::header::HeaderValue;
use serde::Serialize;
use tokio::time::{Duration, sleep, timeout};
use tributary_protocol::id::JobId;
use tributary_protocol::operator::Round;
use tributary_protocol::state::{Phase, Task};

use super::device::World;
use super::tally::Count;
use crate::device::{Connection, check_in_body};
use crate::quantile::quantile;
use tributary::stopwatch::Stopwatch;

/// Check-ins that are answered at once, to measure the coordinator without the network: 5 a second.
const PROBES_EVERY: Duration = Duration::from_millis(200);
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Rounds that a sample reads: more than end between two samples.
const ROUNDS: u32 = 50;

/// Programs rely on the names of its members. Figures are since the sample before, unless they are called total.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Sample {
    pub(super) at_s: f64,
    pub(super) day: f64,
    /// Of each coordinator; `null` while it is gone.
    pub(super) resident_mb: Vec<Option<f64>>,
    pub(super) database_mb: Option<f64>,
    /// A check-in that is not held, without the network.
    pub(super) checkin_ms_p50: Option<f64>,
    pub(super) checkin_ms_p99: Option<f64>,
    /// From the first byte of an update to its acknowledgement, with the delays and stalls of the network.
    pub(super) update_ms_p50: Option<f64>,
    pub(super) update_ms_p99: Option<f64>,
    pub(super) committed_total: u32,
    pub(super) abandoned_total: u32,
    pub(super) reported_total: u64,
    pub(super) lost_total: u64,
    pub(super) spare_total: u64,
    pub(super) failed_total: u64,
    pub(super) rejected_total: u64,
    /// What the devices counted: `awake` and `open` now, the others in total.
    pub(super) devices: BTreeMap<Count, u64>,
}

pub(super) struct Sampler {
    pub(super) world: Arc<World>,
    pub(super) job: JobId,
    /// A client of another population, whose job never draws it.
    pub(super) prober: HeaderValue,
    pub(super) every: Duration,
    pub(super) rounds: BTreeMap<u32, Round>,
    pub(super) checkin_ms: Vec<f64>,
    pub(super) samples: Vec<Sample>,
}

impl Sampler {
    /// Probes for a while, then takes a sample.
    pub(super) async fn step(&mut self) {
        let cluster = &self.world.network.cluster;
        let probing = Stopwatch::start();
        let mut node = 0;
        while probing.elapsed() < self.every {
            let clock = Stopwatch::start();
            node = (node + 1) % cluster.size();
            if timeout(PROBE_TIMEOUT, self.probe(node)).await == Ok(true) {
                self.checkin_ms.push(clock.elapsed().as_secs_f64() * 1000.0);
            }
            sleep(PROBES_EVERY).await;
        }
        if let Some(api) = cluster.api()
            && let Ok(rounds) = api.latest_rounds(self.job, Task::Train, ROUNDS).await
        {
            self.rounds.extend(rounds.into_iter().map(|round| (round.number, round)));
        }
        let sample = self.sample().await;
        self.samples.push(sample);
    }

    async fn probe(&self, node: usize) -> bool {
        let Some(address) = self.world.network.cluster.address(node) else { return false };
        let Ok(stream) = tokio::net::TcpStream::connect(address).await else { return false };
        let Ok(mut connection) = Connection::over(stream).await else { return false };
        connection.check_in(&self.prober, &check_in_body(0)).await.is_ok()
    }

    async fn sample(&mut self) -> Sample {
        let cluster = &self.world.network.cluster;
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let system = cluster.system().await;
        let [mut checkin_ms, mut update_ms] = [std::mem::take(&mut self.checkin_ms), self.world.tally.take_update_ms()];
        checkin_ms.sort_by(f64::total_cmp);
        update_ms.sort_by(f64::total_cmp);
        let time = |times: &[f64], share| (!times.is_empty()).then(|| quantile(times, share));
        let phase = |phase| self.rounds.values().filter(|round| round.phase == phase).count() as u32;
        let sum = |of: fn(&Round) -> u32| self.rounds.values().map(|round| u64::from(of(round))).sum();
        Sample {
            at_s: self.world.began.elapsed().as_secs_f64(),
            day: self.world.now_days(),
            resident_mb: cluster.resident_bytes().into_iter().map(|bytes| bytes.map(megabytes)).collect(),
            database_mb: system.and_then(|system| system.storage.database_bytes).map(megabytes),
            checkin_ms_p50: time(&checkin_ms, 0.5),
            checkin_ms_p99: time(&checkin_ms, 0.99),
            update_ms_p50: time(&update_ms, 0.5),
            update_ms_p99: time(&update_ms, 0.99),
            committed_total: phase(Phase::Committed),
            abandoned_total: phase(Phase::Abandoned),
            reported_total: sum(|round| round.reported),
            lost_total: sum(|round| round.expired.saturating_sub(round.spare)),
            spare_total: sum(|round| round.spare),
            failed_total: sum(|round| round.failed),
            rejected_total: sum(|round| round.rejected),
            devices: self.world.tally.counts(),
        }
    }
}
