//! Places in a coded tree, in which each parent has a code for its children (CodedReduce, arXiv 1902.01981).
//!
//! The root is the coordinator of the job. An inner member is a relay: it hands parts on to its children, and keeps
//! some, on which a client beside it trains. A member of the last level is a client.

use serde::{Deserialize, Serialize};

/// A member of a coded tree, with all members below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Branch {
    /// Levels above it: 1 of a child of the root.
    pub level: u32,
    /// Its number in its level, from 0. The children of member `m` are `n m` to `n m + n - 1`.
    pub member: u32,
}

impl Branch {
    /// The member at the top, which is the coordinator of the job.
    pub const ROOT: Self = Self { level: 0, member: 0 };

    /// A child, where each parent has so many.
    #[must_use]
    pub fn child(self, children: u32, row: u32) -> Self {
        Self { level: self.level + 1, member: self.member.saturating_mul(children).saturating_add(row) }
    }

    /// The rows of the code that lead to it from the root. None if no member of such a tree has this number.
    #[must_use]
    pub fn rows(self, children: u32) -> Option<Vec<usize>> {
        let (mut rows, mut left) = (Vec::new(), self.member);
        for _ in 0..self.level {
            rows.push(left.checked_rem(children)? as usize);
            left /= children;
        }
        rows.reverse();
        (left == 0).then_some(rows)
    }
}

/// What the share of a member of a coded tree has beside its parts. It answers with a combination of their updates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TreeShare {
    /// Its entries in what its parent decodes: one for what the parent keeps unless that is the root, then one for each
    /// run of the parts that are handed down.
    pub entries: Vec<f64>,
    /// The block that it answers, where the parent's code is the fractional one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u16>,
    /// Of a child where the parent's code is the cyclic one: how many children are enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enough: Option<u16>,
    /// The place of a relay; none of a client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Branch>,
}

/// The number of parts into which the data of a tree is cut in which each parent has so many children and each part is
/// at `load` of them: `sum over l = 1..L of n^l load^(L - l)`. None if there are more than `usize` counts.
#[must_use]
pub fn parts_of(children: usize, levels: u32, load: usize) -> Option<usize> {
    (1..=levels).try_fold(0usize, |sum, level| {
        let of_level = children.checked_pow(level)?.checked_mul(load.checked_pow(levels - level)?)?;
        sum.checked_add(of_level)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_leads_to_its_member() {
        let third = Branch::ROOT.child(3, 1).child(3, 2);
        assert_eq!((third, third.rows(3)), (Branch { level: 2, member: 5 }, Some(vec![1, 2])));
        assert_eq!(Branch::ROOT.rows(3), Some(vec![]));
        assert_eq!([2, 3].map(|member| Branch { level: 1, member }.rows(3)), [Some(vec![2]), None]);
        assert_eq!(Branch { level: 1, member: 0 }.rows(0), None, "nobody has a child");
    }

    #[test]
    fn parts_are_those_of_the_plan() {
        assert_eq!([(3, 2, 2), (4, 2, 2), (2, 3, 2)].map(|(n, l, load)| parts_of(n, l, load)), [15, 24, 24].map(Some));
        assert_eq!(parts_of(usize::MAX, 2, 1), None);
    }
}
