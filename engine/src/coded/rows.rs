//! The rows of a code: the parts of each member, and what it multiplies their updates by.
//!
//! Of `n` parts and as many members, each part is at `s + 1` members.
//!
//! - `fractional` (`s + 1` divides `n`): the parts are cut into blocks of `s + 1`, and each block is at `s + 1`
//!   members, which all send its plain sum. One answer per block is enough.
//! - `cyclic`: member `i` has the parts `i, i + 1, .., i + s` modulo `n`.
//!
//! Tandon et al. 2017, arXiv 1612.03301.

use tributary_protocol::coded::Code;

use super::cyclic::Cyclic;

/// The code of a round.
#[derive(Clone, Debug, PartialEq)]
pub enum Rows {
    /// Blocks that each of their members brings alone.
    Fractional {
        /// Number of parts.
        parts: usize,
        /// Parts of a block.
        block: usize,
    },
    /// Combinations from which the sum follows.
    Cyclic(Cyclic),
}

impl Rows {
    /// The code of so many parts, of which a round does without the answers of `stragglers` members. None if there is
    /// no such code, or none that decodes well ([`Cyclic::best`]).
    #[must_use]
    pub fn of(code: Code, parts: usize, stragglers: usize) -> Option<Self> {
        match code {
            Code::Fractional => {
                let block = stragglers + 1;
                (parts > 0 && parts.is_multiple_of(block)).then_some(Self::Fractional { parts, block })
            }
            Code::Cyclic => Cyclic::best(parts, stragglers).map(Self::Cyclic),
        }
    }

    /// Members of the code: as many as parts.
    #[must_use]
    pub fn members(&self) -> usize {
        match self {
            Self::Fractional { parts, .. } => *parts,
            Self::Cyclic(cyclic) => cyclic.members(),
        }
    }

    /// The parts of a member with their coefficients, by the parts' places.
    #[must_use]
    pub fn row(&self, member: usize) -> Vec<(usize, f64)> {
        match self {
            Self::Fractional { block, .. } => {
                let first = member / block * block;
                (first..first + block).map(|part| (part, 1.0)).collect()
            }
            Self::Cyclic(cyclic) => cyclic.row(member),
        }
    }
}

#[cfg(test)]
impl Rows {
    /// The weights with which the answers of these members add up to the sum of all parts. None if they do not.
    pub(super) fn weights(&self, answering: &[usize]) -> Option<Vec<f64>> {
        match self {
            Self::Fractional { parts, block } => {
                let mut found = vec![false; parts / block];
                let first = |member: &usize| f64::from(u8::from(!std::mem::replace(&mut found[member / block], true)));
                let weights = answering.iter().map(first).collect();
                found.iter().all(|found| *found).then_some(weights)
            }
            Self::Cyclic(cyclic) => {
                // More answers than are needed have no single solution.
                let needed = self.members() + 1 - cyclic.row(0).len();
                let rows: Vec<Vec<f64>> = answering.iter().take(needed).map(|member| self.dense(*member)).collect();
                let mut weights = super::cyclic::decode(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
                weights.resize(answering.len(), 0.0);
                Some(weights)
            }
        }
    }

    /// The entries of a member for all parts.
    fn dense(&self, member: usize) -> Vec<f64> {
        let mut dense = vec![0.0; self.members()];
        self.row(member).into_iter().for_each(|(part, coefficient)| dense[part] = coefficient);
        dense
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every set of members without `stragglers` of them.
    fn survivors(members: usize, stragglers: usize) -> Vec<Vec<usize>> {
        let sets = (0u32..1 << members).filter(|set| set.count_ones() as usize == members - stragglers);
        sets.map(|set| (0..members).filter(|member| set >> member & 1 == 1).collect()).collect()
    }

    /// The numbers of sets, and that any of them has an answer of every block, with weights 0 and 1.
    #[test]
    fn any_survivors_of_the_fractional_code_have_every_block() {
        for (parts, stragglers, sets) in [(4, 1, 4), (6, 2, 15), (8, 3, 56), (12, 1, 12), (12, 2, 66), (12, 3, 220)] {
            let rows = Rows::of(Code::Fractional, parts, stragglers).unwrap();
            let all = survivors(rows.members(), stragglers);
            assert_eq!(all.len(), sets);
            for set in all {
                let mut counted = vec![0; parts];
                let mut blocks: Vec<usize> = Vec::new();
                let weights = rows.weights(&set).unwrap();
                assert_eq!(weights.iter().sum::<f64>() as usize, parts / (stragglers + 1), "one answer of each block");
                for member in set {
                    let row = rows.row(member);
                    assert_eq!(row.len(), stragglers + 1, "the load of each member");
                    if !blocks.contains(&row[0].0) {
                        blocks.push(row[0].0);
                        row.iter().for_each(|(part, coefficient)| counted[*part] += *coefficient as i32);
                    }
                }
                assert_eq!(counted, vec![1; parts], "({parts}, {stragglers})");
            }
            let block: Vec<usize> = (stragglers + 1..parts).collect();
            assert_eq!(rows.weights(&block), None, "nobody of the first block answers");
        }
        assert_eq!(Rows::of(Code::Fractional, 5, 1), None);
    }

    #[test]
    fn without_stragglers_each_member_has_its_own_part() {
        let rows = Rows::of(Code::Fractional, 3, 0).unwrap();
        assert_eq!((0..3).map(|member| rows.row(member)).collect::<Vec<_>>(), [[(0, 1.0)], [(1, 1.0)], [(2, 1.0)]]);
    }

    /// Any n - s rows of the cyclic code have weights whose combination is the sum of all parts.
    #[test]
    fn any_survivors_of_the_cyclic_code_have_the_sum() {
        for (parts, stragglers, worst) in [(5, 2, 4.0), (8, 3, 20.0), (7, 1, 20.0), (3, 1, 4.0)] {
            let rows = Rows::of(Code::Cyclic, parts, stragglers).unwrap();
            let dense: Vec<Vec<f64>> = (0..parts).map(|member| rows.dense(member)).collect();
            for set in survivors(parts, stragglers) {
                let picked: Vec<&[f64]> = set.iter().map(|member| dense[*member].as_slice()).collect();
                let weights = rows.weights(&set).unwrap();
                assert!(weights.iter().all(|weight| weight.abs() <= worst), "({parts}, {stragglers}): {weights:?}");
                for part in 0..parts {
                    let sum: f64 = weights.iter().zip(&picked).map(|(weight, row)| weight * row[part]).sum();
                    assert!((sum - 1.0).abs() < 1e-11, "({parts}, {stragglers}): {sum}");
                }
            }
        }
    }
}
