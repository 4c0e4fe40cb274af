use tributary_protocol::state::{AbandonReason, JobState};

use super::*;
use crate::round::known::fixture::candidate;
use crate::round::played::{client, context, job_file, round};
use crate::round::policy::{TaskPolicy, Tempo};
use crate::round::step::Step;

const LENGTH_MS: i64 = 100;

fn policy(members_max: u32, slack: u32) -> TaskPolicy {
    TaskPolicy {
        tempo: Tempo::Members { members_max, slack },
        goal: members_max,
        minimum: 1,
        cohort_size: members_max,
        available_min: members_max,
        selection_timeout_ms: LENGTH_MS,
        deadline_ms: LENGTH_MS,
        ..TaskPolicy::COHORT
    }
}

fn member(number: usize, clock: u32, is_working: bool) -> Member {
    Member { client: client(number), clock, is_working, missed_at_ms: None }
}

fn clocks(members_max: u32, slack: u32, members: &[Member]) -> Clocks {
    Clocks::new(members_max, slack, members.iter().copied())
}

#[test]
fn nobody_begins_who_is_too_far_ahead_and_newcomers_join_at_the_fastest_clock() {
    let four = clocks(4, 1, &[member(0, 3, true), member(1, 4, false), member(2, 5, false)]);
    assert_eq!([0, 1, 2, 9].map(|number| four.entry(client(number))), [None, Some(4), None, None]);
    let even = clocks(4, 1, &[member(0, 4, true), member(1, 5, false)]);
    assert_eq!([1, 8, 9].map(|number| even.entry(client(number))), [Some(5); 3]);
    let full = clocks(2, 1, &[member(0, 4, true), member(1, 5, false)]);
    assert_eq!([1, 9].map(|number| full.entry(client(number))), [Some(5), None], "every place is taken");
    let starters = |clocks: &Clocks, eligible: &[u64]| {
        let eligible = eligible.iter().map(|number| candidate(*number)).collect();
        clocks.starters(eligible, Seed(1)).into_iter().map(|starter| starter.number).collect::<Vec<_>>()
    };
    assert_eq!(starters(&four, &[1, 2, 9]), [1]);
    let drawn = starters(&even, &[1, 5, 6, 7, 8, 9]);
    assert_eq!((drawn.len(), drawn[0]), (3, 1), "two of the five newcomers: {drawn:?}");
    assert_eq!(starters(&clocks(3, 0, &[]), &[3, 5]), [3, 5]);
}

#[test]
fn a_member_that_stays_away_is_missed_and_then_leaves() {
    let away = |missed_at_ms| Member { missed_at_ms, ..member(1, 4, false) };
    // Client 2 is ahead: it may stay away as long as it could not begin.
    let of = |missed_at_ms| clocks(4, 0, &[member(0, 4, true), away(missed_at_ms), member(2, 5, false)]);
    let absence = |clocks: &Clocks, now_ms| clocks.absence(LENGTH_MS, now_ms);
    assert_eq!(absence(&of(None), 7), Absence::Miss(vec![client(1)]));
    assert_eq!(absence(&of(Some(7)), 106), Absence::Until(Some(107)));
    assert_eq!(absence(&of(Some(7)), 107), Absence::Leave(vec![client(1)]));
}

#[test]
fn a_sum_closes_with_as_many_updates_as_there_are_members() {
    let (policy, file) = (policy(3, 1), job_file(""));
    let two = clocks(3, 1, &[member(0, 4, true), member(1, 5, false)]);
    let next = |round: &OpenRound, available, context: &Context<'_>| next_clocked_step(round, &two, available, context);
    let running = |now_ms| Context { now_ms, ..context(&file) };
    let open = OpenRound { working: 1, reported: 1, ..round(policy, Phase::Training) };
    assert_eq!(next(&open, 1, &running(0)), Next::Draw(1));
    assert_eq!(next(&open, 0, &running(0)), Next::WAIT);
    let full = OpenRound { reported: 2, ..open };
    assert_eq!(next(&full, 1, &running(0)), Next::Step(Step::Close), "before anybody begins again");
    let selecting = round(policy, Phase::Selecting);
    assert_eq!(next(&selecting, 3, &running(0)), Next::Draw(3));
    assert_eq!(next(&selecting, 1, &running(99)), Next::Wait(Some(100)));
    assert_eq!(next(&selecting, 1, &running(100)), Next::Draw(3), "with those who came");
    assert_eq!(next(&selecting, 1, &Context { job: JobState::Paused, ..running(100) }), Next::WAIT);
    let stopped = Context { job: JobState::Stopped, ..running(0) };
    assert_eq!(next(&selecting, 1, &stopped), Next::abandon(AbandonReason::JobStopped));
    let trained = Context { has_trained: true, ..running(0) };
    assert_eq!(next(&selecting, 3, &trained), Next::abandon(AbandonReason::Superseded));
}
