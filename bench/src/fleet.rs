//! Many clients of one coordinator: they are enrolled over a few connections and send updates of random values.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use hyper::header::HeaderValue;
use tokio::task::JoinSet;
use tributary_protocol::device::Assignment;
use tributary_protocol::id::Secret;
use tributary_protocol::job_file::JobFile;
use tributary_protocol::model::ParameterList;
use tributary_protocol::seed::Seed;
use tributary_protocol::update::{UpdateHeader, encode};

use crate::device::{Connection, Server, bearer};
use crate::error::BenchError;
use crate::process::CoordinatorProcess;
use tributary::error::CliError;
use tributary::job::file;

/// Connections that enrol clients at the same time.
const ENROLLING_CONNECTIONS: usize = 16;
/// Largest absolute value of an update.
const MAGNITUDE: f32 = 0.01;

pub(crate) fn server(coordinator: &CoordinatorProcess) -> Result<Server, CliError> {
    let addresses = coordinator.url.socket_addrs(|| None);
    let address = addresses.ok().and_then(|addresses| addresses.into_iter().next());
    let address = address.ok_or_else(|| BenchError::Start(format!("it serves at {}", coordinator.url)))?;
    Server::new(address, coordinator.trust.as_ref()).map_err(CliError::http)
}

/// Enrols `count` clients; returns their credentials.
pub(crate) async fn enrol(server: &Server, token: &Secret, count: u32) -> Result<Vec<HeaderValue>, CliError> {
    let left = Arc::new(AtomicUsize::new(count as usize));
    let token = bearer(token);
    let mut enrolling = JoinSet::new();
    for _ in 0..ENROLLING_CONNECTIONS {
        let (left, token, server) = (Arc::clone(&left), token.clone(), server.clone());
        enrolling.spawn(async move {
            let mut connection = Connection::open(&server).await?;
            let mut clients = Vec::new();
            while take(&left) {
                clients.push(connection.enrol(&token).await?);
            }
            Ok::<_, BenchError>(clients)
        });
    }
    let mut clients = Vec::with_capacity(count as usize);
    for enrolled in enrolling.join_all().await {
        clients.extend(enrolled?);
    }
    Ok(clients)
}

/// Decrements the counter; returns false if it is 0 already.
pub(crate) fn take(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

/// An update of random values for an assignment.
pub(crate) fn update(assignment: &Assignment, seed: u64) -> Result<Bytes, CliError> {
    let parts = assignment.plan.model.parts().map_err(|error| CliError::Internal(error.to_string()))?;
    let parameters = parts.shared();
    let header = UpdateHeader {
        codec: assignment.plan.codec,
        job: assignment.job.to_string(),
        base_version: assignment.model_version.into(),
    };
    let file = encode(&delta(parameters, seed), parameters, &header, assignment.round, assignment.seed);
    Ok(file.map_err(|error| CliError::Internal(error.to_string()))?.into())
}

fn delta(parameters: &ParameterList, seed: u64) -> Vec<f32> {
    let mut stream = Seed(seed).stream();
    (0..parameters.total()).map(|_| stream.uniform(-MAGNITUDE, MAGNITUDE)).collect()
}

pub(crate) fn job_file(text: &str) -> Result<JobFile, CliError> {
    Ok(file::parse("the benchmark's job", text)?)
}
