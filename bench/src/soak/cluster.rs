//! The coordinators: processes that are started, killed, and replaced by their next release.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use hyper::Method;
use tokio::net::TcpStream;
use tokio::time::{Duration, timeout};
use tributary_protocol::id::Secret;
use tributary_protocol::operator::System;
use tributary_protocol::sealed::Sealed;

use crate::device::{Connection, bearer};
use crate::error::BenchError;
use crate::process::{CoordinatorProcess, Options};
use tributary::api::Api;
use tributary::error::CliError;

/// So that a fleet whose days last minutes is there in its day: 24 hours of check-ins fall into one of its days.
const CHECKINS_PER_SECOND: u32 = 400;
const ANSWER: Duration = Duration::from_secs(5);

pub(super) struct Cluster {
    database: Sealed<String>,
    operator: Secret,
    connections_max: u32,
    /// The release of an upgrade; `None`: the same program.
    next: Option<PathBuf>,
    nodes: Mutex<Vec<Node>>,
}

struct Node {
    name: String,
    upgraded: bool,
    /// `None` between two processes.
    process: Option<CoordinatorProcess>,
    address: Option<SocketAddr>,
}

impl Cluster {
    pub(super) async fn start(
        database: Sealed<String>,
        operator: Secret,
        (nodes, connections_max): (u32, u32),
        next: Option<PathBuf>,
    ) -> Result<Self, CliError> {
        let node = |number| Node { name: format!("soak-{number}"), upgraded: false, process: None, address: None };
        let count = nodes as usize;
        let nodes = Mutex::new((0..nodes).map(node).collect());
        let cluster = Self { database, operator, connections_max, next, nodes };
        for node in 0..count {
            cluster.start_node(node).await?;
        }
        Ok(cluster)
    }

    pub(super) fn size(&self) -> usize {
        self.nodes().len()
    }

    /// Where a coordinator listens; `None` while it is gone.
    pub(super) fn address(&self, node: usize) -> Option<SocketAddr> {
        self.nodes()[node].address
    }

    /// The operator API of the first coordinator that runs.
    pub(super) fn api(&self) -> Option<Api> {
        self.nodes().iter().find_map(|node| node.process.as_ref().map(|process| process.api.clone()))
    }

    /// What the first coordinator that runs says of the system; `None` where none runs, or it does not answer in time.
    pub(super) async fn system(&self) -> Option<System> {
        let address = self.nodes().iter().find_map(|node| node.address)?;
        let answer = timeout(ANSWER, async {
            let mut connection = Connection::over(TcpStream::connect(address).await.ok()?).await.ok()?;
            let operator = bearer(&self.operator);
            connection.exchange(Method::GET, "/operator/v1/system", &operator, Bytes::new()).await.ok()
        });
        let (_, body) = answer.await.ok()??;
        serde_json::from_slice(&body).ok()
    }

    /// Resident memory of each coordinator in bytes; `None` of one that is gone.
    pub(super) fn resident_bytes(&self) -> Vec<Option<u64>> {
        self.nodes().iter().map(|node| node.process.as_ref()?.resident_bytes()).collect()
    }

    /// The coordinator with this name.
    pub(super) fn named(&self, name: &str) -> Option<usize> {
        self.nodes().iter().position(|node| node.name == name)
    }

    /// SIGKILL.
    pub(super) fn kill(&self, node: usize) {
        drop(self.take(node));
    }

    /// SIGTERM. Returns when the process has ended; an end that is no success is an error.
    pub(super) async fn stop(&self, node: usize) -> Result<(), CliError> {
        let Some(process) = self.take(node) else { return Ok(()) };
        let status = process.stopped().await?;
        match status.success() {
            true => Ok(()),
            false => Err(BenchError::Ended { command: "serve".into(), status }.into()),
        }
    }

    /// From now on, this coordinator is started as the next release.
    pub(super) fn upgrade(&self, node: usize) {
        self.nodes()[node].upgraded = true;
    }

    pub(super) async fn start_node(&self, node: usize) -> Result<(), CliError> {
        let (name, upgraded) = {
            let nodes = self.nodes();
            (nodes[node].name.clone(), nodes[node].upgraded)
        };
        let options = Options {
            connections_max: Some(self.connections_max),
            program: self.next.as_deref().filter(|_| upgraded),
            node: Some(&name),
            checkins_per_second: Some(CHECKINS_PER_SECOND),
            ..Options::default()
        };
        let process = CoordinatorProcess::start_with(&self.database, &self.operator, options).await?;
        let address = process.url.socket_addrs(|| None).ok().and_then(|addresses| addresses.first().copied());
        let mut nodes = self.nodes();
        nodes[node].process = Some(process);
        nodes[node].address = address;
        Ok(())
    }

    fn take(&self, node: usize) -> Option<CoordinatorProcess> {
        let mut nodes = self.nodes();
        nodes[node].address = None;
        nodes[node].process.take()
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
