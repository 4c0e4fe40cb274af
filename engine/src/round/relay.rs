//! Relays: candidates that stand for several clients.
//!
//! A relay offers places, one for each client that waits behind it. A draw is one of places, so a client behind a relay
//! has the chance of any other. A relay that is drawn for some of its places brings that many updates, as one sum.

use std::sync::Arc;

use tributary_protocol::relay::PLACES_MAX;

use super::admit::Candidate;

/// The number of updates that these candidates can bring.
#[must_use]
pub fn places(candidates: &[Arc<Candidate>]) -> u32 {
    candidates.iter().fold(0, |places: u32, candidate| places.saturating_add(candidate.places()))
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
