//! The proxy between devices and coordinators: it delays bytes, stalls connections and cuts them.
//!
//! Its side to the devices is memory, and its side to the coordinators is sockets. So a device takes one open file of
//! this process and not three, and a fleet of 10,000 stays below the usual limit.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::cluster::Cluster;
use super::fate::{Fault, FaultKind, Path};
use super::tally::{Count, Tally};

/// Bytes that travel together: with a delay of 30 ms, 137 kB a second.
const PIECE_BYTES: usize = 4 << 10;

#[derive(Clone)]
pub(super) struct Network {
    pub(super) cluster: Arc<Cluster>,
    pub(super) tally: Arc<Tally>,
}

impl Network {
    /// A connection to a coordinator. It fails while that one is not there.
    pub(super) async fn connect(&self, node: usize, path: Path) -> io::Result<DuplexStream> {
        let address = self.cluster.address(node).ok_or(io::ErrorKind::ConnectionRefused)?;
        let server = TcpStream::connect(address).await?;
        server.set_nodelay(true)?;
        let (device, network) = duplex(PIECE_BYTES);
        let tally = Arc::clone(&self.tally);
        tokio::spawn(async move {
            tally.add(Count::Open);
            carry(network, server, path, &tally).await;
            tally.subtract(Count::Open);
        });
        Ok(device)
    }
}

/// Carries bytes both ways until one end closes or the path breaks.
async fn carry(device: DuplexStream, server: TcpStream, path: Path, tally: &Tally) {
    let (from_device, to_device) = split(device);
    let (from_server, to_server) = server.into_split();
    let fault_of = |upwards| path.fault.filter(|fault| fault.upwards == upwards);
    tokio::select! {
        () = pump(from_device, to_server, path.delay, fault_of(true), tally) => {}
        () = pump(from_server, to_device, path.delay, fault_of(false), tally) => {}
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    delay: Duration,
    mut fault: Option<Fault>,
    tally: &Tally,
) {
    let mut piece = vec![0; PIECE_BYTES];
    let mut carried = 0;
    while let Ok(bytes @ 1..) = from.read(&mut piece).await {
        carried += bytes as u64;
        sleep(delay).await;
        match fault.take_if(|fault| carried > fault.after_bytes).map(|fault| fault.kind) {
            Some(FaultKind::Cut) => {
                tally.add(Count::Cut);
                // The other end has the first half of the piece, so that it sees a body that breaks off.
                let _ = to.write_all(&piece[..bytes / 2]).await;
                return;
            }
            Some(FaultKind::Stall(pause)) => {
                tally.add(Count::Stalled);
                sleep(pause).await;
            }
            None => {}
        }
        if to.write_all(&piece[..bytes]).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn pumped(fault: Option<Fault>, sent: &[u8]) -> (Vec<u8>, Tally) {
        let tally = Tally::default();
        let mut received = Vec::new();
        pump(sent, &mut received, Duration::from_millis(30), fault, &tally).await;
        (received, tally)
    }

    #[tokio::test(start_paused = true)]
    async fn a_path_without_a_fault_carries_everything_later() {
        let sent = vec![7; 3 * PIECE_BYTES];
        let began = tokio::time::Instant::now();
        assert_eq!(pumped(None, &sent).await.0, sent);
        assert_eq!(began.elapsed(), 3 * Duration::from_millis(30));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cut_leaves_a_body_that_breaks_off() {
        let fault = Fault { upwards: true, after_bytes: 5_000, kind: FaultKind::Cut };
        let (received, tally) = pumped(Some(fault), &vec![7; 3 * PIECE_BYTES]).await;
        assert_eq!((received.len(), tally.count(Count::Cut)), (PIECE_BYTES * 3 / 2, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stall_holds_bytes_back_and_loses_none() {
        let pause = Duration::from_secs(5);
        let fault = Fault { upwards: true, after_bytes: 0, kind: FaultKind::Stall(pause) };
        let began = tokio::time::Instant::now();
        let (received, tally) = pumped(Some(fault), &[7; 10]).await;
        assert_eq!((received.len(), tally.count(Count::Stalled)), (10, 1));
        assert!(began.elapsed() > pause);
    }
}
