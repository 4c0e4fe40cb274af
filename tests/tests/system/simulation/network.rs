//! The network between a client and the coordinator: it keeps each request until the history delivers or loses it.

use std::net::SocketAddr;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, TryStreamExt, stream};
use reqwest::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tributary_client::transport::{Request, Response, TransportError};
use tributary_client::{HttpTransport, Transport};

/// The transport of one client: its requests wait in the network.
#[derive(Debug)]
pub(super) struct Network {
    calls: mpsc::UnboundedSender<Call>,
}

/// A request that was sent and has not arrived.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) request: Request,
    /// Where the client waits for the response. Dropping it breaks the connection.
    client: oneshot::Sender<Reply>,
}

/// A whole response of the coordinator.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Network {
    /// The client's end, and the receiver of its requests.
    pub(super) fn build() -> (Self, mpsc::UnboundedReceiver<Call>) {
        let (calls, sent) = mpsc::unbounded_channel();
        (Self { calls }, sent)
    }
}

impl Transport for Network {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>> {
        Box::pin(async move {
            let broken = |_| TransportError::Failed("the connection broke".into());
            let (client, answered) = oneshot::channel();
            let _ = self.calls.send(Call { request, client });
            let Reply { status, headers, body } = answered.await.map_err(broken)?;
            Ok(Response { status, headers, body: stream::iter([Ok(body)]).boxed() })
        })
    }
}

impl Call {
    /// Brings the response to the client. A client that was killed does not take it.
    pub(super) fn answer(self, reply: &Reply) {
        let _ = self.client.send(reply.clone());
    }
}

impl Reply {
    pub(super) fn status(&self) -> u16 {
        self.status.as_u16()
    }

    /// The JSON of the body.
    pub(super) fn json<T: serde::de::DeserializeOwned>(&self) -> T {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// Lets a request arrive at the coordinator, on a separate connection, and takes the response.
pub(super) async fn arrive(http: HttpTransport, request: Request) -> Result<Reply, TransportError> {
    let mut response = http.send(request).await?;
    let mut body = Vec::new();
    while let Some(piece) = response.body.try_next().await? {
        body.extend_from_slice(&piece);
    }
    Ok(Reply { status: response.status, headers: response.headers, body: body.into() })
}

/// Lets a request arrive with this many eighths of its body, fewer than eight; then its connection ends, and nobody
/// takes the response. A request without a body does not arrive.
pub(super) async fn arrive_in_part(server: SocketAddr, request: &Request, eighths: u32) {
    if request.body.is_empty() {
        return;
    }
    let bytes = request.body.len() * eighths as usize / 8;
    let mut far = TcpStream::connect(server).await.unwrap();
    far.write_all(&[&head(server, request), &request.body[..bytes]].concat()).await.unwrap();
    far.shutdown().await.unwrap();
    // The coordinator may close the connection before it has read everything.
    let _ = far.read_to_end(&mut Vec::new()).await;
}

/// The head of a request over HTTP/1.1, whose connection ends with the response.
fn head(server: SocketAddr, request: &Request) -> Vec<u8> {
    let path = request.url.strip_prefix(&format!("http://{server}")).unwrap();
    let (method, body_bytes) = (&request.method, request.body.len());
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\n").into_bytes();
    head.extend(format!("content-length: {body_bytes}\r\n").into_bytes());
    for (name, value) in &request.headers {
        head.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    head.extend(b"\r\n");
    head
}

/// Method and path of a request without its query, as in `PUT /device/v1/assignments/../update`.
pub(super) fn what(request: &Request) -> String {
    let path = request.url.splitn(4, '/').nth(3).unwrap();
    format!("{} /{}", request.method, path.split('?').next().unwrap())
}

/// Whether it brings an update, or the rest of one.
pub(super) fn is_upload(request: &Request) -> bool {
    request.method != Method::HEAD && what(request).ends_with("/update")
}
