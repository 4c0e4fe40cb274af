//! Shares on their way through the coordinator: encrypted from one member to another.

use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{ChaCha20Poly1305, Nonce, Tag};
use zeroize::Zeroizing;

use super::keys::SecretBytes;
use crate::hash::Sha256Hash;

/// Bytes of a share in the clear: its number and the shares of both secrets.
const PLAIN_BYTES: usize = 65;
/// Bytes of an encrypted share.
pub const CIPHERTEXT_BYTES: usize = 81;

/// An encrypted share.
pub type Ciphertext = [u8; CIPHERTEXT_BYTES];

/// What a member gives a neighbour to keep: one share of each of its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharePair {
    /// The number of both shares, from 1.
    pub number: u8,
    /// The share of the secret key `s`.
    pub s: SecretBytes,
    /// The share of the secret `b`.
    pub b: SecretBytes,
}

/// A share that was not encrypted by this sender for this receiver and roster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the share is damaged, or was meant for others")]
pub struct Damaged;

/// Encrypts a share. The key must be [`super::keys::share_key`] of these members, and encrypts nothing else: the nonce
/// is zero.
pub fn seal(share: &SharePair, key: &SecretBytes, roster: &Sha256Hash, from: u16, to: u16) -> Ciphertext {
    let mut ciphertext = [0; CIPHERTEXT_BYTES];
    let mut plain = Zeroizing::new([0; PLAIN_BYTES]);
    plain[0] = share.number;
    plain[1..33].copy_from_slice(share.s.expose());
    plain[33..].copy_from_slice(share.b.expose());
    let sealed = cipher(key).encrypt_inout_detached(&Nonce::default(), &aad(roster, from, to), plain.as_mut().into());
    let tag = sealed.expect("65 bytes are fewer than ChaCha20 may encrypt");
    ciphertext[..PLAIN_BYTES].copy_from_slice(plain.as_ref());
    ciphertext[PLAIN_BYTES..].copy_from_slice(&tag);
    ciphertext
}

/// Decrypts a share.
///
/// # Errors
/// [`Damaged`] if key, roster, members or any byte differ from those of [`seal`].
pub fn unseal(
    ciphertext: &Ciphertext,
    key: &SecretBytes,
    roster: &Sha256Hash,
    from: u16,
    to: u16,
) -> Result<SharePair, Damaged> {
    let (sealed, tag) = ciphertext.split_at(PLAIN_BYTES);
    let mut plain = Zeroizing::new([0; PLAIN_BYTES]);
    plain.copy_from_slice(sealed);
    let tag = Tag::try_from(tag).map_err(|_| Damaged)?;
    cipher(key)
        .decrypt_inout_detached(&Nonce::default(), &aad(roster, from, to), plain.as_mut().into(), &tag)
        .map_err(|_| Damaged)?;
    let part = |from: usize| {
        let mut part = [0; 32];
        part.copy_from_slice(&plain[from..from + 32]);
        SecretBytes::new(part)
    };
    Ok(SharePair { number: plain[0], s: part(1), b: part(33) })
}

fn cipher(key: &SecretBytes) -> ChaCha20Poly1305 {
    ChaCha20Poly1305::new(key.expose().into())
}

/// What a ciphertext is bound to.
fn aad(roster: &Sha256Hash, from: u16, to: u16) -> Vec<u8> {
    [&roster.0[..], &from.to_le_bytes(), &to.to_le_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::super::keys::{agree, share_key};
    use super::super::vectors::{bytes, hex, record, roster, secret};
    use super::*;

    fn share() -> SharePair {
        SharePair {
            number: 2,
            s: SecretBytes::new(bytes("a49f401d28dd728e3eab7a123ccf4ac2c029387e2b7c476ed0f88e522ae7dc3e")),
            b: SecretBytes::new(bytes("1a70abd61886610f8f61bd9b1fd5106e6985b245c5370141455b3075248d4e71")),
        }
    }

    fn key() -> SecretBytes {
        share_key(&agree(&secret("c", 0), &record(1).c_pk).unwrap(), &roster().hash(), 0, 1)
    }

    #[test]
    fn the_ciphertext_is_that_of_the_vectors_and_comes_back() {
        let hash = roster().hash();
        let sealed = seal(&share(), &key(), &hash, 0, 1);
        assert_eq!(
            hex(sealed),
            "6ecf18fb77b9e37ecc2f5537f92f5ba4996bf50cc50722f52a4d5881b11333553030df38205f8198e325896bb251f55e322192d85\
             3b5dc296aa3a11d8daf48fa038f5f5bd994716fe04f6d85c9426de1ce"
        );
        assert_eq!(unseal(&sealed, &key(), &hash, 0, 1), Ok(share()));
    }

    #[test]
    fn a_ciphertext_that_is_damaged_or_meant_for_others_is_refused() {
        let hash = roster().hash();
        let sealed = seal(&share(), &key(), &hash, 0, 1);
        for byte in 0..CIPHERTEXT_BYTES {
            let mut damaged = sealed;
            damaged[byte] ^= 1;
            assert_eq!(unseal(&damaged, &key(), &hash, 0, 1), Err(Damaged));
        }
        assert_eq!(unseal(&sealed, &secret("s", 0), &hash, 0, 1), Err(Damaged));
        assert_eq!(unseal(&sealed, &key(), &Sha256Hash([0; 32]), 0, 1), Err(Damaged));
        assert_eq!(unseal(&sealed, &key(), &hash, 1, 0), Err(Damaged));
    }
}
