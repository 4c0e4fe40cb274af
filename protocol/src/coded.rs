//! Coded rounds: several clients hold the same part of the data, so that a sum need not wait for all of them.
//!
//! A part is a named example set. A client trains once for each of its parts, from the same model and with the part's
//! seed, and sends what the updates come to together.
//!
//! | code | what a client sends | parts of a client |
//! |---|---|---|
//! | `fractional` | the exact sum of the updates ([`crate::sum`]) | those of a block; s + 1 clients have the same |
//! | `cyclic` | their sum, each times a factor, as an f32 update | s + 1 that follow each other |

use serde::{Deserialize, Serialize};

use crate::coded_tree::TreeShare;
use crate::id::Name;
use crate::seed::Seed;

/// Most parts of a job.
pub const PARTS_MAX: usize = 64;
/// Most parts of a job with the cyclic code, whose best matrix is searched for.
pub const CYCLIC_PARTS_MAX: usize = 16;

/// How the parts of the data are shared out, and their updates put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// Blocks of s + 1 parts, each held by s + 1 clients: any of them brings the sum of the block. The model has the
    /// bits of all of them, whoever is missing.
    #[default]
    Fractional,
    /// Each client has s + 1 parts that follow each other, and sends a combination of their updates. Any n - s answers
    /// give the sum of all, up to rounding.
    Cyclic,
}

impl Code {
    /// Its name in job files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fractional => "fractional",
            Self::Cyclic => "cyclic",
        }
    }
}

/// What one client does in a coded round, as the coordinator keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CodedShare {
    /// How the updates of the parts are put together.
    pub code: Code,
    /// The row of the code, from 0.
    pub row: u16,
    /// The parts, in the order of the job file.
    pub parts: Vec<CodedPart>,
    /// Of a member of a coded tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeShare>,
}

/// A part in a share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CodedPart {
    /// Its place in the job file, from 0.
    pub place: u16,
    /// Its name.
    pub name: Name,
    /// Its entry in the row of the code.
    pub coefficient: f64,
    /// Its share of the mean over all parts. 1 for the fractional code, whose sums weigh by what clients count.
    pub weight: f64,
}

impl CodedShare {
    /// Updates that count when it is answered: those of a block count one by one, a combination as one.
    #[must_use]
    pub fn updates(&self) -> u32 {
        match self.is_sum() {
            true => u32::try_from(self.parts.len()).unwrap_or(u32::MAX),
            false => 1,
        }
    }

    /// Whether it is answered by an exact sum, and not by a combination.
    #[must_use]
    pub fn is_sum(&self) -> bool {
        self.code == Code::Fractional && self.tree.is_none()
    }

    /// The block of the fractional code that it answers.
    #[must_use]
    pub fn block(&self) -> Option<u16> {
        if let Some(tree) = &self.tree {
            return tree.block;
        }
        let size = u16::try_from(self.parts.len().max(1)).unwrap_or(u16::MAX);
        (self.code == Code::Fractional).then(|| self.row / size)
    }
}

/// The work of one client in a coded round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CodedTerms {
    /// The parts to train on, one after the other.
    pub parts: Vec<PartTerms>,
    /// How their exact sum is made. Absent where the client sends a combination, as an f32 update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<SumTerms>,
}

/// A part that a client trains on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PartTerms {
    /// The example set, as the client named it.
    pub data: Name,
    /// Seed of all random choices of this training. All holders of the part have the same.
    pub seed: Seed,
    /// What its update is multiplied by in a combination. 1 in a sum.
    pub factor: f64,
}

/// How an exact sum of updates is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SumTerms {
    /// Binary places of its integers.
    pub binary_point: u32,
    /// Whether each update weighs 1, and not its examples.
    pub uniform: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(code: Code, row: u16) -> CodedShare {
        let part = |place: u16| CodedPart {
            place,
            name: Name::try_from(format!("p{place}")).unwrap(),
            coefficient: 1.0,
            weight: 1.0,
        };
        CodedShare { code, row, parts: (0..3).map(part).collect(), tree: None }
    }

    #[test]
    fn holders_of_a_block_answer_the_same_and_combinations_count_once() {
        let blocks: Vec<_> = (0..6).map(|row| share(Code::Fractional, row).block()).collect();
        assert_eq!(blocks, [Some(0), Some(0), Some(0), Some(1), Some(1), Some(1)]);
        assert_eq!(share(Code::Fractional, 4).updates(), 3);
        assert_eq!((share(Code::Cyclic, 4).updates(), share(Code::Cyclic, 4).block()), (1, None));
        let text = serde_json::to_string(&share(Code::Cyclic, 4)).unwrap();
        assert_eq!(serde_json::from_str::<CodedShare>(&text).unwrap(), share(Code::Cyclic, 4));
    }
}
