//! Opening a connection to a member.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::hello::{self, Hello};
use super::link::{Link, LinkError};
use super::peer::PeerKey;
use super::tls::{client_config, peer_of};
use crate::clock::{Clock, within};
use crate::keys::KeyStore;
use crate::transport::Wire;

/// Opens a connection to `address`, a host with a port, where the member with the key `peer` listens. `hello` goes to
/// it, and the link is there once it has answered.
///
/// # Errors
/// [`LinkError`] if there is no link to that member within the limit, in milliseconds of the clock.
pub async fn connect(
    address: &str,
    keys: &Arc<dyn KeyStore>,
    peer: PeerKey,
    hello: Hello,
    clock: &dyn Clock,
    limit_ms: u64,
) -> Result<Link, LinkError> {
    let opened = async {
        let unreachable = |error: std::io::Error| LinkError::Unreachable(error.to_string());
        let stream = TcpStream::connect(address).await.map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        connect_over(Box::new(stream), keys, peer, hello).await
    };
    let opened = within(clock, Duration::from_millis(limit_ms), opened).await;
    opened.unwrap_or(Err(LinkError::TimedOut { limit_ms }))
}

/// The same over an open connection. The handshake shows whether the member is at its other end.
///
/// # Errors
/// [`LinkError`] if another party is there.
pub(crate) async fn connect_over(
    stream: Wire,
    keys: &Arc<dyn KeyStore>,
    peer: PeerKey,
    hello: Hello,
) -> Result<Link, LinkError> {
    let config = Arc::new(client_config(keys, peer)?);
    // rustls asks for a name, which is neither sent nor compared.
    let name = ServerName::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let stream = TlsConnector::from(config).connect(name, stream).await;
    let mut stream = stream.map_err(|error| LinkError::of(&error))?;
    peer_of(stream.get_ref().1)?;
    hello::send(hello, &mut stream).await.map_err(|error| LinkError::of(&error))?;
    let answer = hello::receive(&mut stream).await.map_err(|error| LinkError::of(&error))??;
    hello.answer().expect(answer)?;
    Ok(Link::new(stream.into(), hello.to, None))
}
