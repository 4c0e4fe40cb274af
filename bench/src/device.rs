//! The device API over one kept connection, with as little code as possible between benchmark and socket: the load
//! generator shares its processors with the coordinator that it measures.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, IF_NONE_MATCH};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tributary_client::{Trust, TrustError};
use tributary_protocol::abilities::Abilities;
use tributary_protocol::device::{
    ASK_AFTER, Assignment, CheckInRequest, CheckInResponse, DeviceState, EnrolRequest, EnrolResponse, ReportAccepted,
};
use tributary_protocol::example_sets::ExampleSets;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::Secret;
use tributary_protocol::release::{ChannelAnswer, Released};
use tributary_protocol::update::CodecName;

use crate::error::BenchError;

/// Connections from one loopback address. Linux has about 28,000 ports for them.
const CONNECTIONS_PER_ADDRESS: u32 = 20_000;
/// Bytes of an unexpected answer that are shown.
const SHOWN_BYTES: usize = 300;

/// Where a coordinator serves, and how.
#[derive(Clone)]
pub(crate) struct Server {
    address: SocketAddr,
    /// Resumes sessions of earlier connections, as an SDK client does.
    tls: Option<TlsConnector>,
    /// How many connections were opened.
    opened: Arc<AtomicU32>,
}

impl Server {
    pub(crate) fn new(address: SocketAddr, trust: Option<&Trust>) -> Result<Self, TrustError> {
        let config = trust.map(Trust::client_config).transpose()?.flatten();
        let tls = config.map(|mut config| {
            // One request at a time needs no streams.
            config.alpn_protocols.clear();
            TlsConnector::from(Arc::new(config))
        });
        Ok(Self { address, tls, opened: Arc::default() })
    }

    /// A connection from 127.0.0.1 at first, and from 127.0.0.2 and so on when that has no free ports any more.
    async fn connect(&self) -> io::Result<TcpStream> {
        let number = self.opened.fetch_add(1, Ordering::Relaxed) / CONNECTIONS_PER_ADDRESS;
        if number == 0 || !self.address.ip().is_loopback() || self.address.is_ipv6() {
            return TcpStream::connect(self.address).await;
        }
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + number), 0).into())?;
        socket.connect(self.address).await
    }
}

/// A connection that any device may use: each call has its own credential.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: HeaderValue,
}

impl Connection {
    pub(crate) async fn open(server: &Server) -> Result<Self, BenchError> {
        let failed = |error: io::Error| BenchError::Connection(error.to_string());
        let Server { address, tls, .. } = server;
        let stream = server.connect().await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let sender = match tls {
            None => spoken(stream).await?,
            Some(tls) => spoken(tls.connect(address.ip().into(), stream).await.map_err(failed)?).await?,
        };
        let host = HeaderValue::from_str(&address.to_string()).expect("an address is a legal header value");
        Ok(Self { sender, host })
    }

    /// A connection over a stream to a coordinator on the loopback address.
    pub(crate) async fn over<S>(stream: S) -> Result<Self, BenchError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        Ok(Self { sender: spoken(stream).await?, host: HeaderValue::from_static("127.0.0.1") })
    }

    /// Enrols a client; returns its credential.
    pub(crate) async fn enrol(&mut self, token: &HeaderValue) -> Result<HeaderValue, BenchError> {
        let request = EnrolRequest {
            attributes: Default::default(),
            certificate_request: None,
            attestation: None,
            consent: None,
        };
        let body = json(&request);
        let enrolled: EnrolResponse = self.call(Method::POST, "/device/v1/clients", token, body).await?;
        Ok(bearer(&enrolled.secret))
    }

    /// Checks a client in with the body from [`check_in_body`].
    pub(crate) async fn check_in(
        &mut self,
        client: &HeaderValue,
        body: &Bytes,
    ) -> Result<Option<Box<Assignment>>, BenchError> {
        match self.call(Method::POST, "/device/v1/checkins", client, body.clone()).await? {
            CheckInResponse::Assigned(assignment) => Ok(Some(assignment)),
            CheckInResponse::Retry { .. } => Ok(None),
        }
    }

    pub(crate) async fn put_update(
        &mut self,
        client: &HeaderValue,
        assignment: &Assignment,
        body: Bytes,
    ) -> Result<(), BenchError> {
        let path = update_path(assignment);
        self.call::<ReportAccepted>(Method::PUT, &path, client, body).await.map(drop)
    }

    /// Downloads the model of an assignment and discards it.
    pub(crate) async fn fetch_model(
        &mut self,
        client: &HeaderValue,
        assignment: &Assignment,
    ) -> Result<(), BenchError> {
        let path = format!("/device/v1/jobs/{}/models/{}", assignment.job, assignment.model_version);
        let mut response = self.send(Method::GET, &path, client, Bytes::new()).await?;
        while let Some(frame) = response.body_mut().frame().await {
            frame.map_err(|error| BenchError::Connection(error.to_string()))?;
        }
        match response.status().as_u16() {
            200 => Ok(()),
            status => Err(BenchError::Answer { call: format!("GET {path}"), status, body: String::new() }),
        }
    }

    /// Asks for the release of a channel, for a client that has this file of it.
    pub(crate) async fn ask_release(
        &mut self,
        client: &HeaderValue,
        channel: &str,
        has: Option<Sha256Hash>,
    ) -> Result<Asked, BenchError> {
        let path = format!("/device/v1/release?channel={channel}");
        let etag = has.map(|has| HeaderValue::from_str(&format!("\"{has}\"")).expect("a hash is hexadecimal"));
        let headers = etag.map(|etag| (IF_NONE_MATCH, etag));
        let response = self.send_with((Method::GET, &path), client, headers, Bytes::new()).await?;
        let ask_after = response.headers().get(ASK_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let (status, body) = whole(response).await?;
        let release = match status {
            304 => Some(None),
            200 => serde_json::from_slice(&body).ok().map(|answer: ChannelAnswer| answer.release),
            _ => None,
        };
        let asked = release.zip(ask_after).map(|(release, ask_after_ms)| Asked { release, ask_after_ms });
        asked.ok_or_else(|| unexpected((Method::GET, &path), status, &body))
    }

    /// Downloads a file.
    pub(crate) async fn fetch(&mut self, path: &str, client: &HeaderValue) -> Result<Bytes, BenchError> {
        let response = self.send(Method::GET, path, client, Bytes::new()).await?;
        match whole(response).await? {
            (200, body) => Ok(body),
            (status, body) => Err(unexpected((Method::GET, path), status, &body)),
        }
    }

    /// Sends a body without a credential.
    pub(crate) async fn put(&mut self, path: &str, body: Bytes) -> Result<(), BenchError> {
        self.call::<serde_json::Value>(Method::PUT, path, &HeaderValue::from_static("-"), body).await.map(drop)
    }

    /// The status and the body of an answer, whatever they are.
    pub(crate) async fn exchange(
        &mut self,
        method: Method,
        path: &str,
        client: &HeaderValue,
        body: Bytes,
    ) -> Result<(u16, Bytes), BenchError> {
        whole(self.send(method, path, client, body).await?).await
    }

    async fn call<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        bearer: &HeaderValue,
        body: Bytes,
    ) -> Result<T, BenchError> {
        let (status, body) = whole(self.send(method.clone(), path, bearer, body).await?).await?;
        let parsed = if status == 200 { serde_json::from_slice(&body).ok() } else { None };
        parsed.ok_or_else(|| unexpected((method, path), status, &body))
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        bearer: &HeaderValue,
        body: Bytes,
    ) -> Result<Response<Incoming>, BenchError> {
        self.send_with((method, path), bearer, None, body).await
    }

    async fn send_with(
        &mut self,
        (method, path): (Method, &str),
        bearer: &HeaderValue,
        header: Option<(HeaderName, HeaderValue)>,
        body: Bytes,
    ) -> Result<Response<Incoming>, BenchError> {
        let broken = |error: hyper::Error| BenchError::Connection(error.to_string());
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.host)
            .header(AUTHORIZATION, bearer)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .expect("the parts are ours and legal");
        request.headers_mut().extend(header);
        self.sender.ready().await.map_err(broken)?;
        self.sender.send_request(request).await.map_err(broken)
    }
}

/// What a channel has for a client.
pub(crate) struct Asked {
    /// None: what the client has, or nothing.
    pub(crate) release: Option<Box<Released>>,
    /// When the client may ask again, in milliseconds.
    pub(crate) ask_after_ms: u64,
}

/// The status and the body of an answer.
async fn whole(response: Response<Incoming>) -> Result<(u16, Bytes), BenchError> {
    let status = response.status().as_u16();
    let body = response.into_body().collect().await;
    Ok((status, body.map_err(|error| BenchError::Connection(error.to_string()))?.to_bytes()))
}

fn unexpected((method, path): (Method, &str), status: u16, body: &Bytes) -> BenchError {
    let body = String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES)]).into_owned();
    BenchError::Answer { call: format!("{method} {path}"), status, body }
}

/// Speaks HTTP/1.1 over a stream, in a separate task.
async fn spoken<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
) -> Result<SendRequest<Full<Bytes>>, BenchError> {
    let shaken = handshake(TokioIo::new(stream)).await;
    let (sender, connection) = shaken.map_err(|error| BenchError::Connection(error.to_string()))?;
    // It ends with the sender, which reports the same errors.
    tokio::spawn(connection);
    Ok(sender)
}

/// The body of a check-in that may be held for `wait_ms`.
pub(crate) fn check_in_body(wait_ms: u32) -> Bytes {
    json(&CheckInRequest {
        attributes: Default::default(),
        state: DeviceState { examples: 1, ..DeviceState::default() },
        sdk_version: env!("CARGO_PKG_VERSION").into(),
        sdk: None,
        codecs: CodecName::ALL.to_vec(),
        abilities: Abilities::FIRST,
        schema: None,
        sets: ExampleSets::default(),
        answers: false,
        masks: false,
        signs: false,
        channels: Default::default(),
        relay: None,
        wait_ms,
    })
}

/// Where an update of weight 1 is sent.
pub(crate) fn update_path(assignment: &Assignment) -> String {
    format!("/device/v1/assignments/{}/update?weight=1&loss=0.5&steps=1&train_ms=1", assignment.id)
}

/// The `Authorization` header.
pub(crate) fn bearer(secret: &Secret) -> HeaderValue {
    let mut value =
        HeaderValue::from_str(&format!("Bearer {}", secret.expose())).expect("tokens are legal header values");
    value.set_sensitive(true);
    value
}

pub(crate) fn json<T: Serialize>(value: &T) -> Bytes {
    serde_json::to_vec(value).expect("the API's types have string keys and no failing serialisers").into()
}
