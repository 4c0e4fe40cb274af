//! A server that receives bodies and drops them: what a socket costs before anything is done with its bytes.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::BenchError;
use super::device::Connection;
use super::process::{ChildProcess, own_process};
use crate::error::CliError;
use crate::output::Output;

/// Bodies that each client sends: enough that one clock tick of processor time (10 ms) is little.
const BODIES_PER_CLIENT: u32 = 5;

/// What the process says first.
#[derive(Debug, Serialize, Deserialize)]
struct Listening {
    address: SocketAddr,
}

/// The server, in a process of its own.
pub(super) struct SinkProcess;

impl SinkProcess {
    /// Processor time that a process needs to receive one such body, when so many clients send at once.
    ///
    /// # Errors
    /// [`BenchError`] when the process does not start or a connection fails.
    pub(super) async fn measure(body: &Bytes, clients: u32) -> Result<f64, CliError> {
        let (child, line) = own_process(&["--json", "bench", "sink"], &[]).await?;
        let listening: Listening =
            serde_json::from_str(&line).map_err(|_| BenchError::Start("it ended at once".into()))?;
        // The first bodies warm it up.
        send(listening.address, body, clients, 1).await?;
        let before = ChildProcess::cpu_s(&child)?;
        send(listening.address, body, clients, BODIES_PER_CLIENT).await?;
        Ok((child.cpu_s()? - before) / f64::from(clients * BODIES_PER_CLIENT))
    }
}

async fn send(address: SocketAddr, body: &Bytes, clients: u32, bodies: u32) -> Result<(), CliError> {
    let mut sending = JoinSet::new();
    for _ in 0..clients {
        let body = body.clone();
        sending.spawn(async move {
            let mut connection = Connection::open(address).await?;
            for _ in 0..bodies {
                connection.put("/", body.clone()).await?;
            }
            Ok::<_, BenchError>(())
        });
    }
    while let Some(sent) = sending.join_next().await {
        sent.map_err(|error| CliError::Internal(error.to_string()))??;
    }
    Ok(())
}

/// Receives and drops until it is killed.
///
/// # Errors
/// When it cannot listen.
pub(crate) async fn run(output: &Output) -> Result<(), CliError> {
    let any: SocketAddr = ([127, 0, 0, 1], 0).into();
    let listener = TcpListener::bind(any).await.map_err(|source| CliError::Listen { address: any, source })?;
    let address = listener.local_addr().map_err(|source| CliError::Listen { address: any, source })?;
    output.object(&Listening { address }, || address.to_string())?;
    loop {
        let (stream, _) = listener.accept().await.map_err(|source| CliError::Listen { address, source })?;
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(drop_body)));
    }
}

async fn drop_body(mut request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    while let Some(Ok(frame)) = request.body_mut().frame().await {
        std::hint::black_box(&frame);
    }
    Ok(Response::new(Full::new(Bytes::from_static(b"{}"))))
}
