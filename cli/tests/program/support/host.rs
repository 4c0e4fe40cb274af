//! A process that is killed at seeded moments and started again.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::Value;
use tokio::sync::{RwLock, watch};
use tributary_protocol::seed::{Seed, Stream};

use super::process::{Process, Setup};

/// Most pieces of traffic between two kills: few enough that all kills happen before a run ends, after 440 pieces.
const GAP_MAX: u64 = 48;

/// The process ends with it.
pub(crate) struct Host {
    setup: OnceLock<Setup>,
    /// `None` between two processes.
    process: RwLock<Option<Process>>,
    plan: Mutex<Plan>,
    kills: watch::Sender<u32>,
}

/// The times of the kills.
struct Plan {
    stream: Stream,
    /// Most pieces between two kills.
    gap_max: u64,
    pieces_left: u64,
    kills_left: u32,
}

impl Plan {
    fn of(kills: u32, gap_max: u64, seed: Seed) -> Self {
        let mut stream = seed.stream();
        let pieces_left = stream.below(gap_max);
        Self { stream, gap_max, pieces_left, kills_left: kills }
    }
}

/// The fate of the piece of traffic at which a process is killed.
#[derive(Clone, Copy)]
pub(super) enum Piece {
    /// It does not arrive.
    Lost,
    /// It arrives, and the process is killed while it, or its peer, handles it.
    Delivered,
}

impl Host {
    /// A place for a process, so that proxies can lead to it before it starts.
    pub(crate) fn new() -> Arc<Self> {
        let (plan, kills) = (Mutex::new(Plan::of(0, 1, Seed(0))), watch::Sender::new(0));
        Arc::new(Self { setup: OnceLock::new(), process: RwLock::new(None), plan, kills })
    }

    /// The first start; returns the first line of the output.
    pub(crate) async fn start(&self, setup: Setup) -> Value {
        self.setup.get_or_init(|| setup);
        self.restart().await
    }

    /// Kills the process and starts it again. Its peers wait meanwhile. Returns the first line of the output.
    pub(crate) async fn restart(&self) -> Value {
        let mut process = self.process.write().await;
        drop(process.take());
        let started = Process::start(self.setup.get().expect("it was started").clone()).await;
        let serving = started.serving.clone();
        *process = Some(started);
        serving
    }

    /// Asks the process to stop, and returns when it has. [`Self::restart`] starts it again.
    pub(crate) async fn stop_gently(&self) {
        let process = self.process.write().await.take().expect("it runs");
        process.stopped().await;
    }

    /// Kills the process for good.
    pub(crate) async fn stop(&self) {
        drop(self.process.write().await.take());
    }

    /// Where the process listens; `None` after its end.
    pub(super) async fn address(&self) -> Option<SocketAddr> {
        self.process.read().await.as_ref().map(|process| process.address)
    }

    /// Starts to count pieces of traffic.
    pub(crate) fn kill_at_seeded_moments(&self, kills: u32, seed: Seed) {
        *self.plan.lock().unwrap() = Plan::of(kills, GAP_MAX, seed);
    }

    /// Kills the process once, within so many pieces of traffic. Returns when it does.
    pub(crate) async fn kill_within(&self, pieces: u64, seed: Seed) {
        let (mut kills, before) = (self.kills.subscribe(), self.kills());
        *self.plan.lock().unwrap() = Plan::of(1, pieces, seed);
        // The sender lives as long as the host.
        let _ = kills.wait_for(|kills| *kills > before).await;
    }

    /// How often the process was killed.
    pub(crate) fn kills(&self) -> u32 {
        *self.kills.borrow()
    }

    /// Counts a piece; returns its fate if the process is to be killed now.
    pub(super) fn fate(&self) -> Option<Piece> {
        let mut plan = self.plan.lock().unwrap();
        if plan.kills_left == 0 {
            return None;
        }
        if plan.pieces_left > 0 {
            plan.pieces_left -= 1;
            return None;
        }
        plan.kills_left -= 1;
        let gap_max = plan.gap_max;
        plan.pieces_left = plan.stream.below(gap_max);
        self.kills.send_modify(|kills| *kills += 1);
        Some(if plan.stream.below(2) == 0 { Piece::Lost } else { Piece::Delivered })
    }
}
