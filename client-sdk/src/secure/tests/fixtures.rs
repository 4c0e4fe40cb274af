//! Terms, entropy, and devices whose signatures are hashes.

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{GroupId, JobId};
use tributary_protocol::secure::signing::Signature;
use tributary_protocol::secure::{Context, Suite};

use super::super::{EntropyError, GroupTrust, Peers, Terms};
use crate::keys::{KeyError, KeyStore};

pub(super) const LENGTH: u32 = 256;
pub(super) const BITS: u8 = 15;

pub(super) fn terms(trust: GroupTrust) -> Terms {
    Terms {
        job: JobId::from_random([1; 16]),
        round: 7,
        model: Sha256Hash::of(b"model"),
        plan: Sha256Hash::of(b"plan"),
        length: LENGTH,
        trust,
        members_min: 3,
        survivors_min: 2,
        degree_min: 2,
        dropouts: 0.4,
        corrupt: 0.1,
    }
}

/// A context that fits the terms. Everybody is a neighbour unless a degree is given.
pub(super) fn context(members: u16, degree: Option<u16>) -> Context {
    let degree = degree.unwrap_or(members - 1);
    let terms = terms(GroupTrust::Signed);
    Context {
        job: terms.job,
        round: terms.round,
        group: GroupId::from_random([2; 16]),
        model: terms.model,
        plan: terms.plan,
        suite: Suite::One,
        bits: BITS,
        threshold: (degree / 2 + 1).max(2),
        degree,
        length: LENGTH,
    }
}

/// Bytes that differ from call to call and from seed to seed.
pub(super) fn entropy(seed: u16) -> impl FnMut(&mut [u8]) -> Result<(), EntropyError> {
    let mut calls = 0u32;
    move |bytes| {
        calls += 1;
        let drawn = hash(&[&seed.to_le_bytes(), &calls.to_le_bytes()]);
        bytes.iter_mut().zip(drawn).for_each(|(byte, drawn)| *byte = drawn);
        Ok(())
    }
}

fn hash(parts: &[&[u8]]) -> [u8; 32] {
    Sha256Hash::of(&parts.concat()).0
}

/// The certificate of a device of the right CA.
pub(super) fn certificate(index: u16) -> Vec<u8> {
    format!("trusted {index}").into_bytes()
}

pub(super) fn signature(certificate: &[u8], message: &[u8]) -> Signature {
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(&hash(&[b"r", certificate, message]));
    signature[32..].copy_from_slice(&hash(&[b"s", certificate, message]));
    signature
}

/// A key that signs for its certificate.
#[derive(Debug)]
pub(super) struct TestKey(pub(super) Vec<u8>);

impl KeyStore for TestKey {
    fn public_key(&self) -> Result<[u8; 65], KeyError> {
        Err(KeyError("not asked for".into()))
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let signature = signature(&self.0, message);
        let integer = |digits: &[u8]| [&[2, 33, 0], digits].concat();
        Ok([&[0x30, 70][..], &integer(&signature[..32]), &integer(&signature[32..])].concat())
    }
}

/// A key that is locked.
#[derive(Debug)]
pub(super) struct LockedKey;

impl KeyStore for LockedKey {
    fn public_key(&self) -> Result<[u8; 65], KeyError> {
        Err(KeyError("locked".into()))
    }

    fn sign(&self, _: &[u8]) -> Result<Vec<u8>, KeyError> {
        Err(KeyError("locked".into()))
    }
}

/// Trusts certificates that say so.
#[derive(Debug)]
pub(super) struct TestPeers;

impl Peers for TestPeers {
    fn is_trusted(&self, certificate: &[u8]) -> bool {
        certificate.starts_with(b"trusted")
    }

    fn has_signed(&self, certificate: &[u8], message: &[u8], given: &Signature) -> bool {
        *given == signature(certificate, message)
    }
}
