//! Connections: HTTP/1.1 and HTTP/2 (with prior knowledge, as proxies speak it) on one port.
//!
//! `axum::serve` reads the first bytes of a connection to distinguish the versions and pushes them back, which doubles
//! the read buffer of every held client. Here the first bytes are only peeked at.

use std::io;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Largest read buffer of a connection. The head of a request must fit in it, and it is the largest piece of a body.
const READ_BYTES_MAX: usize = 64 << 10;

/// The first bytes of an HTTP/2 connection (RFC 9113, section 3.4). Of the methods of HTTP/1.1 only WebDAV's begin like
/// this, and no route accepts those.
const HTTP2_BEGINS: &[u8] = b"PR";
/// Pause when no connection can be accepted because the process has no free file descriptor. Connections that end free
/// some.
const ACCEPT_RETRY: Duration = Duration::from_secs(1);

/// Serves until `stop` is cancelled, and returns when the requests in flight are answered.
pub(crate) async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    // Made once: a router that is not a service yet is rebuilt for every connection, 12 KB each.
    let service = TowerToHyperService::new(router.with_state::<()>(()));
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let (service, stop) = (service.clone(), stop.clone());
                connections.spawn(async move {
                    // A broken connection is no fault of the coordinator.
                    if let Err(error) = converse(stream, service, stop).await {
                        tracing::trace!(%error, "a connection ended");
                    }
                });
            }
            Err(error) if is_about_one_connection(&error) => {}
            Err(error) => {
                tracing::error!(%error, "no connection can be accepted");
                tokio::select! {
                    () = stop.cancelled() => break,
                    () = tokio::time::sleep(ACCEPT_RETRY) => {}
                }
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Answers the requests of one connection.
async fn converse(
    stream: TcpStream,
    service: TowerToHyperService<Router>,
    stop: CancellationToken,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    // Answers are small and written at once, so waiting for more bytes would only delay them.
    stream.set_nodelay(true)?;
    let mut first = [0; HTTP2_BEGINS.len()];
    let seen = tokio::select! {
        seen = stream.peek(&mut first) => seen?,
        () = stop.cancelled() => return Ok(()),
    };
    if first[..seen] == *HTTP2_BEGINS {
        // Boxed because it is rare and large, so that it is not part of every connection's future.
        return Box::pin(converse2(stream, service, stop)).await;
    }
    let connection = http1::Builder::new().max_buf_size(READ_BYTES_MAX).serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return Ok(ended?),
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    Ok(connection.await?)
}

async fn converse2(
    stream: TcpStream,
    service: TowerToHyperService<Router>,
    stop: CancellationToken,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let connection = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return Ok(ended?),
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    Ok(connection.await?)
}

/// Whether the error concerns one connection and not the listener.
fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    struct Served {
        address: std::net::SocketAddr,
        stop: CancellationToken,
        serving: tokio::task::JoinHandle<()>,
    }

    async fn served() -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let router = Router::new().route("/", get(|| async { "here" }));
        Served { address, stop: stop.clone(), serving: tokio::spawn(serve(listener, router, stop)) }
    }

    #[tokio::test]
    async fn either_version_is_answered_however_its_first_bytes_arrive() {
        let served = served().await;
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        for byte in b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n" {
            stream.write_all(&[*byte]).await.unwrap();
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("here"), "{answer}");

        let mut stream = TcpStream::connect(served.address).await.unwrap();
        // The preface and an empty SETTINGS frame; the server's own SETTINGS (type 4) comes first.
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        let mut frame = [0; 9];
        stream.read_exact(&mut frame).await.unwrap();
        assert_eq!(frame[3], 4);
    }

    #[tokio::test]
    async fn a_stop_ends_idle_and_silent_connections() {
        let served = served().await;
        let silent = TcpStream::connect(served.address).await.unwrap();
        let mut idle = TcpStream::connect(served.address).await.unwrap();
        idle.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut answer = [0; 15];
        idle.read_exact(&mut answer).await.unwrap();
        served.stop.cancel();
        served.serving.await.unwrap();
        drop(silent);
    }
}
