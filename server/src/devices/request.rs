//! Certificate requests (PKCS #10, RFC 2986). Only the key matters: the coordinator chooses names and extensions.

use rcgen::{PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm};
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject;
use tributary_protocol::credential::CERTIFICATE_REQUEST_BYTES_MAX;
use tributary_protocol::hash::Sha256Hash;

use crate::x509::{SEQUENCE, element, sequence, whole};

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
/// A SubjectPublicKeyInfo of a key on P-256 (RFC 5480, section 2.1.1), up to the point.
const P256_KEY: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// The first byte of a point that is not compressed (SEC 1, section 2.3.3).
const UNCOMPRESSED: u8 = 0x04;
/// ecdsa-with-SHA256 (RFC 5758, section 3.2).
const ECDSA_SHA256: [u8; 12] = [0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];

/// A public key whose private key the sender of the request has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CertifiedKey {
    point: Vec<u8>,
    /// SHA-256 of the SubjectPublicKeyInfo in DER.
    pub(crate) fingerprint: Sha256Hash,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("the certificate request must be PKCS #10 in PEM, of at most {CERTIFICATE_REQUEST_BYTES_MAX} bytes")]
    Malformed,
    #[error("the certificate request must have an ECDSA key on P-256 and be signed with SHA-256")]
    Algorithm,
    #[error("the signature of the certificate request is wrong")]
    Signature,
}

impl CertifiedKey {
    /// The key of a request in PEM, if the request is signed with it.
    pub(crate) fn requested(pem: &str) -> Result<Self, RequestError> {
        if pem.len() > CERTIFICATE_REQUEST_BYTES_MAX {
            return Err(RequestError::Malformed);
        }
        let der = CertificateSigningRequestDer::from_pem_slice(pem.as_bytes()).map_err(|_| RequestError::Malformed)?;
        let Parts { signed, key, algorithm, signature } = Parts::read(&der).ok_or(RequestError::Malformed)?;
        let point = key.strip_prefix(&P256_KEY).filter(|point| point.len() == 65 && point[0] == UNCOMPRESSED);
        let point = point.filter(|_| algorithm == ECDSA_SHA256).ok_or(RequestError::Algorithm)?;
        let verified = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(signed, signature);
        verified.map_err(|_| RequestError::Signature)?;
        Ok(Self { point: point.to_owned(), fingerprint: Sha256Hash::of(key) })
    }
}

/// The key as a certificate holds it.
impl PublicKeyData for CertifiedKey {
    fn der_bytes(&self) -> &[u8] {
        &self.point
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

/// A request in parts: what is signed, in it the key, then the algorithm and the signature.
struct Parts<'a> {
    signed: &'a [u8],
    key: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Parts<'a> {
    fn read(request: &'a [u8]) -> Option<Self> {
        let (request, after) = sequence(request).filter(|(_, after)| after.is_empty())?;
        let (signed, rest) = whole(SEQUENCE, request)?;
        let (algorithm, rest) = whole(SEQUENCE, rest)?;
        let (tag, bits, end) = element(rest)?;
        let [0, signature @ ..] = bits else { return None };
        let (info, _) = sequence(signed)?;
        let (version, info) = whole(INTEGER, info)?;
        let (_, info) = sequence(info)?;
        let (key, _) = whole(SEQUENCE, info)?;
        let is_request = version == [INTEGER, 1, 0] && tag == BIT_STRING && end.is_empty() && after.is_empty();
        is_request.then_some(Self { signed, key, algorithm, signature })
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ED25519, SanType};

    use super::*;

    /// A request as other tools write it: with names and extensions.
    fn request(key: &KeyPair) -> String {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "somebody else");
        params.subject_alt_names.push(SanType::URI("tributary:population/a/client/b".try_into().unwrap()));
        params.serialize_request(key).unwrap().pem().unwrap()
    }

    #[test]
    fn the_key_of_a_request_is_read_and_nothing_else_of_it() {
        let key = KeyPair::generate().unwrap();
        let certified = CertifiedKey::requested(&request(&key)).unwrap();
        assert_eq!(certified.der_bytes(), key.public_key_raw());
        assert_eq!(certified.fingerprint, Sha256Hash::of(&key.subject_public_key_info()));
    }

    #[test]
    fn a_request_with_another_algorithm_or_a_wrong_signature_is_refused() {
        let ed25519 = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        assert_eq!(CertifiedKey::requested(&request(&ed25519)), Err(RequestError::Algorithm));
        for wrong in ["", "no PEM", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"] {
            assert_eq!(CertifiedKey::requested(wrong), Err(RequestError::Malformed), "{wrong}");
        }
        let long = "x".repeat(CERTIFICATE_REQUEST_BYTES_MAX + 1);
        assert_eq!(CertifiedKey::requested(&long), Err(RequestError::Malformed));
        // The signature of another request, over other bytes.
        let pair = [(); 2].map(|()| KeyPair::generate().unwrap());
        let [one, two] =
            pair.map(|key| CertificateSigningRequestDer::from_pem_slice(request(&key).as_bytes()).unwrap());
        let (one, two) = (Parts::read(&one).unwrap(), Parts::read(&two).unwrap());
        let verify = |signature| {
            let point = one.key.strip_prefix(&P256_KEY).unwrap();
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(one.signed, signature)
        };
        assert!(verify(one.signature).is_ok() && verify(two.signature).is_err());
    }

    #[test]
    fn a_changed_request_is_refused() {
        let pem = request(&KeyPair::generate().unwrap());
        let der = CertificateSigningRequestDer::from_pem_slice(pem.as_bytes()).unwrap();
        for at in 0..der.len() {
            let mut changed = der.to_vec();
            changed[at] ^= 1;
            let body = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, changed);
            let pem = format!("-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n");
            assert!(CertifiedKey::requested(&pem).is_err(), "byte {at}");
        }
    }
}
