//! Why there is no certificate.

use std::io;
use std::path::PathBuf;

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
    #[error("no certificate could be ordered: {0}")]
    Acme(#[from] AcmeError),
    #[error("no certificate can be made: {0}")]
    Make(#[from] rcgen::Error),
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] rustls::Error),
}

#[derive(Debug, thiserror::Error)]
pub enum AcmeError {
    #[error(transparent)]
    Protocol(#[from] instant_acme::Error),
    #[error("the CA does not verify {0} by TLS-ALPN-01")]
    NoChallenge(String),
    #[error("the CA could not verify that the domains lead to this coordinator")]
    NotVerified,
}
