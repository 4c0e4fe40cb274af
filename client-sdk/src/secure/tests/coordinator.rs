//! A coordinator in memory: it keeps what members send, and answers.

use std::collections::BTreeMap;

use tributary_protocol::secure::messages::{Agreement, Formed, Inbox, Letter, Neighbour, Shares, Unmask};
use tributary_protocol::secure::open::{Opened, Opening};
use tributary_protocol::secure::packed::Unpacker;
use tributary_protocol::secure::signing::Signature;
use tributary_protocol::secure::{Context, Record, Roster, Survivors, Words};

/// A group as the coordinator sees it.
pub(super) struct Coordinator {
    pub(super) context: Context,
    pub(super) records: Vec<Record>,
    pub(super) certificates: Vec<Vec<u8>>,
    pub(super) roster: Roster,
    pub(super) shares: BTreeMap<u16, Shares>,
    pub(super) bodies: BTreeMap<u16, Vec<u8>>,
    pub(super) signatures: BTreeMap<u16, Signature>,
    pub(super) unmasks: BTreeMap<u16, Unmask>,
}

impl Coordinator {
    pub(super) fn new(context: Context, records: Vec<Record>, certificates: Vec<Vec<u8>>) -> Self {
        let hashes: Vec<_> = records.iter().map(Record::hash).collect();
        let roster = Roster::new(&context, &hashes).unwrap();
        let (shares, bodies) = (BTreeMap::new(), BTreeMap::new());
        let (signatures, unmasks) = (BTreeMap::new(), BTreeMap::new());
        Self { context, records, certificates, roster, shares, bodies, signatures, unmasks }
    }

    pub(super) fn neighbour(&self, index: u16) -> Neighbour {
        let certificate = self.certificates[usize::from(index)].clone();
        Neighbour { index, record: self.records[usize::from(index)], certificate }
    }

    pub(super) fn formed(&self, index: u16) -> Formed {
        Formed {
            context: self.context,
            records: self.records.iter().map(Record::hash).collect(),
            index,
            neighbours: self.roster.neighbours(index).into_iter().map(|index| self.neighbour(index)).collect(),
        }
    }

    pub(super) fn inbox(&self, index: u16) -> Inbox {
        let letter = |(from, shares): (&u16, &Shares)| {
            let (_, ciphertext) = shares.shares.iter().find(|(to, _)| *to == index)?;
            Some(Letter { from: *from, signature: shares.signature, ciphertext: *ciphertext })
        };
        Inbox { letters: self.shares.iter().filter_map(letter).collect() }
    }

    pub(super) fn survivors(&self) -> Survivors {
        Survivors::new(self.roster.members(), self.bodies.keys().copied())
    }

    pub(super) fn agreement(&self, index: u16) -> Agreement {
        let strangers = self.signatures.keys().filter(|other| **other != index);
        let strangers = strangers.filter(|other| !self.roster.are_neighbours(index, **other));
        Agreement {
            signatures: self.signatures.iter().map(|(index, signature)| (*index, *signature)).collect(),
            strangers: strangers.map(|other| self.neighbour(*other)).collect(),
        }
    }

    /// The opened sum of values, and of slots.
    pub(super) fn sum(&self, slots: usize) -> (Vec<i64>, Vec<u64>) {
        let sharers = Survivors::new(self.roster.members(), self.shares.keys().copied());
        let survivors = self.survivors();
        let opening = Opening {
            context: &self.context,
            roster: &self.roster,
            records: &self.records,
            sharers: &sharers,
            survivors: &survivors,
        };
        for (giver, unmask) in &self.unmasks {
            opening.check(*giver, unmask).unwrap();
        }
        let Opened { masks, liars } = opening.open(&self.unmasks).unwrap();
        assert_eq!(liars, [0; 0]);
        let length = self.context.length as usize;
        let (mut sum, mut slot_sum) = (Words::zeros(self.context.bits, length), vec![0u64; slots]);
        for body in self.bodies.values() {
            let (bits, length) = (self.context.bits, self.context.length);
            let mut unpacker = Unpacker::new(self.roster.hash(), bits, length, slots);
            let mut first = 0;
            unpacker
                .read(body, |values| {
                    sum.add(first, values);
                    first += values.len();
                })
                .unwrap();
            let body_slots = unpacker.finish().unwrap();
            slot_sum.iter_mut().zip(body_slots).for_each(|(sum, slot)| *sum = sum.wrapping_add(slot));
        }
        masks.apply(0, &mut sum.as_mut());
        masks.apply_to_slots(&mut slot_sum);
        (sum.signed(0..length), slot_sum)
    }
}
