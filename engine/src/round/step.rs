//! The phases of a round: the next step as a function of known facts.

use serde::{Deserialize, Serialize};
use tributary_protocol::job_file::{EvaluationPlace, EvaluationPolicy, JobFile};
use tributary_protocol::operator::{Adapted, AdaptedGoal};
use tributary_protocol::state::{AbandonReason, JobState, Phase, Task};

use super::proximal::Proximal;

/// The policy of a round; training and evaluation have one each. It is stored with the round, so a change of the job's
/// policy affects only later rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskPolicy {
    /// Number of reports that closes a round before its deadline.
    pub goal: u32,
    /// Number of reports without which the deadline abandons the round.
    pub minimum: u32,
    /// Number of clients in a full cohort.
    pub cohort_size: u32,
    /// Number of clients that must be available before a cohort is drawn.
    pub available_min: u32,
    /// Longest wait for available clients.
    pub selection_timeout_ms: i64,
    /// Time from the draw of the cohort until the round closes; with a buffer, from the draw of each client until its
    /// assignment expires.
    pub deadline_ms: i64,
    /// Of a training round in a buffered job. The buffer's size is the goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<BufferPolicy>,
    /// Where deadline and cohort follow from the times of the rounds before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapted: Option<Adapted>,
    /// Where the goal follows from the diversity of the rounds before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapted_goal: Option<AdaptedGoal>,
    /// Weight of FedProx's proximal term in a training round, where it adapts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proximal: Option<Proximal>,
    /// Norm to which the updates of a training round are clipped, where it adapts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip_norm: Option<f64>,
}

/// What a round of a buffered job has in its policy beside the size of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferPolicy {
    /// Most clients that work at a time.
    pub concurrency: u32,
    /// Largest number of versions that an update may be behind.
    pub staleness_max: u32,
    /// Of a stale-synchronous job: how far members may be ahead of the slowest when they begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slack: Option<u32>,
}

impl TaskPolicy {
    /// How many clients more than these must wait before a round that selects draws its cohort, unless its time ends;
    /// at least 1.
    #[must_use]
    pub fn missing(&self, available: u32) -> u32 {
        self.available_min.saturating_sub(available).max(1)
    }

    /// When a round that was opened at this time waits no longer for clients.
    #[must_use]
    pub fn selection_ends_at_ms(&self, opened_at_ms: i64) -> i64 {
        opened_at_ms.saturating_add(self.selection_timeout_ms)
    }

    /// The policy of a job's training or evaluation rounds; none for evaluations of a job without them.
    #[must_use]
    pub fn of(job: &JobFile, task: Task) -> Option<Self> {
        match task {
            Task::Train => {
                let round = &job.round;
                Some(Self {
                    goal: round.goal(),
                    minimum: round.minimum(),
                    cohort_size: round.cohort_size(),
                    available_min: round.available_min.max(round.cohort_size()),
                    selection_timeout_ms: round.selection_timeout_ms.cast_signed(),
                    deadline_ms: round.deadline_ms.cast_signed(),
                    buffer: round.mode.buffered().map(|buffered| BufferPolicy {
                        concurrency: buffered.concurrency,
                        staleness_max: buffered.staleness_max,
                        slack: round.mode.slack(),
                    }),
                    proximal: Proximal::next(&job.training.algorithm, None, None),
                    clip_norm: job.aggregation.combine.adaptive_clip().map(|(norm, _)| norm),
                    ..Self::default()
                })
            }
            Task::Evaluate => job.evaluation.as_ref().map(Self::of_evaluation),
        }
    }

    fn of_evaluation(evaluation: &EvaluationPolicy) -> Self {
        let (selection_timeout_ms, deadline_ms) =
            (evaluation.selection_timeout_ms.cast_signed(), evaluation.deadline_ms.cast_signed());
        match evaluation.place {
            EvaluationPlace::Clients => Self {
                goal: evaluation.reports_goal,
                minimum: evaluation.reports_min,
                cohort_size: evaluation.cohort_size(),
                available_min: evaluation.cohort_size(),
                selection_timeout_ms,
                deadline_ms,
                ..Self::default()
            },
            // It waits for its test set as others wait for a client. Then nobody is left to wait for: the round goes on
            // to Aggregating, where the coordinator evaluates.
            EvaluationPlace::Coordinator => {
                Self { available_min: 1, selection_timeout_ms, deadline_ms, ..Self::default() }
            }
        }
    }

    /// Whether the coordinator evaluates, without clients.
    #[must_use]
    pub fn is_without_clients(&self) -> bool {
        self.goal == 0
    }
}

/// The facts that decide the next step of an open round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundFacts {
    pub phase: Phase,
    pub job: JobState,
    /// Eligible clients that wait now; read only while the round is selecting.
    pub available: u32,
    /// Clients of the cohort that have not answered.
    pub working: u32,
    /// Accepted reports.
    pub reported: u32,
    pub opened_at_ms: i64,
    /// When the cohort's time ends; known once the cohort is drawn.
    pub deadline_at_ms: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing, until a report arrives or this time (milliseconds since 1970) is reached.
    WaitUntil(i64),
    /// Nothing, until something changes.
    Wait,
    /// Draw a cohort of this many clients.
    ChooseCohort(u32),
    /// Draw so many further clients.
    Draw(u32),
    /// Close the round and compute its result.
    Aggregate,
    Commit,
    /// End without a result.
    Abandon(AbandonReason),
    /// The round has ended.
    Done,
}

#[must_use]
pub fn next_step(policy: &TaskPolicy, facts: &RoundFacts, now_ms: i64) -> Step {
    let stopped = facts.job == JobState::Stopped;
    match facts.phase {
        Phase::Selecting if stopped => Step::Abandon(AbandonReason::JobStopped),
        Phase::Selecting => select(policy, facts.available, facts.opened_at_ms, now_ms),
        Phase::Training if stopped => Step::Abandon(AbandonReason::JobStopped),
        Phase::Training => collect(policy, facts, now_ms),
        Phase::Aggregating => Step::Commit,
        Phase::Committed | Phase::Abandoned => Step::Done,
    }
}

/// A full choice is worth waiting for. When the time is up, any number of clients that can still reach the minimum is
/// enough.
pub(super) fn select(policy: &TaskPolicy, available: u32, opened_at_ms: i64, now_ms: i64) -> Step {
    let timeout_at_ms = policy.selection_ends_at_ms(opened_at_ms);
    if available >= policy.available_min {
        Step::ChooseCohort(policy.cohort_size)
    } else if policy.is_without_clients() {
        // Its test set comes when an operator uploads it, and without it the job would end without a result.
        Step::Wait
    } else if is_ahead(timeout_at_ms, policy.selection_timeout_ms, now_ms) {
        Step::WaitUntil(timeout_at_ms)
    } else if available >= policy.minimum.max(1) {
        Step::ChooseCohort(policy.cohort_size)
    } else {
        Step::Abandon(AbandonReason::SelectionTimeout)
    }
}

/// The round closes as soon as waiting longer could not improve it: the goal is met, or every client has answered.
fn collect(policy: &TaskPolicy, facts: &RoundFacts, now_ms: i64) -> Step {
    let enough = facts.reported >= policy.minimum;
    let deadline_at_ms = facts.deadline_at_ms.unwrap_or(now_ms);
    if facts.reported >= policy.goal || (enough && facts.working == 0) {
        Step::Aggregate
    } else if facts.reported + facts.working < policy.minimum {
        Step::Abandon(AbandonReason::TooFewReports)
    } else if is_ahead(deadline_at_ms, policy.deadline_ms, now_ms) {
        Step::WaitUntil(deadline_at_ms)
    } else if enough {
        Step::Aggregate
    } else {
        Step::Abandon(AbandonReason::TooFewReports)
    }
}

/// Whether the end of a wait of `length_ms` is still to come. An end that is further away than twice the length shows
/// that the clock was set back; the wait ends then, because it would last as long as the clock was wrong. A clock that
/// is set back by less prolongs the wait by less than its length.
pub(super) fn is_ahead(at_ms: i64, length_ms: i64, now_ms: i64) -> bool {
    now_ms < at_ms && at_ms.saturating_sub(now_ms) <= length_ms.saturating_mul(2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POLICY: TaskPolicy = TaskPolicy {
        goal: 4,
        minimum: 2,
        cohort_size: 6,
        available_min: 6,
        selection_timeout_ms: 100,
        deadline_ms: 1000,
        buffer: None,
        adapted: None,
        adapted_goal: None,
        proximal: None,
        clip_norm: None,
    };

    fn selecting(available: u32) -> RoundFacts {
        RoundFacts {
            phase: Phase::Selecting,
            job: JobState::Running,
            available,
            working: 0,
            reported: 0,
            opened_at_ms: 0,
            deadline_at_ms: None,
        }
    }

    #[test]
    fn an_evaluation_on_the_coordinator_waits_for_its_test_set_and_for_nobody() {
        let policy = TaskPolicy { goal: 0, minimum: 0, cohort_size: 0, available_min: 1, ..POLICY };
        assert!(policy.is_without_clients() && !POLICY.is_without_clients());
        assert_eq!(next_step(&policy, &selecting(0), 99), Step::Wait);
        assert_eq!(next_step(&policy, &selecting(0), 100), Step::Wait, "an upload may come at any time");
        let over = RoundFacts { job: JobState::Stopped, ..selecting(0) };
        assert_eq!(next_step(&policy, &over, 100), Step::Abandon(AbandonReason::JobStopped));
        assert_eq!(next_step(&policy, &selecting(1), 100), Step::ChooseCohort(0));
        assert_eq!(next_step(&policy, &training(0, 0), 0), Step::Aggregate);
        let stopped = RoundFacts { phase: Phase::Aggregating, job: JobState::Stopped, ..selecting(0) };
        assert_eq!(next_step(&policy, &stopped, 0), Step::Commit, "the last version is evaluated");
    }

    #[test]
    fn no_step_is_due_before_the_missing_clients_have_come() {
        for available in 0..6 {
            let enough = available + POLICY.missing(available);
            for waiting in available..enough {
                assert_eq!(next_step(&POLICY, &selecting(waiting), 50), Step::WaitUntil(100));
            }
            assert_eq!(next_step(&POLICY, &selecting(enough), 50), Step::ChooseCohort(6));
        }
        assert_eq!((POLICY.missing(6), POLICY.missing(9)), (1, 1), "a round that could draw looks at each client");
    }

    fn training(working: u32, reported: u32) -> RoundFacts {
        RoundFacts { phase: Phase::Training, working, reported, deadline_at_ms: Some(1000), ..selecting(0) }
    }

    #[test]
    fn the_table_of_the_design() {
        use AbandonReason::{JobStopped, SelectionTimeout, TooFewReports};
        let stopped = |facts| RoundFacts { job: JobState::Stopped, ..facts };
        let paused = |facts| RoundFacts { job: JobState::Paused, ..facts };
        let cases = [
            ("enough are available", selecting(6), 0, Step::ChooseCohort(6)),
            ("some are available, time is left", selecting(5), 99, Step::WaitUntil(100)),
            ("some are available, time is up", selecting(2), 100, Step::ChooseCohort(6)),
            ("too few are available, time is up", selecting(1), 100, Step::Abandon(SelectionTimeout)),
            ("the goal is met", training(2, 4), 10, Step::Aggregate),
            ("less than the goal, time is left", training(3, 3), 999, Step::WaitUntil(1000)),
            ("less than the goal, time is up", training(3, 3), 1000, Step::Aggregate),
            ("less than the minimum, time is up", training(3, 1), 1000, Step::Abandon(TooFewReports)),
            ("the clock was set back by more than the time", training(3, 3), -1_001, Step::Aggregate),
            ("the clock was set back by less than the time", training(3, 3), -1_000, Step::WaitUntil(1000)),
            ("the clock was set back before the draw", selecting(1), -101, Step::Abandon(SelectionTimeout)),
            ("every client has answered", training(0, 3), 10, Step::Aggregate),
            ("the minimum is out of reach", training(0, 1), 10, Step::Abandon(TooFewReports)),
            ("an operator stops the job", stopped(training(3, 3)), 10, Step::Abandon(JobStopped)),
            ("an operator stops the job early", stopped(selecting(6)), 10, Step::Abandon(JobStopped)),
            ("a paused job finishes its round", paused(training(2, 4)), 10, Step::Aggregate),
            (
                "a closed round is finished even so",
                RoundFacts { phase: Phase::Aggregating, ..stopped(training(0, 4)) },
                10,
                Step::Commit,
            ),
            ("an ended round stays ended", RoundFacts { phase: Phase::Abandoned, ..training(6, 9) }, 10, Step::Done),
        ];
        for (case, facts, now_ms, expected) in cases {
            assert_eq!(next_step(&POLICY, &facts, now_ms), expected, "{case}");
        }
    }

    /// Events that may occur between two steps.
    #[derive(Clone, Debug)]
    enum World {
        Wait(i64),
        Arrive(u32),
        Leave(u32),
        Report,
        Fail,
        Stop,
    }

    fn world() -> impl Strategy<Value = World> {
        prop_oneof![
            (1i64..400).prop_map(World::Wait),
            (1u32..5).prop_map(World::Arrive),
            (1u32..5).prop_map(World::Leave),
            Just(World::Report),
            Just(World::Fail),
            Just(World::Stop),
        ]
    }

    proptest! {
        /// Goal: under any events a round ends, its phases never go back, and it commits exactly when enough clients
        /// reported.
        /// Method: apply random events to the facts, ask `next_step` after each, apply its answer as a driver would;
        /// then let time pass and ask until it is done.
        #[test]
        fn a_round_always_ends_and_never_goes_back(
            events in prop::collection::vec(world(), 0..40),
            goal in 1u32..6, minimum_share in 1u32..6, spare in 0u32..4,
        ) {
            let minimum = minimum_share.min(goal);
            let policy = TaskPolicy { goal, minimum, cohort_size: goal + spare, available_min: goal + spare, ..POLICY };
            let mut facts = selecting(0);
            let mut now_ms = 0;
            let mut cohort = 0;
            let mut ended_by = None;
            for event in events.into_iter().chain([World::Wait(POLICY.selection_timeout_ms), World::Wait(POLICY.deadline_ms)]) {
                match event {
                    World::Wait(ms) => now_ms += ms,
                    World::Arrive(count) => facts.available += count,
                    World::Leave(count) => facts.available = facts.available.saturating_sub(count),
                    World::Report if facts.phase == Phase::Training && facts.working > 0 => {
                        facts.working -= 1;
                        facts.reported += 1;
                    }
                    World::Fail if facts.phase == Phase::Training && facts.working > 0 => facts.working -= 1,
                    World::Report | World::Fail => {}
                    World::Stop => facts.job = JobState::Stopped,
                }
                loop {
                    let before = facts.phase;
                    match next_step(&policy, &facts, now_ms) {
                        Step::WaitUntil(then_ms) => {
                            prop_assert!(then_ms > now_ms, "a wait must end in the future");
                            break;
                        }
                        Step::ChooseCohort(size) => {
                            cohort = size.min(facts.available);
                            facts.working = cohort;
                            facts.phase = Phase::Training;
                            facts.deadline_at_ms = Some(now_ms + policy.deadline_ms);
                        }
                        Step::Aggregate => facts.phase = Phase::Aggregating,
                        Step::Commit => facts.phase = Phase::Committed,
                        Step::Abandon(reason) => {
                            facts.phase = Phase::Abandoned;
                            ended_by = Some(reason);
                        }
                        Step::Done => break,
                        step @ (Step::Wait | Step::Draw(_)) => panic!("{step:?} is a step of a buffer"),
                    }
                    prop_assert!(facts.phase > before, "phases never go back");
                }
            }
            prop_assert!(!facts.phase.is_open(), "a round always ends: {facts:?}");
            prop_assert!(facts.reported <= cohort, "no client is counted twice");
            if facts.phase == Phase::Committed {
                prop_assert!(facts.reported >= minimum);
            } else {
                let stopped = ended_by == Some(AbandonReason::JobStopped);
                prop_assert!(stopped || facts.reported < minimum, "enough reports are never thrown away");
            }
        }
    }
}
