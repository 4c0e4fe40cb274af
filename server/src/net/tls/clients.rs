//! Certificates of clients in the handshake.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};

/// The common name of every population's CA. The handshake names it, so browsers offer no certificates of other CAs.
pub(crate) const DEVICE_CA: &str = "Tributary devices";
/// [`DEVICE_CA`] as a relative distinguished name in DER: a set of one pair, of the type commonName (2.5.4.3) and a
/// UTF-8 string.
const DEVICE_CA_NAME: &[u8] = b"\x31\x1a\x30\x18\x06\x03\x55\x04\x03\x0c\x11Tributary devices";

/// Asks for a certificate and accepts any whose key the client has: a client that is refused learns the reason from a
/// problem document, which a handshake cannot carry. So CAs of new populations need no restart, either.
#[derive(Debug)]
pub(super) struct AnyCertificate {
    provider: Arc<CryptoProvider>,
    hints: [DistinguishedName; 1],
}

impl AnyCertificate {
    pub(super) fn new(provider: Arc<CryptoProvider>) -> Arc<Self> {
        Arc::new(Self { provider, hints: [DistinguishedName::in_sequence(DEVICE_CA_NAME)] })
    }
}

impl ClientCertVerifier for AnyCertificate {
    /// Operators and clients that enrol have none.
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        ParsedCertificate::try_from(end_entity).map(|_| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    #[test]
    fn the_hint_is_the_name_of_the_cas() {
        let mut params = CertificateParams::default();
        params.distinguished_name = Default::default();
        params.distinguished_name.push(DnType::CommonName, DEVICE_CA);
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let hint = DistinguishedName::in_sequence(DEVICE_CA_NAME);
        let hint: &[u8] = hint.as_ref();
        assert_eq!(
            certificate.der().windows(hint.len()).filter(|bytes| *bytes == hint).count(),
            2,
            "issuer and subject"
        );
    }
}
