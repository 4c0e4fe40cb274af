//! Candidates: checked-in clients as the rules of rounds see them.

use std::sync::Arc;

use tributary_protocol::abilities::Abilities;
use tributary_protocol::coded::CodedShare;
use tributary_protocol::device::Attributes;
use tributary_protocol::example_sets::{ExampleSet, ExampleSets};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{ClientId, Name};
use tributary_protocol::relay::PLACES_MAX;
use tributary_protocol::update::CodecName;

#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    pub client: ClientId,
    /// Its number in the order of enrolment. Cohorts are drawn by it, so that a draw can be repeated.
    pub number: u64,
    /// As the client declared them.
    pub attributes: Attributes,
    /// Number of examples without a name that the client declared.
    pub examples: u64,
    /// Its named example sets. Of a relay, each with the number of clients that have it.
    pub sets: ExampleSets,
    /// Codecs that the client supports, to write updates and to read models.
    pub codecs: Vec<CodecName>,
    /// What its SDK can do.
    pub abilities: Abilities,
    /// By which a job's columns were applied to its table; none if any job may use its examples.
    pub schema: Option<Sha256Hash>,
    /// Whether it answers analyses.
    pub answers: bool,
    /// Whether it can mask updates.
    pub masks: bool,
    /// Whether it can sign in a group.
    pub signs: bool,
    /// Clients that it stands for, if it is a relay.
    pub relay: Option<u32>,
    /// Its share of a coded round; none until it is drawn, and in others.
    pub share: Option<Box<CodedShare>>,
}

impl Candidate {
    /// The number of updates that it can bring.
    #[must_use]
    pub fn places(&self) -> u32 {
        match &self.share {
            Some(share) => share.updates(),
            None => self.relay.unwrap_or(1),
        }
    }

    /// The most updates that it can bring to a job: a relay may stand for more clients with an example set than
    /// without.
    #[must_use]
    pub fn places_most(&self) -> u32 {
        let of_sets = self.sets.iter().map(|(_, set)| u32::try_from(set.examples).unwrap_or(u32::MAX));
        match self.relay {
            Some(places) => of_sets.fold(places, u32::max),
            None => 1,
        }
    }

    /// Whether its examples of this set were prepared by another schema than a job's.
    #[must_use]
    pub fn has_other_table(&self, data: Option<&Name>, schema: Option<Sha256Hash>) -> bool {
        let prepared_by = self.set(data).and_then(|set| set.schema);
        prepared_by.is_some() && prepared_by != schema
    }

    /// What it has of the examples that a job uses: of the named set, or of those without a name.
    pub(super) fn set(&self, data: Option<&Name>) -> Option<ExampleSet> {
        match data {
            Some(name) => self.sets.get(name),
            None => Some(ExampleSet { examples: self.examples, schema: self.schema }),
        }
    }

    /// The candidate as a job sees it that uses this example set: with the set's examples, and, of a relay, with a
    /// place for each client that has the set. None without the set.
    #[must_use]
    pub fn with_data(self: &Arc<Self>, data: Option<&Name>) -> Option<Arc<Self>> {
        if data.is_none() {
            return Some(Arc::clone(self));
        }
        let ExampleSet { examples, schema } = self.set(data)?;
        let relay = self.relay.map(|_| u32::try_from(examples).unwrap_or(u32::MAX).min(PLACES_MAX));
        Some(Arc::new(Self { examples, schema, relay, sets: ExampleSets::default(), ..Self::clone(self) }))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::known::fixture::candidate;
    use super::*;

    #[test]
    fn a_job_sees_the_examples_and_places_of_its_set() {
        let typing: Name = "typing".parse().unwrap();
        let sets: ExampleSets = BTreeMap::from([(typing.clone(), ExampleSet::of(3))]).try_into().unwrap();
        let both = Arc::new(Candidate { sets: sets.clone(), ..Candidate::clone(&candidate(1)) });
        assert_eq!(both.with_data(None), Some(Arc::clone(&both)));
        assert_eq!(both.with_data(Some(&typing)).unwrap().examples, 3);
        assert_eq!(both.with_data(Some(&"photos".parse().unwrap())), None);
        let relay = Arc::new(Candidate { sets, relay: Some(8), ..Candidate::clone(&candidate(2)) });
        assert_eq!(relay.with_data(None).unwrap().places(), 8);
        assert_eq!(relay.with_data(Some(&typing)).unwrap().places(), 3);
        assert_eq!((relay.places_most(), both.places_most()), (8, 1));
    }
}
