//! Accepting connections of members.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

use super::admitted::{Admission, Admitted, OpenGroup};
use super::handshakes::Handshakes;
use super::hello;
use super::link::{Link, LinkError};
use super::tls::{peer_of, server_config};
use crate::clock::{Clock, within};
use crate::keys::KeyStore;
use crate::transport::Wire;

/// Longest time from a connection to the end of the first frames, in milliseconds.
pub(super) const HANDSHAKE_MS_MAX: u64 = 10_000;
/// Pause after the system has given no connection, for example because too many files are open, in milliseconds.
const ACCEPT_PAUSE_MS: u64 = 100;

/// Listens for members of groups with an [`Admission`]. While there is none, connections are closed unread. Dropping it
/// ends listening; links stay open.
#[derive(Debug)]
pub struct Listener {
    local_address: SocketAddr,
    welcome: Welcome,
    task: AbortHandle,
}

impl Listener {
    /// Listens at this address, a host with a port, with the device's key. Needs a tokio runtime.
    ///
    /// # Errors
    /// [`LinkError`] if the address or the key cannot be used.
    pub async fn bind(address: &str, keys: Arc<dyn KeyStore>, clock: Arc<dyn Clock>) -> Result<Self, LinkError> {
        let admitted = Arc::new(Admitted::default());
        let known = Arc::clone(&admitted);
        let config = server_config(&keys, Arc::new(move |key| known.accepts(key)))?;
        let failed = |error: io::Error| LinkError::Listen(format!("{address}: {error}"));
        let sockets = TcpListener::bind(address).await.map_err(failed)?;
        let local_address = sockets.local_addr().map_err(failed)?;
        let welcome = Welcome { acceptor: Arc::new(config).into(), admitted: Arc::clone(&admitted), clock };
        let task = tokio::spawn(listen(sockets, welcome.clone())).abort_handle();
        Ok(Self { local_address, welcome, task })
    }

    /// Where it listens: the port is the one that the system chose if port 0 was asked for.
    pub fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    /// Lets the members of a group connect.
    #[must_use = "members may connect only while it lives"]
    pub fn admit(&self, group: OpenGroup) -> Admission {
        self.welcome.admitted.admit(group)
    }

    /// Takes a connection that came another way than through the port. Its link goes to the [`Admission`] of its group.
    ///
    /// # Errors
    /// [`LinkError`] if no member of an open group is at its other end.
    pub(crate) async fn welcome(&self, stream: Wire) -> Result<(), LinkError> {
        self.welcome.link(stream).await
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
        self.welcome.admitted.end();
    }
}

async fn listen(sockets: TcpListener, welcome: Welcome) {
    let mut handshakes = Handshakes::default();
    loop {
        let accepted = tokio::select! {
            () = handshakes.reap(), if !handshakes.is_empty() => continue,
            accepted = sockets.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) if welcome.admitted.is_empty() => drop(stream),
            Ok((stream, address)) => {
                let welcome = welcome.clone();
                handshakes.start(address.ip(), async move { welcome.limited(stream, address).await }).await;
            }
            Err(error) => {
                tracing::warn!(%error, "the system gives no connections of members");
                welcome.clock.sleep(Duration::from_millis(ACCEPT_PAUSE_MS)).await;
            }
        }
    }
}

/// Finds out who has connected.
#[derive(Clone)]
struct Welcome {
    acceptor: TlsAcceptor,
    admitted: Arc<Admitted>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Welcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Welcome").field("admitted", &self.admitted).finish_non_exhaustive()
    }
}

impl Welcome {
    async fn limited(&self, stream: TcpStream, address: SocketAddr) {
        let limit_ms = HANDSHAKE_MS_MAX;
        let done = within(&*self.clock, Duration::from_millis(limit_ms), self.socket(stream)).await;
        if let Err(error) = done.unwrap_or(Err(LinkError::TimedOut { limit_ms })) {
            tracing::debug!(%address, %error, "a connection is refused");
        }
    }

    async fn socket(&self, stream: TcpStream) -> Result<(), LinkError> {
        stream.set_nodelay(true).map_err(|error| LinkError::of(&error))?;
        self.link(Box::new(stream)).await
    }

    async fn link(&self, stream: Wire) -> Result<(), LinkError> {
        let lost = |error: io::Error| LinkError::of(&error);
        let mut stream = self.acceptor.accept(stream).await.map_err(lost)?;
        let key = peer_of(stream.get_ref().1)?;
        let hello = hello::receive(&mut stream).await.map_err(lost)??;
        let group = self.admitted.find(key, hello)?;
        let place = group.place(hello.from);
        let place = place.ok_or_else(|| LinkError::Handshake("its group has no place for it".to_owned()))?;
        hello::send(hello.answer(), &mut stream).await.map_err(lost)?;
        group.deliver(Link::new(stream.into(), hello.from, Some(place)));
        Ok(())
    }
}
