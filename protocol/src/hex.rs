//! Bytes as lower-case hexadecimal digits.
//!
//! Upper case is refused, so that a value has one spelling: ids and hashes are compared as text in databases and ETags.

use std::fmt;

/// Writes two digits for each byte.
pub(crate) fn write_hex(target: &mut impl fmt::Write, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(target, "{byte:02x}"))
}

/// Reads exactly `2 * N` lower-case digits.
pub(crate) fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}
