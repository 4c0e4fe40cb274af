//! The steps of a buffer.
//!
//! A buffer opens in [`Phase::Training`] and draws clients one by one. An assignment has a base version and a deadline
//! of its own, and moves on to the next round when its round closes before it reports.

use tributary_protocol::state::{AbandonReason, JobState, Phase};

use super::step::{Next, Step};
use super::view::{Context, OpenRound};

/// What is next for a buffer that closes at `goal` updates, while this many clients may begin. It has no deadline of
/// its own: a buffer that nobody fills stays open until clients come or an operator stops the job.
pub(super) fn next_buffer_step(
    round: &OpenRound,
    concurrency: u32,
    goal: u32,
    available: u32,
    context: &Context<'_>,
) -> Next {
    match round.phase {
        Phase::Aggregating => Next::Step(Step::Commit),
        Phase::Committed | Phase::Abandoned => Next::WAIT,
        Phase::Training if round.reported >= goal => Next::Step(Step::Close),
        Phase::Selecting | Phase::Training if context.job == JobState::Stopped => {
            Next::abandon(AbandonReason::JobStopped)
        }
        Phase::Selecting | Phase::Training if context.has_trained => Next::abandon(AbandonReason::Superseded),
        Phase::Selecting | Phase::Training => {
            let places = concurrency.saturating_sub(round.working);
            match places.min(available) {
                clients @ 1.. if context.may_draw() => Next::Draw(clients),
                _ => Next::WAIT,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::played::{context, job_file, round};
    use crate::round::policy::TaskPolicy;

    #[test]
    fn a_buffer_draws_while_there_are_places_and_closes_when_it_is_full() {
        let file = job_file("");
        let open = |working, reported| OpenRound { working, reported, ..round(TaskPolicy::COHORT, Phase::Training) };
        let next =
            |round: &OpenRound, available, context: &Context<'_>| next_buffer_step(round, 4, 2, available, context);
        let running = || context(&file);
        assert_eq!(next(&open(2, 1), 3, &running()), Next::Draw(2));
        assert_eq!(next(&open(2, 1), 1, &running()), Next::Draw(1));
        assert_eq!(next(&open(4, 1), 3, &running()), Next::WAIT);
        assert_eq!(next(&open(2, 1), 0, &running()), Next::WAIT, "a slow buffer is never abandoned");
        assert_eq!(next(&open(2, 1), 3, &Context { job: JobState::Paused, ..running() }), Next::WAIT);
        assert_eq!(next(&open(2, 1), 3, &Context { in_calendar: false, ..running() }), Next::WAIT);
        assert_eq!(next(&open(2, 2), 3, &running()), Next::Step(Step::Close));
        let stopped = Context { job: JobState::Stopped, has_trained: true, ..running() };
        assert_eq!(next(&open(2, 2), 3, &stopped), Next::Step(Step::Close), "a full buffer always commits");
        assert_eq!(next(&open(2, 1), 3, &stopped), Next::abandon(AbandonReason::JobStopped));
        let trained = Context { has_trained: true, ..running() };
        assert_eq!(next(&open(2, 1), 3, &trained), Next::abandon(AbandonReason::Superseded));
        let closed = OpenRound { phase: Phase::Aggregating, ..open(2, 2) };
        assert_eq!(next(&closed, 3, &stopped), Next::Step(Step::Commit));
    }
}
