//! The group of the published test vectors, for tests.

use sha2::{Digest, Sha256};

use super::keys::{SecretBytes, public_key};
use super::record::commitment;
use super::{Context, Record, Roster, Suite};
use crate::hash::Sha256Hash;
use crate::hex::{parse_hex, write_hex};
use crate::id::{GroupId, JobId};

/// One of the member's 32 bytes: `s`, `c`, `b`, the nonce `n` or the hash of its certificate `f`.
pub(super) fn seed(letter: &str, member: u8) -> [u8; 32] {
    let hasher = Sha256::new().chain_update("tributary secagg test ").chain_update(letter);
    hasher.chain_update([member]).finalize().into()
}

pub(super) fn secret(letter: &str, member: u8) -> SecretBytes {
    SecretBytes::new(seed(letter, member))
}

pub(super) fn record(member: u8) -> Record {
    Record {
        suite: Suite::One,
        c_pk: public_key(&secret("c", member)),
        s_pk: public_key(&secret("s", member)),
        nonce: seed("n", member),
        commitment: commitment(&secret("b", member)),
        certificate: Sha256Hash(seed("f", member)),
    }
}

/// Three members, degree 2, threshold 2, 16 bits, length 8.
pub(super) fn context() -> Context {
    Context {
        job: JobId::from_random(std::array::from_fn(|byte| byte as u8)),
        round: 7,
        group: GroupId::from_random(std::array::from_fn(|byte| 16 + byte as u8)),
        model: Sha256Hash::of(b"model"),
        plan: Sha256Hash::of(b"plan"),
        suite: Suite::One,
        bits: 16,
        threshold: 2,
        degree: 2,
        length: 8,
    }
}

pub(super) fn roster() -> Roster {
    Roster::new(&context(), &[0, 1, 2].map(|member| record(member).hash())).unwrap()
}

pub(super) fn hex(bytes: impl AsRef<[u8]>) -> String {
    let mut text = String::new();
    write_hex(&mut text, bytes.as_ref()).unwrap();
    text
}

/// 32 bytes from their digits.
pub(super) fn bytes(digits: &str) -> [u8; 32] {
    parse_hex(digits).unwrap()
}
