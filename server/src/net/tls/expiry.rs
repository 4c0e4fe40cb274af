//! The validity of a certificate.

use time::{Date, Month, Time};

const SEQUENCE: u8 = 0x30;
/// The version of a certificate (RFC 5280, section 4.1), which those of version 1 lack.
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The end of [`validity_ms`].
pub(super) fn expires_at_ms(certificate: &[u8]) -> Option<i64> {
    validity_ms(certificate).map(|(_, until_ms)| until_ms)
}

/// `notBefore` and `notAfter` of an X.509 certificate in DER, in milliseconds since 1970. `None` if this is no
/// certificate.
pub(super) fn validity_ms(certificate: &[u8]) -> Option<(i64, i64)> {
    let (certificate, _) = sequence(certificate)?;
    let (mut fields, _) = sequence(certificate)?;
    if fields.first() == Some(&VERSION) {
        (_, _, fields) = element(fields)?;
    }
    // Serial number, algorithm of the signature, issuer.
    for _ in 0..3 {
        (_, _, fields) = element(fields)?;
    }
    let (validity, _) = sequence(fields)?;
    let (from_ms, rest) = time_ms(validity)?;
    let (until_ms, _) = time_ms(rest)?;
    Some((from_ms, until_ms))
}

fn time_ms(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (kind, text, rest) = element(bytes)?;
    let at_ms = seconds(kind, std::str::from_utf8(text).ok()?)?.checked_mul(1000)?;
    Some((at_ms, rest))
}

fn sequence(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = element(bytes)?;
    (tag == SEQUENCE).then_some((content, rest))
}

/// Tag and content of the first element, and the bytes after it (X.690, section 8.1).
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
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
    use rcgen::{CertificateParams, KeyPair};
    use time::OffsetDateTime;

    use super::*;

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
