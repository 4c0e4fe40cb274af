//! The draw of a cohort, without replacement, explained by its seed and by what is known of the clients.

use std::sync::Arc;

use tributary_protocol::job_file::Selection;
use tributary_protocol::seed::{Seed, Stream};

use super::candidate::Candidate;
use super::draw::{uniform, weighted};
use super::known::Known;
use super::relay::{by_place, together};
use super::utility;

/// Draws `size` of the available candidates (all of them, if there are fewer), without replacement; with
/// [`Selection::Poisson`] at most as many.
///
/// The draw depends on the seed, the set of available clients and their reports, not on the order in which they
/// arrived: candidates are sorted by enrolment number first. The cohort is returned in that order too.
pub(super) fn choose_cohort(
    mut available: Vec<Arc<Candidate>>,
    size: usize,
    selection: Selection,
    known: &Known,
    seed: Seed,
) -> Vec<Arc<Candidate>> {
    available.sort_by_key(|candidate| (candidate.number, candidate.client));
    available.dedup_by_key(|candidate| candidate.client);
    let mut available = by_place(available);
    let mut stream = seed.derive("cohort", 0).stream();
    let size = size.min(available.len());
    match selection {
        Selection::Uniform => uniform(&mut available, size, &mut stream),
        Selection::Weighted => by_examples(&mut available, size, &mut stream),
        Selection::PowerOfChoice { candidates } => {
            by_examples(&mut available, size.max(candidates as usize), &mut stream);
            // A client without an update may have any loss: it comes first.
            let loss = |candidate: &Arc<Candidate>| {
                known.reports.get(&candidate.client).map_or(f64::INFINITY, |report| report.loss)
            };
            available.sort_by(|one, other| loss(other).total_cmp(&loss(one)).then(one.number.cmp(&other.number)));
            available.truncate(size);
        }
        Selection::Poisson { rate } => {
            available.retain(|_| stream.unit() < rate);
            let size = size.min(available.len());
            uniform(&mut available, size, &mut stream);
        }
        Selection::Utility(settings) => available = utility::choose(available, size, &settings, known, &mut stream),
    }
    available.sort_by_key(|candidate| candidate.number);
    together(available)
}

/// Keeps some, drawn with chances by examples. A client without examples has the chance of one example.
fn by_examples(available: &mut Vec<Arc<Candidate>>, size: usize, stream: &mut Stream) {
    let examples = |candidate: Arc<Candidate>| (candidate.examples.max(1) as f64, candidate);
    *available = weighted(std::mem::take(available).into_iter().map(examples), size, stream);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tributary_protocol::id::ClientId;
    use tributary_protocol::job_file::Utility;

    use super::super::known::LastReport;
    use super::super::known::fixture::{candidate, numbers};
    use super::*;

    fn drawn(available: Vec<Arc<Candidate>>, size: usize, seed: u64) -> Vec<Arc<Candidate>> {
        choose_cohort(available, size, Selection::Uniform, &Known::default(), Seed(seed))
    }

    fn known(losses: impl Iterator<Item = (ClientId, f64)>) -> Known {
        let report = |loss| LastReport { loss, examples: 10, work_ms: 500, round: 1 };
        Known { round: 4, reports: losses.map(|(client, loss)| (client, report(loss))).collect() }
    }

    proptest! {
        #[test]
        fn the_same_seed_and_facts_give_the_same_cohort(seed in 0u64..1 << 53, count in 0u64..40, size in 0usize..40, turn in 0usize..40) {
            let available: Vec<_> = (0..count).map(candidate).collect();
            let mut turned = available.clone();
            turned.rotate_left(turn % available.len().max(1));
            turned.extend(turned.first().cloned());
            let cohort = drawn(available.clone(), size, seed);
            prop_assert_eq!(numbers(&cohort), numbers(&drawn(turned.clone(), size, seed)));
            let known = known(available.iter().skip(3).map(|one| (one.client, (one.number * 7 % 5) as f64)));
            let poisson = |available| choose_cohort(available, size, Selection::Poisson { rate: 0.5 }, &known, Seed(seed));
            prop_assert_eq!(numbers(&poisson(available.clone())), numbers(&poisson(turned.clone())));
            for selection in [
                Selection::Weighted,
                Selection::PowerOfChoice { candidates: 12 },
                Selection::Utility(Utility::default()),
            ] {
                let choose = |available| choose_cohort(available, size, selection, &known, Seed(seed));
                prop_assert_eq!(numbers(&choose(available.clone())), numbers(&choose(turned.clone())));
                prop_assert_eq!(choose(available.clone()).len(), size.min(count as usize));
            }
            prop_assert_eq!(cohort.len(), size.min(count as usize));
            prop_assert!(cohort.windows(2).all(|pair| pair[0].number < pair[1].number));
        }
    }

    #[test]
    fn every_client_is_drawn_about_equally_often() {
        let mut counts = [0u32; 20];
        for seed in 0..4000 {
            for candidate in drawn((0..20).map(candidate).collect(), 5, seed) {
                counts[candidate.number as usize] += 1;
            }
        }
        // 4000 draws at 1/4: mean 1000, standard deviation 27. The limits are five standard deviations on either side.
        assert!(counts.iter().all(|count| (863..=1137).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_client_with_three_times_the_examples_is_drawn_three_times_as_often() {
        let mut count = [0u32; 2];
        for seed in 0..4000 {
            let available = vec![candidate(0), Arc::new(Candidate { examples: 3, ..Candidate::clone(&candidate(1)) })];
            let cohort = choose_cohort(available, 1, Selection::Weighted, &Known::default(), Seed(seed));
            count[cohort[0].number as usize] += 1;
        }
        // 4000 draws at 3/4: mean 3000, standard deviation 27.
        assert!((2863..=3137).contains(&count[1]), "{count:?}");
    }

    #[test]
    fn the_largest_losses_of_the_candidates_are_chosen_and_the_unknown_ones_first() {
        let available = || (0..6).map(candidate).collect::<Vec<_>>();
        let known = known(available().into_iter().take(5).map(|one| (one.client, one.number as f64)));
        let choose = |candidates, size, seed| {
            let selection = Selection::PowerOfChoice { candidates };
            numbers(&choose_cohort(available(), size, selection, &known, Seed(seed)))
        };
        assert_eq!(choose(6, 3, 1), [3, 4, 5], "5 has no loss yet");
        let weighted = |seed| numbers(&choose_cohort(available(), 3, Selection::Weighted, &known, Seed(seed)));
        assert!((0..20).all(|seed| choose(3, 3, seed) == weighted(seed)), "as many candidates as the cohort has");
        assert!((0..50).any(|seed| choose(4, 3, seed).contains(&1)), "a small loss has a chance");
    }

    /// Goal: each client is drawn by itself. Method: the numbers of single clients and of pairs over many seeds, within
    /// five standard deviations.
    #[test]
    fn poisson_draws_each_client_independently_with_the_same_chance() {
        let (mut counts, mut both) = ([0u32; 10], 0);
        for seed in 0..4000 {
            let available = (0..10).map(candidate).collect();
            let selection = Selection::Poisson { rate: 0.25 };
            let cohort = numbers(&choose_cohort(available, 10, selection, &Known::default(), Seed(seed)));
            cohort.iter().for_each(|number| counts[*number as usize] += 1);
            both += u32::from(cohort.contains(&2) && cohort.contains(&7));
        }
        assert!(counts.iter().all(|count| (863..=1137).contains(count)), "{counts:?}");
        // 4000 draws at 1/16: mean 250, standard deviation 15.
        assert!((174..=326).contains(&both), "{both}");
        let all = choose_cohort(
            (0..10).map(candidate).collect(),
            4,
            Selection::Poisson { rate: 1.0 },
            &Known::default(),
            Seed(1),
        );
        assert_eq!(all.len(), 4, "no more than a cohort");
    }
}
