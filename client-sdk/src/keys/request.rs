//! Requests for certificates (PKCS #10, RFC 2986): the public key, signed with its private key, without names. The
//! coordinator chooses names and extensions.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tributary_protocol::hash::Sha256Hash;

use super::contract::{KeyError, KeyStore};

/// A SubjectPublicKeyInfo of a key on P-256 (RFC 5480, section 2.1.1), up to the point.
const P256_KEY: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// ecdsa-with-SHA256 (RFC 5758, section 3.2).
const ECDSA_SHA256: [u8; 12] = [0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;
/// Version 0, and a subject without names.
const HEAD: [u8; 5] = [0x02, 0x01, 0x00, 0x30, 0x00];
/// No attributes.
const TAIL: [u8; 2] = [0xa0, 0x00];
/// Letters in a line of PEM (RFC 7468).
const PEM_COLUMNS: usize = 64;

/// SHA-256 of the public key as SubjectPublicKeyInfo in DER.
pub(crate) fn fingerprint(keys: &dyn KeyStore) -> Result<Sha256Hash, KeyError> {
    Ok(Sha256Hash::of(&public_key_info(keys)?))
}

/// A request in PEM for a certificate of this key, for the coordinator or for the authority of
/// [`Builder::peers_ca`](crate::Builder::peers_ca).
///
/// # Errors
/// [`KeyError`] if the key cannot be read, or does not sign.
pub fn certificate_request(keys: &dyn KeyStore) -> Result<String, KeyError> {
    let info = tagged(SEQUENCE, &[&HEAD[..], &public_key_info(keys)?, &TAIL].concat());
    let signature = keys.sign(&info)?;
    let signature = tagged(BIT_STRING, &[&[0][..], &signature].concat());
    Ok(pem(&tagged(SEQUENCE, &[&info[..], &ECDSA_SHA256, &signature].concat())))
}

/// The public key as SubjectPublicKeyInfo in DER.
pub(crate) fn public_key_info(keys: &dyn KeyStore) -> Result<Vec<u8>, KeyError> {
    Ok([&P256_KEY[..], &keys.public_key()?].concat())
}

/// An element in DER (X.690, section 8.1).
fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let digits = &length[length.iter().position(|digit| *digit > 0).unwrap_or(length.len() - 1)..];
    let mut element = vec![tag];
    if content.len() >= 0x80 {
        element.push(0x80 | digits.len() as u8);
    }
    element.extend_from_slice(digits);
    element.extend_from_slice(content);
    element
}

fn pem(der: &[u8]) -> String {
    let mut pem = String::from("-----BEGIN CERTIFICATE REQUEST-----\n");
    for (at, letter) in STANDARD.encode(der).chars().enumerate() {
        if at > 0 && at % PEM_COLUMNS == 0 {
            pem.push('\n');
        }
        pem.push(letter);
    }
    pem.push_str("\n-----END CERTIFICATE REQUEST-----\n");
    pem
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
    use rustls::pki_types::CertificateSigningRequestDer;
    use rustls::pki_types::pem::PemObject;

    use super::super::stored::StoredKey;
    use super::*;
    use crate::store::MemoryStore;

    #[test]
    fn a_request_is_signed_with_the_key_that_is_in_it() {
        let keys = StoredKey::new(Arc::new(MemoryStore::new()));
        let pem = certificate_request(&keys).unwrap();
        assert!(pem.lines().all(|line| line.len() <= PEM_COLUMNS), "{pem}");
        let der = CertificateSigningRequestDer::from_pem_slice(pem.as_bytes()).unwrap();
        // The outer sequence has a length of two bytes, the inner one of one.
        let (info, rest) = der[3..].split_at(2 + 98);
        assert_eq!((der[..2].to_vec(), usize::from(der[2])), (vec![0x30, 0x81], der.len() - 3));
        assert_eq!((info[0], info[1], rest.starts_with(&ECDSA_SHA256)), (0x30, 98, true));
        let signature = &rest[ECDSA_SHA256.len() + 3..];
        let verifier = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, keys.public_key().unwrap());
        assert!(verifier.verify(info, signature).is_ok());
    }

    #[test]
    fn lengths_are_written_with_as_few_bytes_as_possible() {
        assert_eq!(tagged(4, &[])[..2], [4, 0]);
        assert_eq!(tagged(4, &[0; 0x7f])[..2], [4, 0x7f]);
        assert_eq!(tagged(4, &[0; 0x80])[..3], [4, 0x81, 0x80]);
        assert_eq!(tagged(4, &[0; 0x100])[..4], [4, 0x82, 1, 0]);
    }
}
