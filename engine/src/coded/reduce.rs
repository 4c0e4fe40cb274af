//! A code for each parent of a tree (CodedReduce, arXiv 1902.01981): which parts of the data each member holds, and
//! with which coefficients.
//!
//! The data is cut into `d = sum over l = 1..L of n^l (s + 1)^(L - l)` parts, so that every member keeps `(s + 1)^L` of
//! them. Who is handed parts keeps the first ones, cuts the rest into `n` runs, and hands each child the runs of its
//! row of the code. A child's parts have the coefficient that they came with, times that of its row.

use tributary_protocol::coded::Code;
use tributary_protocol::coded_tree;

use super::rows::Rows;
use super::tree::Tree;

/// Parts with their coefficients.
pub type Parts = Vec<(usize, f64)>;

/// The parts of every member of a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduce {
    /// The children of the root.
    children: Vec<Member>,
}

/// A member with its children.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The parts on which it works.
    pub kept: Parts,
    /// The parts that it hands down; none in the last level.
    pub rest: Parts,
    /// Its children; none in the last level.
    pub children: Vec<Member>,
}

/// The number of parts into which the data of such a tree is cut; none if there are more than `usize` counts.
#[must_use]
pub fn parts_of(tree: Tree) -> Option<usize> {
    coded_tree::parts_of(tree.children() as usize, tree.levels(), tree.stragglers() as usize + 1)
}

/// The number of parts of each member.
#[must_use]
pub fn kept_of(tree: Tree) -> Option<usize> {
    (tree.stragglers() as usize + 1).checked_pow(tree.levels())
}

/// The code of each parent and its children: the fractional one where it fits, else the cyclic one. None if there is no
/// such code.
#[must_use]
pub fn code_of(tree: Tree) -> Option<Rows> {
    let (children, stragglers) = (tree.children() as usize, tree.stragglers() as usize);
    let code = if children.is_multiple_of(stragglers + 1) { Code::Fractional } else { Code::Cyclic };
    Rows::of(code, children, stragglers)
}

impl Reduce {
    /// The parts of every member. None if there is no code for a parent and its children.
    #[must_use]
    pub fn of(tree: Tree) -> Option<Self> {
        Self::with(tree, &code_of(tree)?)
    }

    /// The parts of every member, where this is the code of each parent and its children.
    #[must_use]
    pub fn with(tree: Tree, rows: &Rows) -> Option<Self> {
        let (parts, kept) = (parts_of(tree)?, kept_of(tree)?);
        let all: Parts = (0..parts).map(|part| (part, 1.0)).collect();
        let children = handed_down(&all, rows, (kept, tree.levels()));
        Some(Self { children })
    }

    /// The children of the root.
    #[must_use]
    pub fn children(&self) -> &[Member] {
        &self.children
    }

    /// The member to which these rows lead from the root; none if there is none, or it is the root.
    #[must_use]
    pub fn member(&self, rows: &[usize]) -> Option<&Member> {
        let (first, below) = rows.split_first()?;
        below.iter().try_fold(self.children.get(*first)?, |member, row| member.children.get(*row))
    }
}

/// The children of a parent that hands down these parts, in so many levels.
fn handed_down(parts: &Parts, rows: &Rows, (kept, levels): (usize, u32)) -> Vec<Member> {
    let run = parts.len() / rows.members();
    let of_child = |child: usize| {
        let runs = rows.row(child).into_iter().flat_map(|(place, coefficient)| {
            let run = parts[place * run..(place + 1) * run].iter();
            run.map(move |(part, before)| (*part, before * coefficient))
        });
        let mut kept_parts: Parts = runs.collect();
        let rest = kept_parts.split_off(kept.min(kept_parts.len()));
        let children = if levels > 1 { handed_down(&rest, rows, (kept, levels - 1)) } else { Vec::new() };
        Member { kept: kept_parts, rest, children }
    };
    (0..rows.members()).map(of_child).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each part counts in what a parent at this path makes of its children's answers, when some of them are
    /// lost. None if it cannot decode them.
    fn arriving(
        (tree, children): (Tree, &[Member]),
        path: &mut Vec<usize>,
        is_lost: &impl Fn(&[usize], usize) -> bool,
    ) -> Option<Vec<f64>> {
        let answering: Vec<usize> = (0..children.len()).filter(|child| !is_lost(path, *child)).collect();
        let weights = code_of(tree)?.weights(&answering)?;
        let mut sum = vec![0.0; parts_of(tree)?];
        for (child, weight) in answering.into_iter().zip(weights) {
            let Member { kept, children, .. } = &children[child];
            kept.iter().for_each(|(part, coefficient)| sum[*part] += weight * coefficient);
            if !children.is_empty() {
                path.push(child);
                let below = arriving((tree, children), path, is_lost)?;
                path.pop();
                sum.iter_mut().zip(below).for_each(|(sum, below)| *sum += weight * below);
            }
        }
        Some(sum)
    }

    fn counted(tree: Tree, is_lost: impl Fn(&[usize], usize) -> bool) -> Option<Vec<f64>> {
        arriving((tree, Reduce::of(tree)?.children()), &mut Vec::new(), &is_lost)
    }

    fn members(children: &[Member]) -> Vec<&Member> {
        children.iter().flat_map(|member| std::iter::once(member).chain(members(&member.children))).collect()
    }

    /// A tree of 3 and 9 members: each parent loses one child, in all 81 ways, and the sum is that of all parts.
    #[test]
    fn a_tree_of_twelve_has_the_sum_whichever_child_each_parent_loses() {
        let tree = Tree::new(3, 2, 1).unwrap();
        let reduce = Reduce::of(tree).unwrap();
        assert_eq!((parts_of(tree), members(reduce.children()).len()), (Some(15), 12));
        let mut ways = 0;
        for lost in 0..81usize {
            let of_relay = [lost / 3 % 3, lost / 9 % 3, lost / 27];
            let losses = |parent: &[usize], child: usize| match parent {
                [] => child == lost % 3,
                [relay, ..] => child == of_relay[*relay],
            };
            let counted = counted(tree, losses).unwrap();
            assert!(counted.iter().all(|times| (times - 1.0).abs() < 1e-12), "{lost}: {counted:?}");
            ways += 1;
        }
        assert_eq!(ways, 81);
        assert!(counted(tree, |parent, child| parent.is_empty() && child < 2).is_none());
    }

    /// Every member has the load of the formula, and parts that no member above it has.
    #[test]
    fn each_member_has_its_load() {
        for (children, levels, stragglers) in [(3, 2, 1), (4, 3, 1), (4, 2, 3), (5, 2, 2), (4, 1, 1)] {
            let tree = Tree::new(children, levels, stragglers).unwrap();
            let reduce = Reduce::of(tree).unwrap();
            for member in members(reduce.children()) {
                let load = member.kept.len() as f64 / parts_of(tree).unwrap() as f64;
                assert!((load - tree.load()).abs() < 1e-12, "{tree:?}: {load} instead of {}", tree.load());
            }
            let nobody = counted(tree, |_, _| false).unwrap();
            let first = counted(tree, |_, child| child < stragglers as usize).unwrap();
            for times in nobody.into_iter().chain(first) {
                assert!((times - 1.0).abs() < 1e-9, "{tree:?}: {times}");
            }
        }
    }
}
