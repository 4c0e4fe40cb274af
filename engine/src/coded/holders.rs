//! Who gets which row of a code: members that hold all parts of their row, and none of them two rows.
//!
//! A largest matching is found by augmenting paths (Kuhn 1955), so rows are filled whenever any assignment fills them.

use tributary_protocol::coded::PARTS_MAX;

/// Parts as a set of places in the job file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartSet(u64);

const _: () = assert!(PARTS_MAX <= 64);

impl PartSet {
    /// Whether it has all parts of another set.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether it has no part.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The places, in order.
    pub fn places(self) -> impl Iterator<Item = usize> {
        (0..64).filter(move |place| self.0 >> place & 1 == 1)
    }
}

/// Places below 64.
impl FromIterator<usize> for PartSet {
    fn from_iter<T: IntoIterator<Item = usize>>(places: T) -> Self {
        Self(places.into_iter().fold(0, |set, place| set | 1 << place))
    }
}

/// For each row the member that gets it, by what rows need and members hold. None for rows that cannot be filled beside
/// the others. Members that come first are preferred.
#[must_use]
pub fn match_rows(rows: &[PartSet], members: &[PartSet]) -> Vec<Option<usize>> {
    let mut search = Search { rows, members, row_of: vec![None; members.len()], seen: Vec::new() };
    for row in 0..rows.len() {
        search.seen = vec![false; members.len()];
        search.fill(row);
    }
    let mut filled = vec![None; rows.len()];
    for (member, row) in search.row_of.iter().enumerate() {
        if let Some(row) = row {
            filled[*row] = Some(member);
        }
    }
    filled
}

struct Search<'a> {
    rows: &'a [PartSet],
    members: &'a [PartSet],
    row_of: Vec<Option<usize>>,
    /// Members that this path has tried.
    seen: Vec<bool>,
}

impl Search<'_> {
    /// Gives a row a member: a free one, or one whose row finds another member. A path has at most one step per row.
    fn fill(&mut self, row: usize) -> bool {
        for member in 0..self.members.len() {
            if self.seen[member] || !self.members[member].has(self.rows[row]) {
                continue;
            }
            self.seen[member] = true;
            let is_free = match self.row_of[member] {
                None => true,
                Some(other) => self.fill(other),
            };
            if is_free {
                self.row_of[member] = Some(row);
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(places: &[usize]) -> PartSet {
        places.iter().copied().collect()
    }

    #[test]
    fn a_row_makes_way_for_another_one() {
        let rows = [set(&[0]), set(&[1])];
        // The first member holds both, the second one holds part 0 alone.
        let members = [set(&[0, 1]), set(&[0])];
        assert_eq!(match_rows(&rows, &members), [Some(1), Some(0)]);
        assert_eq!(match_rows(&rows, &members[..1]), [Some(0), None]);
        assert_eq!(match_rows(&rows, &[set(&[]), set(&[2])]), [None, None]);
        assert_eq!(set(&[63, 0, 5]).places().collect::<Vec<_>>(), [0, 5, 63]);
    }

    proptest! {
        /// Against every assignment: as many rows are filled as any of them fills, by members that hold them.
        #[test]
        fn as_many_rows_are_filled_as_can_be(
            rows in proptest::collection::vec(0u64..8, 0..4), members in proptest::collection::vec(0u64..8, 0..5),
        ) {
            let rows: Vec<_> = rows.into_iter().map(PartSet).collect();
            let members: Vec<_> = members.into_iter().map(PartSet).collect();
            let filled = match_rows(&rows, &members);
            let mut used: Vec<usize> = filled.iter().flatten().copied().collect();
            let count = used.len();
            used.sort_unstable();
            used.dedup();
            prop_assert_eq!(used.len(), count, "a member has one row at most");
            for (row, member) in filled.iter().enumerate() {
                prop_assert!(member.is_none_or(|member| members[member].has(rows[row])));
            }
            prop_assert_eq!(count, most(&rows, &members, 0));
        }
    }

    /// The most rows from this one on that members can fill, of which some are taken.
    fn most(rows: &[PartSet], members: &[PartSet], taken: u32) -> usize {
        let Some((row, rest)) = rows.split_first() else { return 0 };
        let with = (0..members.len())
            .filter(|member| taken >> member & 1 == 0 && members[*member].has(*row))
            .map(|member| 1 + most(rest, members, taken | 1 << member));
        with.chain([most(rest, members, taken)]).max().unwrap_or(0)
    }
}
