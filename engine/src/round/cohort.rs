//! The draw of a cohort: uniform, without replacement, explained by its seed.

use tributary_protocol::seed::Seed;

use super::admit::Candidate;

/// Draws `size` of the available candidates (all of them, if there are fewer), uniformly and without replacement.
///
/// The draw depends on the seed and on the set of available clients, not on the order in which they arrived: candidates
/// are sorted by enrolment number first. The cohort is returned in that order too.
#[must_use]
pub fn choose_cohort(mut available: Vec<Candidate>, size: usize, seed: Seed) -> Vec<Candidate> {
    available.sort_by_key(|candidate| (candidate.number, candidate.client));
    available.dedup_by_key(|candidate| candidate.client);
    let mut stream = seed.derive("cohort", 0).stream();
    let size = size.min(available.len());
    for place in 0..size {
        let other = place + stream.below((available.len() - place) as u64) as usize;
        available.swap(place, other);
    }
    available.truncate(size);
    available.sort_by_key(|candidate| candidate.number);
    available
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tributary_protocol::device::Attributes;
    use tributary_protocol::id::ClientId;

    use super::*;

    fn candidate(number: u64) -> Candidate {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        Candidate {
            client: ClientId::from_random(bytes),
            number,
            attributes: Attributes::default(),
            examples: 1,
            codecs: vec![],
            last_round: None,
        }
    }

    fn numbers(cohort: &[Candidate]) -> Vec<u64> {
        cohort.iter().map(|candidate| candidate.number).collect()
    }

    proptest! {
        #[test]
        fn the_same_seed_and_facts_give_the_same_cohort(seed in 0u64..1 << 53, count in 0u64..40, size in 0usize..40, turn in 0usize..40) {
            let available: Vec<_> = (0..count).map(candidate).collect();
            let mut turned = available.clone();
            turned.rotate_left(turn % available.len().max(1));
            turned.extend(turned.first().cloned());
            let cohort = choose_cohort(available, size, Seed(seed));
            prop_assert_eq!(numbers(&cohort), numbers(&choose_cohort(turned, size, Seed(seed))));
            prop_assert_eq!(cohort.len(), size.min(count as usize));
            prop_assert!(cohort.windows(2).all(|pair| pair[0].number < pair[1].number));
        }
    }

    #[test]
    fn every_client_is_drawn_about_equally_often() {
        let mut drawn = [0u32; 20];
        for seed in 0..4000 {
            for candidate in choose_cohort((0..20).map(candidate).collect(), 5, Seed(seed)) {
                drawn[candidate.number as usize] += 1;
            }
        }
        // 4000 draws at 1/4: mean 1000, standard deviation 27. The limits are five standard deviations on either side.
        assert!(drawn.iter().all(|count| (863..=1137).contains(count)), "{drawn:?}");
    }
}
