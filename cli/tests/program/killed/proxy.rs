//! A proxy in front of the coordinator that kills it at seeded moments and starts it again.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::RwLock;
use tokio::task::JoinHandle;
use tributary_protocol::seed::{Seed, Stream};

use super::process::{Process, Setup};

/// Most pieces of traffic between two kills: few enough that all kills happen before the run ends, after 440 pieces.
const GAP_MAX: u64 = 48;

/// The coordinator ends with it.
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    setup: Setup,
    /// `None` between two processes.
    coordinator: RwLock<Option<Process>>,
    plan: Mutex<Plan>,
}

/// The times of the kills.
struct Plan {
    stream: Stream,
    pieces_left: u64,
    kills_left: u32,
    kills: u32,
}

/// The fate of the piece of traffic at which the coordinator is killed.
#[derive(Clone, Copy)]
enum Piece {
    /// It does not arrive.
    Lost,
    /// It arrives, and the coordinator is killed while it handles it.
    Delivered,
}

impl Proxy {
    pub(crate) async fn start(setup: Setup) -> Self {
        let coordinator = Process::start(setup.clone()).await;
        let plan = Plan { stream: Seed(0).stream(), pieces_left: 0, kills_left: 0, kills: 0 };
        let coordinator = RwLock::new(Some(coordinator));
        let shared = Arc::new(Shared { setup, coordinator, plan: Mutex::new(plan) });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, accepting }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Starts to count.
    pub(crate) fn kill_at_seeded_moments(&self, kills: u32, seed: Seed) {
        let mut stream = seed.stream();
        let pieces_left = stream.below(GAP_MAX);
        *self.shared.plan.lock().unwrap() = Plan { stream, pieces_left, kills_left: kills, kills: 0 };
    }

    /// Kills the coordinator for good.
    pub(crate) async fn stop(&self) {
        self.accepting.abort();
        drop(self.shared.coordinator.write().await.take());
    }

    /// How often the coordinator was killed.
    pub(crate) fn kills(&self) -> u32 {
        self.shared.plan.lock().unwrap().kills
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(forward(client, Arc::clone(&shared)));
    }
}

/// Forwards one connection until either side ends it. Between two processes it waits for the next process.
async fn forward(client: TcpStream, shared: Arc<Shared>) {
    let Some(address) = shared.coordinator.read().await.as_ref().map(|process| process.address) else { return };
    let Ok(server) = TcpStream::connect(address).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = pump(from_client, to_server, &shared) => {}
        () = pump(from_server, to_client, &shared) => {}
    }
}

async fn pump(mut from: impl AsyncReadExt + Unpin, mut to: impl AsyncWriteExt + Unpin, shared: &Arc<Shared>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(bytes @ 1..) = from.read(&mut buffer).await {
        let fate = shared.fate();
        if !matches!(fate, Some(Piece::Lost)) && to.write_all(&buffer[..bytes]).await.is_err() {
            return;
        }
        if fate.is_some() {
            // A separate task, because the end of the other direction would cancel this one.
            let _ = tokio::spawn(restart(Arc::clone(shared))).await;
            return;
        }
    }
}

async fn restart(shared: Arc<Shared>) {
    let mut coordinator = shared.coordinator.write().await;
    drop(coordinator.take());
    *coordinator = Some(Process::start(shared.setup.clone()).await);
}

impl Shared {
    /// Counts a piece; returns its fate if the coordinator is to be killed now.
    fn fate(&self) -> Option<Piece> {
        let mut plan = self.plan.lock().unwrap();
        if plan.kills_left == 0 {
            return None;
        }
        if plan.pieces_left > 0 {
            plan.pieces_left -= 1;
            return None;
        }
        plan.kills_left -= 1;
        plan.kills += 1;
        plan.pieces_left = plan.stream.below(GAP_MAX);
        Some(if plan.stream.below(2) == 0 { Piece::Lost } else { Piece::Delivered })
    }
}
