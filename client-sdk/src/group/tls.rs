//! TLS in which both sides present keys instead of certificates (RFC 7250).
//!
//! No session is resumed. A resumed one would not present its key, so a member of a closed group could come back.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, PeerIncompatible, ServerConfig,
    SignatureScheme,
};

use super::link::LinkError;
use super::peer::PeerKey;
use crate::keys::KeyStore;
use crate::keys::presented::raw_key;

/// What both sides must name as the protocol inside of TLS (RFC 7301).
pub(super) const PROTOCOL: &[u8] = b"tributary-group/1";
/// What keys on P-256 sign with.
const SCHEME: SignatureScheme = SignatureScheme::ECDSA_NISTP256_SHA256;

/// Decides during a handshake whose key is accepted.
pub(super) type Accepts = Arc<dyn Fn(PeerKey) -> bool + Send + Sync>;

/// TLS of the side that connects to the member with this key.
///
/// # Errors
/// [`LinkError`] if the own key cannot be read, or TLS cannot be set up.
pub(super) fn client_config(keys: &Arc<dyn KeyStore>, peer: PeerKey) -> Result<ClientConfig, LinkError> {
    let provider = tributary_tls::provider();
    let verifier = Arc::new(Verifier::new(Arc::new(move |key| key == peer), &provider));
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13]).map_err(failed)?;
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let own = AlwaysResolvesClientRawPublicKeys::new(raw_key(keys)?);
    let mut config = builder.with_client_cert_resolver(Arc::new(own));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = Resumption::disabled();
    // Members are known by their keys.
    config.enable_sni = false;
    Ok(config)
}

/// TLS of the side that listens.
///
/// # Errors
/// [`LinkError`] if the own key cannot be read, or TLS cannot be set up.
pub(super) fn server_config(keys: &Arc<dyn KeyStore>, accepts: Accepts) -> Result<ServerConfig, LinkError> {
    let provider = tributary_tls::provider();
    let verifier = Arc::new(Verifier::new(accepts, &provider));
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13]).map_err(failed)?;
    let own = AlwaysResolvesServerRawPublicKeys::new(raw_key(keys)?);
    let mut config = builder.with_client_cert_verifier(verifier).with_cert_resolver(Arc::new(own));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(config)
}

/// The key that the other side has proved to hold.
///
/// # Errors
/// [`LinkError::Handshake`] if it did not name the protocol: TLS lets the side that connects leave that out.
pub(super) fn peer_of(connection: &rustls::CommonState) -> Result<PeerKey, LinkError> {
    let failed = |what: &str| LinkError::Handshake(what.to_owned());
    if connection.alpn_protocol() != Some(PROTOCOL) {
        return Err(failed("the other side did not name the protocol"));
    }
    let presented = connection.peer_certificates().and_then(<[_]>::first);
    Ok(PeerKey::of(presented.ok_or_else(|| failed("the other side presented no key"))?))
}

fn failed(error: rustls::Error) -> LinkError {
    LinkError::Handshake(error.to_string())
}

/// Verifies what either side presents.
struct Verifier {
    accepts: Accepts,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn new(accepts: Accepts, provider: &Arc<CryptoProvider>) -> Self {
        Self { accepts, provider: Arc::clone(provider) }
    }

    /// Whether the key is accepted. Nothing is parsed: the bytes are hashed.
    fn key(&self, presented: &CertificateDer<'_>, more: &[CertificateDer<'_>]) -> Result<(), rustls::Error> {
        let is_accepted = more.is_empty() && (self.accepts)(PeerKey::of(presented));
        let refused = CertificateError::ApplicationVerificationFailure;
        if is_accepted { Ok(()) } else { Err(refused.into()) }
    }

    fn signature(
        &self,
        message: &[u8],
        presented: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let info = SubjectPublicKeyInfoDer::from(presented.as_ref());
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &info, signature, algorithms)
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Verifier").finish_non_exhaustive()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        presented: &CertificateDer<'_>,
        more: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.key(presented, more).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        presented: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signature(message, presented, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SCHEME]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        presented: &CertificateDer<'_>,
        more: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.key(presented, more).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        presented: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signature(message, presented, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SCHEME]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
