//! The coordinator's opening of a sum: from shares to secrets, and to the masks that are left in the sum.
//!
//! Everything is pure. Secrets may be rebuilt, and masks taken off in blocks, on as many threads as the caller has.

use std::collections::BTreeMap;

use super::context::Context;
use super::keys::{SecretBytes, agree, mask_key, mask_slots_key, public_key, self_key, self_slots_key};
use super::mask::{Mask, Masks, Sign};
use super::messages::{ShareKind, Unmask};
use super::record::{Record, commitment};
use super::roster::Roster;
use super::shamir::{combine, interpolate};
use super::survivors::Survivors;
use crate::seed::Seed;

/// Most sets of shares from which the rebuilding of one secret is tried.
pub const ATTEMPTS_MAX: usize = 100;

/// A group whose sum is to be opened.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// What the group computes.
    pub context: &'a Context,
    /// Its roster.
    pub roster: &'a Roster,
    /// The records of all members, by index.
    pub records: &'a [Record],
    /// The members that sent shares. The others are in nobody's masks.
    pub sharers: &'a Survivors,
    /// The members whose bodies are in the sum. All of them sent shares.
    pub survivors: &'a Survivors,
}

/// The shares that survivors gave, by giver.
pub type Unmasks = BTreeMap<u16, Unmask>;

/// Why shares of a member are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShareRefused {
    /// It is no survivor.
    #[error("member {0} is no survivor")]
    Giver(u16),
    /// It gave a share of a member that is no neighbour of it, or that sent no shares.
    #[error("member {giver} holds no share of member {owner}")]
    Owner {
        /// Who gave the share.
        giver: u16,
        /// Whose share it is.
        owner: u16,
    },
    /// It gave a share of the wrong secret: `b` of a lost member, or `s` of a survivor.
    #[error("member {giver} gave a share of the wrong secret of member {owner}")]
    Kind {
        /// Who gave the share.
        giver: u16,
        /// Whose share it is.
        owner: u16,
    },
}

/// Why a sum cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// A secret has fewer shares than rebuild it.
    #[error("the secret of member {owner} has {given} shares and needs {needed}")]
    TooFewShares {
        /// The member.
        owner: u16,
        /// Shares that were given.
        given: u16,
        /// Shares that rebuild the secret.
        needed: u16,
    },
    /// No set of shares that was tried gives the secret.
    #[error("some of the shares of member {owner} are false")]
    FalseShares {
        /// The member.
        owner: u16,
    },
    /// A member's key gives no masks.
    #[error("the key of member {0} is a point of low order")]
    Key(u16),
}

/// A secret that was rebuilt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebuilt {
    /// The member.
    pub owner: u16,
    /// Which of its secrets.
    pub kind: ShareKind,
    /// The secret.
    pub secret: SecretBytes,
    /// Members whose shares of it are false.
    pub liars: Vec<u16>,
}

/// What opens a sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Masks that take off those that are left in the sum of the survivors' bodies.
    pub masks: Masks,
    /// Members that gave false shares, by index.
    pub liars: Vec<u16>,
}

impl Opening<'_> {
    /// The secrets that the sum needs: `b` of each survivor, and `s` of each member that was lost after it had sent
    /// shares. Without surviving neighbours, none of its masks is in the sum.
    pub fn needed(&self) -> Vec<(u16, ShareKind)> {
        let needed = |owner| match self.survivors.contains(owner) {
            true => Some((owner, ShareKind::SelfMask)),
            false if self.surviving_neighbours(owner).next().is_none() => None,
            false => Some((owner, ShareKind::MaskKey)),
        };
        self.sharers.indexes().filter_map(needed).collect()
    }

    /// Checks the shares that a member gives.
    ///
    /// # Errors
    /// [`ShareRefused`] if one is not its to give, or of the wrong secret.
    pub fn check(&self, giver: u16, unmask: &Unmask) -> Result<(), ShareRefused> {
        if !self.survivors.contains(giver) {
            return Err(ShareRefused::Giver(giver));
        }
        for share in &unmask.shares {
            let owner = share.owner;
            if !self.sharers.contains(owner) || !self.roster.are_neighbours(giver, owner) {
                return Err(ShareRefused::Owner { giver, owner });
            }
            let is_survivor = self.survivors.contains(owner);
            if (share.kind == ShareKind::SelfMask) != is_survivor {
                return Err(ShareRefused::Kind { giver, owner });
            }
        }
        Ok(())
    }

    /// Whether each secret that is needed has as many shares as rebuild it.
    pub fn is_ready(&self, unmasks: &Unmasks) -> bool {
        let mut given: BTreeMap<_, u16> = BTreeMap::new();
        for share in unmasks.values().flat_map(|unmask| &unmask.shares) {
            *given.entry((share.owner, share.kind)).or_default() += 1;
        }
        let is_enough = |secret| given.get(&secret).is_some_and(|given| *given >= self.context.threshold);
        self.needed().into_iter().all(is_enough)
    }

    /// Rebuilds one secret and checks it against the member's record. If it is wrong, other sets of shares are tried.
    ///
    /// # Errors
    /// [`OpenError`] if there are too few shares, or too many false ones.
    pub fn rebuild(&self, owner: u16, kind: ShareKind, unmasks: &Unmasks) -> Result<Rebuilt, OpenError> {
        let threshold = usize::from(self.context.threshold);
        let neighbours = self.roster.neighbours(owner);
        let given = neighbours.iter().zip(1..=u8::MAX).filter_map(|(giver, number)| {
            let shares = &unmasks.get(giver)?.shares;
            let share = shares.iter().find(|share| (share.owner, share.kind) == (owner, kind))?;
            Some((*giver, (number, &share.share)))
        });
        let (givers, shares): (Vec<u16>, Vec<(u8, &SecretBytes)>) = given.unzip();
        if shares.len() < threshold {
            let (given, needed) = (shares.len() as u16, self.context.threshold);
            return Err(OpenError::TooFewShares { owner, given, needed });
        }
        for subset in Subsets::new(shares.len(), threshold).take(ATTEMPTS_MAX) {
            let subset: Vec<_> = subset.into_iter().map(|place| shares[place]).collect();
            let secret = combine(&subset).expect("neighbours have different numbers from 1");
            if self.is_secret_of(owner, kind, &secret) {
                let is_false = |(number, share): &(u8, &SecretBytes)| {
                    interpolate(&subset, *number).is_ok_and(|true_share| true_share != **share)
                };
                let liars = givers.iter().zip(&shares).filter(|(_, share)| is_false(share));
                let liars = liars.map(|(giver, _)| *giver).collect();
                return Ok(Rebuilt { owner, kind, secret, liars });
            }
        }
        Err(OpenError::FalseShares { owner })
    }

    fn is_secret_of(&self, owner: u16, kind: ShareKind, secret: &SecretBytes) -> bool {
        let record = &self.records[usize::from(owner)];
        match kind {
            ShareKind::SelfMask => commitment(secret) == record.commitment,
            ShareKind::MaskKey => public_key(secret) == record.s_pk,
        }
    }

    /// The masks that take off what a rebuilt secret explains: a survivor's own mask, or those that survivors have with
    /// a lost member.
    ///
    /// # Errors
    /// [`OpenError::Key`] if a survivor's key gives no mask with the lost member.
    pub fn masks(&self, rebuilt: &Rebuilt) -> Result<Masks, OpenError> {
        let (hash, owner, secret) = (self.roster.hash(), rebuilt.owner, &rebuilt.secret);
        let mut masks = Masks::default();
        let mut push = |values, slots, sign| {
            masks.values.push(Mask { key: values, sign });
            masks.slots.push(Mask { key: slots, sign });
        };
        match rebuilt.kind {
            ShareKind::SelfMask => {
                push(self_key(secret, &hash, owner), self_slots_key(secret, &hash, owner), Sign::Minus);
            }
            ShareKind::MaskKey => {
                for survivor in self.surviving_neighbours(owner) {
                    let shared = agree(secret, &self.records[usize::from(survivor)].s_pk);
                    let shared = shared.map_err(|_| OpenError::Key(survivor))?;
                    let keys = [mask_key, mask_slots_key].map(|key| key(&shared, &hash, survivor, owner));
                    let [values, slots] = keys;
                    push(values, slots, Sign::of(survivor, owner).opposite());
                }
            }
        }
        Ok(masks)
    }

    /// Rebuilds all secrets, one after the other: all that is left to do is to apply the masks to the sum.
    ///
    /// # Errors
    /// [`OpenError`] of the first secret that cannot be rebuilt.
    pub fn open(&self, unmasks: &Unmasks) -> Result<Opened, OpenError> {
        let mut opened = Opened { masks: Masks::default(), liars: Vec::new() };
        for (owner, kind) in self.needed() {
            let rebuilt = self.rebuild(owner, kind, unmasks)?;
            opened.masks.extend(self.masks(&rebuilt)?);
            opened.liars.extend(rebuilt.liars);
        }
        opened.liars.sort_unstable();
        opened.liars.dedup();
        Ok(opened)
    }

    fn surviving_neighbours(&self, index: u16) -> impl Iterator<Item = u16> {
        self.roster.neighbours(index).into_iter().filter(|neighbour| self.survivors.contains(*neighbour))
    }
}

/// Sets of `size` of `count` places: the first ones; then all others where there are few, else random ones.
#[derive(Debug)]
struct Subsets {
    count: usize,
    next: Option<Vec<usize>>,
    are_few: bool,
    drawn: u64,
}

impl Subsets {
    fn new(count: usize, size: usize) -> Self {
        // The number of sets, counted no further than needed.
        let few = (0..size.min(count - size)).try_fold(1usize, |sets, place| {
            let sets = sets * (count - place) / (place + 1);
            (sets <= ATTEMPTS_MAX).then_some(sets)
        });
        Self { count, next: Some((0..size).collect()), are_few: few.is_some(), drawn: 0 }
    }

    /// The set after this one in lexicographic order.
    fn following(&self, set: &[usize]) -> Option<Vec<usize>> {
        let size = set.len();
        let moved = (0..size).rfind(|place| set[*place] < self.count - size + place)?;
        let mut next = set.to_vec();
        next.truncate(moved);
        next.extend((1..=size - moved).map(|step| set[moved] + step));
        Some(next)
    }

    fn drawn(&self, size: usize) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.count).collect();
        Seed(self.drawn).stream().shuffle(&mut places);
        places.truncate(size);
        places
    }
}

impl Iterator for Subsets {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        let set = self.next.take()?;
        self.drawn += 1;
        self.next = if self.are_few { self.following(&set) } else { Some(self.drawn(set.len())) };
        Some(set)
    }
}
