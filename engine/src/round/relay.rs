//! Relays: candidates that stand for several clients.
//!
//! A relay offers places, one for each client that waits behind it. A draw is one of places, so a client behind a relay
//! has the chance of any other. A relay that is drawn for some of its places brings that many updates, as one sum.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_protocol::example_sets::{EXAMPLE_SETS_MAX, ExampleSet, ExampleSets};
use tributary_protocol::id::Name;
use tributary_protocol::relay::PLACES_MAX;

use super::candidate::Candidate;

/// The number of updates that these candidates can bring.
#[must_use]
pub fn places(candidates: &[Arc<Candidate>]) -> u32 {
    candidates.iter().fold(0, |places: u32, candidate| places.saturating_add(candidate.places()))
}

/// What a relay offers its parent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Places for jobs without a named example set.
    pub places: u32,
    /// The named example sets, each with its places.
    pub sets: ExampleSets,
}

/// What a relay offers for the candidates that wait at it. Of more example sets than a client may have, those with the
/// fewest places are left out.
#[must_use]
pub fn offer(candidates: &[Arc<Candidate>]) -> Offer {
    let mut places = 0_u32;
    let mut sets: BTreeMap<&Name, u64> = BTreeMap::new();
    for candidate in candidates {
        let is_relay = candidate.relay.is_some();
        // One with named sets alone is of no use to jobs without a name.
        if is_relay || candidate.examples > 0 || candidate.sets.is_empty() {
            places = places.saturating_add(candidate.places());
        }
        for (name, set) in candidate.sets.iter() {
            let places = sets.entry(name).or_default();
            *places = places.saturating_add(if is_relay { set.examples } else { 1 });
        }
    }
    let mut sets: Vec<(&Name, u64)> = sets.into_iter().collect();
    sets.sort_by_key(|(_, places)| Reverse(*places));
    let sets = sets.into_iter().take(EXAMPLE_SETS_MAX);
    let sets: BTreeMap<Name, ExampleSet> =
        sets.map(|(name, places)| (name.clone(), ExampleSet::of(places.min(PLACES_MAX.into())))).collect();
    Offer { places: places.min(PLACES_MAX), sets: sets.try_into().unwrap_or_default() }
}

/// These candidates, each as often as it has places.
pub(super) fn by_place(candidates: Vec<Arc<Candidate>>) -> Vec<Arc<Candidate>> {
    if candidates.iter().all(|candidate| candidate.relay.is_none()) {
        return candidates;
    }
    let each = |candidate: Arc<Candidate>| {
        let places = candidate.places().min(PLACES_MAX) as usize;
        std::iter::repeat_n(candidate, places)
    };
    candidates.into_iter().flat_map(each).collect()
}

/// Each candidate once, a relay with the places for which it was drawn. Those of one candidate lie side by side.
pub(super) fn together(drawn: Vec<Arc<Candidate>>) -> Vec<Arc<Candidate>> {
    let mut cohort: Vec<Arc<Candidate>> = Vec::with_capacity(drawn.len());
    for run in drawn.chunk_by(|one, other| one.client == other.client) {
        let candidate = Arc::clone(&run[0]);
        let places = u32::try_from(run.len()).unwrap_or(u32::MAX);
        cohort.push(match candidate.relay {
            Some(offered) if offered != places => {
                Arc::new(Candidate { relay: Some(places), ..Candidate::clone(&candidate) })
            }
            _ => candidate,
        });
    }
    cohort
}

#[cfg(test)]
mod tests {
    use tributary_protocol::job_file::Selection;
    use tributary_protocol::seed::Seed;

    use super::super::cohort::choose_cohort;
    use super::super::known::Known;
    use super::super::known::fixture::candidate;
    use super::*;

    fn relay(number: u64, places: u32) -> Arc<Candidate> {
        Arc::new(Candidate { relay: Some(places), ..Candidate::clone(&candidate(number)) })
    }

    fn drawn(available: Vec<Arc<Candidate>>, size: usize, seed: u64) -> Vec<Arc<Candidate>> {
        choose_cohort(available, size, Selection::Uniform, &Known::default(), Seed(seed))
    }

    #[test]
    fn a_relay_offers_the_places_of_each_example_set() {
        let name = |set: &str| set.parse::<Name>().unwrap();
        let with = |candidate: Arc<Candidate>, examples, sets: &[(&str, u64)]| {
            let sets = sets.iter().map(|(set, examples)| (name(set), ExampleSet::of(*examples)));
            let sets = sets.collect::<BTreeMap<_, _>>().try_into().unwrap();
            Arc::new(Candidate { examples, sets, ..Candidate::clone(&candidate) })
        };
        let waiting = [
            candidate(1),
            with(candidate(2), 5, &[("typing", 9)]),
            with(candidate(3), 0, &[("typing", 9), ("photos", 1)]),
            with(relay(4, 7), 1, &[("photos", 6)]),
        ];
        let Offer { places, sets } = offer(&waiting);
        assert_eq!(places, 9, "one client has named sets alone");
        let sets: Vec<_> = sets.iter().map(|(name, set)| (name.as_str(), set.examples)).collect();
        assert_eq!(sets, [("photos", 7), ("typing", 2)]);
        let many = (0..=EXAMPLE_SETS_MAX).map(|set| with(candidate(1), 1, &[(&format!("set{set}"), 1)]));
        assert_eq!(offer(&many.collect::<Vec<_>>()).sets.iter().count(), EXAMPLE_SETS_MAX);
    }

    #[test]
    fn clients_behind_relays_are_drawn_as_often_as_others() {
        let (mut behind, mut alone) = (0, 0);
        for seed in 0..2_000 {
            let cohort = drawn(vec![relay(0, 6), candidate(1), candidate(2), relay(3, 0)], 4, seed);
            assert_eq!(places(&cohort), 4);
            assert!(cohort.iter().all(|candidate| candidate.number != 3), "it stands for nobody");
            for candidate in cohort {
                match candidate.relay {
                    Some(places) => behind += places,
                    None => alone += 1,
                }
            }
        }
        // Half of 6 places and of 2, 2,000 times; the deviation is below 30.
        assert!((5_850..6_150).contains(&behind) && (1_850..2_150).contains(&alone), "{behind} {alone}");
    }

    #[test]
    fn a_cohort_as_large_as_the_fleet_has_every_place() {
        let cohort = drawn(vec![relay(2, 4), relay(1, 4), relay(0, 4)], 12, 7);
        assert_eq!(
            cohort.iter().map(|one| (one.number, one.relay)).collect::<Vec<_>>(),
            [(0, Some(4)), (1, Some(4)), (2, Some(4))]
        );
        assert_eq!(places(&drawn(vec![relay(2, 4), candidate(0)], 12, 7)), 5, "there are no more");
    }
}
