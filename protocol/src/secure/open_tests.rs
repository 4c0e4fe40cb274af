//! Whole groups: what the members send opens to the sum of their integers.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::keys::{agree, mask_key, mask_slots_key, public_key, self_key, self_slots_key};
use super::messages::{OpenShare, ShareKind, Unmask};
use super::open::{OpenError, Opening, ShareRefused, Unmasks};
use super::record::commitment;
use super::shamir::split;
use super::vectors::{context, record};
use super::{Context, Mask, Masks, Record, Roster, SecretBytes, Sign, Survivors, Words};
use crate::seed::SecretStream;

/// Values and slots.
type Sum = (Vec<u64>, Vec<u64>);

/// A group whose members keep their secrets in one place.
struct Group {
    context: Context,
    roster: Roster,
    records: Vec<Record>,
    secrets: Vec<(SecretBytes, SecretBytes)>,
    sharers: Survivors,
    survivors: Survivors,
    stream: SecretStream,
}

fn drawn(stream: &mut SecretStream) -> SecretBytes {
    SecretBytes::new(std::array::from_fn(|_| stream.next_u64() as u8))
}

impl Group {
    fn new(context: Context, members: u16, silent: &[u16], lost: &[u16], seed: u8) -> Self {
        let mut stream = SecretStream::of([seed; 32]);
        let secrets: Vec<_> = (0..members).map(|_| (drawn(&mut stream), drawn(&mut stream))).collect();
        let record = |(s, b): &(SecretBytes, SecretBytes)| Record {
            s_pk: public_key(s),
            commitment: commitment(b),
            ..record(0)
        };
        let records: Vec<_> = secrets.iter().map(record).collect();
        let hashes: Vec<_> = records.iter().map(Record::hash).collect();
        let roster = Roster::new(&context, &hashes).unwrap();
        let sharers = Survivors::new(members, (0..members).filter(|index| !silent.contains(index)));
        let survivors = Survivors::new(members, sharers.indexes().filter(|index| !lost.contains(index)));
        Self { context, roster, records, secrets, sharers, survivors, stream }
    }

    fn opening(&self) -> Opening<'_> {
        let Self { context, roster, records, sharers, survivors, .. } = self;
        Opening { context, roster, records, sharers, survivors }
    }

    fn masks(&self, index: u16) -> Masks {
        let (hash, (s, b)) = (self.roster.hash(), &self.secrets[usize::from(index)]);
        let mut masks = Masks::default();
        masks.values.push(Mask { key: self_key(b, &hash, index), sign: Sign::Plus });
        masks.slots.push(Mask { key: self_slots_key(b, &hash, index), sign: Sign::Plus });
        let others = self.roster.neighbours(index).into_iter().filter(|other| self.sharers.contains(*other));
        for other in others {
            let shared = agree(s, &self.records[usize::from(other)].s_pk).unwrap();
            let sign = Sign::of(index, other);
            masks.values.push(Mask { key: mask_key(&shared, &hash, index, other), sign });
            masks.slots.push(Mask { key: mask_slots_key(&shared, &hash, index, other), sign });
        }
        masks
    }

    /// What all survivors give.
    fn unmasks(&mut self) -> Unmasks {
        let mut unmasks: Unmasks =
            self.survivors.indexes().map(|index| (index, Unmask { shares: Vec::new() })).collect();
        for owner in self.sharers.indexes() {
            let is_survivor = self.survivors.contains(owner);
            let kind = if is_survivor { ShareKind::SelfMask } else { ShareKind::MaskKey };
            let coefficients: Vec<_> = (1..self.context.threshold).map(|_| drawn(&mut self.stream)).collect();
            let (s, b) = &self.secrets[usize::from(owner)];
            let shares = split(if is_survivor { b } else { s }, &coefficients, self.context.degree as u8);
            for (neighbour, share) in self.roster.neighbours(owner).into_iter().zip(shares) {
                if let Some(unmask) = unmasks.get_mut(&neighbour) {
                    unmask.shares.push(OpenShare { owner, kind, share });
                }
            }
        }
        unmasks
    }

    /// The opened sum of values and slots beside the true one.
    fn sums(&mut self) -> Result<[Sum; 2], OpenError> {
        let (bits, length) = (self.context.bits, self.context.length as usize);
        let (mut sum, mut truth) = (Words::zeros(bits, length), Words::zeros(bits, length));
        let (mut slot_sum, mut slot_truth) = ([0u64; 3], [0u64; 3]);
        let indexes: Vec<_> = self.survivors.indexes().collect();
        for index in indexes {
            let values: Vec<i64> = (0..length).map(|_| self.stream.next_u64() as i64).collect();
            let slots: [u64; 3] = std::array::from_fn(|_| self.stream.next_u64());
            let (mut words, mut masked_slots) = (Words::of(bits, &values), slots);
            truth.add(0, &words.values(0..length));
            self.masks(index).apply(0, &mut words.as_mut());
            self.masks(index).apply_to_slots(&mut masked_slots);
            sum.add(0, &words.values(0..length));
            for place in 0..3 {
                slot_sum[place] = slot_sum[place].wrapping_add(masked_slots[place]);
                slot_truth[place] = slot_truth[place].wrapping_add(slots[place]);
            }
        }
        let unmasks = self.unmasks();
        for (giver, unmask) in &unmasks {
            self.opening().check(*giver, unmask).unwrap();
        }
        let opened = self.opening().open(&unmasks)?;
        assert!(self.opening().is_ready(&unmasks));
        assert_eq!(opened.liars, [0; 0]);
        for (part, mut words) in sum.parts_mut(100).into_iter().enumerate() {
            opened.masks.apply(100 * part as u64, &mut words);
        }
        opened.masks.apply_to_slots(&mut slot_sum);
        Ok([(sum.values(0..length), slot_sum.to_vec()), (truth.values(0..length), slot_truth.to_vec())])
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Members that never shared, and members that are lost with their bodies, in any numbers that the threshold bears.
    #[test]
    fn the_opened_sum_is_the_sum_of_the_integers(
        members in 3u16..20, half_degree in 1u16..10, bits in 1u8..=64, length in 1u32..300, seed: u8,
        fates in prop::collection::vec(0u8..10, 20)) {
        let degree = (2 * half_degree).min(members - 1);
        let degree = if degree < members - 1 { degree - degree % 2 } else { degree };
        let threshold = (degree / 2 + 1).max(2);
        let context = Context { degree, threshold, bits, length, ..context() };
        let of = |fate| (0..members).filter(|index| fates[usize::from(*index)] == fate).collect::<Vec<_>>();
        let mut group = Group::new(context, members, &of(0), &of(1), seed);
        let opening = group.opening();
        let survived = |index: &u16| opening.survivors.contains(*index);
        let live = |owner| opening.roster.neighbours(owner).into_iter().filter(survived).count();
        let bears = opening.needed().into_iter().all(|(owner, _)| live(owner) >= usize::from(threshold));
        match group.sums() {
            Ok([sum, truth]) => {
                prop_assert!(bears);
                prop_assert_eq!(sum, truth);
            }
            Err(error) => prop_assert!(!bears && matches!(error, OpenError::TooFewShares { .. }), "{:?}", error),
        }
    }
}

#[test]
fn a_group_of_many_members_opens() {
    let context = Context { degree: 40, threshold: 20, bits: 15, length: 3, ..context() };
    let lost: Vec<u16> = (0..256).step_by(7).collect();
    let [sum, truth] = Group::new(context, 256, &[3, 4], &lost, 1).sums().unwrap();
    assert_eq!(sum, truth);
}

/// Ten members, all neighbours, of which six rebuild a secret; member 4 is lost.
fn ten() -> (Group, Unmasks) {
    let context = Context { degree: 9, threshold: 6, ..context() };
    let mut group = Group::new(context, 10, &[], &[4], 7);
    let unmasks = group.unmasks();
    (group, unmasks)
}

fn lie(unmasks: &mut Unmasks, liars: &[u16], owner: u16) {
    for liar in liars {
        let shares = &mut unmasks.get_mut(liar).unwrap().shares;
        shares.iter_mut().find(|share| share.owner == owner).unwrap().share = SecretBytes::new([9; 32]);
    }
}

#[test]
fn liars_are_named_and_the_secret_is_rebuilt_without_them() {
    for (owner, liars) in [(4, vec![0]), (4, vec![0, 1, 9]), (2, vec![0]), (2, vec![8, 9])] {
        let (group, mut unmasks) = ten();
        let honest = group.opening().open(&unmasks).unwrap();
        lie(&mut unmasks, &liars, owner);
        let opened = group.opening().open(&unmasks).unwrap();
        assert_eq!(opened.liars.into_iter().collect::<BTreeSet<_>>(), liars.into_iter().collect());
        assert_eq!(opened.masks, honest.masks);
    }
    let (group, mut unmasks) = ten();
    lie(&mut unmasks, &[0, 1, 2, 3], 4);
    assert_eq!(group.opening().open(&unmasks), Err(OpenError::FalseShares { owner: 4 }));
}

/// With many shares not all sets are tried, and one liar is left out by half of them.
#[test]
fn a_liar_among_many_is_named() {
    let context = Context { degree: 50, threshold: 25, ..context() };
    let mut group = Group::new(context, 60, &[], &[4], 7);
    let mut unmasks = group.unmasks();
    let liar = group.roster.neighbours(4)[3];
    lie(&mut unmasks, &[liar], 4);
    assert_eq!(group.opening().open(&unmasks).unwrap().liars, [liar]);
}

#[test]
fn a_secret_with_too_few_shares_is_named() {
    let (group, mut unmasks) = ten();
    for giver in [0, 1, 2, 3] {
        unmasks.get_mut(&giver).unwrap().shares.retain(|share| share.owner != 7);
    }
    assert!(!group.opening().is_ready(&unmasks));
    let error = OpenError::TooFewShares { owner: 7, given: 4, needed: 6 };
    // Nine others less the lost one are eight, and four of them gave nothing.
    assert_eq!(group.opening().open(&unmasks), Err(error));
}

#[test]
fn shares_that_are_not_a_members_to_give_are_refused() {
    let (group, unmasks) = ten();
    let opening = group.opening();
    assert_eq!(opening.check(4, &unmasks[&0]), Err(ShareRefused::Giver(4)));
    let refused = |owner, kind| {
        let share = OpenShare { owner, kind, share: SecretBytes::new([1; 32]) };
        opening.check(0, &Unmask { shares: vec![share] })
    };
    assert_eq!(refused(4, ShareKind::SelfMask), Err(ShareRefused::Kind { giver: 0, owner: 4 }));
    assert_eq!(refused(3, ShareKind::MaskKey), Err(ShareRefused::Kind { giver: 0, owner: 3 }));
    assert_eq!(refused(0, ShareKind::SelfMask), Err(ShareRefused::Owner { giver: 0, owner: 0 }));
    assert_eq!(refused(10, ShareKind::MaskKey), Err(ShareRefused::Owner { giver: 0, owner: 10 }));
    assert_eq!(refused(4, ShareKind::MaskKey), Ok(()));
}
