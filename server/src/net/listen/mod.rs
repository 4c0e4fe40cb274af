//! One port: HTTP/1.1 and HTTP/2, with TLS or without it, and a time limit for every wait. Without TLS, clients speak
//! HTTP/2 with prior knowledge, as proxies do.
//!
//! `axum::serve` reads the first bytes of a connection to distinguish the versions and pushes them back, which doubles
//! the read buffer of every held client. Here the first bytes are only peeked at.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::HandshakeKind;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{MissedTickBehavior, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::answering::Answers;
use super::connections::{Connections, Place};
use super::limits::{ConnectionLimits, Limits, open_files};
use super::peer::PeerCertificate;
use super::tls::{Spoken, Tls};
use crate::metrics::{Dropped, Handshake, Metrics};

/// Largest read buffer of a connection. The head of a request must fit in it, and it is the largest piece of a body: as
/// much as a record of TLS.
const READ_BYTES_MAX: usize = 16 << 10;
/// Requests that one HTTP/2 connection may have at the same time. Held check-ins count.
const STREAMS_MAX: u32 = 200;
/// Streams of one HTTP/2 connection that its client opened and reset before they were handled. One more closes the
/// connection ("rapid reset", CVE-2023-44487).
const RESET_STREAMS_MAX: usize = 20;
/// Largest head of a request over HTTP/2, unpacked.
const HEAD_BYTES_MAX: u32 = 16 << 10;
/// How often slow readers are looked for.
const SLOW_READERS_EVERY: Duration = Duration::from_secs(5);
/// Pause when no connection can be accepted because the process has no free file descriptor. Connections that end free
/// some.
const ACCEPT_RETRY: Duration = Duration::from_secs(1);

/// The first bytes of an HTTP/2 connection (RFC 9113, section 3.4). Of the methods of HTTP/1.1 only WebDAV's begin like
/// this, and no route accepts those.
const HTTP2_BEGINS: &[u8] = b"PR";

/// Longest waits for a client. None of them limits how long an answer takes, so held check-ins are not cut.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// For the first bytes of a connection.
    first_bytes: Duration,
    /// For the whole handshake of TLS.
    handshake: Duration,
    /// For the whole head of a request, from the end of the last answer or of [`Self::first_bytes`]. So it is also how
    /// long a connection may be idle.
    head: Duration,
    /// Silence after which TCP, and HTTP/2 with a ping, ask whether the client is still there.
    alive: Duration,
    /// For the answer to a ping of HTTP/2.
    ping: Duration,
    /// For a client that takes no byte of what is sent to it (on Linux).
    stalled: Duration,
    /// For a client to take a piece of an answer (64 KiB), whatever it does besides: it may answer pings, or take a
    /// byte now and then.
    piece: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            first_bytes: Duration::from_secs(10),
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(30),
            alive: Duration::from_secs(60),
            ping: Duration::from_secs(20),
            stalled: Duration::from_secs(60),
            piece: Duration::from_secs(120),
        }
    }
}

/// What all connections of a listener share.
struct Shared {
    router: Router,
    tls: Option<Arc<Tls>>,
    patience: Patience,
    stop: CancellationToken,
}

type Ended = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// The connections of all ports, which share the limit of open files.
pub(crate) fn connections(limits: ConnectionLimits, metrics: &Metrics) -> Arc<Connections> {
    Connections::new(Limits::new(limits, open_files()), metrics.connections())
}

/// Serves until `stop` is cancelled, and returns when the requests in flight are answered.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    connections: &Arc<Connections>,
    tls: Option<Arc<Tls>>,
    stop: CancellationToken,
) {
    // Made once: a router that is not a service yet is rebuilt for every connection, 12 KB each.
    let router = router.with_state::<()>(());
    accept(listener, connections, Arc::new(Shared { router, tls, patience: Patience::default(), stop })).await;
}

async fn accept(listener: TcpListener, connections: &Arc<Connections>, shared: Arc<Shared>) {
    let tasks = TaskTracker::new();
    let mut look = tokio::time::interval(SLOW_READERS_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let accepted = tokio::select! {
            () = shared.stop.cancelled() => break,
            now = look.tick() => {
                if let Some(before) = now.checked_sub(shared.patience.piece) {
                    connections.drop_slow_readers(before);
                }
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => connections.admit(peer, |place| {
                let shared = Arc::clone(&shared);
                let task = tasks.spawn(async move {
                    // A broken connection is no fault of the coordinator.
                    if let Err(error) = converse(stream, peer, place, shared).await {
                        tracing::trace!(%error, "a connection ended");
                    }
                });
                task.abort_handle()
            }),
            Err(error) if is_about_one_connection(&error) => {}
            Err(error) => {
                tracing::error!(%error, "no connection can be accepted");
                tokio::select! {
                    () = shared.stop.cancelled() => break,
                    () = tokio::time::sleep(ACCEPT_RETRY) => {}
                }
            }
        }
    }
    drop(listener);
    tasks.close();
    tasks.wait().await;
}

/// Answers the requests of one connection.
async fn converse(stream: TcpStream, peer: SocketAddr, place: Arc<Place>, shared: Arc<Shared>) -> Ended {
    prepare(&stream, shared.patience)?;
    if let Some(tls) = &shared.tls {
        // Boxed: a session of TLS is large, and connections without it would have room for one, too.
        return Box::pin(converse_secretly(stream, peer, place, tls, &shared)).await;
    }
    let Some(is_http2) = begins_as_http2(&stream, &place, &shared).await? else { return Ok(()) };
    let answers = Answers { router: shared.router.clone(), peer, certificate: None, place };
    if is_http2 {
        // Boxed because it is rare and large, so that it is not part of every connection's future.
        Box::pin(converse2(stream, answers, &shared)).await
    } else {
        converse1(stream, answers, &shared).await
    }
}

async fn converse_secretly(
    stream: TcpStream,
    peer: SocketAddr,
    place: Arc<Place>,
    tls: &Tls,
    shared: &Shared,
) -> Ended {
    let shaken = tokio::select! {
        shaken = timeout(shared.patience.handshake, tls.accept(stream)) => shaken,
        () = shared.stop.cancelled() => return Ok(()),
    };
    let outcome = match &shaken {
        Ok(Ok(stream)) => match stream.get_ref().1.handshake_kind() {
            Some(HandshakeKind::Resumed) => Handshake::Resumed,
            _ => Handshake::Full,
        },
        Ok(Err(_)) => Handshake::Failed,
        Err(_) => Handshake::Slow,
    };
    place.shook_hands(outcome);
    let stream = shaken??;
    let spoken = Spoken::over(&stream);
    let presented = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let certificate = presented.map(|certificate| PeerCertificate::new(certificate.clone().into_owned()));
    let answers = Answers { router: shared.router.clone(), peer, certificate, place };
    match spoken {
        Spoken::Http1 => converse1(stream, answers, shared).await,
        Spoken::Http2 => Box::pin(converse2(stream, answers, shared)).await,
        Spoken::Nothing => Ok(()),
    }
}

fn prepare(stream: &TcpStream, patience: Patience) -> io::Result<()> {
    // Answers are small and written at once, so waiting for more bytes would only delay them.
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    // A phone that vanished behind NAT says no goodbye.
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(patience.alive))?;
    // A client that takes nothing of its answer would be at work for ever, and could not be displaced.
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(patience.stalled))?;
    Ok(())
}

/// Waits for the first bytes, without reading them. `None`: the connection is to be closed.
async fn begins_as_http2(stream: &TcpStream, place: &Place, shared: &Shared) -> io::Result<Option<bool>> {
    let mut first = [0; HTTP2_BEGINS.len()];
    let seen = tokio::select! {
        seen = timeout(shared.patience.first_bytes, stream.peek(&mut first)) => seen,
        () = shared.stop.cancelled() => return Ok(None),
    };
    match seen {
        Ok(seen) => Ok(Some(first[..seen?] == *HTTP2_BEGINS)),
        Err(_) => {
            place.dropped(Dropped::Silent);
            Ok(None)
        }
    }
}

async fn converse1<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    answers: Answers,
    shared: &Shared,
) -> Ended {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(shared.patience.head).max_buf_size(READ_BYTES_MAX);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), answers).with_upgrades());
    tokio::select! {
        ended = connection.as_mut() => return Ok(ended?),
        () = shared.stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    Ok(connection.await?)
}

async fn converse2<S: AsyncRead + AsyncWrite + Unpin>(stream: S, answers: Answers, shared: &Shared) -> Ended {
    let Patience { head, alive, ping, .. } = shared.patience;
    let place = Arc::clone(&answers.place);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(alive)
        .keep_alive_timeout(ping)
        .max_concurrent_streams(STREAMS_MAX)
        .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), answers));
    let (mut turn, mut is_asked_to_leave) = (place.turn(), false);
    loop {
        tokio::select! {
            ended = connection.as_mut() => return Ok(ended?),
            () = shared.stop.cancelled() => break,
            // Idle clients answer pings, too.
            () = tokio::time::sleep(head) => {
                let last = std::mem::replace(&mut turn, place.turn());
                let was_idle = turn.is_some() && turn == last;
                if was_idle && is_asked_to_leave {
                    return Ok(());
                } else if was_idle {
                    connection.as_mut().graceful_shutdown();
                    is_asked_to_leave = true;
                }
            }
        }
    }
    connection.as_mut().graceful_shutdown();
    Ok(connection.await?)
}

/// Whether the error concerns one connection and not the listener.
fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
mod tests;
