//! Certificate requests (PKCS #10, RFC 2986). Only the key matters: the coordinator chooses names and extensions.

use rcgen::{PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm};
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject;
use tributary_protocol::credential::CERTIFICATE_REQUEST_BYTES_MAX;
use tributary_protocol::hash::Sha256Hash;
use tributary_tls::devices::point_of;
use tributary_tls::x509::{self, Request};

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
        let Request { signed, public_key, algorithm, signature } =
            x509::request(&der).ok_or(RequestError::Malformed)?;
        let point = point_of(public_key).filter(|_| algorithm == ECDSA_SHA256).ok_or(RequestError::Algorithm)?;
        let verified = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(signed, signature);
        verified.map_err(|_| RequestError::Signature)?;
        Ok(Self { point: point.to_owned(), fingerprint: Sha256Hash::of(public_key) })
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

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use der::asn1::AnyRef;
    use der::{Encode, Tag};
    use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SanType, SigningKey};

    use super::*;

    const VERSION_1: &[u8] = &[0x02, 0x01, 0x00];
    const VERSION_2: &[u8] = &[0x02, 0x01, 0x01];
    const NO_NAMES: &[u8] = &[0x30, 0x00];
    const NO_ATTRIBUTES: &[u8] = &[0xa0, 0x00];

    /// A request as other tools write it: with names and extensions.
    fn request(key: &KeyPair) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "somebody else");
        params.subject_alt_names.push(SanType::URI("tributary:population/a/client/b".try_into().unwrap()));
        params.serialize_request(key).unwrap().der().to_vec()
    }

    fn requested(der: &[u8]) -> Result<CertifiedKey, RequestError> {
        let body = STANDARD.encode(der);
        let (begin, end) = ("-----BEGIN CERTIFICATE REQUEST-----", "-----END CERTIFICATE REQUEST-----");
        CertifiedKey::requested(&format!("{begin}\n{body}\n{end}\n"))
    }

    fn element(tag: Tag, parts: &[&[u8]]) -> Vec<u8> {
        AnyRef::new(tag, &parts.concat()).unwrap().to_der().unwrap()
    }

    /// A request with these parts in its information, signed with the key.
    fn signed(key: &KeyPair, info: &[&[u8]]) -> Vec<u8> {
        let info = element(Tag::Sequence, info);
        let signature = key.sign(&info).unwrap();
        element(Tag::Sequence, &[&info, &ECDSA_SHA256, &element(Tag::BitString, &[&[0], &signature])])
    }

    #[test]
    fn the_key_of_a_request_is_read_and_nothing_else_of_it() {
        let key = KeyPair::generate().unwrap();
        let certified = requested(&request(&key)).unwrap();
        assert_eq!(certified.der_bytes(), key.public_key_raw());
        assert_eq!(certified.fingerprint, Sha256Hash::of(&key.subject_public_key_info()));
        let info = key.subject_public_key_info();
        for attributes in [&[][..], NO_ATTRIBUTES, &[0xa0, 0x02, 0x30, 0x00]] {
            assert_eq!(requested(&signed(&key, &[VERSION_1, NO_NAMES, &info, attributes])), Ok(certified.clone()));
        }
    }

    #[test]
    fn a_request_that_is_none_is_refused() {
        for wrong in ["", "no PEM", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"] {
            assert_eq!(CertifiedKey::requested(wrong), Err(RequestError::Malformed), "{wrong}");
        }
        let long = "x".repeat(CERTIFICATE_REQUEST_BYTES_MAX + 1);
        assert_eq!(CertifiedKey::requested(&long), Err(RequestError::Malformed));
        // A certificate has three parts as well, of other kinds.
        let params = CertificateParams::new(Vec::new()).unwrap();
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        assert_eq!(requested(certificate.der()), Err(RequestError::Malformed));
    }

    #[test]
    fn a_request_with_another_algorithm_is_refused() {
        for other in [&PKCS_ED25519, &PKCS_ECDSA_P384_SHA384] {
            let key = KeyPair::generate_for(other).unwrap();
            assert_eq!(requested(&request(&key)), Err(RequestError::Algorithm), "{other:?}");
        }
        let key = KeyPair::generate().unwrap();
        let (request, point) = (request(&key), key.public_key_raw());
        let replaced = |old: &[u8], new: &[u8]| {
            let at = request.windows(old.len()).rposition(|bytes| bytes == old).unwrap();
            [&request[..at], new, &request[at + old.len()..]].concat()
        };
        let mut sha384 = ECDSA_SHA256;
        sha384[11] = 0x03;
        let mut compressed = point.to_vec();
        compressed[0] = 0x02;
        // The same algorithm, with NULL as its parameter.
        let parameter = element(Tag::Sequence, &[&ECDSA_SHA256[2..], &[0x05, 0x00]]);
        let length = request.len() + 2;
        let mut with_parameter = replaced(&ECDSA_SHA256, &parameter);
        with_parameter[2..4].copy_from_slice(&u16::try_from(length - 4).unwrap().to_be_bytes());
        for other in [replaced(&ECDSA_SHA256, &sha384), replaced(point, &compressed), with_parameter] {
            assert_eq!(requested(&other), Err(RequestError::Algorithm), "{other:x?}");
        }
        // A point that is on no curve.
        let mut outside = point.to_vec();
        outside[1..].fill(0xff);
        assert_eq!(requested(&replaced(point, &outside)), Err(RequestError::Signature));
    }

    #[test]
    fn a_request_that_another_key_signed_is_refused() {
        let [one, two] = [(); 2].map(|()| KeyPair::generate().unwrap());
        let info = one.subject_public_key_info();
        let parts = [VERSION_1, NO_NAMES, &info, NO_ATTRIBUTES];
        assert!(requested(&signed(&one, &parts)).is_ok());
        assert_eq!(requested(&signed(&two, &parts)), Err(RequestError::Signature));
        let info = element(Tag::Sequence, &parts);
        let signature = one.sign(&info).unwrap();
        for (wrong, why) in [
            (&[][..], RequestError::Malformed),
            (&[0], RequestError::Signature),
            (&[&[0], &signature[1..]].concat(), RequestError::Signature),
            (&[&[0], &signature[..], &[0]].concat(), RequestError::Signature),
            // Bits that do not count.
            (&[&[8], &signature[..]].concat(), RequestError::Malformed),
            (&[&[1], &signature[..signature.len() - 1], &[0]].concat(), RequestError::Malformed),
        ] {
            let request = element(Tag::Sequence, &[&info, &ECDSA_SHA256, &element(Tag::BitString, &[wrong])]);
            assert_eq!(requested(&request), Err(why), "{wrong:x?}");
        }
    }

    #[test]
    fn a_request_with_a_part_too_many_or_too_few_is_refused() {
        let key = KeyPair::generate().unwrap();
        let info = key.subject_public_key_info();
        for parts in [
            &[VERSION_1, NO_NAMES, &info, &info, NO_ATTRIBUTES][..],
            &[VERSION_1, VERSION_1, NO_NAMES, &info, NO_ATTRIBUTES],
            &[VERSION_1, NO_NAMES, &info, NO_ATTRIBUTES, NO_ATTRIBUTES],
            &[VERSION_1, NO_NAMES, &info, NO_ATTRIBUTES, &[0]],
            &[VERSION_1, NO_NAMES, &info, &[0x80, 0x00]],
            &[VERSION_2, NO_NAMES, &info, NO_ATTRIBUTES],
            &[&[0x02, 0x02, 0x00, 0x00], NO_NAMES, &info, NO_ATTRIBUTES],
            &[VERSION_1, NO_NAMES],
            &[VERSION_1, &info, NO_ATTRIBUTES],
            &[NO_NAMES, &info, NO_ATTRIBUTES],
        ] {
            assert_eq!(requested(&signed(&key, parts)), Err(RequestError::Malformed), "{parts:x?}");
        }
        let right = signed(&key, &[VERSION_1, NO_NAMES, &info, NO_ATTRIBUTES]);
        for more in [&[0][..], &[0x05, 0x00], &right] {
            assert_eq!(requested(&[&right[..], more].concat()), Err(RequestError::Malformed), "{more:x?}");
        }
    }

    #[test]
    fn a_request_that_is_cut_or_has_wrong_lengths_is_refused() {
        let key = KeyPair::generate().unwrap();
        let info = key.subject_public_key_info();
        let right = signed(&key, &[VERSION_1, NO_NAMES, &info, NO_ATTRIBUTES]);
        for cut in 0..right.len() {
            assert_eq!(requested(&right[..cut]), Err(RequestError::Malformed), "{cut} bytes");
        }
        // The request and its information have lengths of one byte more than they need here.
        let (request, signed) = (&right[3..], usize::from(right[4]));
        let (info, rest) = (&request[2..2 + signed], &request[2 + signed..]);
        for longer in [
            [&[0x30, 0x82, 0x00, right[2]], request].concat(),
            [&[0x30, 0x81, right[2] + 1, 0x30, 0x81, request[1]], info, rest].concat(),
        ] {
            assert_eq!(requested(&longer), Err(RequestError::Malformed), "{longer:x?}");
        }
        for length in [&b"\x80"[..], b"\xff", b"\x84\xff\xff\xff\xff", b"\x88\xff\xff\xff\xff\xff\xff\xff\xff"] {
            assert_eq!(requested(&[&[0x30], length, request].concat()), Err(RequestError::Malformed));
            let inner = [&[0x30], length, info, rest].concat();
            let request = [&[0x30, 0x81, u8::try_from(inner.len()).unwrap()], &inner[..]].concat();
            assert_eq!(requested(&request), Err(RequestError::Malformed), "{length:x?}");
        }
    }

    #[test]
    fn a_changed_request_is_refused() {
        let der = request(&KeyPair::generate().unwrap());
        for at in 0..der.len() {
            for change in [1, 0x80, 0xff] {
                let mut changed = der.clone();
                changed[at] ^= change;
                assert!(requested(&changed).is_err(), "byte {at}");
            }
        }
    }
}
