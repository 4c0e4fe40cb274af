//! TLS 1.2 and 1.3 in the listener.
//!
//! | part | content |
//! |---|---|
//! | [`files`] | a certificate and its key from PEM files, read again when they change |
//! | [`dev`] | a private CA, and certificates from it |
//! | [`acme`] | certificates from a public CA, by ACME |
//! | [`clients`] | certificates of clients |
//! | [`identity`] | a certificate with its key |
//! | [`names`] | names and addresses of this machine |

mod acme;
mod clients;
mod dev;
mod error;
mod files;
mod identity;
mod names;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, RwLock};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{Acceptor, ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

pub use acme::AcmeSettings;
pub(crate) use clients::DEVICE_CA;
pub use dev::directory_beside;
pub use error::{AcmeError, TlsError};
pub use identity::PinnedCa;

use acme::Acme;
use clients::AnyCertificate;
use dev::Dev;
use files::Files;
use identity::Identity;

use crate::runtime::lock::SharedLock;

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
    /// A CA that speaks ACME.
    Acme(AcmeSettings),
}

/// The TLS of one listener.
#[derive(Debug)]
pub struct Tls {
    config: Arc<ServerConfig>,
    current: Arc<Current>,
    /// Handshakes that compute at the same time. Half of the threads remain for requests, however many clients arrive.
    /// A client that is slow to answer holds none.
    turns: Semaphore,
}

#[derive(Debug)]
enum Source {
    Files(Files),
    Dev(Box<Dev>),
    Acme(Box<Acme>),
}

/// The certificate that new connections get.
#[derive(Debug)]
struct Current {
    identity: RwLock<Identity>,
    source: Source,
}

impl Tls {
    /// Reads or makes the certificate. Needs a tokio runtime. `asks_clients`: the handshake asks clients for theirs.
    pub(crate) fn open(source: &TlsSource, asks_clients: bool, now_ms: i64) -> Result<Arc<Self>, TlsError> {
        let (source, identity) = match source {
            TlsSource::Files { certificate, key, ca } => {
                let (files, identity) = Files::open(certificate, key, ca.as_deref())?;
                (Source::Files(files), identity)
            }
            TlsSource::Dev { directory, names } => {
                let (dev, identity) = Dev::open(directory, names, now_ms)?;
                (Source::Dev(Box::new(dev)), identity)
            }
            TlsSource::Acme(settings) => {
                let (acme, identity) = Acme::open(settings, now_ms)?;
                (Source::Acme(Box::new(acme)), identity)
            }
        };
        let current = Arc::new(Current { identity: RwLock::new(identity), source });
        let provider = tributary_tls::provider();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_protocol_versions(&[&TLS13, &TLS12])?;
        let builder = match asks_clients {
            true => builder.with_client_cert_verifier(AnyCertificate::new(provider)),
            false => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        if matches!(current.source, Source::Acme(_)) {
            config.alpn_protocols.push(acme::CHALLENGE.to_vec());
        }
        // Sessions are resumed by tickets, which the clients keep, in both versions.
        config.ticketer = ring::Ticketer::new()?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        let threads = tokio::runtime::Handle::current().metrics().num_workers();
        Ok(Arc::new(Self { config: Arc::new(config), current, turns: Semaphore::new((threads / 2).max(1)) }))
    }

    /// The CA that enrolment tokens name.
    pub fn ca(&self) -> Option<&PinnedCa> {
        match &self.current.source {
            Source::Files(files) => files.ca.as_ref(),
            Source::Dev(dev) => Some(&dev.ca),
            Source::Acme(_) => None,
        }
    }

    /// Names and addresses that clients may use, where the coordinator made the certificate.
    pub fn names(&self) -> Vec<String> {
        match &self.current.source {
            Source::Files(_) | Source::Acme(_) => Vec::new(),
            Source::Dev(dev) => dev.names(),
        }
    }

    /// The end of the certificate's validity, in milliseconds since 1970.
    pub(crate) fn expires_at_ms(&self) -> i64 {
        self.current.identity.reading().expires_at_ms
    }

    /// Uses a new certificate from now on, if there is one: its files changed, or it was renewed. A failure leaves the
    /// old one in use. The listener must serve meanwhile.
    pub(crate) async fn look_again(&self, now_ms: i64) -> Result<bool, TlsError> {
        let renewed = match &self.current.source {
            Source::Files(files) => files.changed(),
            Source::Dev(dev) => dev.renewed(self.expires_at_ms(), now_ms),
            Source::Acme(acme) => acme.renewed(&self.current.certified(), now_ms).await,
        }?;
        let is_renewed = renewed.is_some();
        if let Some(identity) = renewed {
            *self.current.identity.writing() = identity;
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

/// What a client speaks after the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spoken {
    Http1,
    Http2,
    /// Nothing: a CA has seen the certificate of its challenge.
    Nothing,
}

impl Spoken {
    pub(super) fn over(stream: &TlsStream<TcpStream>) -> Self {
        match stream.get_ref().1.alpn_protocol() {
            Some(HTTP2) => Self::Http2,
            Some(acme::CHALLENGE) => Self::Nothing,
            _ => Self::Http1,
        }
    }
}

impl Current {
    fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.identity.reading().certified)
    }
}

impl ResolvesServerCert for Current {
    /// The same for every name that a client asks for, but for challenges.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        match &self.source {
            Source::Acme(acme) => acme.challenged(&hello).or_else(|| Some(self.certified())),
            Source::Files(_) | Source::Dev(_) => Some(self.certified()),
        }
    }
}
