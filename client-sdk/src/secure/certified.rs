//! Peers whose certificates a CA issued.

use std::sync::Arc;

use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use tributary_protocol::secure::signing::Signature;

use super::peers::Peers;
use crate::transport::TrustError;

/// Bytes of an uncompressed point, at the end of the public key of a certificate.
const POINT_BYTES: usize = 65;
/// What stands before the point in a SubjectPublicKeyInfo of P-256 (RFC 5480, section 2).
const P256: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// Trusts devices whose certificates a CA issued for clients.
#[derive(Clone, Debug)]
pub struct CertifiedPeers {
    verifier: Arc<dyn ClientCertVerifier>,
    now: UnixTime,
}

impl CertifiedPeers {
    /// Trusts the CAs of a PEM file, at this time.
    ///
    /// # Errors
    /// [`TrustError`] if it holds no CA's certificate, or one that cannot be read.
    pub fn from_pem(pem: &[u8], now: UnixTime) -> Result<Self, TrustError> {
        let failed = |error: &dyn std::fmt::Display| TrustError::new(error.to_string());
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| failed(&error))?;
            roots.add(certificate).map_err(|error| failed(&error))?;
        }
        let provider = tributary_tls::provider();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Self { verifier: verifier.map_err(|error| failed(&error))?, now })
    }
}

impl Peers for CertifiedPeers {
    fn is_trusted(&self, certificate: &[u8]) -> bool {
        self.verifier.verify_client_cert(&CertificateDer::from_slice(certificate), &[], self.now).is_ok()
    }

    fn has_signed(&self, certificate: &[u8], message: &[u8], signature: &Signature) -> bool {
        let certificate = CertificateDer::from_slice(certificate);
        let Ok(certificate) = ParsedCertificate::try_from(&certificate) else { return false };
        let key = certificate.subject_public_key_info();
        let point = key.strip_prefix(&P256).filter(|point| point.len() == POINT_BYTES);
        point.is_some_and(|point| {
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
        PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PublicKeyData, SignatureAlgorithm, SigningKey,
    };
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
    use rustls_pki_types::UnixTime;
    use tributary_protocol::hash::Sha256Hash;
    use tributary_protocol::secure::signing::{from_der, roster_message};

    use super::*;
    use crate::keys::{KeyStore, StoredKey};
    use crate::store::MemoryStore;

    fn ca() -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    /// A certificate from 2020 to 2030.
    fn issued(ca: &CertifiedIssuer<'_, KeyPair>, key: &impl PublicKeyData, usage: ExtendedKeyUsagePurpose) -> Vec<u8> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.extended_key_usages = vec![usage];
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        params.signed_by(key, ca).unwrap().der().to_vec()
    }

    fn key(algorithm: &'static SignatureAlgorithm) -> KeyPair {
        KeyPair::generate_for(algorithm).unwrap()
    }

    fn peers(ca: &CertifiedIssuer<'_, KeyPair>, year: u64) -> CertifiedPeers {
        let now = UnixTime::since_unix_epoch(Duration::from_secs((year - 1970) * 31_557_600 + 86_400));
        CertifiedPeers::from_pem(ca.pem().as_bytes(), now).unwrap()
    }

    #[test]
    fn only_valid_certificates_of_the_ca_for_clients_are_trusted() {
        let (ours, other, key) = (ca(), ca(), key(&PKCS_ECDSA_P256_SHA256));
        let ours_issued = |usage| issued(&ours, &key, usage);
        let device = ours_issued(ExtendedKeyUsagePurpose::ClientAuth);
        assert!(peers(&ours, 2026).is_trusted(&device));
        assert!(!peers(&ours, 2019).is_trusted(&device));
        assert!(!peers(&ours, 2031).is_trusted(&device));
        assert!(!peers(&other, 2026).is_trusted(&device));
        assert!(!peers(&ours, 2026).is_trusted(&ours_issued(ExtendedKeyUsagePurpose::ServerAuth)));
        assert!(!peers(&ours, 2026).is_trusted(&device[..device.len() - 1]));
        assert!(!peers(&ours, 2026).is_trusted(b""));
        for wrong in ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(CertifiedPeers::from_pem(wrong.as_bytes(), UnixTime::since_unix_epoch(Duration::ZERO)).is_err());
        }
    }

    /// A public key as rcgen takes it.
    struct Point([u8; 65]);

    impl PublicKeyData for Point {
        fn der_bytes(&self) -> &[u8] {
            &self.0
        }

        fn algorithm(&self) -> &'static SignatureAlgorithm {
            &PKCS_ECDSA_P256_SHA256
        }
    }

    #[test]
    fn the_signature_of_a_devices_key_verifies_and_no_other() {
        let (ca, keys) = (ca(), StoredKey::new(Arc::new(MemoryStore::new())));
        let usage = ExtendedKeyUsagePurpose::ClientAuth;
        let device = issued(&ca, &Point(keys.public_key().unwrap()), usage.clone());
        let peers = peers(&ca, 2026);
        // Leading zeros of r and s are left out in DER, in one of 128 signatures.
        for message in 0..300u16 {
            let message = message.to_le_bytes();
            let signature = from_der(&keys.sign(&message).unwrap()).unwrap();
            assert!(peers.has_signed(&device, &message, &signature));
        }
        let signature = from_der(&keys.sign(b"message").unwrap()).unwrap();
        assert!(!peers.has_signed(&device, b"another", &signature));
        assert!(!peers.has_signed(&device, b"message", &[0; 64]));
        assert!(!peers.has_signed(b"no certificate", b"message", &signature));
        let foreign = issued(&ca, &key(&PKCS_ECDSA_P256_SHA256), usage.clone());
        assert!(!peers.has_signed(&foreign, b"message", &signature));
        let p384 = key(&PKCS_ECDSA_P384_SHA384);
        let signed = p384.sign(b"message").unwrap();
        assert!(from_der(&signed).is_none());
        assert!(!peers.has_signed(&issued(&ca, &p384, usage), b"message", &signature));
    }

    #[test]
    fn the_published_signature_over_a_roster_verifies() {
        let bytes = |digits: &str| {
            let byte = |place: usize| u8::from_str_radix(&digits[place..place + 2], 16).unwrap();
            (0..digits.len()).step_by(2).map(byte).collect::<Vec<_>>()
        };
        let roster: Sha256Hash = "234fd1d22d78415d7c9f38cf5a853b4366c4d8242db5b96ba5774166232b1b92".parse().unwrap();
        let key = bytes(
            "04df26b2396b62dc8c4162677704937166d9ab3fdc664d9d9b936791f080c29c18af7d1e6f2cae63821a96af0c34bb58717bfb5a\
             bc70cfbbdb5174871cafc35d0c",
        );
        let signature = bytes(
            "bd6f50da6a285e78749ce40339666962b8652d2fdfd519ee44fbae1b1b85b9de134dd57cd2e06474052400e7e3993b0912cb530\
             9570f15cc2c56aee19dfcbe25",
        );
        let verifier = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key);
        assert!(verifier.verify(&roster_message(&roster), &signature).is_ok());
    }
}
