//! What members refuse, each by its name, and that they keep refusing after a restart.

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{GroupId, JobId};
use tributary_protocol::secure::messages::{Formed, Inbox, ShareKind};
use tributary_protocol::secure::signing::survivors_message;
use tributary_protocol::secure::{Context, Record, Survivors, Words};

use super::super::{GroupTrust, Member, MemberError, Refusal, Signers};
use super::coordinator::Coordinator;
use super::fixtures::{BITS, LENGTH, LockedKey, TestKey, TestPeers, certificate, entropy, signature, terms};
use super::groups::Group;

fn signers(key: &TestKey) -> Option<Signers<'_>> {
    Some(Signers { keys: key, peers: &TestPeers })
}

/// A group of five, after `stages` stages.
fn five(stages: usize) -> Group {
    let mut group = Group::new(GroupTrust::Signed, 5, None);
    let steps: [fn(&mut Group, u16); 3] = [Group::share, Group::mask, Group::agree];
    for step in &steps[..stages] {
        (0..5).for_each(|index| step(&mut group, index));
    }
    group
}

/// The refusal stays after a restart, whatever is asked, and no secret is left.
fn assert_given_up(member: &Member, refusal: Refusal) {
    let mut restarted = Member::from_json(&member.to_json()).unwrap();
    assert_eq!(restarted.refusal(), Some(refusal));
    let inbox = Inbox::default();
    assert_eq!(restarted.inbox(&inbox, None), Err(refusal.into()));
    assert!(restarted.secrets.is_none());
}

fn refusal_of_group(change: impl FnOnce(&mut Coordinator), answer: impl FnOnce(&mut Formed)) -> Refusal {
    let mut group = five(0);
    change(&mut group.coordinator);
    let mut formed = group.coordinator.formed(0);
    answer(&mut formed);
    let (member, key) = (&mut group.members[0], &group.keys[0]);
    let result = member.formed(&formed, signers(key), &mut entropy(9));
    let Err(MemberError::Refused(refusal)) = result else { panic!("{result:?}") };
    assert_given_up(member, refusal);
    refusal
}

fn of_context(change: impl FnOnce(&mut Context)) -> Refusal {
    refusal_of_group(|_| (), |formed| change(&mut formed.context))
}

#[test]
fn another_job_model_or_plan_is_refused() {
    assert_eq!(of_context(|context| context.job = JobId::from_random([9; 16])), Refusal::Job);
    assert_eq!(of_context(|context| context.round = 8), Refusal::Job);
    assert_eq!(of_context(|context| context.model = Sha256Hash::of(b"a poisoned model")), Refusal::Model);
    assert_eq!(of_context(|context| context.plan = Sha256Hash::of(b"another plan")), Refusal::Plan);
}

#[test]
fn parameters_that_are_not_safe_are_refused() {
    assert_eq!(of_context(|context| context.length = LENGTH + 1), Refusal::Parameters);
    let narrow = |context: &mut Context| context.degree = 1;
    assert_eq!(of_context(narrow), Refusal::Parameters);
    let few = |context: &mut Context| context.threshold = 1;
    assert_eq!(of_context(few), Refusal::Parameters);
}

#[test]
fn a_group_below_the_floor_is_refused() {
    let mut group = five(0);
    group.members[0].terms.members_min = 6;
    let formed = group.coordinator.formed(0);
    let result = group.members[0].formed(&formed, signers(&group.keys[0]), &mut entropy(9));
    assert_eq!(result, Err(Refusal::Members { given: 5, least: 6 }.into()));
}

#[test]
fn a_roster_without_the_client_or_with_a_record_twice_is_refused() {
    assert_eq!(refusal_of_group(|_| (), |formed| formed.index = 1), Refusal::Roster);
    assert_eq!(refusal_of_group(|_| (), |formed| formed.index = 77), Refusal::Roster);
    assert_eq!(refusal_of_group(|_| (), |formed| formed.records[0] = Sha256Hash([7; 32])), Refusal::Roster);
    assert_eq!(refusal_of_group(|_| (), |formed| formed.records[1] = formed.records[2]), Refusal::Roster);
}

#[test]
fn neighbours_that_do_not_follow_from_the_roster_are_refused() {
    let missing = |formed: &mut Formed| drop(formed.neighbours.remove(1));
    assert_eq!(refusal_of_group(|_| (), missing), Refusal::Neighbour(2));
    let foreign = |formed: &mut Formed| formed.neighbours[3].record.nonce = [9; 32];
    assert_eq!(refusal_of_group(|_| (), foreign), Refusal::Neighbour(4));
    let further = |formed: &mut Formed| {
        let mut further = formed.neighbours[0].clone();
        further.index = 9;
        formed.neighbours.push(further);
    };
    assert_eq!(refusal_of_group(|_| (), further), Refusal::Neighbour(9));
}

/// A record of an earlier group has other hashes around it, so it gives another roster: nothing that was signed for the
/// earlier one is accepted in this one.
#[test]
fn a_signature_of_an_earlier_roster_is_refused() {
    let mut earlier = five(0);
    earlier.coordinator.context.group = GroupId::from_random([9; 16]);
    (0..5).for_each(|index| earlier.share(index));
    let mut group = five(1);
    let mut inbox = group.coordinator.inbox(0);
    inbox.letters[2].signature = earlier.coordinator.shares[&3].signature;
    let result = group.members[0].inbox(&inbox, signers(&group.keys[0]));
    assert_eq!(result, Err(Refusal::Signature(3).into()));
    assert_given_up(&group.members[0], Refusal::Signature(3));
}

#[test]
fn a_certificate_of_another_ca_or_of_another_record_is_refused() {
    let foreign = |formed: &mut Formed| formed.neighbours[1].certificate = certificate(4);
    assert_eq!(refusal_of_group(|_| (), foreign), Refusal::Certificate(2));
    let other_ca = |coordinator: &mut Coordinator| {
        let forged = b"another CA".to_vec();
        coordinator.records[2].certificate = Sha256Hash::of(&forged);
        coordinator.certificates[2] = forged;
        let (context, records) = (coordinator.context, coordinator.records.clone());
        *coordinator = Coordinator::new(context, records, coordinator.certificates.clone());
    };
    assert_eq!(refusal_of_group(other_ca, |_| ()), Refusal::Certificate(2));
}

#[test]
fn a_certificate_that_two_members_have_is_refused() {
    for (one, other, named) in [(2, 3, 3), (0, 2, 2)] {
        let repeated = |coordinator: &mut Coordinator| {
            let shared = coordinator.certificates[one].clone();
            coordinator.records[other].certificate = Sha256Hash::of(&shared);
            coordinator.certificates[other] = shared;
            let (context, records) = (coordinator.context, coordinator.records.clone());
            *coordinator = Coordinator::new(context, records, coordinator.certificates.clone());
        };
        assert_eq!(refusal_of_group(repeated, |_| ()), Refusal::RepeatedCertificate(named));
    }
}

#[test]
fn a_key_of_low_order_is_refused() {
    for change in [|record: &mut Record| record.s_pk = [0; 32], |record: &mut Record| record.c_pk = [0; 32]] {
        let weak = |coordinator: &mut Coordinator| {
            change(&mut coordinator.records[4]);
            let (context, records) = (coordinator.context, coordinator.records.clone());
            *coordinator = Coordinator::new(context, records, coordinator.certificates.clone());
        };
        assert_eq!(refusal_of_group(weak, |_| ()), Refusal::Key(4));
    }
}

#[test]
fn a_second_group_for_one_update_is_refused() {
    for stages in [1, 2, 3] {
        let mut group = five(stages);
        let mut formed = group.coordinator.formed(0);
        formed.context.group = GroupId::from_random([3; 16]);
        let result = group.members[0].formed(&formed, signers(&group.keys[0]), &mut entropy(9));
        assert_eq!(result, Err(Refusal::SecondGroup.into()), "{stages}");
        assert_given_up(&group.members[0], Refusal::SecondGroup);
    }
}

#[test]
fn an_inbox_with_strangers_too_few_senders_or_others_than_before_is_refused() {
    let mut group = five(1);
    let whole = group.coordinator.inbox(0);
    let refused = |member: &Member, inbox: &Inbox| {
        let mut member = member.clone();
        let result = member.inbox(inbox, signers(&group.keys[0]));
        let Err(MemberError::Refused(refusal)) = result else { panic!("{result:?}") };
        assert_given_up(&member, refusal);
        refusal
    };
    let mut stranger = whole.clone();
    stranger.letters[3].from = 9;
    assert_eq!(refused(&group.members[0], &stranger), Refusal::Neighbour(9));
    // 0.4 of the five members may be lost: two, so the shares of two others are demanded.
    let mut few = whole.clone();
    few.letters.truncate(1);
    assert_eq!(refused(&group.members[0], &few), Refusal::Inbox { given: 1, least: 2 });
    let mut damaged = whole.clone();
    damaged.letters.truncate(2);
    damaged.letters[0].ciphertext[0] ^= 1;
    assert_eq!(refused(&group.members[0], &damaged), Refusal::Inbox { given: 1, least: 2 });
    let mut swapped = whole.clone();
    swapped.letters.truncate(3);
    swapped.letters[0].ciphertext = whole.letters[1].ciphertext;
    swapped.letters[1].ciphertext = whole.letters[0].ciphertext;
    assert_eq!(refused(&group.members[0], &swapped), Refusal::Inbox { given: 1, least: 2 });
    group.members[0].inbox(&whole, signers(&group.keys[0])).unwrap();
    let mut other = whole.clone();
    other.letters.truncate(3);
    assert_eq!(refused(&group.members[0], &other), Refusal::SecondInbox);
}

#[test]
fn another_update_under_the_same_masks_is_refused() {
    let mut group = five(2);
    let member = &mut group.members[0];
    let other = vec![1; LENGTH as usize];
    assert_eq!(member.masked(Words::of(BITS, &other), vec![1, 2]), Err(Refusal::SecondUpdate.into()));
    assert_given_up(member, Refusal::SecondUpdate);
}

#[test]
fn an_update_that_does_not_fit_is_no_decision() {
    let mut group = five(1);
    let inbox = group.coordinator.inbox(0);
    let member = &mut group.members[0];
    member.inbox(&inbox, signers(&group.keys[0])).unwrap();
    let long = Words::zeros(BITS, LENGTH as usize + 1);
    assert_eq!(member.masked(long, Vec::new()), Err(MemberError::Update));
    assert_eq!(member.masked(Words::zeros(BITS + 1, 3), Vec::new()), Err(MemberError::Update));
    assert_eq!(member.masked(Words::zeros(BITS, 3), vec![0; 257]), Err(MemberError::Update));
    assert!(member.masked(Words::zeros(BITS, 3), Vec::new()).is_ok());
}

#[test]
fn survivors_below_the_floor_or_without_the_client_are_refused() {
    for (survivors, refusal) in [
        (Survivors::new(5, [0, 1]), Refusal::Survivors { given: 2, least: 3 }),
        (Survivors::new(5, [1, 2, 3, 4]), Refusal::Lost),
        (Survivors::new(6, [0, 1, 2, 3, 4]), Refusal::Survivors { given: 0, least: 3 }),
    ] {
        let mut group = five(2);
        let result = group.members[0].survivors(&survivors, signers(&group.keys[0]));
        assert_eq!(result, Err(refusal.into()));
        assert_given_up(&group.members[0], refusal);
    }
    let mut group = five(2);
    group.members[0].terms.survivors_min = 5;
    let result = group.members[0].survivors(&Survivors::new(5, 0..4), signers(&group.keys[0]));
    assert_eq!(result, Err(Refusal::Survivors { given: 4, least: 5 }.into()));
}

/// With both sets the coordinator would get `b` and `s` of member 4, and with them its update.
#[test]
fn both_kinds_of_share_of_one_neighbour_are_never_given() {
    for is_unmasked in [false, true] {
        let mut group = five(3);
        if is_unmasked {
            let unmask = group.unmask(0);
            assert!(unmask.shares.iter().all(|share| share.kind == ShareKind::SelfMask));
        }
        let json = String::from_utf8(group.members[0].to_json().to_vec()).unwrap();
        let member = &mut group.members[0];
        *member = Member::from_json(json.as_bytes()).unwrap();
        assert!(member.secrets.is_none());
        let result = member.survivors(&Survivors::new(5, 0..4), signers(&group.keys[0]));
        assert_eq!(result, Err(Refusal::SecondSurvivors.into()));
        assert_given_up(member, Refusal::SecondSurvivors);
    }
}

/// The shares that may not be given are not in the store any more.
#[test]
fn the_decision_erases_the_shares_of_the_other_kind() {
    let mut group = five(2);
    let before = String::from_utf8(group.members[0].to_json().to_vec()).unwrap();
    group.coordinator.bodies.remove(&4);
    group.agree(0);
    let after = String::from_utf8(group.members[0].to_json().to_vec()).unwrap();
    let stored: serde_json::Value = serde_json::from_str(&before).unwrap();
    let held = stored["stage"]["masking"]["held"].as_array().unwrap();
    assert_eq!(held.len(), 4);
    for held in held {
        let is_lost = held["from"] == 4;
        let (given, kept) = if is_lost { ("s", "b") } else { ("b", "s") };
        assert!(after.contains(held[given].as_str().unwrap()));
        assert!(!after.contains(held[kept].as_str().unwrap()));
    }
    for own in ["s", "c", "b"] {
        assert!(!after.contains(stored["secrets"][own].as_str().unwrap()));
    }
}

#[test]
fn survivors_that_too_few_signed_are_refused() {
    let refusal = |change: fn(&mut Coordinator)| {
        let mut group = five(3);
        change(&mut group.coordinator);
        let agreement = group.coordinator.agreement(0);
        let result = group.members[0].agreement(&agreement, signers(&group.keys[0]));
        if let Err(MemberError::Refused(refusal)) = &result {
            assert_given_up(&group.members[0], *refusal);
        }
        result.map(|unmask| unmask.shares.len())
    };
    // floor((5 + 0.5) / 2) + 1 of five.
    let few = |given| Err(Refusal::Quorum { given, least: 3 }.into());
    assert_eq!(refusal(|coordinator| coordinator.signatures.retain(|index, _| *index < 3)), Ok(4));
    assert_eq!(refusal(|coordinator| coordinator.signatures.retain(|index, _| *index < 2)), few(2));
    assert_eq!(refusal(|coordinator| coordinator.signatures.clear()), few(1));
    let forged = |coordinator: &mut Coordinator| {
        coordinator.signatures.retain(|index, _| *index < 3);
        coordinator.signatures.insert(2, [7; 64]);
    };
    assert_eq!(refusal(forged), few(2));
    let of_others = |coordinator: &mut Coordinator| {
        let other = Survivors::new(5, 0..4).hash(&coordinator.roster.hash());
        for index in 1..5 {
            coordinator.signatures.insert(index, signature(&certificate(index), &survivors_message(&other)));
        }
    };
    assert_eq!(refusal(of_others), few(1));
}

/// In a sparse group most signers are strangers: their records must be in the roster, and their certificates trusted.
#[test]
fn strangers_count_for_the_quorum_only_with_their_records_and_certificates() {
    let mut group = Group::new(GroupTrust::Signed, 12, Some(4));
    (0..12).for_each(|index| group.share(index));
    (0..12).for_each(|index| group.mask(index));
    (0..12).for_each(|index| group.agree(index));
    let whole = group.coordinator.agreement(0);
    assert_eq!((whole.signatures.len(), whole.strangers.len()), (12, 7));
    let refused = |change: fn(&mut tributary_protocol::secure::messages::Neighbour)| {
        let (mut agreement, mut member) = (whole.clone(), group.members[0].clone());
        agreement.strangers.iter_mut().for_each(change);
        member.agreement(&agreement, signers(&group.keys[0])).map(drop)
    };
    let few = Err(Refusal::Quorum { given: 5, least: 7 }.into());
    assert_eq!(refused(|_| ()), Ok(()));
    assert_eq!(refused(|stranger| stranger.record.nonce = [1; 32]), few);
    assert_eq!(refused(|stranger| stranger.certificate = b"trusted anybody".to_vec()), few);
    assert_eq!(refused(|stranger| stranger.index = 50), few);
}

#[test]
fn a_locked_key_or_missing_entropy_decides_nothing() {
    let mut group = five(0);
    let formed = group.coordinator.formed(0);
    let member = &mut group.members[0];
    let locked = Some(Signers { keys: &LockedKey, peers: &TestPeers });
    assert!(matches!(member.formed(&formed, locked, &mut entropy(9)), Err(MemberError::Key(_))));
    assert_eq!(member.formed(&formed, None, &mut entropy(9)), Err(MemberError::NoSigners));
    let mut none = |_: &mut [u8]| Err(super::super::EntropyError("none".into()));
    let result = member.formed(&formed, signers(&group.keys[0]), &mut none);
    assert!(matches!(result, Err(MemberError::Entropy(_))));
    assert_eq!(member.refusal(), None);
    assert!(member.formed(&formed, signers(&group.keys[0]), &mut entropy(9)).is_ok());
}

#[test]
fn answers_of_another_stage_and_damaged_members_are_errors_and_no_refusals() {
    let mut group = five(1);
    let survivors = Survivors::new(5, 0..5);
    let member = &mut group.members[0];
    assert_eq!(member.survivors(&survivors, signers(&group.keys[0])), Err(MemberError::Stage));
    assert_eq!(member.masked(Words::zeros(BITS, 1), Vec::new()), Err(MemberError::Stage));
    assert_eq!(member.refusal(), None);
    for json in [&b""[..], b"{}", &member.to_json()[1..]] {
        assert!(matches!(Member::from_json(json), Err(MemberError::Stored)));
    }
    let fresh = Member::join(terms(GroupTrust::Honest), &[], &mut entropy(1)).unwrap();
    assert!(format!("{fresh:?}").contains("SecretBytes(..)"));
}
