//! Requests over HTTP with reqwest.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::TryStreamExt;
use futures_util::future::BoxFuture;
use http::Method;

use super::contract::{Request, Response, Transport, TransportError};
use super::trust::Trust;

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// HTTP/1.1 or 2 over TCP, with TLS by rustls for `https`.
#[derive(Clone, Debug)]
pub struct HttpTransport {
    http: reqwest::Client,
}

impl HttpTransport {
    /// Sends over this client: its proxy, certificates and connection pool. It should follow no redirects.
    #[must_use]
    pub fn new(http: reqwest::Client) -> Self {
        Self { http }
    }

    /// Sends over a client of its own, which waits 10 s for a connection, follows no redirects and trusts the system's
    /// CAs.
    ///
    /// # Errors
    /// [`TransportError`] if TLS cannot be set up.
    pub fn with_defaults() -> Result<Self, TransportError> {
        Self::trusting(&Trust::System)
    }

    /// The same, for servers with certificates of these CAs.
    ///
    /// # Errors
    /// [`TransportError`] if TLS cannot be set up.
    pub fn trusting(trust: &Trust) -> Result<Self, TransportError> {
        // An app that has chosen another provider keeps it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("tributary-client/", env!("CARGO_PKG_VERSION")));
        if let Some(config) = trust.client_config().map_err(|error| TransportError(error.to_string()))? {
            http = http.tls_backend_preconfigured(config);
        }
        http.build().map(Self::new).map_err(with_causes)
    }
}

impl Transport for HttpTransport {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>> {
        Box::pin(async move {
            let Request { method, url, headers, body } = request;
            let has_body = method != Method::GET && method != Method::HEAD;
            let call = self.http.request(method, url).headers(headers);
            let call = if has_body { call.body(body) } else { call };
            let mut response = call.send().await.map_err(with_causes)?;
            Ok(Response {
                status: response.status(),
                headers: std::mem::take(response.headers_mut()),
                body: Box::pin(response.bytes_stream().map_err(with_causes)),
            })
        })
    }
}

/// Whether requests can be sent to paths below this URL.
pub(crate) fn is_url(text: &str) -> bool {
    let known_scheme = text.starts_with("http://") || text.starts_with("https://");
    known_scheme && reqwest::Url::parse(text).is_ok()
}

/// Whether requests to this URL would cross a network without encryption: plain HTTP to another machine.
#[must_use]
pub fn is_exposed(url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(url) else { return false };
    let is_loopback = url.host_str().is_some_and(|host| {
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    });
    url.scheme() == "http" && !is_loopback
}

/// An error with its causes, which reqwest's own text leaves out.
fn with_causes(error: reqwest::Error) -> TransportError {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    TransportError(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_exposed_everywhere_but_on_this_machine() {
        for (url, expected) in [
            ("http://127.0.0.1:7300", false),
            ("http://[::1]:7300", false),
            ("http://localhost", false),
            ("https://fl.example.org", false),
            ("http://fl.example.org", true),
            ("http://10.0.0.1:7300/a", true),
            ("http://localhost.example.org", true),
        ] {
            assert_eq!(is_exposed(url), expected, "{url}");
        }
    }
}
