//! A server that receives bodies and discards them: the cost of the socket alone.

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
use tokio::task::JoinSet;

use crate::device::{Connection, Server};
use crate::error::BenchError;
use crate::process::{ChildProcess, own_process};
use tributary::error::CliError;
use tributary::listen::{ListenError, listen};
use tributary::output::Output;

/// Enough bodies per client that a clock tick of processor time (10 ms) is small beside them.
const BODIES_PER_CLIENT: u32 = 5;

/// The first line of the process.
#[derive(Debug, Serialize, Deserialize)]
struct Listening {
    address: SocketAddr,
}

/// The server, in a separate process.
pub(crate) struct SinkProcess;

impl SinkProcess {
    /// Processor time in seconds to receive one body, while `clients` send at the same time.
    pub(crate) async fn measure(body: &Bytes, clients: u32) -> Result<f64, CliError> {
        let (child, line) = own_process(&["--json", "sink"], &[]).await?;
        let listening: Listening =
            serde_json::from_str(&line).map_err(|_| BenchError::Start("it ended at once".into()))?;
        let server = Server::new(listening.address, None).map_err(CliError::http)?;
        // The first bodies are a warm-up.
        send(&server, body, clients, 1).await?;
        let before = ChildProcess::cpu_s(&child)?;
        send(&server, body, clients, BODIES_PER_CLIENT).await?;
        Ok((child.cpu_s()? - before) / f64::from(clients * BODIES_PER_CLIENT))
    }
}

async fn send(server: &Server, body: &Bytes, clients: u32, bodies: u32) -> Result<(), CliError> {
    let mut sending = JoinSet::new();
    for _ in 0..clients {
        let (body, server) = (body.clone(), server.clone());
        sending.spawn(async move {
            let mut connection = Connection::open(&server).await?;
            for _ in 0..bodies {
                connection.put("/", body.clone()).await?;
            }
            Ok::<_, BenchError>(())
        });
    }
    while let Some(sent) = sending.join_next().await {
        sent.map_err(CliError::task)??;
    }
    Ok(())
}

/// Serves until it is killed.
pub(crate) async fn run(output: &Output) -> Result<(), CliError> {
    let (listener, address) = listen(([127, 0, 0, 1], 0).into()).await?;
    output.object(&Listening { address }, || address.to_string())?;
    loop {
        let (stream, _) = listener.accept().await.map_err(|source| ListenError { address, source })?;
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(drop_body)));
    }
}

async fn drop_body(mut request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    while let Some(Ok(frame)) = request.body_mut().frame().await {
        std::hint::black_box(&frame);
    }
    Ok(Response::new(Full::new(Bytes::from_static(b"{}"))))
}
