//! Peers whose certificates a CA issued.

use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use tributary_protocol::secure::signing::Signature;
use tributary_tls::devices::{DeviceCas, has_signed};
use tributary_tls::x509::validity_ms;

use super::peers::Peers;
use crate::transport::TrustError;

/// A device with a certificate, which trusts devices with certificates of the same CAs.
///
/// Clocks of devices are often wrong, so none is asked: a certificate counts if it was valid at a time at which the
/// device's own one was.
#[derive(Clone, Debug)]
pub struct CertifiedPeers {
    own: CertificateDer<'static>,
    cas: DeviceCas,
    /// When the device's own certificate is valid, in milliseconds since 1970.
    valid_ms: (i64, i64),
}

impl CertifiedPeers {
    /// A device with the first certificate of a text in PEM, which trusts the CAs of another one.
    ///
    /// # Errors
    /// [`TrustError`] if a text holds no certificate, or one that cannot be read, or if no CA issued the device's own.
    pub fn from_pem(own: &[u8], cas: &[u8]) -> Result<Self, TrustError> {
        let own = CertificateDer::from_pem_slice(own).map_err(|error| TrustError::new(error.to_string()))?;
        let cas = DeviceCas::from_pem(cas).map_err(|error| TrustError::new(error.to_string()))?;
        let valid_ms = validity_ms(&own).ok_or_else(|| TrustError::new("it is no certificate in DER".into()))?;
        let peers = Self { own, cas, valid_ms };
        match peers.is_trusted(&peers.own) {
            true => Ok(peers),
            false => Err(TrustError::new("the certificate of the device is not one of the CA that it trusts".into())),
        }
    }

    /// The device's own certificate in DER.
    pub fn own(&self) -> &[u8] {
        &self.own
    }
}

impl Peers for CertifiedPeers {
    fn is_trusted(&self, certificate: &[u8]) -> bool {
        let Some((from_ms, until_ms)) = validity_ms(certificate) else { return false };
        let at_ms = from_ms.max(self.valid_ms.0);
        let at = UnixTime::since_unix_epoch(Duration::from_millis(u64::try_from(at_ms).unwrap_or(0)));
        let is_of_the_time = at_ms <= until_ms.min(self.valid_ms.1);
        is_of_the_time && self.cas.have_issued(&CertificateDer::from_slice(certificate), at)
    }

    fn has_signed(&self, certificate: &[u8], message: &[u8], signature: &Signature) -> bool {
        has_signed(&CertificateDer::from_slice(certificate), message, signature)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
    use tributary_protocol::hash::Sha256Hash;
    use tributary_protocol::secure::signing::{from_der, roster_message};

    use super::super::tests::authority::{Ca, ca, issued};
    use super::*;
    use crate::keys::{KeyStore, StoredKey};
    use crate::store::MemoryStore;

    fn keys() -> StoredKey {
        StoredKey::new(Arc::new(MemoryStore::new()))
    }

    fn der(pem: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
    }

    #[test]
    fn peers_have_certificates_of_the_ca_from_a_time_when_the_own_one_was_valid() {
        let (ours, other, keys) = (ca(), ca(), keys());
        let peers =
            |years, of: &Ca| CertifiedPeers::from_pem(issued(&ours, &keys, years).as_bytes(), of.pem().as_bytes());
        let peers_of_2026 = peers([2026, 2028], &ours).unwrap();
        let is_trusted = |ca, years| peers_of_2026.is_trusted(&der(&issued(ca, &keys, years)));
        assert!(is_trusted(&ours, [2020, 2030]) && is_trusted(&ours, [2027, 2030]) && is_trusted(&ours, [2020, 2027]));
        assert!(!is_trusted(&ours, [2020, 2025]), "it had expired before");
        assert!(!is_trusted(&ours, [2029, 2030]), "it came afterwards");
        assert!(!is_trusted(&other, [2020, 2030]));
        assert!(!peers_of_2026.is_trusted(b"no certificate"));
        assert!(peers([2026, 2028], &other).is_err(), "nobody would trust this device");
        for wrong in ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            let (own, ca) = (issued(&ours, &keys, [2026, 2028]), ours.pem());
            assert!(CertifiedPeers::from_pem(own.as_bytes(), wrong.as_bytes()).is_err());
            assert!(CertifiedPeers::from_pem(wrong.as_bytes(), ca.as_bytes()).is_err());
        }
    }

    #[test]
    fn the_signature_of_a_devices_key_verifies() {
        let (ca, keys) = (ca(), keys());
        let pem = issued(&ca, &keys, [2020, 2030]);
        let peers = CertifiedPeers::from_pem(pem.as_bytes(), ca.pem().as_bytes()).unwrap();
        // Leading zeros of r and s are left out in DER, in one of 128 signatures.
        for message in 0..300u16 {
            let message = message.to_le_bytes();
            let signature = from_der(&keys.sign(&message).unwrap()).unwrap();
            assert!(peers.has_signed(peers.own(), &message, &signature));
        }
        assert!(!peers.has_signed(peers.own(), b"message", &[0; 64]));
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
