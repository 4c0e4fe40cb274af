//! Requests over HTTP with reqwest.

use std::error::Error;
use std::fmt::{self, Debug};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::TryStreamExt;
use futures_util::future::BoxFuture;
use http::Method;

#[cfg(feature = "group")]
use super::contract::Wire;
use super::contract::{Request, Response, Transport, TransportError};
use super::trust::Trust;
use crate::keys::ClientCertificate;
use crate::locked::Locked;

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// HTTP/1.1 or 2 over TCP, with TLS by rustls for `https`. Clones share their connections and present the same
/// certificate.
#[derive(Clone, Debug)]
pub struct HttpTransport {
    /// Replaced when the client gets a certificate: its connections were opened without it.
    http: Arc<Mutex<reqwest::Client>>,
    /// The same with HTTP/1.1 alone, for connections that are upgraded.
    #[cfg(feature = "group")]
    http1: Arc<Mutex<reqwest::Client>>,
    /// `None`: the app's own HTTP client, whose TLS is the app's.
    connect: Option<Connect>,
}

/// How an HTTP client is made.
#[derive(Clone)]
struct Connect {
    trust: Trust,
    settings: Arc<dyn Fn(reqwest::ClientBuilder) -> reqwest::ClientBuilder + Send + Sync>,
}

impl Debug for Connect {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Connect").field("trust", &self.trust).finish_non_exhaustive()
    }
}

impl HttpTransport {
    /// Sends over this client: its proxy, certificates and connection pool. It should follow no redirects. It presents
    /// no certificate of the coordinator; [`Self::with_settings`] does.
    pub fn new(http: reqwest::Client) -> Self {
        Self {
            #[cfg(feature = "group")]
            http1: Arc::new(Mutex::new(http.clone())),
            http: Arc::new(Mutex::new(http)),
            connect: None,
        }
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
        Self::with_settings(trust, |builder| builder)
    }

    /// The same, with further settings: a proxy, time limits. TLS is set up afterwards. The settings are applied again
    /// whenever the client gets a new certificate.
    ///
    /// # Errors
    /// [`TransportError`] if the client cannot be set up.
    pub fn with_settings(
        trust: &Trust,
        settings: impl Fn(reqwest::ClientBuilder) -> reqwest::ClientBuilder + Send + Sync + 'static,
    ) -> Result<Self, TransportError> {
        let connect = Connect { trust: trust.clone(), settings: Arc::new(settings) };
        let transport = Self::new(connect.client(None, false)?);
        #[cfg(feature = "group")]
        connect.client(None, true).map(|http1| *transport.http1.locked() = http1)?;
        Ok(Self { connect: Some(connect), ..transport })
    }

    fn http(&self) -> reqwest::Client {
        self.http.locked().clone()
    }
}

impl Connect {
    /// One that speaks HTTP/1.1 alone if that is asked for.
    fn client(
        &self,
        certificate: Option<&ClientCertificate>,
        is_http1: bool,
    ) -> Result<reqwest::Client, TransportError> {
        tributary_tls::install();
        let config = match certificate {
            Some(certificate) => self.trust.client_config_presenting(certificate).map(Some),
            None => self.trust.client_config(),
        };
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("tributary-client/", env!("CARGO_PKG_VERSION")));
        let http = (self.settings)(http);
        let http = if is_http1 { http.http1_only() } else { http };
        let http = match config.map_err(|error| TransportError::Failed(error.to_string()))? {
            Some(mut config) => {
                config.alpn_protocols.retain(|protocol| !is_http1 || protocol == b"http/1.1");
                http.tls_backend_preconfigured(config)
            }
            None => http,
        };
        http.build().map_err(with_causes)
    }
}

impl Transport for HttpTransport {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>> {
        Box::pin(async move {
            let Request { method, url, headers, body } = request;
            let has_body = method != Method::GET && method != Method::HEAD;
            let call = self.http().request(method, url).headers(headers);
            let call = if has_body { call.body(body) } else { call };
            let mut response = call.send().await.map_err(with_causes)?;
            Ok(Response {
                status: response.status(),
                headers: std::mem::take(response.headers_mut()),
                body: Box::pin(response.bytes_stream().map_err(with_causes)),
            })
        })
    }

    #[cfg(feature = "group")]
    fn upgrade(&self, request: Request) -> BoxFuture<'_, Result<Wire, TransportError>> {
        Box::pin(async move {
            let Request { method, url, headers, body: _ } = request;
            let http1 = self.http1.locked().clone();
            let response = http1.request(method, url).headers(headers).send().await.map_err(with_causes)?;
            if response.status() != http::StatusCode::SWITCHING_PROTOCOLS {
                return Err(TransportError::Failed(format!("status {}", response.status())));
            }
            let wire: Wire = Box::new(response.upgrade().await.map_err(with_causes)?);
            Ok(wire)
        })
    }

    fn presents_certificates(&self) -> bool {
        self.connect.is_some()
    }

    fn present(&self, certificate: &ClientCertificate) -> Result<(), TransportError> {
        let connect = self.connect.as_ref();
        let connect =
            connect.ok_or_else(|| TransportError::Failed("the app's HTTP client presents no certificates".into()))?;
        let http = connect.client(Some(certificate), false)?;
        #[cfg(feature = "group")]
        connect.client(Some(certificate), true).map(|http1| *self.http1.locked() = http1)?;
        *self.http.locked() = http;
        Ok(())
    }
}

/// Whether requests can be sent to paths below this URL.
pub(crate) fn is_url(text: &str) -> bool {
    let known_scheme = text.starts_with("http://") || text.starts_with("https://");
    known_scheme && reqwest::Url::parse(text).is_ok()
}

/// Whether requests to this URL would cross a network without encryption: plain HTTP to another machine.
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
    let (mut text, mut is_untrusted) = (error.to_string(), false);
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        is_untrusted |= is_about_certificate(error);
        cause = error.source();
    }
    if is_untrusted { TransportError::Untrusted(text) } else { TransportError::Failed(text) }
}

/// Whether TLS refused the server's certificate. An error of the input or output hides the one that it holds.
fn is_about_certificate(error: &(dyn Error + 'static)) -> bool {
    if let Some(held) = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        return is_about_certificate(held);
    }
    matches!(error.downcast_ref(), Some(rustls::Error::InvalidCertificate(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_about_a_certificate_is_found_inside_errors_of_the_connection() {
        let untrusted = || rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let wrapped = io::Error::new(io::ErrorKind::InvalidData, untrusted());
        assert!(is_about_certificate(&untrusted()) && is_about_certificate(&wrapped));
        assert!(is_about_certificate(&io::Error::other(wrapped)));
        for other in [io::Error::from(io::ErrorKind::ConnectionReset), io::Error::other(rustls::Error::DecryptError)] {
            assert!(!is_about_certificate(&other), "{other}");
        }
    }

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
