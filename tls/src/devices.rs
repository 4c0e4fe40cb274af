//! Certificates that a CA issued to devices, and signatures by their keys.

use std::sync::Arc;

use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{Error, RootCertStore};

use crate::provider;

/// Bytes of an uncompressed point, at the end of the public key of a certificate.
const POINT_BYTES: usize = 65;
/// The first byte of a point that is not compressed (SEC 1, section 2.3.3).
const UNCOMPRESSED: u8 = 0x04;
/// What stands before the point in a SubjectPublicKeyInfo of P-256 (RFC 5480, section 2).
const P256: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// The CAs whose certificates for devices are trusted.
#[derive(Clone, Debug)]
pub struct DeviceCas(Arc<dyn ClientCertVerifier>);

impl DeviceCas {
    /// Trusts these CAs.
    ///
    /// # Errors
    /// [`Error`] if there is none, or if one cannot be read.
    pub fn new(cas: impl IntoIterator<Item = CertificateDer<'static>>) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        cas.into_iter().try_for_each(|ca| roots.add(ca))?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build();
        verifier.map(Self).map_err(|error| Error::General(error.to_string()))
    }

    /// Trusts the CAs of a text in PEM.
    ///
    /// # Errors
    /// [`Error`] if it holds no CA's certificate, or one that cannot be read.
    pub fn from_pem(pem: &[u8]) -> Result<Self, Error> {
        let cas: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        Self::new(cas.map_err(|error| Error::General(error.to_string()))?)
    }

    /// Whether one of them issued this certificate to a device, for this time.
    #[must_use]
    pub fn have_issued(&self, certificate: &CertificateDer<'_>, at: UnixTime) -> bool {
        self.0.verify_client_cert(certificate, &[], at).is_ok()
    }
}

/// The uncompressed point of a public key on P-256, from its SubjectPublicKeyInfo; none for other keys.
#[must_use]
pub fn point_of(public_key: &[u8]) -> Option<&[u8]> {
    public_key.strip_prefix(&P256).filter(|point| point.len() == POINT_BYTES && point[0] == UNCOMPRESSED)
}

/// Whether the key of this certificate, on the curve P-256, signed the SHA-256 of this message. The signature is r and
/// s, of 32 bytes each.
#[must_use]
pub fn has_signed(certificate: &CertificateDer<'_>, message: &[u8], signature: &[u8; 64]) -> bool {
    let Ok(certificate) = ParsedCertificate::try_from(certificate) else { return false };
    point_of(&certificate.subject_public_key_info())
        .is_some_and(|point| UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
        PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384,
    };
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};

    use super::*;

    fn ca() -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    /// A certificate from 2020 to 2030.
    fn issued(
        ca: &CertifiedIssuer<'_, KeyPair>,
        key: &KeyPair,
        usage: ExtendedKeyUsagePurpose,
    ) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.extended_key_usages = vec![usage];
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        params.signed_by(key, ca).unwrap().der().clone()
    }

    fn year(year: u64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs((year - 1970) * 31_557_600 + 86_400))
    }

    #[test]
    fn only_certificates_of_the_cas_for_clients_are_trusted_and_only_while_they_are_valid() {
        let (ours, other) = (ca(), ca());
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let trusts = |ca: &CertifiedIssuer<'_, KeyPair>, certificate: &CertificateDer<'_>, at| {
            DeviceCas::from_pem(ca.pem().as_bytes()).unwrap().have_issued(certificate, year(at))
        };
        let device = issued(&ours, &key, ExtendedKeyUsagePurpose::ClientAuth);
        assert!(trusts(&ours, &device, 2026));
        assert!(!trusts(&ours, &device, 2019) && !trusts(&ours, &device, 2031));
        assert!(!trusts(&other, &device, 2026));
        assert!(!trusts(&ours, &issued(&ours, &key, ExtendedKeyUsagePurpose::ServerAuth), 2026));
        for wrong in [&device[..device.len() - 1], b""] {
            assert!(!trusts(&ours, &CertificateDer::from_slice(wrong), 2026));
        }
        for wrong in ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(DeviceCas::from_pem(wrong.as_bytes()).is_err());
        }
    }

    #[test]
    fn the_signature_of_a_certificates_key_verifies_and_no_other() {
        let (ca, usage) = (ca(), ExtendedKeyUsagePurpose::ClientAuth);
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let (random, der) = (SystemRandom::new(), key.serialize_der());
        let signer = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random).unwrap();
        let signature: [u8; 64] = signer.sign(&random, b"message").unwrap().as_ref().try_into().unwrap();
        let device = issued(&ca, &key, usage.clone());
        assert!(has_signed(&device, b"message", &signature));
        assert!(!has_signed(&device, b"another", &signature));
        assert!(!has_signed(&device, b"message", &[0; 64]));
        assert!(!has_signed(&CertificateDer::from_slice(b"no certificate"), b"message", &signature));
        for foreign in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384] {
            let foreign = issued(&ca, &KeyPair::generate_for(foreign).unwrap(), usage.clone());
            assert!(!has_signed(&foreign, b"message", &signature));
        }
    }
}
