//! The header `Repr-Digest` (RFC 9530) with a SHA-256: the hash of a body, sent before the body.

use crate::hash::Sha256Hash;

/// Name of the header.
pub const REPR_DIGEST: &str = "repr-digest";

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Value of the header: `sha-256=:<base64>:`, a dictionary of byte sequences (RFC 9651).
pub fn repr_digest(hash: Sha256Hash) -> String {
    let mut text = String::from("sha-256=:");
    for group in hash.0.chunks(3) {
        let bits = (0..3).fold(0u32, |bits, at| bits << 8 | u32::from(group.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            // A group of n bytes gives n + 1 letters; the rest is padding.
            let letter = LETTERS[(bits >> (18 - 6 * at)) as usize & 63];
            text.push(if at <= group.len() { char::from(letter) } else { '=' });
        }
    }
    text.push(':');
    text
}

/// Reads the SHA-256 from the value of the header. `None` if there are only digests of other algorithms, which RFC 9530
/// tells a recipient to ignore.
///
/// # Errors
/// [`DigestError`] if the SHA-256 is malformed.
pub fn parse_repr_digest(value: &str) -> Result<Option<Sha256Hash>, DigestError> {
    for member in value.split(',') {
        if let Some(bytes) = member.trim().strip_prefix("sha-256=") {
            let base64 = bytes.strip_prefix(':').and_then(|rest| rest.strip_suffix(':')).ok_or(DigestError)?;
            return decoded(base64).map(Some);
        }
    }
    Ok(None)
}

/// A SHA-256 that is not 32 bytes in base64 between colons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Repr-Digest must be sha-256=:<base64 of 32 bytes>:")]
pub struct DigestError;

fn decoded(base64: &str) -> Result<Sha256Hash, DigestError> {
    let letters = base64.strip_suffix('=').filter(|letters| letters.len() == 43).ok_or(DigestError)?;
    let (mut bits, mut held, mut hash, mut at) = (0u32, 0, [0; 32], 0);
    for letter in letters.bytes() {
        let value = LETTERS.iter().position(|known| *known == letter).ok_or(DigestError)?;
        bits = bits << 6 | value as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            hash[at] = (bits >> held) as u8;
            at += 1;
        }
    }
    // Two bits are left over. They must be zero, or one hash would have several spellings.
    if bits & 3 == 0 { Ok(Sha256Hash(hash)) } else { Err(DigestError) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9530, appendix B.1: the digest of `{"hello": "world"}` and a line feed.
    const EXAMPLE: &str = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:";

    #[test]
    fn the_published_example_is_met_both_ways() {
        let hash = Sha256Hash::of(b"{\"hello\": \"world\"}\n");
        assert_eq!(repr_digest(hash), EXAMPLE);
        assert_eq!(parse_repr_digest(EXAMPLE), Ok(Some(hash)));
        assert_eq!(parse_repr_digest(&format!("sha-512=:AAAA:, {EXAMPLE}")), Ok(Some(hash)));
    }

    #[test]
    fn every_hash_comes_back() {
        for seed in 0..200u8 {
            let hash = Sha256Hash::of(&[seed]);
            assert_eq!(parse_repr_digest(&repr_digest(hash)), Ok(Some(hash)));
        }
    }

    #[test]
    fn what_is_no_digest_is_refused_and_other_algorithms_are_passed_over() {
        assert_eq!(parse_repr_digest("sha-512=:AAAA:"), Ok(None));
        assert_eq!(parse_repr_digest(""), Ok(None));
        let changed = |from: &str, to: &str| parse_repr_digest(&EXAMPLE.replace(from, to));
        for (from, to) in
            [(":RK", "RK"), ("=:R", "=:"), ("bDg=", "bDgA"), ("bDg=", "bDh="), ("/0q", "é0q"), ("/0q", "-0q")]
        {
            assert_eq!(changed(from, to), Err(DigestError), "{from} to {to}");
        }
    }
}
