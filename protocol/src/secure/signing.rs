//! What devices sign in a group. Keys and certificates are the caller's: nothing here signs or verifies.

use super::LABEL;
use crate::hash::Sha256Hash;

/// An ECDSA signature on P-256: r and s of 32 bytes each, most significant byte first.
pub type Signature = [u8; 64];

/// No signature, in groups without them.
pub const NO_SIGNATURE: Signature = [0; 64];

/// The message that a member signs to be in this roster.
pub fn roster_message(roster: &Sha256Hash) -> Vec<u8> {
    [LABEL, b"sign roster\n", &roster.0].concat()
}

/// The message that a member signs for a set of survivors, by its hash.
pub fn survivors_message(survivors: &Sha256Hash) -> Vec<u8> {
    [LABEL, b"sign survivors\n", &survivors.0].concat()
}

/// r and s of a signature in ASN.1 DER (RFC 3279, section 2.2.3), as key stores give it. `None` if it is none.
pub fn from_der(der: &[u8]) -> Option<Signature> {
    let [SEQUENCE, length, integers @ ..] = der else { return None };
    if usize::from(*length) != integers.len() || *length >= LONG_LENGTH {
        return None;
    }
    let (r, rest) = integer(integers)?;
    let (s, rest) = integer(rest)?;
    let mut signature = NO_SIGNATURE;
    signature[..32].copy_from_slice(&r);
    signature[32..].copy_from_slice(&s);
    rest.is_empty().then_some(signature)
}

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
/// Lengths from here on have more than one byte. A signature on P-256 has at most 72 bytes.
const LONG_LENGTH: u8 = 0x80;

/// The first of two integers in 32 bytes, and what follows it.
fn integer(der: &[u8]) -> Option<([u8; 32], &[u8])> {
    let [INTEGER, length, rest @ ..] = der else { return None };
    let (digits, rest) = rest.split_at_checked(usize::from(*length))?;
    // A leading zero says that the number is not negative.
    let digits = digits.strip_prefix(&[0]).unwrap_or(digits);
    let mut number = [0; 32];
    number.get_mut(32usize.checked_sub(digits.len())?..)?.copy_from_slice(digits);
    Some((number, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der(r: &[u8], s: &[u8]) -> Vec<u8> {
        let integer = |digits: &[u8]| [&[INTEGER, digits.len() as u8], digits].concat();
        let integers = [integer(r), integer(s)].concat();
        [&[SEQUENCE, integers.len() as u8], &integers[..]].concat()
    }

    #[test]
    fn r_and_s_are_read_with_and_without_leading_zeros() {
        let long = [&[0][..], &[0xff; 32]].concat();
        let signature = from_der(&der(&long, &[1, 2])).unwrap();
        assert_eq!(signature[..32], [0xff; 32]);
        assert_eq!(signature[32..], [&[0; 30][..], &[1, 2]].concat());
    }

    #[test]
    fn what_is_no_signature_is_none() {
        let whole = der(&[7; 32], &[9; 32]);
        assert!(from_der(&whole).is_some());
        for cut in 0..whole.len() {
            assert_eq!(from_der(&whole[..cut]), None);
        }
        assert_eq!(from_der(&[&whole[..], &[0]].concat()), None);
        assert_eq!(from_der(&der(&[7; 33], &[9; 32])), None);
        assert_eq!(from_der(&[SEQUENCE, 0x81, 0]), None);
    }

    #[test]
    fn messages_begin_with_the_protocol_and_what_is_signed() {
        let hash = Sha256Hash([7; 32]);
        assert_eq!(roster_message(&hash), [&b"tributary-secagg-1 sign roster\n"[..], &[7; 32]].concat());
        assert_eq!(survivors_message(&hash), [&b"tributary-secagg-1 sign survivors\n"[..], &[7; 32]].concat());
    }
}
