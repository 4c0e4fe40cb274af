//! A certificate with its key, and the CA that it comes from.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::sign::CertifiedKey;
use tributary_protocol::hash::Sha256Hash;

/// A private CA that clients can pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedCa {
    pub file: PathBuf,
    /// SHA-256 of the certificate's DER form, as `openssl x509 -fingerprint -sha256` prints it.
    pub fingerprint: Sha256Hash,
}

/// A certificate with its key, ready for use.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) certified: Arc<CertifiedKey>,
    pub(super) expires_at_ms: i64,
}
