//! The road between a client and the coordinator: each request stops on it until the history says what becomes of it.

use std::io::{Error, Result};
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Where one client believes the coordinator to be.
pub(super) struct Road {
    listener: TcpListener,
}

/// A request that was sent and has not arrived.
pub(super) struct Request {
    /// As it came from the client.
    pub(super) bytes: Vec<u8>,
    /// Where the client waits for the answer. Dropping it breaks the connection.
    near: TcpStream,
}

/// A whole answer of the coordinator.
pub(super) struct Reply {
    bytes: Vec<u8>,
}

impl Road {
    pub(super) async fn build() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.listener.local_addr().unwrap())
    }

    /// The client's next connection; it carries one request.
    pub(super) async fn connected(&self) -> TcpStream {
        self.listener.accept().await.unwrap().0
    }
}

impl Request {
    pub(super) async fn read(mut near: TcpStream) -> Result<Self> {
        let mut bytes = Vec::new();
        loop {
            if near.read_buf(&mut bytes).await? == 0 {
                return Err(Error::other("the client hung up in the middle of a request"));
            }
            if let Some(head) = head_bytes(&bytes)
                && bytes.len() >= head + content_bytes(&bytes[..head])
            {
                return Ok(Self { bytes, near });
            }
        }
    }

    /// Method and path without the query, as in `PUT /device/v1/assignments/../update`.
    pub(super) fn what(&self) -> String {
        what(&self.bytes)
    }

    /// Whether it brings an update, or the rest of one.
    pub(super) fn is_upload(&self) -> bool {
        let what = self.what();
        what.ends_with("/update") && !what.starts_with("HEAD ")
    }

    /// Brings the answer to the client.
    pub(super) async fn answer(mut self, reply: &Reply) {
        // A client that is gone does not mind.
        let _ = self.near.write_all(&reply.bytes).await;
        let _ = self.near.shutdown().await;
    }
}

impl Reply {
    pub(super) fn status(&self) -> u16 {
        let status = self.bytes.get(9..12).and_then(|status| std::str::from_utf8(status).ok()?.parse().ok());
        status.expect("an answer of HTTP")
    }

    /// The JSON of the body.
    pub(super) fn json<T: serde::de::DeserializeOwned>(&self) -> T {
        serde_json::from_slice(&self.bytes[head_bytes(&self.bytes).unwrap()..]).unwrap()
    }
}

/// Lets a request arrive at the coordinator, on a connection of its own, and takes the answer.
pub(super) async fn arrive(server: SocketAddr, request: Vec<u8>) -> Result<Reply> {
    let mut far = send(server, &request, request.len()).await?;
    let mut bytes = Vec::new();
    far.read_to_end(&mut bytes).await?;
    Ok(Reply { bytes })
}

/// Lets a request arrive with so many eighths of its body, fewer than eight; then its connection ends, and the answer
/// is nobody's. A request without a body does not arrive.
pub(super) async fn arrive_in_part(server: SocketAddr, request: &[u8], eighths: u32) {
    let head = head_bytes(request).unwrap();
    if head == request.len() {
        return;
    }
    let bytes = head + (request.len() - head) * eighths as usize / 8;
    let mut far = send(server, request, bytes).await.unwrap();
    far.shutdown().await.unwrap();
    // The coordinator may end it before all has been read.
    let _ = far.read_to_end(&mut Vec::new()).await;
}

/// Sends the first bytes of a request.
async fn send(server: SocketAddr, request: &[u8], bytes: usize) -> Result<TcpStream> {
    let mut far = TcpStream::connect(server).await?;
    let line = request.windows(2).position(|pair| pair == b"\r\n").unwrap_or(0) + 2;
    // So that the answer ends with the connection.
    let begun = [&request[..line], b"connection: close\r\n", &request[line..bytes]].concat();
    far.write_all(&begun).await?;
    Ok(far)
}

/// Method and path of a request.
pub(super) fn what(request: &[u8]) -> String {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line).into_owned();
    line.split(['?']).next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned()
}

/// Where the head ends, if it has arrived.
fn head_bytes(message: &[u8]) -> Option<usize> {
    message.windows(4).position(|end| end == b"\r\n\r\n").map(|place| place + 4)
}

fn content_bytes(head: &[u8]) -> usize {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    length.map_or(0, |length| length.trim().parse().unwrap())
}
