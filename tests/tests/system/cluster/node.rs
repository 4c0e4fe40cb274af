//! One of several coordinators, as in production: the system's clock, its own driver, its own runtime.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
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
        let name: Name = name.parse().unwrap();
        let config = Config { database: database.into(), node: Some(name.clone()), lease, ..Config::default() };
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (listens, listening) = oneshot::channel();
        runtime.spawn(async move {
            let coordinator = Coordinator::open(&config).await.unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            listens.send(listener.local_addr().unwrap()).unwrap();
            coordinator.serve(listener, CancellationToken::new()).await.unwrap();
        });
        Self { name, address: listening.await.unwrap(), runtime: Some(runtime) }
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
