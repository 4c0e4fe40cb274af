//! The certificate of a connection's client.

use std::sync::{Arc, OnceLock};

use rustls::pki_types::CertificateDer;
use tributary_protocol::hash::Sha256Hash;

/// The certificate that the client presented in the handshake. The handshake has shown that the client has its key, and
/// nothing else: who signed the certificate, whose it is and whether it is still valid is decided for each request.
///
/// Requests have it as an extension.
#[derive(Clone, Debug)]
pub struct PeerCertificate(Arc<Peer>);

#[derive(Debug)]
struct Peer {
    certificate: CertificateDer<'static>,
    /// The CA whose signature of it was verified, so that one connection verifies it once.
    signed_by: OnceLock<Sha256Hash>,
}

impl PeerCertificate {
    pub fn new(certificate: CertificateDer<'static>) -> Self {
        Self(Arc::new(Peer { certificate, signed_by: OnceLock::new() }))
    }

    pub(crate) fn certificate(&self) -> &CertificateDer<'static> {
        &self.0.certificate
    }

    /// Whether the signature of the CA with this fingerprint was verified on this connection.
    pub(crate) fn is_known_to_be_signed_by(&self, ca: Sha256Hash) -> bool {
        self.0.signed_by.get() == Some(&ca)
    }

    /// The signature of the CA with this fingerprint has been verified.
    pub(crate) fn note_signed_by(&self, ca: Sha256Hash) {
        // Of two requests that verify it at the same time, the second notes nothing new.
        let _ = self.0.signed_by.set(ca);
    }
}
