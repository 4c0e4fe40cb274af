//! TLS 1.2 and 1.3 in the listener.
//!
//! | part | content |
//! |---|---|
//! | [`files`] | a certificate and its key from PEM files, read again when they change |
//! | [`dev`] | a private CA, and certificates from it |
//! | [`names`] | names and addresses of this machine |
//! | [`expiry`] | the end of a certificate's validity |

mod dev;
mod expiry;
mod files;
mod names;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{Acceptor, ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use tributary_protocol::hash::Sha256Hash;

pub use dev::directory_beside;

use dev::Dev;
use files::Files;

/// HTTP/2 where the client offers it (RFC 7301).
const PROTOCOLS: [&[u8]; 2] = [HTTP2, b"http/1.1"];
const HTTP2: &[u8] = b"h2";

/// Where the coordinator's certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsSource {
    /// PEM files. They are read again when they change.
    Files {
        /// The certificate, and those between it and its CA.
        certificate: PathBuf,
        key: PathBuf,
        /// A private CA's certificate. Enrolment tokens then carry its fingerprint.
        ca: Option<PathBuf>,
    },
    /// A private CA of this coordinator.
    Dev {
        /// Where the CA is stored; created when it does not exist.
        directory: PathBuf,
        /// Names and addresses in the certificate. Empty: those of this machine.
        names: Vec<String>,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// A verb: `read`, `write`.
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("{}: {message}", path.display())]
    Content { path: PathBuf, message: String },
    #[error("{} and {} do not work together: {source}", certificate.display(), key.display())]
    Pair { certificate: PathBuf, key: PathBuf, source: rustls::Error },
    #[error("no certificate can be made: {0}")]
    Make(#[from] rcgen::Error),
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] rustls::Error),
}

/// A private CA that clients can pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedCa {
    pub file: PathBuf,
    /// SHA-256 of the certificate's DER form, as `openssl x509 -fingerprint -sha256` prints it.
    pub fingerprint: Sha256Hash,
}

/// A certificate with its key, ready for use.
#[derive(Debug)]
struct Identity {
    certified: Arc<CertifiedKey>,
    expires_at_ms: i64,
}

/// The TLS of one listener.
#[derive(Debug)]
pub struct Tls {
    config: Arc<ServerConfig>,
    current: Arc<Current>,
    source: Source,
    /// Handshakes that compute at the same time. Half of the threads remain for requests, however many clients arrive.
    /// A client that is slow to answer holds none.
    turns: Semaphore,
}

#[derive(Debug)]
enum Source {
    Files(Files),
    Dev(Box<Dev>),
}

/// The certificate that new connections get.
#[derive(Debug)]
struct Current(RwLock<Identity>);

impl Tls {
    /// Reads or makes the certificate. Needs a tokio runtime.
    pub(crate) fn open(source: &TlsSource, now_ms: i64) -> Result<Arc<Self>, TlsError> {
        let (source, identity) = match source {
            TlsSource::Files { certificate, key, ca } => {
                let (files, identity) = Files::open(certificate, key, ca.as_deref())?;
                (Source::Files(files), identity)
            }
            TlsSource::Dev { directory, names } => {
                let (dev, identity) = Dev::open(directory, names, now_ms)?;
                (Source::Dev(Box::new(dev)), identity)
            }
        };
        let current = Arc::new(Current(RwLock::new(identity)));
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let mut config = builder
            .with_protocol_versions(&[&TLS13, &TLS12])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        // Sessions are resumed by tickets, which the clients keep, in both versions.
        config.ticketer = ring::Ticketer::new()?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        let threads = tokio::runtime::Handle::current().metrics().num_workers();
        Ok(Arc::new(Self { config: Arc::new(config), current, source, turns: Semaphore::new((threads / 2).max(1)) }))
    }

    /// The CA that enrolment tokens name.
    #[must_use]
    pub fn ca(&self) -> Option<&PinnedCa> {
        match &self.source {
            Source::Files(files) => files.ca.as_ref(),
            Source::Dev(dev) => Some(&dev.ca),
        }
    }

    /// Names and addresses that clients may use, where the coordinator made the certificate.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        match &self.source {
            Source::Files(_) => Vec::new(),
            Source::Dev(dev) => dev.names(),
        }
    }

    /// The end of the certificate's validity, in milliseconds since 1970.
    pub(crate) fn expires_at_ms(&self) -> i64 {
        self.current.0.read().unwrap_or_else(PoisonError::into_inner).expires_at_ms
    }

    /// Uses a new certificate from now on, if there is one: its files changed, or it must be renewed. A failure leaves
    /// the old one in use.
    pub(crate) fn look_again(&self, now_ms: i64) -> Result<bool, TlsError> {
        let renewed = match &self.source {
            Source::Files(files) => files.changed(),
            Source::Dev(dev) => dev.renewed(self.expires_at_ms(), now_ms),
        }?;
        let is_renewed = renewed.is_some();
        if let Some(identity) = renewed {
            *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = identity;
        }
        Ok(is_renewed)
    }

    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        let handshake = {
            let _turn = self.turns.acquire().await;
            // The key exchange and the signature are computed here.
            start.into_stream(Arc::clone(&self.config))
        };
        handshake.await
    }
}

/// Whether the client chose HTTP/2.
pub(super) fn speaks_http2(stream: &TlsStream<TcpStream>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(HTTP2)
}

impl ResolvesServerCert for Current {
    /// The same for every name that a client asks for.
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner).certified))
    }
}
