//! What every transport promises.

use std::fmt::{self, Debug};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use http::{HeaderMap, Method, StatusCode};

use crate::keys::ClientCertificate;

/// Carries requests to the coordinator and its responses back. Parts of updates and of models travel between other
/// coordinators of its deployment, which it names, with the same secret and certificate.
///
/// An app implements it to use the platform's own HTTP stack; a test, to lose a request or its response. The SDK limits
/// the time of a call, repeats calls that failed, and checks what a response says.
pub trait Transport: Debug + Send + Sync {
    /// Sends one request and waits for the head of its response. Dropping the future or the response's body abandons
    /// the request; the coordinator may have received any part of it.
    ///
    /// A response with any status is a success here. Redirects must not be followed: they could carry a secret to
    /// another server.
    ///
    /// # Errors
    /// [`TransportError`] if no response came.
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>>;

    /// Sends one request that asks for an upgrade (RFC 9110, section 7.8), over HTTP/1.1, and returns the connection
    /// that it becomes. Links of groups through the coordinator need it.
    ///
    /// # Errors
    /// [`TransportError`] if the status of the response is not 101, or the transport cannot do this.
    #[cfg(feature = "group")]
    fn upgrade(&self, request: Request) -> BoxFuture<'_, Result<Wire, TransportError>> {
        let _ = request;
        Box::pin(async { Err(TransportError::Failed("this transport upgrades no connections".into())) })
    }

    /// Whether [`Self::present`] is supported. Without it, the client authenticates with its secret alone.
    fn presents_certificates(&self) -> bool {
        false
    }

    /// Presents this certificate to servers that ask for one, in every connection that is opened from now on. Requests
    /// that are sent from now on must not use older connections. It is called at the start and after each renewal. So a
    /// transport that presents certificates serves one client.
    ///
    /// # Errors
    /// [`TransportError`] if TLS cannot be set up with it.
    fn present(&self, certificate: &ClientCertificate) -> Result<(), TransportError> {
        let _ = certificate;
        Err(TransportError::Failed("this transport presents no certificates".into()))
    }
}

/// Both directions of a connection.
#[cfg(feature = "group")]
pub trait Duplex: tokio::io::AsyncRead + tokio::io::AsyncWrite + Debug + Send + Unpin {}

#[cfg(feature = "group")]
impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Debug + Send + Unpin> Duplex for T {}

/// A connection of some kind.
#[cfg(feature = "group")]
pub type Wire = Box<dyn Duplex>;

/// One request of the device API.
#[derive(Clone)]
pub struct Request {
    /// `GET`, `HEAD`, `POST`, `PUT` or `PATCH`.
    pub method: Method,
    /// The absolute URL, with `http` or `https` and the query.
    pub url: String,
    /// All headers but those that follow from the URL and the body's length. `Authorization` is a secret.
    pub headers: HeaderMap,
    /// The whole body; clones share its bytes. Empty for `GET` and `HEAD`.
    pub body: Bytes,
}

impl Debug for Request {
    /// Without headers and body: they hold secrets and weights.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("Request");
        fields.field("method", &self.method).field("url", &self.url).field("body_bytes", &self.body.len());
        fields.finish_non_exhaustive()
    }
}

/// The head of a response, and its body on the way.
pub struct Response {
    /// The HTTP status.
    pub status: StatusCode,
    /// All headers.
    pub headers: HeaderMap,
    /// The body's bytes in order.
    pub body: Body,
}

/// A body in pieces of any size. It ends after its last byte, or after an error if the connection broke.
pub type Body = BoxStream<'static, Result<Bytes, TransportError>>;

impl Debug for Response {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Response").field("status", &self.status).finish_non_exhaustive()
    }
}

/// No response, or only a part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The connection failed or broke. What happened, for the app's log; the request is repeated.
    #[error("{0}")]
    Failed(String),
    /// The server's certificate is not one that the client trusts for its name. Asking again would not change that.
    #[error("{0}")]
    Untrusted(String),
}
