//! Rounds in which parts of the data are held by several clients (`[coded]`).

use serde::{Deserialize, Serialize};

use super::error::require;
use super::{CodedTree, JobFile, JobFileError};
use crate::coded::{CYCLIC_PARTS_MAX, Code, PARTS_MAX};
use crate::example_sets::EXAMPLE_SETS_MAX;
use crate::id::Name;

const NO_DATA: &str = "left out in a job with [coded], which names its example sets in parts";
const NO_PARTIAL_WORK: &str = "left out in a job with [coded]: whoever holds a part does the same work";
const NO_STATISTICS: &str = "left out in a job with [coded]: rows that several clients hold would count several times";
const NO_BOUND: &str = "left out where answers are combinations, which would be cut to it";
const FRACTIONAL: &str = "a number of which stragglers + 1 is a divisor, with the code \"fractional\"";
const CYCLIC: &str =
    "3 to 16 with the code \"cyclic\", and no multiple of stragglers + 1, where \"fractional\" does better";

/// Which parts of the data clients hold, and how many of their answers a round does without. Each round draws a client
/// for each part, and every part is trained by `stragglers` + 1 of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Coded {
    /// The parts: names of example sets, each at `stragglers` + 1 clients or more. 2 to 64.
    pub parts: Vec<Name>,
    /// Clients without whose answers a round has the update of every part, at least 1. A client trains on so many parts
    /// and one more, at most 32.
    pub stragglers: u16,
    /// How parts are shared out. Default: `fractional`.
    #[serde(default)]
    pub code: Code,
    /// A tree of relays with a code for each parent and its children. Default: none, clients send to the coordinator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<CodedTree>,
}

impl Coded {
    /// Clients of a round: as many as there are parts; in a tree the children of a parent.
    #[must_use]
    pub fn clients(&self) -> u32 {
        if let Some(tree) = self.tree {
            return tree.children.into();
        }
        u32::try_from(self.parts.len()).unwrap_or(u32::MAX)
    }

    /// Parts of each client.
    #[must_use]
    pub fn load(&self) -> u32 {
        u32::from(self.stragglers) + 1
    }

    /// Updates that close a round, and without which there is no model: those of all parts, or the combinations from
    /// which they follow.
    #[must_use]
    pub fn goal(&self) -> u32 {
        match self.code {
            Code::Fractional if self.tree.is_some() => self.clients() / self.load(),
            Code::Fractional => self.clients(),
            Code::Cyclic => self.clients().saturating_sub(self.stragglers.into()),
        }
    }

    /// Updates that a round gives out.
    #[must_use]
    pub fn drawn(&self) -> u32 {
        match self.code {
            _ if self.tree.is_some() => self.clients(),
            Code::Fractional => self.clients().saturating_mul(self.load()),
            Code::Cyclic => self.clients(),
        }
    }

    pub(super) fn check(&self, job: &JobFile) -> Result<(), JobFileError> {
        let parts = self.parts.len();
        require((2..=PARTS_MAX).contains(&parts), "[coded] parts", "2 to 64 names of example sets")?;
        let mut names = self.parts.clone();
        names.sort();
        names.dedup();
        require(names.len() == parts, "[coded] parts", "names that differ")?;
        let load = usize::from(self.stragglers) + 1;
        let fits = self.stragglers >= 1 && load <= parts.min(EXAMPLE_SETS_MAX);
        require(fits, "[coded] stragglers", "at least 1, below the number of parts and at most 31")?;
        let is_plain = self.code == Code::Fractional && self.tree.is_none();
        require(is_plain || job.update.norm_max.is_none(), "[update] norm_max", NO_BOUND)?;
        match self.code {
            _ if self.tree.is_some() => {}
            Code::Fractional => require(parts.is_multiple_of(load), "[coded] parts", FRACTIONAL)?,
            Code::Cyclic => {
                let is_size = (3..=CYCLIC_PARTS_MAX).contains(&parts) && !parts.is_multiple_of(load);
                require(is_size, "[coded] parts", CYCLIC)?;
            }
        }
        self.tree.map_or(Ok(()), |tree| tree.check(self, job))?;
        require(job.data.is_none(), "data", NO_DATA)?;
        require(job.training.partial_work.is_none(), "[training] partial_work", NO_PARTIAL_WORK)?;
        require(job.group.is_none(), "[group]", "left out in a job with [coded], whose sums go to the coordinator")?;
        let standardises = job.model.inputs.as_ref().is_some_and(|inputs| inputs.standardize.is_some());
        require(!standardises, "[model.inputs] standardize", NO_STATISTICS)?;
        require(job.analysis.is_none(), "[coded]", "left out: an analysis asks clients themselves")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(coded: &str) -> Option<String> {
        let text = format!(
            "name = 'j'\npopulation = 'p'\nmodel.parameters = [{{ name = 'w', shape = [1] }}]\n\
             training.epochs = 1\ntraining.optimizer = {{ kind = 'sgd', learning_rate = 1.0 }}\n\
             update.codec = 'f32'\n{coded}"
        );
        JobFile::parse(&text).err().map(|error| error.to_string())
    }

    #[test]
    fn parts_stragglers_and_code_fit_each_other() {
        let of = |parts: &str, stragglers: u16, code: &str| {
            refused(&format!("coded = {{ parts = [{parts}], stragglers = {stragglers}, code = '{code}' }}"))
        };
        let names = |count: usize| (0..count).map(|place| format!("'p{place}'")).collect::<Vec<_>>().join(", ");
        assert_eq!(of(&names(4), 1, "fractional"), None);
        assert_eq!(of(&names(5), 2, "cyclic"), None);
        assert!(of(&names(5), 1, "fractional").unwrap().contains("divisor"));
        assert!(of(&names(6), 2, "cyclic").unwrap().contains("fractional"));
        assert!(of(&names(17), 1, "cyclic").unwrap().contains("3 to 16"));
        assert!(of("'a', 'a'", 1, "fractional").unwrap().contains("differ"));
        assert!(of(&names(4), 0, "fractional").unwrap().contains("at least 1"));
        assert!(of(&names(4), 4, "fractional").unwrap().contains("below the number of parts"));
        let data = refused("data = 'a'\ncoded = { parts = ['a', 'b'], stragglers = 1 }");
        assert!(data.unwrap().contains("names its example sets"));
    }

    #[test]
    fn a_round_gives_out_each_part_as_often_as_it_is_held() {
        let parts = |count: usize| (0..count).map(|place| Name::try_from(format!("p{place}")).unwrap()).collect();
        let blocks = Coded { parts: parts(6), stragglers: 2, code: Code::Fractional, tree: None };
        assert_eq!((blocks.clients(), blocks.load(), blocks.goal(), blocks.drawn()), (6, 3, 6, 18));
        let cyclic = Coded { parts: parts(5), stragglers: 2, code: Code::Cyclic, tree: None };
        assert_eq!((cyclic.clients(), cyclic.goal(), cyclic.drawn()), (5, 3, 5));
    }
}
