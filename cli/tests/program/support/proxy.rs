//! A proxy in front of a process. It counts pieces of traffic, so that a process is killed at seeded moments, and can
//! be cut.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tributary_protocol::seed::Seed;

use super::host::{Host, Piece};
use super::process::Setup;

pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    /// The process behind it.
    to: Arc<Host>,
    /// The process that is killed when pieces pass.
    victim: Arc<Host>,
    link: watch::Sender<Link>,
    /// What came while the link was cut.
    stopped: watch::Sender<Vec<u8>>,
}

/// Whether bytes pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Whole,
    /// No byte passes. Those that come meanwhile pass when the link is whole again.
    Silent,
    /// No byte passes. Connections on which bytes came meanwhile break when the link is whole again.
    Broken,
}

impl Proxy {
    /// Starts a coordinator and the way to it. It is the one that is killed.
    pub(crate) async fn start(setup: Setup) -> Self {
        let host = Host::new();
        host.start(setup).await;
        Self::between(&host, &host).await
    }

    /// The way to a process. When pieces pass, in either direction, `victim` is killed.
    pub(crate) async fn between(to: &Arc<Host>, victim: &Arc<Host>) -> Self {
        let (link, stopped) = (watch::Sender::new(Link::Whole), watch::Sender::new(Vec::new()));
        let shared = Arc::new(Shared { to: Arc::clone(to), victim: Arc::clone(victim), link, stopped });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, accepting }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn kill_at_seeded_moments(&self, kills: u32, seed: Seed) {
        self.shared.victim.kill_at_seeded_moments(kills, seed);
    }

    /// How often the process was killed.
    pub(crate) fn kills(&self) -> u32 {
        self.shared.victim.kills()
    }

    /// Kills the process behind it for good.
    pub(crate) async fn stop(&self) {
        self.accepting.abort();
        self.shared.to.stop().await;
    }

    pub(crate) fn set_link(&self, link: Link) {
        self.shared.link.send_replace(link);
    }

    /// Returns when these bytes have come, and could not pass.
    pub(crate) async fn stops(&self, bytes: &str) {
        let mut stopped = self.shared.stopped.subscribe();
        let has_come = |stopped: &Vec<u8>| stopped.windows(bytes.len()).any(|window| window == bytes.as_bytes());
        // The sender lives as long as the proxy.
        let _ = stopped.wait_for(has_come).await;
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
    let Some(address) = shared.to.address().await else { return };
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
        if !shared.passes(&buffer[..bytes]).await {
            return;
        }
        let fate = shared.victim.fate();
        if !matches!(fate, Some(Piece::Lost)) && to.write_all(&buffer[..bytes]).await.is_err() {
            return;
        }
        if fate.is_some() {
            // A separate task, because the end of the other direction would cancel this one.
            let victim = Arc::clone(&shared.victim);
            let _ = tokio::spawn(async move { victim.restart().await }).await;
            return;
        }
    }
}

impl Shared {
    /// Waits until the link is whole. False when it was broken, and this piece is lost.
    async fn passes(&self, piece: &[u8]) -> bool {
        let found = *self.link.borrow();
        if found == Link::Whole {
            return true;
        }
        self.stopped.send_modify(|stopped| stopped.extend_from_slice(piece));
        // The sender lives as long as the proxy.
        let _ = self.link.subscribe().wait_for(|link| *link == Link::Whole).await;
        found == Link::Silent
    }
}
