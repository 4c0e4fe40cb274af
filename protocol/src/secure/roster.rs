//! The members of a group, and who is whose neighbour: both follow from one hash, which nobody chooses.

use sha2::{Digest, Sha256};

use super::context::Context;
use super::{LABEL, MEMBERS_MAX, MEMBERS_MIN};
use crate::hash::Sha256Hash;

/// The hash of a group with its circle of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    hash: Sha256Hash,
    degree: u16,
    /// The indexes of all members in the order of the circle.
    circle: Vec<u16>,
    /// The place of each member in the circle.
    places: Vec<u16>,
}

/// Members that are no group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RosterError {
    /// There are too few or too many.
    #[error("a group has {MEMBERS_MIN} to {MEMBERS_MAX} members, and not {0}")]
    Members(usize),
    /// A record is there twice.
    #[error("the record of member {0} is there twice")]
    Repeated(u16),
    /// The degree does not fit the number of members.
    #[error("{degree} neighbours are not an even number below the {members} members, nor all others")]
    Degree {
        /// Neighbours of a member.
        degree: u16,
        /// Members of the group.
        members: u16,
    },
}

impl Roster {
    /// The roster of these members: the hashes of their records in joining order.
    ///
    /// # Errors
    /// [`RosterError`] if this is no group.
    pub fn new(context: &Context, records: &[Sha256Hash]) -> Result<Self, RosterError> {
        let members = u16::try_from(records.len()).ok().filter(|count| (MEMBERS_MIN..=MEMBERS_MAX).contains(count));
        let members = members.ok_or(RosterError::Members(records.len()))?;
        let mut sorted: Vec<_> = records.iter().zip(0..).collect();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(RosterError::Repeated(pair[1].1));
        }
        let degree = context.degree;
        if !(degree == members - 1 || degree < members && degree.is_multiple_of(2)) {
            return Err(RosterError::Degree { degree, members });
        }
        let mut hasher = Sha256::new().chain_update(LABEL).chain_update("roster\n").chain_update(context.to_bytes());
        hasher.update(members.to_le_bytes());
        records.iter().for_each(|record| hasher.update(record.0));
        let hash = Sha256Hash(hasher.finalize().into());
        let mut circle: Vec<u16> = (0..members).collect();
        circle.sort_by_cached_key(|index| place_hash(&hash, *index));
        let mut places = vec![0; records.len()];
        circle.iter().zip(0..).for_each(|(index, place)| places[usize::from(*index)] = place);
        Ok(Self { hash, degree, circle, places })
    }

    /// The hash that every key and signature of the group depends on.
    pub fn hash(&self) -> Sha256Hash {
        self.hash
    }

    /// Number of members.
    pub fn members(&self) -> u16 {
        self.places.len() as u16
    }

    /// Neighbours of each member.
    pub fn degree(&self) -> u16 {
        self.degree
    }

    /// The indexes of all members in the order of the circle.
    pub fn circle(&self) -> &[u16] {
        &self.circle
    }

    /// The neighbours of a member, by index. Empty for an index that is no member's.
    pub fn neighbours(&self, index: u16) -> Vec<u16> {
        let Some(place) = self.places.get(usize::from(index)) else { return Vec::new() };
        let (members, place) = (self.circle.len(), usize::from(*place));
        let mut neighbours: Vec<u16> = match usize::from(self.degree) {
            degree if degree == members - 1 => (0..self.members()).filter(|other| *other != index).collect(),
            degree => (1..=degree / 2)
                .flat_map(|distance| [place + distance, place + members - distance])
                .map(|place| self.circle[place % members])
                .collect(),
        };
        neighbours.sort_unstable();
        neighbours
    }

    /// Whether two members are neighbours. Nobody is its own.
    pub fn are_neighbours(&self, one: u16, other: u16) -> bool {
        let place = |index: u16| self.places.get(usize::from(index)).copied();
        let (Some(one), Some(other)) = (place(one), place(other)) else { return false };
        let distance = one.abs_diff(other);
        let distance = distance.min(self.members() - distance);
        distance > 0 && (self.degree == self.members() - 1 || distance <= self.degree / 2)
    }

    /// The number x of the share of `owner`'s secrets that `neighbour` holds, from 1. `None` if they are no neighbours.
    pub fn share_number(&self, owner: u16, neighbour: u16) -> Option<u8> {
        let place = self.neighbours(owner).binary_search(&neighbour).ok()?;
        u8::try_from(place + 1).ok()
    }
}

/// By which the circle is sorted.
fn place_hash(roster: &Sha256Hash, index: u16) -> [u8; 32] {
    let hasher = Sha256::new().chain_update(LABEL).chain_update("graph\n").chain_update(roster.0);
    hasher.chain_update(index.to_le_bytes()).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::super::vectors::{context, record, roster};
    use super::*;

    #[test]
    fn hash_and_circle_are_those_of_the_vectors() {
        let roster = roster();
        assert_eq!(roster.hash().to_string(), "234fd1d22d78415d7c9f38cf5a853b4366c4d8242db5b96ba5774166232b1b92");
        assert_eq!(roster.circle(), [1, 0, 2]);
        assert_eq!(roster.neighbours(0), [1, 2]);
        assert_eq!(roster.share_number(0, 2), Some(2));
    }

    /// The circle of the vectors' roster hash with ten members.
    #[test]
    fn a_larger_circle_and_its_neighbours_are_those_of_the_vectors() {
        let hash = roster().hash();
        let mut circle: Vec<u16> = (0..10).collect();
        circle.sort_by_cached_key(|index| place_hash(&hash, *index));
        assert_eq!(circle, [1, 8, 7, 0, 2, 9, 6, 5, 4, 3]);
        let mut places = vec![0; 10];
        circle.iter().zip(0..).for_each(|(index, place)| places[usize::from(*index)] = place);
        let roster = Roster { hash, degree: 4, circle, places };
        assert_eq!(roster.neighbours(0), [2, 7, 8, 9]);
        assert_eq!(roster.share_number(0, 8), Some(3));
        assert_eq!((roster.share_number(0, 1), roster.share_number(0, 0)), (None, None));
        assert!(roster.are_neighbours(0, 9) && roster.are_neighbours(3, 8) && !roster.are_neighbours(0, 1));
    }

    #[test]
    fn neighbours_are_mutual_sorted_and_as_many_as_the_degree() {
        for (members, degree) in [(3, 2), (4, 2), (4, 3), (7, 6), (20, 4), (20, 18), (20, 19), (255, 254)] {
            let records: Vec<_> = (0..members).map(|member: u16| Sha256Hash::of(&member.to_le_bytes())).collect();
            let roster = Roster::new(&Context { degree, ..context() }, &records).unwrap();
            for one in 0..members {
                let neighbours = roster.neighbours(one);
                assert!(neighbours.is_sorted_by(|one, other| one < other));
                assert_eq!(neighbours.len(), usize::from(degree));
                for other in 0..members {
                    let are = neighbours.contains(&other);
                    assert_eq!(roster.are_neighbours(one, other), are);
                    assert_eq!(roster.share_number(one, other).is_some(), are);
                    assert_eq!(roster.neighbours(other).contains(&one), are);
                }
            }
            assert_eq!(roster.neighbours(members), [0; 0]);
        }
    }

    #[test]
    fn what_is_no_group_is_refused() {
        let hashes = |members: u16| (0..members).map(|member| Sha256Hash::of(&member.to_le_bytes())).collect();
        let of = |degree, records: Vec<_>| Roster::new(&Context { degree, ..context() }, &records).map(drop);
        assert_eq!(of(2, hashes(2)), Err(RosterError::Members(2)));
        assert_eq!(of(2, hashes(4097)), Err(RosterError::Members(4097)));
        assert_eq!(of(4, hashes(4)), Err(RosterError::Degree { degree: 4, members: 4 }));
        assert_eq!(of(3, hashes(5)), Err(RosterError::Degree { degree: 3, members: 5 }));
        let first = record(0).hash();
        assert_eq!(of(2, vec![first, record(1).hash(), first]), Err(RosterError::Repeated(2)));
    }
}
