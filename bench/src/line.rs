//! A line of a device, as a proxy on the loopback address: so many bytes a second each way, which arrive later.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};
use tributary::error::CliError;

use crate::error::BenchError;

/// Bytes that travel together.
const PIECE_BYTES: usize = 16 << 10;
/// Pieces that are under way at most: what a socket would hold.
const PIECES_MAX: usize = 16;

/// What a line does to the bytes in each of its directions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) bytes_per_s: f64,
    /// From one end to the other.
    pub(crate) delay: Duration,
}

/// A line to a server. All its connections share it.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) address: SocketAddr,
    listens: AbortHandle,
}

/// One direction: when it is free for the next piece.
#[derive(Debug)]
struct Direction {
    shape: Shape,
    free_at: Mutex<Instant>,
}

impl Line {
    pub(crate) async fn to(server: SocketAddr, shape: Shape) -> Result<Self, CliError> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let [up, down] = [(); 2].map(|()| Arc::new(Direction { shape, free_at: Mutex::new(Instant::now()) }));
        let listens = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (up, down) = (Arc::clone(&up), Arc::clone(&down));
                connections.spawn(async move {
                    // A server that is not there ends the connection, as on any line.
                    let Ok(server) = TcpStream::connect(server).await else { return };
                    // A line holds nothing back until more comes. Without this, bytes are only slower.
                    let _ = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
                    let ((from_client, to_client), (from_server, to_server)) =
                        (client.into_split(), server.into_split());
                    tokio::join!(up.carry(from_client, to_server), down.carry(from_server, to_client));
                });
            }
        });
        Ok(Self { address, listens: listens.abort_handle() })
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.listens.abort();
    }
}

impl Direction {
    /// When a piece that is sent now arrives.
    fn arrives_at(&self, bytes: usize) -> Instant {
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        *free_at = (*free_at).max(Instant::now()) + Duration::from_secs_f64(bytes as f64 / self.shape.bytes_per_s);
        *free_at + self.shape.delay
    }

    /// Carries bytes until one end closes.
    async fn carry(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let (sender, mut receiver) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES_MAX);
        let read = async move {
            let mut piece = vec![0; PIECE_BYTES];
            while let Ok(bytes @ 1..) = from.read(&mut piece).await {
                if sender.send((self.arrives_at(bytes), piece[..bytes].to_vec())).await.is_err() {
                    break;
                }
            }
        };
        let write = async move {
            while let Some((at, piece)) = receiver.recv().await {
                sleep_until(at).await;
                if to.write_all(&piece).await.is_err() {
                    break;
                }
            }
        };
        tokio::join!(read, write);
    }
}

fn failed(error: std::io::Error) -> BenchError {
    BenchError::Connection(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_carries_all_bytes_both_ways_and_ends_when_both_ends_do() {
        let server = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let shape = Shape { bytes_per_s: 1e9, delay: Duration::from_millis(1) };
        let line = Line::to(server.local_addr().unwrap(), shape).await.unwrap();
        let echo = tokio::spawn(async move {
            let (mut connection, _) = server.accept().await.unwrap();
            let mut all = Vec::new();
            connection.read_to_end(&mut all).await.unwrap();
            connection.write_all(&all).await.unwrap();
        });
        let mut client = TcpStream::connect(line.address).await.unwrap();
        let sent: Vec<u8> = (0..300_000u32).map(|index| index as u8).collect();
        client.write_all(&sent).await.unwrap();
        client.shutdown().await.unwrap();
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.unwrap();
        assert!(received == sent);
        echo.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn pieces_follow_each_other_at_the_rate_of_the_line() {
        let shape = Shape { bytes_per_s: 1_000.0, delay: Duration::from_millis(40) };
        let began = Instant::now();
        let direction = Direction { shape, free_at: Mutex::new(began) };
        let after = |bytes| (direction.arrives_at(bytes) - began).as_millis();
        assert_eq!([after(100), after(200), after(0)], [140, 340, 340]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(after(100), 1_140, "an idle line saves nothing up");
    }
}
