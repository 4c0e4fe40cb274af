//! The steps of a round whose clients are drawn together: Selecting, Training, Aggregating.

use std::sync::Arc;

use tributary_protocol::state::{AbandonReason, JobState, Phase};

use super::candidate::Candidate;
use super::policy::TaskPolicy;
use super::view::{Context, OpenRound};
use super::wait::is_ahead;

/// What is done to an open round.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Give work to these clients. The first draw begins the training.
    Draw(Vec<Arc<Candidate>>),
    /// Accept no more reports.
    Close,
    /// Compute the result of a closed round, and end it with that.
    Commit,
    /// Evaluate on this coordinator, which ends the round by itself.
    Evaluate,
    /// End without a result.
    Abandon(AbandonReason),
}

impl Step {
    /// The step in a word.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Draw(_) => "draw",
            Self::Close => "close",
            Self::Commit => "commit",
            Self::Evaluate => "evaluate",
            Self::Abandon(_) => "abandon",
        }
    }
}

/// What is next for an open round, before its clients are drawn.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Next {
    /// Nothing before this time, in milliseconds since 1970; without one, before something changes.
    Wait(Option<i64>),
    /// Draw this many of the clients that may begin.
    Draw(u32),
    Step(Step),
}

impl Next {
    pub(super) const WAIT: Self = Self::Wait(None);

    pub(super) fn abandon(reason: AbandonReason) -> Self {
        Self::Step(Step::Abandon(reason))
    }
}

/// What is next for a round with a cohort, while this many eligible clients wait.
pub(super) fn next_cohort_step(round: &OpenRound, available: u32, context: &Context<'_>) -> Next {
    match round.phase {
        Phase::Selecting | Phase::Training if context.job == JobState::Stopped => {
            Next::abandon(AbandonReason::JobStopped)
        }
        Phase::Selecting => select(&round.policy, available, round.opened_at_ms, context.now_ms),
        Phase::Training => collect(round, context.now_ms),
        Phase::Aggregating => Next::Step(Step::Commit),
        Phase::Committed | Phase::Abandoned => Next::WAIT,
    }
}

/// What is next for an evaluation on the coordinator. It waits for its test set, which an operator may upload at any
/// time, and then for nobody.
pub(super) fn next_coordinator_step(phase: Phase, job: JobState, has_test_set: bool, is_under_way: bool) -> Next {
    match phase {
        Phase::Selecting | Phase::Training if job == JobState::Stopped => Next::abandon(AbandonReason::JobStopped),
        Phase::Selecting if has_test_set => Next::Draw(0),
        Phase::Training => Next::Step(Step::Close),
        Phase::Aggregating if !is_under_way => Next::Step(Step::Evaluate),
        Phase::Selecting | Phase::Aggregating | Phase::Committed | Phase::Abandoned => Next::WAIT,
    }
}

/// A full choice is worth waiting for. When the time is up, any number of clients that can still reach the minimum is
/// enough.
pub(super) fn select(policy: &TaskPolicy, available: u32, opened_at_ms: i64, now_ms: i64) -> Next {
    let timeout_at_ms = policy.selection_ends_at_ms(opened_at_ms);
    if available >= policy.available_min {
        Next::Draw(policy.cohort_size)
    } else if is_ahead(timeout_at_ms, policy.selection_timeout_ms, now_ms) {
        Next::Wait(Some(timeout_at_ms))
    } else if available >= policy.minimum.max(1) {
        Next::Draw(policy.cohort_size)
    } else {
        Next::abandon(AbandonReason::SelectionTimeout)
    }
}

/// The round closes as soon as waiting longer could not improve it: the goal is met, or every client has answered.
/// Groups that are open at the deadline may end.
fn collect(round: &OpenRound, now_ms: i64) -> Next {
    let OpenRound { policy, reported, working, .. } = *round;
    let enough = reported >= policy.minimum;
    let deadline_at_ms = round.deadline_at_ms.unwrap_or(now_ms);
    if reported >= policy.goal || (enough && working == 0) {
        Next::Step(Step::Close)
    } else if reported + working < policy.minimum {
        Next::abandon(AbandonReason::TooFewReports)
    } else if is_ahead(deadline_at_ms, policy.deadline_ms, now_ms) {
        Next::Wait(Some(deadline_at_ms))
    } else if let Some(at_ms) = round.open_groups.and_then(|groups| groups.outlast_ms(deadline_at_ms, now_ms)) {
        Next::Wait(Some(at_ms))
    } else if enough {
        Next::Step(Step::Close)
    } else {
        Next::abandon(AbandonReason::TooFewReports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::masking::OpenGroups;
    use crate::round::played::{context, job_file, round};

    const POLICY: TaskPolicy = TaskPolicy {
        goal: 4,
        minimum: 2,
        cohort_size: 6,
        available_min: 6,
        selection_timeout_ms: 100,
        deadline_ms: 1000,
        ..TaskPolicy::COHORT
    };

    fn selecting() -> OpenRound {
        round(POLICY, Phase::Selecting)
    }

    fn training(working: u32, reported: u32) -> OpenRound {
        OpenRound { working, reported, deadline_at_ms: Some(1000), ..round(POLICY, Phase::Training) }
    }

    #[test]
    fn the_table_of_the_design() {
        use AbandonReason::{JobStopped, SelectionTimeout, TooFewReports};
        use JobState::{Paused, Running, Stopped};
        let (close, wait) = (Next::Step(Step::Close), |at_ms| Next::Wait(Some(at_ms)));
        let aggregating = OpenRound { phase: Phase::Aggregating, ..training(0, 4) };
        let cases = [
            ("enough are available", selecting(), 6, Running, 0, Next::Draw(6)),
            ("some are available, time is left", selecting(), 5, Running, 99, wait(100)),
            ("some are available, time is up", selecting(), 2, Running, 100, Next::Draw(6)),
            ("too few are available, time is up", selecting(), 1, Running, 100, Next::abandon(SelectionTimeout)),
            ("the goal is met", training(2, 4), 0, Running, 10, close.clone()),
            ("less than the goal, time is left", training(3, 3), 0, Running, 999, wait(1000)),
            ("less than the goal, time is up", training(3, 3), 0, Running, 1000, close.clone()),
            ("less than the minimum, time is up", training(3, 1), 0, Running, 1000, Next::abandon(TooFewReports)),
            ("the clock was set back by more than the time", training(3, 3), 0, Running, -1_001, close.clone()),
            ("the clock was set back by less than the time", training(3, 3), 0, Running, -1_000, wait(1000)),
            ("the clock was set back before the draw", selecting(), 1, Running, -101, Next::abandon(SelectionTimeout)),
            ("every client has answered", training(0, 3), 0, Running, 10, close.clone()),
            ("the minimum is out of reach", training(0, 1), 0, Running, 10, Next::abandon(TooFewReports)),
            ("the minimum is within reach of one", training(1, 1), 0, Running, 10, wait(1000)),
            ("an operator stops the job", training(3, 3), 0, Stopped, 10, Next::abandon(JobStopped)),
            ("an operator stops the job early", selecting(), 6, Stopped, 10, Next::abandon(JobStopped)),
            ("a paused job finishes its round", training(2, 4), 0, Paused, 10, close),
            ("a closed round is finished even so", aggregating, 0, Stopped, 10, Next::Step(Step::Commit)),
        ];
        let file = job_file("");
        for (case, round, available, job, now_ms, expected) in cases {
            let context = Context { job, now_ms, ..context(&file) };
            assert_eq!(next_cohort_step(&round, available, &context), expected, "{case}");
        }
    }

    #[test]
    fn a_round_whose_groups_are_open_at_its_deadline_waits_for_them() {
        let file = job_file("");
        let groups = |ends_at_ms| Some(OpenGroups { ends_at_ms, stages_ms: 500 });
        let next = |round: &OpenRound, now_ms| next_cohort_step(round, 0, &Context { now_ms, ..context(&file) });
        let open = OpenRound { open_groups: groups(1_200), ..training(4, 0) };
        assert_eq!(next(&open, 999), Next::Wait(Some(1_000)));
        assert_eq!(next(&open, 1_000), Next::Wait(Some(1_200)));
        assert_eq!(next(&open, 1_200), Next::abandon(AbandonReason::TooFewReports));
        let restarted = OpenRound { open_groups: groups(1_900), ..training(2, 2) };
        assert_eq!(next(&restarted, 1_499), Next::Wait(Some(1_500)), "a group has the sum of its stages");
        assert_eq!(next(&restarted, 1_500), Next::Step(Step::Close));
        let full = OpenRound { reported: 4, ..open };
        assert_eq!(next(&full, 1_000), Next::Step(Step::Close), "the goal closes a round whatever is open");
    }

    #[test]
    fn an_evaluation_on_the_coordinator_waits_for_its_test_set_and_for_nobody() {
        use JobState::{Running, Stopped};
        let next = next_coordinator_step;
        assert_eq!(next(Phase::Selecting, Running, false, false), Next::WAIT, "an upload may come at any time");
        assert_eq!(next(Phase::Selecting, Running, true, false), Next::Draw(0));
        assert_eq!(next(Phase::Selecting, Stopped, true, false), Next::abandon(AbandonReason::JobStopped));
        assert_eq!(next(Phase::Training, Running, true, false), Next::Step(Step::Close));
        assert_eq!(next(Phase::Aggregating, Stopped, true, false), Next::Step(Step::Evaluate), "the last version");
        assert_eq!(next(Phase::Aggregating, Running, true, true), Next::WAIT, "it is computed already");
    }
}
