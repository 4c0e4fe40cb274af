//! Which servers a client trusts.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_platform_verifier::BuilderVerifierExt;
use tributary_protocol::hash::Sha256Hash;

use crate::keys::ClientCertificate;

/// The CAs whose certificates a client accepts from `https` servers. Names and dates are checked in any case.
#[derive(Clone, Debug, Default)]
pub enum Trust {
    /// Those that the operating system trusts.
    #[default]
    System,
    /// These only.
    Authorities(Arc<RootCertStore>),
    /// Only the CA whose certificate has this SHA-256. The server sends the CA's certificate with its own.
    Pinned(Sha256Hash),
}

/// Certificates that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TrustError(String);

impl TrustError {
    pub(crate) fn new(reason: String) -> Self {
        Self(reason)
    }
}

impl Trust {
    /// Trusts the CAs of a PEM file only.
    ///
    /// # Errors
    /// [`TrustError`] if it holds no CA's certificate, or one that cannot be read.
    pub fn authorities(pem: &[u8]) -> Result<Self, TrustError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| TrustError(error.to_string()))?;
            roots.add(certificate).map_err(|error| TrustError(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(TrustError("there is no certificate in PEM".into()));
        }
        Ok(Self::Authorities(Arc::new(roots)))
    }

    /// Settings for rustls. `None`: those of the HTTP client, which knows the system's CAs. On Android it does not, so
    /// they are read here.
    ///
    /// # Errors
    /// [`TrustError`] if TLS cannot be set up.
    pub fn client_config(&self) -> Result<Option<ClientConfig>, TrustError> {
        match self {
            Self::System if !IS_ANDROID => Ok(None),
            Self::System | Self::Authorities(_) | Self::Pinned(_) => self.config(None).map(Some),
        }
    }

    /// Settings for rustls with which the client presents a certificate to servers that ask for one.
    ///
    /// # Errors
    /// [`TrustError`] if TLS cannot be set up.
    pub fn client_config_presenting(&self, certificate: &ClientCertificate) -> Result<ClientConfig, TrustError> {
        self.config(Some(certificate))
    }

    fn config(&self, certificate: Option<&ClientCertificate>) -> Result<ClientConfig, TrustError> {
        let failed = |error: rustls::Error| TrustError(error.to_string());
        let provider = tributary_tls::provider();
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(failed)?;
        let builder = match self {
            Self::System if IS_ANDROID => builder.with_root_certificates(authorities_in(&ANDROID_CAS)?),
            Self::System => builder.with_platform_verifier().map_err(failed)?,
            Self::Authorities(roots) => builder.with_root_certificates(Arc::clone(roots)),
            Self::Pinned(fingerprint) => {
                let verifier = PinnedCa { fingerprint: *fingerprint, provider };
                builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
        };
        let mut config = match certificate {
            Some(certificate) => builder.with_client_cert_resolver(certificate.resolver()),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

const IS_ANDROID: bool = cfg!(target_os = "android");
/// Where Android keeps the CAs that it trusts: since version 14, updated without the system; before, with it. Its own
/// verifier is in Java and would need the app's context.
const ANDROID_CAS: [&str; 2] = ["/apex/com.android.conscrypt/cacerts", "/system/etc/security/cacerts"];

/// The CAs of the first of these folders that has any. Each file holds a certificate in PEM, and text beside it. What
/// is no certificate is left out.
fn authorities_in(folders: &[impl AsRef<Path>]) -> Result<Arc<RootCertStore>, TrustError> {
    for folder in folders {
        let Ok(files) = fs::read_dir(folder) else { continue };
        let files = files.filter_map(|file| fs::read(file.ok()?.path()).ok());
        let mut roots = RootCertStore::empty();
        for file in files {
            roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&file).flatten());
        }
        if !roots.is_empty() {
            return Ok(Arc::new(roots));
        }
    }
    Err(TrustError("the CAs that the system trusts are not found: give the client its CAs in PEM".into()))
}

/// Accepts a chain that webpki verifies up to the pinned CA, for the name that was asked for.
#[derive(Debug)]
struct PinnedCa {
    fingerprint: Sha256Hash,
    provider: Arc<CryptoProvider>,
}

impl PinnedCa {
    fn algorithms(&self) -> &WebPkiSupportedAlgorithms {
        &self.provider.signature_verification_algorithms
    }
}

impl ServerCertVerifier for PinnedCa {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let is_pinned = |certificate: &&CertificateDer<'_>| Sha256Hash::of(certificate) == self.fingerprint;
        let ca = intermediates.iter().find(is_pinned).ok_or(CertificateError::UnknownIssuer)?;
        let mut roots = RootCertStore::empty();
        roots.add(ca.clone().into_owned())?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&self.provider)).build();
        let verifier = verifier.map_err(|error| rustls::Error::General(error.to_string()))?;
        verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, self.algorithms())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, self.algorithms())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms().supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use tempfile::TempDir;

    use super::*;

    /// A CA, and a certificate of it for `fl.example.org` that is valid from 2020 to 2030.
    struct Chain {
        ca: CertificateDer<'static>,
        pem: String,
        leaf: CertificateDer<'static>,
    }

    fn chain() -> Chain {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let mut params = CertificateParams::new(vec!["fl.example.org".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        let leaf = params.signed_by(&KeyPair::generate().unwrap(), &ca).unwrap();
        Chain { ca: ca.der().clone(), pem: ca.pem(), leaf: leaf.der().clone() }
    }

    fn verify(
        pinned: Sha256Hash,
        leaf: &CertificateDer<'_>,
        sent: &[&Chain],
        name: &str,
        year: u64,
    ) -> Result<(), String> {
        let verifier = PinnedCa { fingerprint: pinned, provider: tributary_tls::provider() };
        let sent: Vec<_> = sent.iter().map(|chain| chain.ca.clone()).collect();
        let now = UnixTime::since_unix_epoch(Duration::from_secs((year - 1970) * 31_557_600 + 86_400));
        let name = ServerName::try_from(name).unwrap();
        verifier.verify_server_cert(leaf, &sent, &name, &[], now).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn the_cas_of_a_system_are_those_of_its_first_folder_with_any() {
        let (newer, older, none) = (TempDir::new().unwrap(), TempDir::new().unwrap(), TempDir::new().unwrap());
        let (first, second) = (chain(), chain());
        fs::write(newer.path().join("5ed36f99.0"), format!("{}Certificate:\n    Data:\n", first.pem)).unwrap();
        fs::write(newer.path().join("9d6523ce.0"), &second.pem).unwrap();
        fs::write(newer.path().join("readme"), b"\xff no certificate").unwrap();
        fs::create_dir(newer.path().join("folder")).unwrap();
        fs::write(older.path().join("a.0"), &first.pem).unwrap();
        let missing = none.path().join("missing");
        let count = |folders: &[&Path]| authorities_in(folders).map(|roots| roots.len());
        assert_eq!(count(&[newer.path(), older.path()]), Ok(2));
        assert_eq!(count(&[&missing, none.path(), older.path()]), Ok(1));
        assert!(count(&[&missing, none.path()]).unwrap_err().to_string().contains("in PEM"));
    }

    /// Goal: nothing must be initialised. Method: a chain is verified with the CAs that were read from a folder.
    #[test]
    fn a_certificate_of_a_systems_ca_is_accepted_and_another_one_is_not() {
        let (ours, other, folder) = (chain(), chain(), TempDir::new().unwrap());
        fs::write(folder.path().join("5ed36f99.0"), &ours.pem).unwrap();
        let roots = authorities_in(&[folder.path()]).unwrap();
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, tributary_tls::provider()).build().unwrap();
        let name = ServerName::try_from("fl.example.org").unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(56 * 31_557_600));
        let verify = |leaf| verifier.verify_server_cert(leaf, &[], &name, &[], now);
        assert!(verify(&ours.leaf).is_ok() && verify(&other.leaf).is_err());
    }

    #[test]
    fn only_a_valid_certificate_of_the_pinned_ca_for_the_right_name_is_accepted() {
        let (ours, other) = (chain(), chain());
        let pin = Sha256Hash::of(&ours.ca);
        let name = "fl.example.org";
        assert_eq!(verify(pin, &ours.leaf, &[&ours], name, 2026), Ok(()));
        assert_eq!(verify(pin, &ours.leaf, &[&other, &ours], name, 2026), Ok(()));
        for (what, result) in [
            ("the CA is not sent", verify(pin, &ours.leaf, &[], name, 2026)),
            ("the CA itself as the server's", verify(pin, &ours.ca, &[&ours], name, 2026)),
            ("of another CA, with its CA", verify(pin, &other.leaf, &[&other], name, 2026)),
            ("of another CA, with the pinned CA beside it", verify(pin, &other.leaf, &[&other, &ours], name, 2026)),
            ("for another name", verify(pin, &ours.leaf, &[&ours], "other.example.org", 2026)),
            ("for an address", verify(pin, &ours.leaf, &[&ours], "127.0.0.1", 2026)),
            ("too late", verify(pin, &ours.leaf, &[&ours], name, 2031)),
            ("too early", verify(pin, &ours.leaf, &[&ours], name, 2019)),
        ] {
            assert!(result.is_err(), "{what}");
        }
    }

    #[test]
    fn authorities_are_read_from_pem_and_nothing_is_no_authority() {
        let trust = Trust::authorities(chain().pem.as_bytes()).unwrap();
        assert!(matches!(&trust, Trust::Authorities(roots) if roots.len() == 1));
        assert!(trust.client_config().unwrap().is_some());
        for wrong in ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(Trust::authorities(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
