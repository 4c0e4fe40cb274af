//! Which parameters of a model travel: `shared`, `frozen` and `personal` in the section `[model]` of a job file.
//!
//! ```toml
//! [model]
//! input = [64]
//! layers = [{ kind = "linear", out_features = 32 }, { kind = "relu" }, { kind = "linear", out_features = 10 }]
//! personal = ["layers.2.*"]
//! ```
//!
//! A pattern is a name in which `*` stands for any characters and `?` for one. An update carries shared parameters
//! only. Frozen and personal ones are the same in every model version.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::{NAME_BYTES_MAX, ParameterList, ParameterListError, ParameterSpec};

/// Most patterns of a list.
pub const PATTERNS_MAX: usize = 1024;
/// Names of parameters that a message lists.
const NAMES_TOLD: usize = 5;

/// Patterns of parameter names. A parameter that no list names is shared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sharing {
    /// Parameters that clients train together. With this list, every parameter must be in one of the three.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared: Vec<String>,
    /// Parameters that nobody changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frozen: Vec<String>,
    /// Parameters that each client trains for itself and that never leave its device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub personal: Vec<String>,
}

/// Who changes a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All clients together.
    Shared,
    /// Nobody.
    Frozen,
    /// Each client its own.
    Personal,
}

/// Lists of patterns that do not fit a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SharingError {
    /// A list exceeds [`PATTERNS_MAX`].
    #[error("{list} has more than {PATTERNS_MAX} patterns")]
    TooMany {
        /// Key of the list.
        list: &'static str,
    },
    /// A pattern is empty or longer than a name.
    #[error("{list}: {pattern:?} is no pattern of a name: 1 to {NAME_BYTES_MAX} bytes")]
    BadPattern {
        /// Key of the list.
        list: &'static str,
        /// The pattern.
        pattern: String,
    },
    /// No parameter has such a name.
    #[error("{list}: {pattern:?} matches no parameter; the model has {names}")]
    NoMatch {
        /// Key of the list.
        list: &'static str,
        /// The pattern.
        pattern: String,
        /// Some names of the model.
        names: String,
    },
    /// Two lists name the same parameter.
    #[error("the parameter {name:?} is in {} and in {}", .lists[0], .lists[1])]
    Twice {
        /// The parameter.
        name: String,
        /// Keys of the two lists.
        lists: [&'static str; 2],
    },
    /// There is a list of shared parameters, and no list names this one.
    #[error("the parameter {0:?} is in none of shared, frozen and personal")]
    Unnamed(String),
    /// Nothing is left for an update.
    #[error("no parameter is shared, so clients would have nothing to train together")]
    NothingShared,
}

impl Sharing {
    /// Whether there are no lists: all parameters are shared.
    pub fn is_all_shared(&self) -> bool {
        self.shared.is_empty() && self.frozen.is_empty() && self.personal.is_empty()
    }

    /// The parts of a model.
    ///
    /// # Errors
    /// [`SharingError`] names the first pattern or parameter that does not fit.
    pub fn parts(&self, model: ParameterList) -> Result<Parts, SharingError> {
        let model = Arc::new(model);
        let mut parts: Vec<Option<(Part, &'static str)>> = vec![None; model.specs().len()];
        for (list, part, patterns) in [
            ("shared", Part::Shared, &self.shared),
            ("frozen", Part::Frozen, &self.frozen),
            ("personal", Part::Personal, &self.personal),
        ] {
            if patterns.len() > PATTERNS_MAX {
                return Err(SharingError::TooMany { list });
            }
            for pattern in patterns {
                if !(1..=NAME_BYTES_MAX).contains(&pattern.len()) {
                    let pattern = pattern.chars().take(NAME_BYTES_MAX).collect();
                    return Err(SharingError::BadPattern { list, pattern });
                }
                let mut is_used = false;
                for (spec, place) in model.specs().iter().zip(&mut parts) {
                    if !matches(pattern, &spec.name) {
                        continue;
                    }
                    is_used = true;
                    if let Some((_, other)) = place.replace((part, list)).filter(|(other, _)| *other != part) {
                        return Err(SharingError::Twice { name: spec.name.clone(), lists: [other, list] });
                    }
                }
                if !is_used {
                    return Err(SharingError::NoMatch { list, pattern: pattern.clone(), names: some_names(&model) });
                }
            }
        }
        if let Some(place) = parts.iter().position(Option::is_none)
            && !self.shared.is_empty()
        {
            return Err(SharingError::Unnamed(model.specs()[place].name.clone()));
        }
        let parts = parts.into_iter().map(|part| part.map_or(Part::Shared, |(part, _)| part)).collect();
        Parts::new(model, parts)
    }
}

/// The first names of a model.
fn some_names(model: &ParameterList) -> String {
    let names: Vec<&str> = model.specs().iter().take(NAMES_TOLD).map(|spec| spec.name.as_str()).collect();
    let more = if model.specs().len() > NAMES_TOLD { ", .." } else { "" };
    format!("{}{more}", names.join(", "))
}

/// Whether a name fits a pattern. After a mismatch the last `*` takes one more character, so the time is at most the
/// product of the lengths.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(letter) if *letter == b'?' || *letter == name[n] => (p, n) = (p + 1, n + 1),
            _ => match &mut star {
                Some((at, taken)) => {
                    *taken += 1;
                    (p, n) = (*at + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|letter| *letter == b'*')
}

/// A model's parameters, each with its part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    model: Arc<ParameterList>,
    /// The same list where all are shared.
    shared: Arc<ParameterList>,
    /// One per parameter.
    parts: Vec<Part>,
    runs: Vec<Run>,
}

/// Neighbouring values of the flat vector that belong to the same part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Their part.
    pub part: Part,
    /// Their range in the flat vector of the model.
    pub values: Range<usize>,
    /// The place of the first among the values of the part.
    pub first: usize,
}

impl Parts {
    fn new(model: Arc<ParameterList>, parts: Vec<Part>) -> Result<Self, SharingError> {
        let of_part = |wanted: Part| model.specs().iter().zip(&parts).filter(move |(_, part)| **part == wanted);
        let shared: Vec<ParameterSpec> = of_part(Part::Shared).map(|(spec, _)| spec.clone()).collect();
        let shared = match shared.len() == parts.len() {
            true => Arc::clone(&model),
            false => match ParameterList::new(shared) {
                Ok(shared) => Arc::new(shared),
                Err(ParameterListError::Empty) => return Err(SharingError::NothingShared),
                Err(_) => unreachable!("a part of a valid list is valid"),
            },
        };
        let mut runs: Vec<Run> = Vec::new();
        let mut counts = [0; 3];
        for (index, part) in parts.iter().enumerate() {
            let (values, count) = (model.range(index), &mut counts[*part as usize]);
            match runs.last_mut().filter(|run| run.part == *part) {
                Some(run) => run.values.end = values.end,
                None => runs.push(Run { part: *part, values: values.clone(), first: *count }),
            }
            *count += values.len();
        }
        Ok(Self { model, shared, parts, runs })
    }

    /// All parameters of the model.
    pub fn model(&self) -> &Arc<ParameterList> {
        &self.model
    }

    /// The shared parameters, in the model's order.
    pub fn shared(&self) -> &Arc<ParameterList> {
        &self.shared
    }

    /// Whether all parameters are shared.
    pub fn is_all_shared(&self) -> bool {
        !self.has(Part::Frozen) && !self.has(Part::Personal)
    }

    /// Whether any parameter belongs to this part.
    pub fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    /// The part of each parameter.
    pub fn each(&self) -> &[Part] {
        &self.parts
    }

    /// Number of values of a part.
    pub fn total(&self, part: Part) -> usize {
        self.runs.iter().filter(|run| run.part == part).map(|run| run.values.len()).sum()
    }

    /// The runs of these values of the model's flat vector, in order.
    pub fn runs(&self, values: Range<usize>) -> impl Iterator<Item = Run> {
        let from = self.runs.partition_point(|run| run.values.end <= values.start);
        let end = values.end;
        self.runs[from..].iter().take_while(move |run| run.values.start < end).map(move |run| {
            let start = run.values.start.max(values.start);
            let values = start..run.values.end.min(values.end);
            Run { part: run.part, first: run.first + (start - run.values.start), values }
        })
    }

    /// The values of a part, from those of the model.
    pub fn take(&self, part: Part, model: &[f32]) -> Vec<f32> {
        let mut values = Vec::with_capacity(self.total(part));
        for run in self.runs.iter().filter(|run| run.part == part) {
            values.extend_from_slice(&model[run.values.clone()]);
        }
        values
    }

    /// Puts the values of a part, as many as it has, into those of the model.
    pub fn put(&self, part: Part, values: &[f32], model: &mut [f32]) {
        for run in self.runs.iter().filter(|run| run.part == part) {
            model[run.values.clone()].copy_from_slice(&values[run.first..][..run.values.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> ParameterList {
        let specs = [("layers.0.weight", 6), ("layers.0.bias", 2), ("layers.2.weight", 4), ("layers.2.bias", 1)];
        ParameterList::new(specs.map(|(name, length)| ParameterSpec::new(name, [length])).into()).unwrap()
    }

    fn sharing(shared: &[&str], frozen: &[&str], personal: &[&str]) -> Sharing {
        let [shared, frozen, personal] =
            [shared, frozen, personal].map(|list| list.iter().map(|pattern| (*pattern).to_owned()).collect());
        Sharing { shared, frozen, personal }
    }

    #[test]
    fn stars_stand_for_any_characters_and_question_marks_for_one() {
        for (pattern, name) in [
            ("*", "layers.0.weight"),
            ("layers.0.*", "layers.0.weight"),
            ("*.weight", "layers.0.weight"),
            ("layers.?.bias", "layers.7.bias"),
            ("*a*b*", "xxaxxbxx"),
            ("a**b", "ab"),
            ("*ab", "aab"),
            ("exact", "exact"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("layers.0", "layers.0.weight"),
            ("layers.?.bias", "layers.10.bias"),
            ("*b", "abc"),
            ("a?", "a"),
            ("Exact", "exact"),
            ("", "a"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
        assert!(!matches(&"*a".repeat(100), &"b".repeat(NAME_BYTES_MAX)));
    }

    #[test]
    fn a_parameter_that_no_list_names_is_shared() {
        let parts = sharing(&[], &["layers.0.bias"], &["layers.2.*"]).parts(model()).unwrap();
        assert_eq!(parts.each(), [Part::Shared, Part::Frozen, Part::Personal, Part::Personal]);
        assert_eq!(parts.shared().specs(), &model().specs()[..1]);
        assert_eq!([Part::Shared, Part::Frozen, Part::Personal].map(|part| parts.total(part)), [6, 2, 5]);
        let all = Sharing::default().parts(model()).unwrap();
        assert!(all.is_all_shared() && Arc::ptr_eq(all.model(), all.shared()));
    }

    #[test]
    fn lists_that_do_not_fit_the_model_are_refused_in_words() {
        let refused = |shared: &[&str], frozen: &[&str], personal: &[&str]| {
            sharing(shared, frozen, personal).parts(model()).unwrap_err().to_string()
        };
        let names = "layers.0.weight, layers.0.bias, layers.2.weight, layers.2.bias";
        assert_eq!(
            refused(&[], &[], &["head.*"]),
            format!("personal: \"head.*\" matches no parameter; the model has {names}")
        );
        assert_eq!(
            refused(&[], &["*.bias"], &["layers.2.*"]),
            "the parameter \"layers.2.bias\" is in frozen and in personal"
        );
        assert_eq!(refused(&[], &["layers.0.*"], &["layers.2.*"]), SharingError::NothingShared.to_string());
        assert_eq!(
            refused(&["layers.0.*"], &[], &["layers.2.bias"]),
            "the parameter \"layers.2.weight\" is in none of shared, frozen and personal"
        );
        assert!(refused(&[], &[""], &[]).contains("is no pattern"));
        let many = Sharing { frozen: vec!["*".to_owned(); PATTERNS_MAX + 1], ..Sharing::default() };
        assert_eq!(many.parts(model()), Err(SharingError::TooMany { list: "frozen" }));
    }

    #[test]
    fn values_of_a_part_are_taken_and_put_back() {
        let parts = sharing(&[], &["layers.0.bias"], &["layers.2.weight"]).parts(model()).unwrap();
        let values: Vec<f32> = (0..13).map(|value| value as f32).collect();
        assert_eq!(parts.take(Part::Shared, &values), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 12.0]);
        let mut back = vec![0.0; 13];
        for part in [Part::Shared, Part::Frozen, Part::Personal] {
            parts.put(part, &parts.take(part, &values), &mut back);
        }
        assert_eq!(back, values);
    }

    #[test]
    fn runs_cover_every_range_and_count_within_their_part() {
        let parts = sharing(&[], &["layers.0.bias"], &["layers.2.weight"]).parts(model()).unwrap();
        for start in 0..13 {
            for end in start + 1..=13 {
                let runs: Vec<Run> = parts.runs(start..end).collect();
                let covered: Vec<usize> = runs.iter().flat_map(|run| run.values.clone()).collect();
                assert_eq!(covered, (start..end).collect::<Vec<_>>());
            }
        }
        let run = parts.runs(5..13).last().unwrap();
        assert_eq!(run, Run { part: Part::Shared, values: 12..13, first: 6 });
    }
}
