//! The few fields of X.509 certificates (RFC 5280) and of requests for them (PKCS #10, RFC 2986) that decisions need.

use der::asn1::{BitStringRef, GeneralizedTime, UtcTime};
use der::{Decode, Reader, SliceReader};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use webpki::EndEntityCert;

const SEQUENCE: u8 = 0x30;
const ATTRIBUTES: u8 = 0xa0;
/// The only version of requests, as an integer in DER.
const VERSION_1: [u8; 3] = [0x02, 0x01, 0x00];

/// What a certificate says about its holder. Its signature is not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf<'a> {
    /// In milliseconds since 1970.
    pub valid_from_ms: i64,
    pub valid_until_ms: i64,
    pub public_key: SubjectPublicKeyInfoDer<'static>,
    /// URIs among the alternative names.
    pub uris: Vec<&'a str>,
}

/// A request in parts. All but the signature are whole elements, with tag and length. The signature is not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    pub signed: &'a [u8],
    /// The SubjectPublicKeyInfo in `signed`.
    pub public_key: &'a [u8],
    pub algorithm: &'a [u8],
    pub signature: &'a [u8],
}

/// Reads key and names as webpki does, which checks signatures: what was signed is what is read. `None` if this is no
/// certificate of version 3 in DER.
pub fn leaf<'a>(certificate: &'a CertificateDer<'a>) -> Option<Leaf<'a>> {
    let read = EndEntityCert::try_from(certificate).ok()?;
    let (valid_from_ms, valid_until_ms) = validity_ms(certificate)?;
    let (public_key, uris) = (read.subject_public_key_info(), read.valid_uri_names().collect());
    Some(Leaf { valid_from_ms, valid_until_ms, public_key, uris })
}

/// `notBefore` and `notAfter` of a certificate, in milliseconds since 1970. `None` if this is no certificate of
/// version 3 in DER.
pub fn validity_ms(certificate: &[u8]) -> Option<(i64, i64)> {
    let [signed, _algorithm, _signature] = elements(certificate)?[..] else { return None };
    let [_version, _serial_number, _algorithm, _issuer, validity, ..] = elements(signed)?[..] else { return None };
    let [from, until] = elements(validity)?[..] else { return None };
    Some((time_ms(from)?, time_ms(until)?))
}

/// `None` if this is no request in DER.
pub fn request(request: &[u8]) -> Option<Request<'_>> {
    let [signed, algorithm @ [SEQUENCE, ..], signature] = elements(request)?[..] else { return None };
    let signature = BitStringRef::from_der(signature).ok()?.as_bytes()?;
    let [version, [SEQUENCE, ..], public_key @ [SEQUENCE, ..], attributes @ ..] = &elements(signed)?[..] else {
        return None;
    };
    // Some tools leave out attributes if there are none.
    let is_request = *version == VERSION_1 && matches!(attributes, [] | [[ATTRIBUTES, ..]]);
    is_request.then_some(Request { signed, public_key, algorithm, signature })
}

/// The elements of a sequence, each with tag and length.
fn elements(sequence: &[u8]) -> Option<Vec<&[u8]>> {
    let mut reader = SliceReader::new(sequence).ok()?;
    let elements = reader.sequence(|reader| {
        let mut elements = Vec::new();
        while !reader.is_finished() {
            elements.push(reader.tlv_bytes()?);
        }
        der::Result::Ok(elements)
    });
    reader.finish().ok()?;
    elements.ok()
}

/// Either form that section 4.1.2.5 allows.
fn time_ms(time: &[u8]) -> Option<i64> {
    let utc = UtcTime::from_der(time).map(|time| time.to_unix_duration());
    let since_1970 = utc.or_else(|_| GeneralizedTime::from_der(time).map(|time| time.to_unix_duration()));
    i64::try_from(since_1970.ok()?.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, CustomExtension, KeyPair, PublicKeyData, SanType, date_time_ymd};

    use super::*;

    const SUBJECT_ALT_NAME: [u64; 4] = [2, 5, 29, 17];

    fn signed(change: impl FnOnce(&mut CertificateParams)) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        change(&mut params);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn a_leaf_has_its_key_and_the_uris_among_its_names() {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        for uri in ["tributary:a", "urn:b"] {
            params.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
        }
        let certificate = params.self_signed(&key).unwrap();
        let found = leaf(certificate.der()).unwrap();
        assert_eq!(found.uris, ["tributary:a", "urn:b"]);
        assert_eq!(found.public_key.as_ref(), key.subject_public_key_info());
        assert_eq!(leaf(&signed(|_| ())).unwrap().uris, [""; 0]);
        assert_eq!(leaf(&CertificateDer::from_slice(b"no certificate")), None);
    }

    #[test]
    fn validity_is_read_in_either_form() {
        // Until 2049 a year has two digits.
        for (year, seconds) in [(1970, 0), (2026, 1_767_225_600), (2049, 2_493_072_000), (2050, 2_524_608_000)] {
            let certificate = signed(|params| params.not_after = date_time_ymd(year, 1, 1));
            // rcgen's default for the beginning is 1975.
            assert_eq!(validity_ms(&certificate), Some((157_766_400_000, seconds * 1000)), "{year}");
        }
        let certificate = signed(|params| params.not_after = date_time_ymd(9999, 12, 31));
        assert_eq!(validity_ms(&certificate).unwrap().1, 253_402_214_400_000);
    }

    /// Where a certificate, its three parts and the fields of the first one begin.
    fn elements_of(certificate: &[u8]) -> Vec<usize> {
        let parts = elements(certificate).unwrap();
        let fields = elements(parts[0]).unwrap();
        let begins = |element: &[u8]| element.as_ptr().addr() - certificate.as_ptr().addr();
        [certificate].iter().chain(&parts).chain(&fields).map(|element| begins(element)).collect()
    }

    #[test]
    fn a_cut_certificate_or_one_with_more_behind_it_is_none() {
        let certificate = signed(|_| ());
        for cut in 0..certificate.len() {
            let cut = CertificateDer::from_slice(&certificate[..cut]);
            assert_eq!((leaf(&cut), validity_ms(&cut)), (None, None), "{} bytes", cut.len());
        }
        for more in [&b"\0"[..], b"\x05\0", &certificate[..]] {
            let longer = CertificateDer::from([&certificate[..], more].concat());
            assert_eq!((leaf(&longer), validity_ms(&longer)), (None, None));
        }
    }

    #[test]
    fn lengths_that_lie_or_have_more_digits_than_they_need_are_refused() {
        let certificate = signed(|params| params.subject_alt_names.push(SanType::URI("urn:a".try_into().unwrap())));
        for at in elements_of(&certificate) {
            for length in [&b"\x80"[..], b"\xff", b"\x84\xff\xff\xff\xff", b"\x88\xff\xff\xff\xff\xff\xff\xff\xff"] {
                let changed = [&certificate[..=at], length, &certificate[at + 2..]].concat();
                assert_eq!(leaf(&CertificateDer::from(changed)), None, "element at {at}");
            }
            if certificate[at + 1] < 0x80 {
                let changed = [&certificate[..=at], b"\x81", &certificate[at + 1..]].concat();
                assert_eq!(leaf(&CertificateDer::from(changed)), None, "element at {at}");
            }
        }
    }

    #[test]
    fn no_byte_that_is_changed_adds_a_name() {
        let certificate = signed(|params| params.subject_alt_names.push(SanType::URI("urn:a".try_into().unwrap())));
        for at in 0..certificate.len() {
            for byte in [0, 1, 0x30, 0x7f, 0x80, 0x86, 0xff] {
                let mut changed = certificate.to_vec();
                changed[at] = byte;
                let changed = CertificateDer::from(changed);
                assert!(leaf(&changed).is_none_or(|leaf| leaf.uris.len() <= 1), "byte {at}");
            }
        }
    }

    #[test]
    fn a_certificate_with_a_field_twice_is_none() {
        let names = |_| CustomExtension::from_oid_content(&SUBJECT_ALT_NAME, b"\x30\x07\x86\x05urn:a".to_vec());
        let once = signed(|params| params.custom_extensions = (0..1).map(names).collect());
        assert_eq!(leaf(&once).unwrap().uris, ["urn:a"]);
        let twice = signed(|params| params.custom_extensions = (0..2).map(names).collect());
        assert_eq!(leaf(&twice), None);
    }

    #[test]
    fn a_name_that_is_no_text_is_not_read() {
        for (names, uris) in [
            (&b"\x30\x07\x86\x05urn:\xff"[..], &[][..]),
            (b"\x30\x07\x86\x7furn:a", &[]),
            (b"\x30\x07\x82\x05urn:a", &[]),
            (b"\x30\x0e\x86\x05urn:a\x86\x05urn:b", &["urn:a", "urn:b"]),
        ] {
            let extension = CustomExtension::from_oid_content(&SUBJECT_ALT_NAME, names.to_vec());
            let certificate = signed(|params| params.custom_extensions = vec![extension]);
            assert_eq!(leaf(&certificate).unwrap().uris, uris, "{names:x?}");
        }
    }

    #[test]
    fn times_that_rfc_5280_does_not_allow_are_refused() {
        let certificate = signed(|params| params.not_after = date_time_ymd(2026, 1, 1));
        let at = certificate.windows(13).position(|bytes| bytes == b"260101000000Z").unwrap();
        for time in
            ["260101000000+", "2601010000000", "261301000000Z", "260230000000Z", "260101240000Z", "26010100000 Z"]
        {
            let mut changed = certificate.to_vec();
            changed[at..at + 13].copy_from_slice(time.as_bytes());
            assert_eq!(validity_ms(&changed), None, "{time}");
        }
        // As GENERALIZED TIME, 13 characters are too few.
        let mut changed = certificate.to_vec();
        changed[at - 2] = 0x18;
        assert_eq!(validity_ms(&changed), None);
    }
}
