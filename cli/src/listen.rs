//! Listening on an address.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::error::{CliError, Failure};

#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}")]
pub struct ListenError {
    pub address: SocketAddr,
    pub source: io::Error,
}

impl Failure for ListenError {
    fn hint(&self) -> Option<String> {
        let in_use = self.source.kind() == io::ErrorKind::AddrInUse;
        in_use.then(|| "another program listens there; choose another address with --listen".into())
    }
}

/// Listens on an address. Returns it with the port that the system chose, where `address` has port 0.
pub async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), CliError> {
    let failed = |source| ListenError { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}
