//! Groups that end well, with members lost at each stage and a restart after each step.

use tributary_protocol::secure::messages::{Shares, Unmask};
use tributary_protocol::secure::quantise::Quantiser;
use tributary_protocol::secure::{Record, Words};
use tributary_protocol::seed::SecretStream;

use super::super::{GroupTrust, Member, Next, Signers};
use super::coordinator::Coordinator;
use super::fixtures::{BITS, LENGTH, TestKey, TestPeers, certificate, context, entropy, terms};

/// Members with their keys, and their coordinator.
pub(super) struct Group {
    pub(super) trust: GroupTrust,
    pub(super) members: Vec<Member>,
    pub(super) keys: Vec<TestKey>,
    pub(super) coordinator: Coordinator,
}

impl Group {
    pub(super) fn new(trust: GroupTrust, count: u16, degree: Option<u16>) -> Self {
        let certificates: Vec<_> = match trust {
            GroupTrust::Honest => vec![Vec::new(); usize::from(count)],
            GroupTrust::Signed => (0..count).map(certificate).collect(),
        };
        let join = |(index, certificate): (u16, &Vec<u8>)| {
            Member::join(terms(trust), certificate, &mut entropy(index)).unwrap()
        };
        let members: Vec<_> = (0..).zip(&certificates).map(join).collect();
        let records = members.iter().map(|member| Record::from_bytes(member.record()).unwrap()).collect();
        let keys = certificates.iter().cloned().map(TestKey).collect();
        let coordinator = Coordinator::new(context(count, degree), records, certificates);
        Self { trust, members, keys, coordinator }
    }

    /// Runs a step on a member twice, from its stored state each time: both give the same.
    pub(super) fn step<T: PartialEq + std::fmt::Debug>(
        &mut self,
        index: u16,
        step: impl Fn(&mut Member, Option<Signers<'_>>) -> T,
    ) -> T {
        let key = &self.keys[usize::from(index)];
        let signers = Signers { keys: key, peers: &TestPeers };
        let signers = (self.trust == GroupTrust::Signed).then_some(signers);
        let member = &mut self.members[usize::from(index)];
        let mut restarted = || {
            *member = Member::from_json(&member.to_json()).unwrap();
            step(member, signers)
        };
        let first = restarted();
        assert_eq!(restarted(), first, "member {index}");
        first
    }

    pub(super) fn share(&mut self, index: u16) {
        let answer = self.coordinator.formed(index);
        let shares = self.step(index, |member, signers| member.formed(&answer, signers, &mut entropy(1000 + index)));
        self.coordinator.shares.insert(index, Shares::from_bytes(&shares.unwrap()).unwrap());
    }

    pub(super) fn mask(&mut self, index: u16) {
        let inbox = self.coordinator.inbox(index);
        let taken = self.step(index, |member, signers| member.inbox(&inbox, signers)).unwrap();
        assert_eq!(taken.damaged, [0; 0]);
        let (values, slots) = (values(index), slots(index));
        let body = self.step(index, |member, _| member.masked(Words::of(BITS, &values), slots.to_vec())).unwrap();
        self.coordinator.bodies.insert(index, body);
    }

    pub(super) fn agree(&mut self, index: u16) {
        let survivors = self.coordinator.survivors();
        match self.step(index, |member, signers| member.survivors(&survivors, signers)).unwrap() {
            Next::Agreement(signature) => drop(self.coordinator.signatures.insert(index, *signature)),
            Next::Unmask(unmask) => drop(self.coordinator.unmasks.insert(index, unmask)),
        }
    }

    pub(super) fn unmask(&mut self, index: u16) -> Unmask {
        let agreement = self.coordinator.agreement(index);
        let unmask = self.step(index, |member, signers| member.agreement(&agreement, signers)).unwrap();
        self.coordinator.unmasks.insert(index, unmask.clone());
        unmask
    }

    /// Members that go on to each of the four stages, from those of the one before.
    fn run(&mut self, stages: [&[u16]; 4]) {
        let [sharing, masking, agreeing, unmasking] = stages;
        sharing.iter().for_each(|index| self.share(*index));
        masking.iter().for_each(|index| self.mask(*index));
        agreeing.iter().for_each(|index| self.agree(*index));
        if self.trust == GroupTrust::Signed {
            unmasking.iter().for_each(|index| drop(self.unmask(*index)));
        }
    }

    fn assert_sum(&self, survivors: &[u16]) {
        let (sum, slot_sum) = self.coordinator.sum(2);
        for (place, sum) in sum.into_iter().enumerate() {
            assert_eq!(sum, survivors.iter().map(|index| values(*index)[place]).sum::<i64>());
        }
        assert_eq!(slot_sum, [0, 1].map(|slot| survivors.iter().map(|index| slots(*index)[slot]).sum::<u64>()));
    }
}

fn values(index: u16) -> Vec<i64> {
    (0..i64::from(LENGTH)).map(|place| (place * 7 + i64::from(index) * 31) % 201 - 100).collect()
}

fn slots(index: u16) -> [u64; 2] {
    [1, 1_000_000 + u64::from(index)]
}

#[test]
fn groups_of_every_size_open_to_their_sum() {
    for trust in [GroupTrust::Honest, GroupTrust::Signed] {
        for count in 3..=12 {
            let all: Vec<_> = (0..count).collect();
            let mut group = Group::new(trust, count, None);
            group.run([&all; 4]);
            group.assert_sum(&all);
        }
    }
}

#[test]
fn members_may_be_lost_at_each_stage() {
    for trust in [GroupTrust::Honest, GroupTrust::Signed] {
        for (count, degree) in [(8, None), (12, Some(8)), (12, None)] {
            let without = |lost: &[u16]| (0..count).filter(|index| !lost.contains(index)).collect::<Vec<_>>();
            let (all, one, two, three) = (without(&[]), without(&[3]), without(&[3, 5]), without(&[3, 5, 0]));
            for stages in [
                [&one, &one, &one, &one],
                [&all, &one, &one, &one],
                [&one, &two, &two, &two],
                [&all, &all, &one, &one],
                [&all, &all, &all, &one],
                [&one, &two, &three, &three],
            ] {
                let mut group = Group::new(trust, count, degree);
                group.run(stages.map(Vec::as_slice));
                group.assert_sum(stages[1]);
            }
        }
    }
}

#[test]
fn a_member_that_ended_has_no_secrets_and_answers_nothing() {
    let mut group = Group::new(GroupTrust::Honest, 3, None);
    let all = [0, 1, 2];
    group.run([&all; 4]);
    let survivors = group.coordinator.survivors();
    let member = &mut group.members[0];
    member.end();
    assert!(member.survivors(&survivors, None).is_err());
    assert!(!String::from_utf8(member.to_json().to_vec()).unwrap().contains("share"));
}

/// A share that was damaged on its way is missing at its receiver, and the sum opens with the others.
#[test]
fn a_damaged_share_is_named_and_the_group_goes_on() {
    let mut group = Group::new(GroupTrust::Signed, 6, None);
    let all: Vec<_> = (0..6).collect();
    all.iter().for_each(|index| group.share(*index));
    group.coordinator.shares.get_mut(&2).unwrap().shares[0].1[5] ^= 1;
    let inbox = group.coordinator.inbox(0);
    let taken = group.step(0, |member, signers| member.inbox(&inbox, signers)).unwrap();
    assert_eq!((taken.neighbours, taken.damaged), (vec![1, 3, 4, 5], vec![2]));
    let body = group.step(0, |member, _| member.masked(Words::of(BITS, &values(0)), slots(0).to_vec())).unwrap();
    group.coordinator.bodies.insert(0, body);
    (1..6).for_each(|index| group.mask(index));
    all.iter().for_each(|index| group.agree(*index));
    all.iter().for_each(|index| drop(group.unmask(*index)));
    assert_eq!(group.coordinator.unmasks[&0].shares.len(), 4);
    group.assert_sum(&all);
}

/// From deltas to their sum, with half of the coordinates and a member that is lost: what the coordinator restores is
/// near the true sum.
#[test]
fn deltas_go_through_masks_and_come_back_as_their_sum() {
    const VALUES: usize = 200;
    let (mut group, mut random) = (Group::new(GroupTrust::Honest, 7, None), SecretStream::of([5; 32]));
    let quantiser = Quantiser::new(VALUES, 2.0, 64, 0.5).unwrap();
    assert_eq!(quantiser.coordinates(), LENGTH);
    (0..7).for_each(|index| group.share(index));
    let mut truth = [0.0; VALUES];
    for index in 0..6 {
        let inbox = group.coordinator.inbox(index);
        group.step(index, |member, signers| member.inbox(&inbox, signers)).unwrap();
        // One direction for all, so that the sum stands out from what thinning adds.
        let value = |place: usize, noise: f64| ((place % 7) as f32 - 3.0) * 0.03 + noise as f32 * 0.01;
        let delta: Vec<f32> = (0..VALUES).map(|place| value(place, random.unit())).collect();
        truth.iter_mut().zip(&delta).for_each(|(sum, value)| *sum += f64::from(*value));
        let roster = group.members[usize::from(index)].roster().unwrap();
        let values = quantiser.quantise(&delta, &roster, &mut random).unwrap().values;
        let body = group.step(index, |member, _| member.masked(Words::of(BITS, &values), vec![1, 0])).unwrap();
        group.coordinator.bodies.insert(index, body);
    }
    (0..6).for_each(|index| group.agree(index));
    let roster = group.coordinator.roster.hash();
    group.coordinator.context.length = quantiser.body_values(&roster) as u32;
    let (sum, slots) = group.coordinator.sum(2);
    assert_eq!(slots, [6, 0]);
    let restored = quantiser.restore(&sum, &roster).unwrap();
    let length = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
    let product: f64 = restored.iter().zip(truth).map(|(value, truth)| value * truth).sum();
    let lengths = length(&mut restored.iter().copied()) * length(&mut truth.into_iter());
    // Half of the coordinates keep half of the squared norm.
    assert!(product / lengths > 0.6, "{}", product / lengths);
}
