//! One of several coordinators, as in production: the system's clock, its own driver, its own runtime.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tributary_protocol::id::Name;
use tributary_server::{Config, Coordinator};

/// Longest wait for the threads of a coordinator that is killed.
const KILL_MAX: Duration = Duration::from_secs(30);

pub(super) struct Node {
    pub(super) name: Name,
    pub(super) address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Node {
    pub(super) async fn start(name: &str, database: &str, lease: Duration) -> Self {
        Self::started(name, database, lease, (None, false)).await
    }

    /// One that tells clients its address, for the parts of updates that it adds up.
    pub(super) async fn start_at_its_url(name: &str, database: &str, lease: Duration) -> Self {
        Self::started(name, database, lease, (None, true)).await
    }

    /// The same at the address of one that was killed.
    pub(super) async fn start_again(name: &str, database: &str, lease: Duration, address: SocketAddr) -> Self {
        Self::started(name, database, lease, (Some(address), true)).await
    }

    async fn started(
        name: &str,
        database: &str,
        lease: Duration,
        (address, tells): (Option<SocketAddr>, bool),
    ) -> Self {
        let name: Name = name.parse().unwrap();
        let listener = match address {
            None => TcpListener::bind("127.0.0.1:0").await.unwrap(),
            Some(address) => {
                let socket = TcpSocket::new_v4().unwrap();
                socket.set_reuseaddr(true).unwrap();
                socket.bind(address).unwrap();
                socket.listen(1_024).unwrap()
            }
        };
        let listener = listener.into_std().unwrap();
        let address = listener.local_addr().unwrap();
        let node_url = tells.then(|| format!("http://{address}"));
        let config =
            Config { database: database.into(), node: Some(name.clone()), node_url, lease, ..Config::default() };
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (opens, opened) = oneshot::channel();
        runtime.spawn(async move {
            let coordinator = Coordinator::open(&config).await.unwrap();
            let listener = TcpListener::from_std(listener).unwrap();
            opens.send(()).unwrap();
            coordinator.serve(listener, CancellationToken::new()).await.unwrap();
        });
        opened.await.unwrap();
        Self { name, address, runtime: Some(runtime) }
    }

    /// Ends it in the middle of whatever it does: every task is dropped where it stands, nothing is said to anybody.
    pub(super) async fn kill(mut self) {
        let runtime = self.runtime.take().unwrap();
        tokio::task::spawn_blocking(move || runtime.shutdown_timeout(KILL_MAX)).await.unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
