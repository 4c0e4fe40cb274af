//! Named example sets: what an app that trains several models has for each of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::hash::Sha256Hash;
use crate::id::Name;

/// Most named example sets of a client.
pub const EXAMPLE_SETS_MAX: usize = 32;

/// What a client has of one example set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExampleSet {
    /// Number of training examples. Of a relay: clients behind it that have the set.
    pub examples: u64,
    /// What the set's table has in common with others, as `schema` of the check-in for the examples without a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub schema: Option<Sha256Hash>,
}

impl ExampleSet {
    /// So many examples that any job may use which names the set.
    #[must_use]
    pub fn of(examples: u64) -> Self {
        Self { examples, schema: None }
    }
}

/// The named example sets of a client, at most 32. A client without any takes the space of a pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "BTreeMap<Name, ExampleSet>", try_from = "BTreeMap<Name, ExampleSet>")]
pub struct ExampleSets(Option<Arc<BTreeMap<Name, ExampleSet>>>);

/// Too many example sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a client has at most {EXAMPLE_SETS_MAX} named example sets")]
pub struct ExampleSetsError;

impl ExampleSets {
    /// The set of this name.
    #[must_use]
    pub fn get(&self, name: &Name) -> Option<ExampleSet> {
        self.0.as_ref()?.get(name).copied()
    }

    /// Names and sets, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, ExampleSet)> {
        self.0.iter().flat_map(|sets| sets.iter()).map(|(name, set)| (name, *set))
    }

    /// The names, in order.
    #[must_use]
    pub fn names(&self) -> Vec<Name> {
        self.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl TryFrom<BTreeMap<Name, ExampleSet>> for ExampleSets {
    type Error = ExampleSetsError;

    fn try_from(sets: BTreeMap<Name, ExampleSet>) -> Result<Self, ExampleSetsError> {
        match sets.len() {
            0 => Ok(Self(None)),
            1..=EXAMPLE_SETS_MAX => Ok(Self(Some(Arc::new(sets)))),
            _ => Err(ExampleSetsError),
        }
    }
}

impl From<ExampleSets> for BTreeMap<Name, ExampleSet> {
    fn from(sets: ExampleSets) -> Self {
        sets.0.map(Arc::unwrap_or_clone).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(count: usize) -> BTreeMap<Name, ExampleSet> {
        (0..count).map(|number| (format!("set{number}").parse().unwrap(), ExampleSet::of(number as u64))).collect()
    }

    #[test]
    fn sets_have_a_limit_and_none_take_the_space_of_a_pointer() {
        assert_eq!(ExampleSets::try_from(sets(EXAMPLE_SETS_MAX)).unwrap().iter().count(), EXAMPLE_SETS_MAX);
        assert_eq!(ExampleSets::try_from(sets(EXAMPLE_SETS_MAX + 1)), Err(ExampleSetsError));
        assert!(ExampleSets::try_from(sets(0)).unwrap().is_empty());
        assert_eq!(size_of::<ExampleSets>(), size_of::<usize>());
    }

    #[test]
    fn a_set_is_read_with_what_newer_clients_say_of_it() {
        let read: ExampleSets = serde_json::from_str(r#"{"typing":{"examples":7,"bytes":9}}"#).unwrap();
        assert_eq!(read.get(&"typing".parse().unwrap()), Some(ExampleSet::of(7)));
        assert_eq!(read.get(&"photos".parse().unwrap()), None);
        assert_eq!(serde_json::to_string(&read).unwrap(), r#"{"typing":{"examples":7}}"#);
        assert!(serde_json::from_str::<ExampleSets>(r#"{"not a name":{"examples":7}}"#).is_err());
    }
}
