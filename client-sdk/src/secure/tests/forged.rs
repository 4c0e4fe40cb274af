//! An operator who lies: a group of one honest device among members that he invented, with certificates of his own.

use std::sync::Arc;

use tributary_protocol::secure::messages::{Shares, Unmask};
use tributary_protocol::secure::{Record, Words};

use super::super::{CertifiedPeers, GroupTrust, Member, MemberError, Next, Refusal, Signers};
use super::authority::{Ca, ca, issued};
use super::coordinator::Coordinator;
use super::fixtures::{BITS, LENGTH, context, entropy, terms};
use crate::keys::StoredKey;
use crate::store::MemoryStore;

const MEMBERS: u16 = 5;

struct Device {
    keys: StoredKey,
    peers: CertifiedPeers,
    member: Member,
}

impl Device {
    /// A device with a certificate of this CA, which trusts no other.
    fn new(ca: &Ca, index: u16) -> Self {
        let keys = StoredKey::new(Arc::new(MemoryStore::new()));
        let certificate = issued(ca, &keys, [2020, 2030]);
        let peers = CertifiedPeers::from_pem(certificate.as_bytes(), ca.pem().as_bytes()).unwrap();
        let member = Member::join(terms(GroupTrust::Signed), peers.own(), &mut entropy(index)).unwrap();
        Self { keys, peers, member }
    }
}

/// Splits a device in what it signs with and what it is in the group.
fn parts(device: &mut Device) -> (Option<Signers<'_>>, &mut Member) {
    (Some(Signers { keys: &device.keys, peers: &device.peers }), &mut device.member)
}

/// The honest device is the first one; the others are the operator's.
fn group(honest: &Ca, operator: &Ca) -> (Vec<Device>, Coordinator) {
    let device = |index| Device::new(if index == 0 { honest } else { operator }, index);
    let devices: Vec<_> = (0..MEMBERS).map(device).collect();
    let records = devices.iter().map(|device| Record::from_bytes(device.member.record()).unwrap()).collect();
    let certificates = devices.iter().map(|device| device.peers.own().to_vec()).collect();
    (devices, Coordinator::new(context(MEMBERS, None), records, certificates))
}

/// An app that pins an authority other than the operator's gives nothing to such a group.
#[test]
fn a_device_among_forged_ones_refuses_with_an_authority_of_its_own() {
    let (authority, operator) = (ca(), ca());
    let (mut devices, coordinator) = group(&authority, &operator);
    let (signers, member) = parts(&mut devices[0]);
    let refused = member.formed(&coordinator.formed(0), signers, &mut entropy(9));
    assert!(matches!(refused, Err(MemberError::Refused(Refusal::Certificate(1)))), "{refused:?}");
    assert!(member.secrets.is_none());
}

/// Without one the operator's certificates are as good as all others, and he takes what his members sent off the sum.
/// docs/secure.md says so.
#[test]
fn a_device_among_forged_ones_is_read_where_the_operator_issues_the_certificates() {
    let operator = ca();
    let (mut devices, mut coordinator) = group(&operator, &operator);
    let secret: Vec<i64> = (0..i64::from(LENGTH)).map(|place| (place * 37) % 101 - 50).collect();
    for index in 0..MEMBERS {
        let formed = coordinator.formed(index);
        let (signers, member) = parts(&mut devices[usize::from(index)]);
        let shares = member.formed(&formed, signers, &mut entropy(100 + index)).unwrap();
        coordinator.shares.insert(index, Shares::from_bytes(&shares).unwrap());
    }
    for index in 0..MEMBERS {
        let inbox = coordinator.inbox(index);
        let (signers, member) = parts(&mut devices[usize::from(index)]);
        member.inbox(&inbox, signers).unwrap();
        let values = if index == 0 { secret.clone() } else { vec![0; LENGTH as usize] };
        coordinator.bodies.insert(index, member.masked(Words::of(BITS, &values), vec![1]).unwrap());
    }
    for index in 0..MEMBERS {
        let survivors = coordinator.survivors();
        let (signers, member) = parts(&mut devices[usize::from(index)]);
        let Next::Agreement(signature) = member.survivors(&survivors, signers).unwrap() else { panic!("it signs") };
        coordinator.signatures.insert(index, *signature);
    }
    for index in 0..MEMBERS {
        let agreement = coordinator.agreement(index);
        let (signers, member) = parts(&mut devices[usize::from(index)]);
        let unmask: Unmask = member.agreement(&agreement, signers).unwrap();
        coordinator.unmasks.insert(index, unmask);
    }
    assert_eq!(coordinator.sum(1).0, secret, "the update of the one honest device");
}
