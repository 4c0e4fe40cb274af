//! Trees in which each parent can do without some of its children (CodedReduce, arXiv 1902.01981).
//!
//! The root has `n` children, each of them has `n`, and so on for `L` levels below the root. Every member but the root
//! holds a share of the data, its **load**, as a fraction of all data. A parent decodes from any `n - s` children.
//!
//! ```text
//! members N = n + n^2 + .. + n^L
//! load of the tree's members     1 / sum over l = 1..L of (n / (s + 1))^l
//! load with one code for all N   (S + 1) / N, which does without any S = s N / n of them
//! ```

/// Most members of a tree that is planned: expected times are simulated.
pub const MEMBERS_MAX: u64 = 100_000;

/// The shape of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    children: u32,
    levels: u32,
    stragglers: u32,
}

/// A shape that no tree has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// A parent needs two children, and one that answers.
    #[error("a parent has 2 children or more, and does without fewer than it has")]
    Children,
    /// A tree has a level.
    #[error("a tree has 1 level or more")]
    Levels,
    /// It has too many members.
    #[error("a tree that is planned has at most {MEMBERS_MAX} members")]
    Members,
}

impl Tree {
    /// A tree of this many levels below the root, in which each parent has `children` and does without `stragglers`.
    ///
    /// # Errors
    /// [`TreeError`] for a shape that no tree has, or that is too large.
    pub fn new(children: u32, levels: u32, stragglers: u32) -> Result<Self, TreeError> {
        if children < 2 || stragglers >= children {
            return Err(TreeError::Children);
        }
        if levels == 0 {
            return Err(TreeError::Levels);
        }
        let tree = Self { children, levels, stragglers };
        let members =
            (1..=levels).try_fold(0u64, |sum, level| sum.checked_add(u64::from(children).checked_pow(level)?));
        match members {
            Some(members) if members <= MEMBERS_MAX => Ok(tree),
            _ => Err(TreeError::Members),
        }
    }

    /// Children of each parent.
    #[must_use]
    pub fn children(self) -> u32 {
        self.children
    }

    /// Levels below the root.
    #[must_use]
    pub fn levels(self) -> u32 {
        self.levels
    }

    /// Children without which a parent decodes.
    #[must_use]
    pub fn stragglers(self) -> u32 {
        self.stragglers
    }

    /// Members below the root.
    #[must_use]
    pub fn members(self) -> u64 {
        (1..=self.levels).map(|level| u64::from(self.children).pow(level)).sum()
    }

    /// Members of the last level.
    #[must_use]
    pub fn leaves(self) -> u64 {
        u64::from(self.children).pow(self.levels)
    }

    /// The fraction of all data that each member of a coded tree works on.
    #[must_use]
    pub fn load(self) -> f64 {
        let ratio = f64::from(self.children) / f64::from(self.stragglers + 1);
        1.0 / (1..=self.levels).map(|level| ratio.powi(level as i32)).sum::<f64>()
    }

    /// Members without which one code for all of them decodes: the same share as a parent's of its children.
    #[must_use]
    pub fn stragglers_of_all(self) -> u64 {
        self.members() * u64::from(self.stragglers) / u64::from(self.children)
    }

    /// The fraction of all data that each member works on with one code for all of them.
    #[must_use]
    pub fn load_of_one_code(self) -> f64 {
        (self.stragglers_of_all() + 1) as f64 / self.members() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clusters of the paper, with the loads that follow from its formulas.
    #[test]
    fn loads_are_those_of_the_paper() {
        for (children, levels, stragglers, members, tree, one) in [
            (3, 2, 1, 12, 0.266_667, 0.416_667),
            (4, 3, 1, 84, 0.071_428_6, 0.261_905),
            (4, 3, 2, 84, 0.182_432, 0.511_905),
            (12, 2, 1, 156, 0.023_809_5, 0.089_743_6),
            (12, 2, 3, 156, 0.083_333_3, 0.256_410),
            (12, 2, 6, 156, 0.214_912, 0.506_410),
        ] {
            let shape = Tree::new(children, levels, stragglers).unwrap();
            assert_eq!(shape.members(), members);
            assert!((shape.load() - tree).abs() < 1e-6, "{shape:?}: {}", shape.load());
            assert!((shape.load_of_one_code() - one).abs() < 1e-6, "{shape:?}: {}", shape.load_of_one_code());
        }
        assert_eq!(Tree::new(3, 2, 0).unwrap().load(), 1.0 / 12.0, "without redundancy each example is held once");
    }

    #[test]
    fn shapes_of_no_tree_are_refused() {
        assert_eq!(Tree::new(1, 2, 0), Err(TreeError::Children));
        assert_eq!(Tree::new(3, 2, 3), Err(TreeError::Children));
        assert_eq!(Tree::new(3, 0, 1), Err(TreeError::Levels));
        assert_eq!(Tree::new(2, 40, 1), Err(TreeError::Members));
        assert_eq!(Tree::new(u32::MAX, 9, 1), Err(TreeError::Members));
    }
}
