//! Coded rounds of a tree of relays (`[coded] tree`).

use serde::{Deserialize, Serialize};

use super::error::require;
use super::{Coded, JobFile, JobFileError};
use crate::coded::{CYCLIC_PARTS_MAX, Code, PARTS_MAX};
use crate::coded_tree::parts_of;
use crate::example_sets::EXAMPLE_SETS_MAX;

/// Levels of every tree.
const LEVELS: u16 = 2;
const TWO: &str = "2: a star has no tree, and relays of relays do not tell at once which parts are behind them";
const FRACTIONAL: &str = "a multiple of stragglers + 1 with the code \"fractional\"";
const CYCLIC: &str =
    "3 to 16 with the code \"cyclic\", and no multiple of stragglers + 1, where \"fractional\" does better";
const NO_ADAPT: &str = "left out in a job with [coded] tree: relays tell no times of single clients";

/// A tree in which each parent has a code for its children. The children of the coordinator are relays, and those of
/// the last level are clients. A relay has one client more, which trains on what the relay keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CodedTree {
    /// Children of each parent, of which it does without `stragglers`.
    pub children: u16,
    /// Levels below the coordinator: 2. The data has as many parts as `tributary tree plan` says.
    pub levels: u16,
}

impl CodedTree {
    /// The parts into which its data is cut, where each parent does without so many children: as many as a job may
    /// have, and for each child of the coordinator as many as a check-in may name.
    fn check_size(self, stragglers: u16) -> Result<usize, JobFileError> {
        let load = usize::from(stragglers) + 1;
        let parts = parts_of(self.children.into(), self.levels.into(), load).unwrap_or(usize::MAX);
        require(parts <= PARTS_MAX, "[coded] tree", "so small that its data has at most 64 parts")?;
        let of_child = parts / usize::from(self.children).max(1) * load;
        let too_many = format!("so small that a relay stands for {EXAMPLE_SETS_MAX} parts at most, not for {of_child}");
        require(of_child <= EXAMPLE_SETS_MAX, "[coded] tree", &too_many)?;
        Ok(parts)
    }

    /// Whether a job may have this tree, where each parent does without so many children.
    #[must_use]
    pub fn is_played(self, stragglers: u16) -> bool {
        self.levels == LEVELS && self.children > stragglers && self.check_size(stragglers).is_ok()
    }

    pub(super) fn check(self, coded: &Coded, job: &JobFile) -> Result<(), JobFileError> {
        let (children, load) = (usize::from(self.children), usize::from(coded.stragglers) + 1);
        require(self.levels == LEVELS, "[coded] tree levels", TWO)?;
        require(children >= load, "[coded] tree children", "more than stragglers")?;
        match coded.code {
            Code::Fractional => require(children.is_multiple_of(load), "[coded] tree children", FRACTIONAL)?,
            Code::Cyclic => {
                let is_size = (3..=CYCLIC_PARTS_MAX).contains(&children) && !children.is_multiple_of(load);
                require(is_size, "[coded] tree children", CYCLIC)?;
            }
        }
        let wanted = self.check_size(coded.stragglers)?;
        let in_all = format!("{wanted} names in this tree (`tributary tree plan`)");
        require(coded.parts.len() == wanted, "[coded] parts", &in_all)?;
        require(job.round.adapt.is_none(), "[round] adapt", NO_ADAPT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(tree: &str, parts: usize, code: &str, rest: &str) -> Option<String> {
        let names = (0..parts).map(|place| format!("'p{place}'")).collect::<Vec<_>>().join(", ");
        let text = format!(
            "name = 'j'\npopulation = 'p'\nmodel.parameters = [{{ name = 'w', shape = [1] }}]\n\
             training.epochs = 1\ntraining.optimizer = {{ kind = 'sgd', learning_rate = 1.0 }}\n\
             update.codec = 'f32'\naggregation.combine = 'uniform_mean'\n{rest}\n\
             coded = {{ parts = [{names}], stragglers = 1, code = '{code}', tree = {{ {tree} }} }}"
        );
        JobFile::parse(&text).err().map(|error| error.to_string())
    }

    #[test]
    fn children_levels_and_parts_fit_each_other() {
        let of = |tree: &str, parts: usize, code: &str| refused(tree, parts, code, "");
        assert_eq!(of("children = 3, levels = 2", 15, "cyclic"), None);
        assert_eq!(of("children = 4, levels = 2", 24, "fractional"), None);
        for (tree, parts, code, word) in [
            ("children = 3, levels = 1", 3, "cyclic", "a star has no tree"),
            ("children = 1, levels = 2", 3, "cyclic", "more than stragglers"),
            ("children = 3, levels = 2", 15, "fractional", "a multiple of"),
            ("children = 4, levels = 2", 24, "cyclic", "does better"),
            ("children = 3, levels = 2", 12, "cyclic", "15 names"),
            ("children = 65535, levels = 2", 3, "cyclic", "3 to 16"),
            ("children = 9, levels = 2", 64, "cyclic", "at most 64 parts"),
            ("children = 2, levels = 3", 24, "fractional", "relays of relays"),
        ] {
            let refused = of(tree, parts, code).unwrap();
            assert!(refused.contains(word), "{tree}: {refused}");
        }
    }

    #[test]
    fn small_trees_of_two_levels_are_played() {
        let is_played = |children, levels, stragglers| CodedTree { children, levels }.is_played(stragglers);
        assert!(is_played(7, 2, 1) && is_played(5, 2, 2) && is_played(4, 2, 3));
        assert!(!is_played(6, 2, 3), "a relay would stand for 40 parts");
        assert!(!is_played(8, 2, 1) && !is_played(2, 3, 1) && !is_played(0, 2, 1));
    }

    #[test]
    fn what_relays_cannot_play_is_refused() {
        let with = |rest: &str| refused("children = 3, levels = 2", 15, "cyclic", rest).unwrap();
        assert!(with("round.adapt = {}").contains("[round] adapt"));
        assert!(with("update.norm_max = 3.0").contains("norm_max"));
    }
}
