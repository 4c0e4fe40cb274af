//! The steps of an evaluation by every client that is here.
//!
//! It draws who waits at once, and for a while those that come: the clients that made the model are on their way back.
//! A client that has gone for good holds it up for that while, and not for its deadline.

use std::sync::Arc;

use tributary_protocol::seed::Seed;
use tributary_protocol::state::{AbandonReason, JobState, Phase};

use super::candidate::Candidate;
use super::policy::Tempo;
use super::relay::{by_place, together};
use super::step::{Next, Step, select};
use super::view::{Context, OpenRound};
use super::wait::is_ahead;

/// The shortest time for which clients that come are drawn, in milliseconds: a client is back within it.
const GATHER_MS_MIN: i64 = 2_000;

/// An evaluation of a model that this many clients made within this time.
pub(super) fn panel(makers: bool, expected: u32, took_ms: i64, clients_max: u32, deadline_ms: i64) -> Tempo {
    Tempo::Panel {
        makers,
        expected: expected.clamp(1, clients_max),
        gather_ms: took_ms.clamp(GATHER_MS_MIN.min(deadline_ms), deadline_ms),
    }
}

/// Whether a round still draws the clients that come.
pub(super) fn gathers(round: &OpenRound, now_ms: i64) -> bool {
    let Tempo::Panel { gather_ms, .. } = round.policy.tempo else { return true };
    let has_places = round.drawn < round.policy.cohort_size;
    round.phase == Phase::Selecting || has_places && is_ahead(round.opened_at_ms + gather_ms, gather_ms, now_ms)
}

/// What is next for a panel, while this many clients wait that have not been drawn for it.
pub(super) fn next_panel_step(
    round: &OpenRound,
    expected: u32,
    gather_ms: i64,
    available: u32,
    context: &Context<'_>,
) -> Next {
    match round.phase {
        Phase::Selecting | Phase::Training if context.job == JobState::Stopped => {
            Next::abandon(AbandonReason::JobStopped)
        }
        Phase::Selecting => select(&round.policy, available, round.opened_at_ms, context.now_ms),
        Phase::Training => collect(round, expected, gather_ms, available, context.now_ms),
        Phase::Aggregating => Next::Step(Step::Commit),
        Phase::Committed | Phase::Abandoned => Next::WAIT,
    }
}

fn collect(round: &OpenRound, expected: u32, gather_ms: i64, available: u32, now_ms: i64) -> Next {
    let OpenRound { policy, reported, working, opened_at_ms, .. } = *round;
    let gathers = gathers(round, now_ms);
    if gathers && available > 0 {
        return Next::Draw(available.min(policy.cohort_size - round.drawn));
    }
    let enough = reported >= policy.minimum;
    let all_drawn = round.awaited == 0;
    // Those that were drawn last have the same time again.
    let grace_ms = gather_ms.saturating_mul(2);
    let is_patient = is_ahead(opened_at_ms.saturating_add(grace_ms), grace_ms, now_ms);
    let deadline_at_ms = round.deadline_at_ms.unwrap_or(now_ms);
    let is_late = reported >= expected && !is_patient;
    if enough && (is_late || working == 0 && (all_drawn || !gathers)) {
        Next::Step(Step::Close)
    } else if !gathers && reported + working < policy.minimum {
        Next::abandon(AbandonReason::TooFewReports)
    } else if is_ahead(deadline_at_ms, policy.deadline_ms, now_ms) {
        let turns =
            [(gathers, opened_at_ms + gather_ms), (is_patient, opened_at_ms + grace_ms), (true, deadline_at_ms)];
        Next::Wait(turns.into_iter().filter(|(waits, _)| *waits).map(|(_, at_ms)| at_ms).min())
    } else if enough {
        Next::Step(Step::Close)
    } else {
        Next::abandon(AbandonReason::TooFewReports)
    }
}

/// The clients of a panel: of more than it takes, the same ones each time that they are here. Each place has a rank,
/// which follows from the job's seed and the number of its client.
pub(super) fn choose_panel(available: Vec<Arc<Candidate>>, size: usize, job_seed: Seed) -> Vec<Arc<Candidate>> {
    let rank = |candidate: &Candidate, place: u64| {
        let rank = job_seed.derive("panel", candidate.number);
        // Without relays the ranks are those of clients.
        if candidate.relay.is_some() { rank.derive("place", place).0 } else { rank.0 }
    };
    let places = by_place(available);
    let of_one = places.chunk_by(|one, other| one.client == other.client);
    let ranked = of_one.flat_map(|places| (0..).zip(places).map(|(place, one)| (rank(one, place), one)));
    let mut panel: Vec<_> = ranked.collect();
    panel.sort_by_key(|(rank, candidate)| (*rank, candidate.number));
    panel.truncate(size);
    panel.sort_by_key(|(_, candidate)| candidate.number);
    together(panel.into_iter().map(|(_, candidate)| Arc::clone(candidate)).collect())
}

#[cfg(test)]
mod tests {
    use super::super::known::fixture::{candidate, numbers};
    use super::super::relay::places;
    use super::*;
    use crate::round::played::{context, job_file, round};
    use crate::round::policy::TaskPolicy;

    fn at_work(working: u32, reported: u32) -> OpenRound {
        let policy = TaskPolicy {
            goal: 100,
            minimum: 1,
            cohort_size: 100,
            available_min: 1,
            selection_timeout_ms: 300,
            deadline_ms: 10_000,
            tempo: panel(true, 3, 500, 100, 10_000),
            ..TaskPolicy::COHORT
        };
        OpenRound {
            working,
            reported,
            drawn: working + reported,
            awaited: 3u32.saturating_sub(working + reported),
            deadline_at_ms: Some(10_000),
            ..round(policy, Phase::Training)
        }
    }

    #[test]
    fn a_panel_waits_for_those_that_made_the_model_and_no_longer_than_they_took() {
        let file = job_file("");
        let next = |round: &OpenRound, available, now_ms| {
            let Tempo::Panel { expected, gather_ms, .. } = round.policy.tempo else { panic!() };
            next_panel_step(round, expected, gather_ms, available, &Context { now_ms, ..context(&file) })
        };
        let (close, wait) = (Next::Step(Step::Close), |at_ms| Next::Wait(Some(at_ms)));
        let selecting = OpenRound { phase: Phase::Selecting, drawn: 0, ..at_work(0, 0) };
        assert_eq!((next(&selecting, 2, 0), next(&selecting, 0, 0)), (Next::Draw(100), wait(300)));
        assert_eq!(next(&at_work(1, 1), 2, 1_999), Next::Draw(2), "who comes is drawn");
        assert_eq!(next(&at_work(0, 2), 0, 1_999), wait(2_000), "the third is on its way");
        assert_eq!(next(&at_work(0, 2), 1, 2_000), close, "or has gone");
        assert_eq!(next(&at_work(0, 3), 0, 10), close, "all are here");
        assert_eq!((next(&at_work(4, 3), 0, 3_999), next(&at_work(4, 3), 0, 4_000)), (wait(4_000), close.clone()));
        assert_eq!(next(&at_work(4, 2), 0, 4_000), wait(10_000), "fewer have the whole deadline");
        assert_eq!(next(&at_work(4, 2), 0, 10_000), close);
        assert_eq!(next(&at_work(1, 0), 0, 10_000), Next::abandon(AbandonReason::TooFewReports));
        assert_eq!(next(&at_work(0, 0), 0, 1_000), wait(2_000), "who failed may be followed by others");
        assert_eq!(next(&at_work(0, 0), 0, 2_000), Next::abandon(AbandonReason::TooFewReports));
        let full = OpenRound { drawn: 100, ..at_work(1, 99) };
        assert_eq!(next(&full, 5, 10), wait(4_000), "no place is left");
    }

    #[test]
    fn of_more_than_a_panel_takes_the_same_ones_are_chosen_while_they_are_here() {
        let all = |but: &[u64]| (0..60).filter(|number| !but.contains(number)).map(candidate).collect::<Vec<_>>();
        let first = numbers(&choose_panel(all(&[]), 20, Seed(7)));
        let gone = &first[3..6];
        let second = numbers(&choose_panel(all(gone), 20, Seed(7)));
        assert_eq!(second.iter().filter(|number| first.contains(number)).count(), 17, "{first:?} {second:?}");
        assert_ne!(numbers(&choose_panel(all(&[]), 20, Seed(8))), first);
    }

    #[test]
    fn the_clients_behind_a_relay_have_the_ranks_of_others() {
        let relay =
            |number, places| Arc::new(Candidate { relay: Some(places), ..Candidate::clone(&candidate(number)) });
        let fleet = || (0..30).map(candidate).chain([relay(30, 30)]).collect::<Vec<_>>();
        let behind = |size: usize, seed| {
            let panel = choose_panel(fleet(), size, Seed(seed));
            assert_eq!(places(&panel) as usize, size.min(60));
            panel.iter().filter_map(|candidate| candidate.relay).sum::<u32>()
        };
        assert_eq!((behind(60, 7), behind(90, 7)), (30, 30));
        // Half of 20, 400 times; the deviation is below 40.
        let drawn: u32 = (0..400).map(|seed| behind(20, seed)).sum();
        assert!((3_850..4_150).contains(&drawn), "{drawn}");
    }
}
