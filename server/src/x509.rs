//! Reading X.509 certificates and certificate requests: the few fields that decisions need, from DER.

use time::{Date, Month, Time};

pub(crate) const SEQUENCE: u8 = 0x30;
/// The version of a certificate (RFC 5280, section 4.1), which those of version 1 lack.
const VERSION: u8 = 0xa0;
/// The extensions of a certificate.
const EXTENSIONS: u8 = 0xa3;
const OBJECT_IDENTIFIER: u8 = 0x06;
const OCTET_STRING: u8 = 0x04;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// A URI among alternative names (RFC 5280, section 4.2.1.6).
const URI: u8 = 0x86;
/// The identifier of the extension that holds alternative names.
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

/// What a certificate says about its holder. Its signature is not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leaf<'a> {
    /// In milliseconds since 1970.
    pub(crate) valid_from_ms: i64,
    pub(crate) valid_until_ms: i64,
    /// The key as SubjectPublicKeyInfo, in DER.
    pub(crate) public_key: &'a [u8],
    /// URIs among the alternative names.
    pub(crate) uris: Vec<&'a str>,
}

/// The end of [`validity_ms`].
pub(crate) fn expires_at_ms(certificate: &[u8]) -> Option<i64> {
    validity_ms(certificate).map(|(_, until_ms)| until_ms)
}

/// `notBefore` and `notAfter` of an X.509 certificate in DER, in milliseconds since 1970. `None` if this is no
/// certificate.
pub(crate) fn validity_ms(certificate: &[u8]) -> Option<(i64, i64)> {
    let (validity, _) = sequence(before_validity(certificate)?)?;
    let (from_ms, rest) = time_ms(validity)?;
    let (until_ms, _) = time_ms(rest)?;
    Some((from_ms, until_ms))
}

/// `None` if this is no certificate in DER.
pub(crate) fn leaf(certificate: &[u8]) -> Option<Leaf<'_>> {
    let (valid_from_ms, valid_until_ms) = validity_ms(certificate)?;
    // Validity, subject.
    let (_, rest) = sequence(before_validity(certificate)?)?;
    let (_, rest) = sequence(rest)?;
    let (public_key, mut rest) = whole(SEQUENCE, rest)?;
    let mut uris = Vec::new();
    while !rest.is_empty() {
        let (tag, content, after) = element(rest)?;
        if tag == EXTENSIONS {
            uris = names(content)?;
        }
        rest = after;
    }
    Some(Leaf { valid_from_ms, valid_until_ms, public_key, uris })
}

/// The fields of a certificate from its validity on.
fn before_validity(certificate: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = sequence(certificate)?;
    let (mut fields, _) = sequence(certificate)?;
    if fields.first() == Some(&VERSION) {
        (_, _, fields) = element(fields)?;
    }
    // Serial number, algorithm of the signature, issuer.
    for _ in 0..3 {
        (_, _, fields) = element(fields)?;
    }
    Some(fields)
}

/// The URIs among the alternative names in these extensions.
fn names(extensions: &[u8]) -> Option<Vec<&str>> {
    let (mut extensions, _) = sequence(extensions)?;
    let mut uris = Vec::new();
    while !extensions.is_empty() {
        let (extension, after) = sequence(extensions)?;
        extensions = after;
        let (tag, identifier, rest) = element(extension)?;
        if (tag, identifier) != (OBJECT_IDENTIFIER, SUBJECT_ALT_NAME) {
            continue;
        }
        // Whether it is critical may stand before its value.
        let (mut tag, mut value, rest) = element(rest)?;
        if tag != OCTET_STRING {
            (tag, value, _) = element(rest)?;
        }
        let (mut names, _) = sequence(value).filter(|_| tag == OCTET_STRING)?;
        while !names.is_empty() {
            let (tag, name, after) = element(names)?;
            names = after;
            if tag == URI {
                uris.push(std::str::from_utf8(name).ok()?);
            }
        }
    }
    Some(uris)
}

/// The first element with its tag and length, if it has this tag, and the bytes after it.
pub(crate) fn whole(wanted: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (tag, _, rest) = element(bytes)?;
    (tag == wanted).then(|| bytes.split_at(bytes.len() - rest.len()))
}

fn time_ms(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (kind, text, rest) = element(bytes)?;
    let at_ms = seconds(kind, std::str::from_utf8(text).ok()?)?.checked_mul(1000)?;
    Some((at_ms, rest))
}

pub(crate) fn sequence(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = element(bytes)?;
    (tag == SEQUENCE).then_some((content, rest))
}

/// Tag and content of the first element, and the bytes after it (X.690, section 8.1).
pub(crate) fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let [tag, length, rest @ ..] = bytes else { return None };
    let (length, rest) = match usize::from(*length) {
        short @ ..0x80 => (short, rest),
        long => {
            let (digits, rest) = rest.split_at_checked(long - 0x80)?;
            let length =
                digits.iter().try_fold(0usize, |length, digit| Some(length.checked_mul(256)? | usize::from(*digit)))?;
            (length, rest)
        }
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ` (RFC 5280, section 4.1.2.5), in seconds since 1970.
fn seconds(kind: u8, text: &str) -> Option<i64> {
    let digits = text.strip_suffix('Z')?;
    let (year, rest) = digits.split_at_checked(match kind {
        UTC_TIME => 2,
        GENERALIZED_TIME => 4,
        _ => return None,
    })?;
    let year: i32 = year.parse().ok()?;
    let year = match kind {
        UTC_TIME if year < 50 => year + 2000,
        UTC_TIME => year + 1900,
        _ => year,
    };
    let pair = |index: usize| rest.get(2 * index..2 * index + 2)?.parse::<u8>().ok();
    let date = Date::from_calendar_date(year, Month::try_from(pair(0)?).ok()?, pair(1)?).ok()?;
    let time = Time::from_hms(pair(2)?, pair(3)?, pair(4)?).ok()?;
    Some(date.with_time(time).assume_utc().unix_timestamp())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, PublicKeyData, SanType};
    use time::OffsetDateTime;

    use super::*;

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
        assert_eq!(found.public_key, key.subject_public_key_info());
        let nameless = CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap();
        assert_eq!(leaf(nameless.der()).unwrap().uris, [""; 0]);
        for cut in 0..certificate.der().len() {
            // The signature at the end is not read.
            let _ = leaf(&certificate.der()[..cut]);
        }
        assert_eq!(leaf(b"no certificate"), None);
    }

    #[test]
    fn the_end_of_validity_is_read_in_either_form() {
        let key = KeyPair::generate().unwrap();
        // Until 2049 a year has two digits.
        for seconds in [0, 1_795_000_000, 2_524_607_999, 2_524_608_000, 4_000_000_000] {
            let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            params.not_after = OffsetDateTime::from_unix_timestamp(seconds).unwrap();
            let certificate = params.self_signed(&key).unwrap();
            assert_eq!(expires_at_ms(certificate.der()), Some(seconds * 1000));
            // rcgen's default for the beginning is 1975.
            assert_eq!(validity_ms(certificate.der()), Some((157_766_400_000, seconds * 1000)));
            for cut in 0..certificate.der().len().min(200) {
                assert_eq!(expires_at_ms(&certificate.der()[..cut]), None, "{cut}");
            }
        }
    }
}
