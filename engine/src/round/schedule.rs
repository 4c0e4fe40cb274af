//! The order of rounds: when a job opens its next one, which task it has, and when the job is complete.

use tributary_protocol::job_file::JobFile;
use tributary_protocol::state::{JobState, Phase, Task};

use super::calendar::Calendar;
use super::policy::Tempo;
use super::view::{Budget, Descriptions, FixedModels, JobFacts, OpenRound};
use super::wait::is_ahead;

/// What the open rounds of a job say about the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Underway {
    /// Whether a training round is open.
    pub(super) training: bool,
    /// Whether a round is open that fixes the job's inputs.
    pub(super) description: bool,
    /// Number of open evaluations.
    pub(super) evaluations: usize,
    /// Whether one of them still waits for clients.
    pub(super) evaluation_waits: bool,
}

impl Underway {
    pub(super) fn of(rounds: &[OpenRound]) -> Self {
        let evaluations = || rounds.iter().filter(|round| round.task == Task::Evaluate);
        Self {
            training: rounds.iter().any(|round| round.task == Task::Train),
            description: rounds.iter().any(|round| round.task == Task::Describe),
            evaluations: evaluations().count(),
            evaluation_waits: evaluations().any(|round| round.phase == Phase::Selecting),
        }
    }
}

/// Most open evaluations of a job. When evaluation is slower than training, versions in between are not evaluated.
const EVALUATIONS_OPEN_MAX: usize = 8;

/// Whether the job has trained as much as its file asks for. What is left is the evaluation of its last version.
pub(super) fn has_trained(job: &JobFile, facts: &JobFacts) -> bool {
    let rounds_done = job.stop.rounds.is_some_and(|rounds| facts.rounds_committed >= rounds);
    let accuracy_done = matches!((job.stop.accuracy, facts.accuracy), (Some(wanted), Some(got)) if got >= wanted);
    let metric_done = facts.metric.is_some_and(|mean| job.stop.is_reached(mean));
    // An open round was charged when it closed, and ends before its job does.
    rounds_done || accuracy_done || metric_done || facts.budget == Budget::Spent
}

/// Whether an evaluation that waits for clients gives way: the job has trained, and this is not its last version. One
/// that waits while training goes on stays, so that its selection timeout can come.
pub(super) fn gives_way(job: &JobFile, facts: &JobFacts, underway: &Underway, evaluation: u32) -> bool {
    has_trained(job, facts) && !underway.training && facts.last_committed_round > Some(evaluation)
}

/// The next action of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextRound {
    /// Open a round with this number. An evaluation has the number of the training round whose model it evaluates.
    Open(Task, u32),
    /// Nothing before this time, in milliseconds since 1970.
    NotBefore(i64),
    /// Nothing until a round ends or an operator acts.
    Wait,
    /// The stop policy is met: the job is complete.
    Complete,
}

/// The next action of a job.
///
/// Evaluations run beside the next training rounds, because they only read versions, which never change. The last
/// version is always evaluated (when the job has evaluations) before the job is complete. A calendar limits when
/// training rounds open. It affects neither open rounds nor evaluations.
pub(super) fn next_round(
    job: &JobFile,
    calendar: Option<&Calendar>,
    facts: &JobFacts,
    underway: &Underway,
    now_ms: i64,
) -> NextRound {
    if facts.state != JobState::Running && facts.state != JobState::Paused {
        return NextRound::Wait;
    }
    if job.only_evaluates() {
        return next_fixed(facts, underway);
    }
    let finishing = has_trained(job, facts);
    if let Some(round) = due_evaluation(job, facts, underway, finishing) {
        return NextRound::Open(Task::Evaluate, round);
    }
    if job.model.lacks_statistics() {
        return next_description(job, calendar, facts, underway, now_ms);
    }
    if underway.training {
        return NextRound::Wait;
    }
    if finishing {
        return if underway.evaluations > 0 { NextRound::Wait } else { NextRound::Complete };
    }
    // A buffer is there for the updates that are on their way: it opens in a paused job and outside of the calendar,
    // which limit its draws, and gives way to the result of an evaluation when that comes.
    let tempo = Tempo::of(job.round.mode);
    // A job that ends at an accuracy or a metric must know it before it trains on.
    let undecided = job.stop.is_measured() && underway.evaluations > 0;
    let is_claimed = facts.budget == Budget::Claimed;
    if !tempo.opens_in(facts.state) || (!tempo.is_buffer() && undecided) || is_claimed {
        return NextRound::Wait;
    }
    let calendar = calendar.filter(|_| !tempo.is_buffer());
    match may_open_at_ms(job, calendar, facts.abandoned_in_a_row, facts.last_ended_at_ms, now_ms) {
        Some(at_ms) if at_ms <= now_ms => NextRound::Open(Task::Train, facts.rounds_opened + 1),
        Some(at_ms) => NextRound::NotBefore(at_ms),
        None => NextRound::Wait,
    }
}

/// The next evaluation of a job that only evaluates: one model after the other, so that each client has one at a time.
fn next_fixed(facts: &JobFacts, underway: &Underway) -> NextRound {
    let FixedModels { models, opened } = facts.fixed;
    if underway.evaluations > 0 {
        return NextRound::Wait;
    }
    match (opened < models, facts.state) {
        (true, JobState::Running) => NextRound::Open(Task::Evaluate, opened + 1),
        (true, _) => NextRound::Wait,
        (false, _) => NextRound::Complete,
    }
}

/// The next round that fixes the job's inputs. Nothing is trained before one is committed.
fn next_description(
    job: &JobFile,
    calendar: Option<&Calendar>,
    facts: &JobFacts,
    underway: &Underway,
    now_ms: i64,
) -> NextRound {
    if underway.description || facts.state != JobState::Running {
        return NextRound::Wait;
    }
    let Descriptions { opened, last_ended_at_ms } = facts.descriptions;
    match may_open_at_ms(job, calendar, opened, last_ended_at_ms, now_ms) {
        Some(at_ms) if at_ms <= now_ms => NextRound::Open(Task::Describe, opened + 1),
        Some(at_ms) => NextRound::NotBefore(at_ms),
        None => NextRound::Wait,
    }
}

/// The first moment from now on at which a training round may open: after the pause that abandoned rounds cost, in a
/// minute of the calendar. None when the calendar has no further such minute.
pub fn may_open_at_ms(
    job: &JobFile,
    calendar: Option<&Calendar>,
    abandoned_in_a_row: u32,
    last_ended_at_ms: Option<i64>,
    now_ms: i64,
) -> Option<i64> {
    let pause_ms = backoff_ms(job.round.backoff_ms, job.round.backoff_max_ms, abandoned_in_a_row);
    let rested_at_ms = last_ended_at_ms.map_or(now_ms, |ended_at_ms| ended_at_ms.saturating_add(pause_ms));
    // After the clock was set back, the end of the last round may be in the future for as long as the clock was wrong.
    let from_ms = if is_ahead(rested_at_ms, pause_ms, now_ms) { rested_at_ms } else { now_ms };
    calendar.map_or(Some(from_ms), |calendar| calendar.next_ms(from_ms))
}

/// The round whose model should be evaluated now.
fn due_evaluation(job: &JobFile, facts: &JobFacts, underway: &Underway, finishing: bool) -> Option<u32> {
    let policy = job.evaluation.as_ref()?;
    let round = facts.last_committed_round.filter(|_| !facts.last_committed_evaluated)?;
    // Without evaluators one evaluation waits, not one for each version.
    let room = underway.evaluations < EVALUATIONS_OPEN_MAX && !underway.evaluation_waits;
    let due = facts.rounds_committed.is_multiple_of(policy.every_rounds) && room;
    (due || finishing).then_some(round)
}

/// Pause after `in_a_row` abandoned rounds: `backoff x 2^(in_a_row - 1)`, at most `backoff_max`.
fn backoff_ms(backoff_ms: u64, backoff_max_ms: u64, in_a_row: u32) -> i64 {
    match in_a_row {
        0 => 0,
        _ => backoff_ms.saturating_mul(1 << (in_a_row - 1).min(40)).min(backoff_max_ms.max(backoff_ms)).cast_signed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::played::{FRESH, job_file as job};

    const QUIET: Underway = Underway { training: false, description: false, evaluations: 0, evaluation_waits: false };
    const TRAINING: Underway = Underway { training: true, ..QUIET };
    const EVALUATING: Underway = Underway { evaluations: 1, ..QUIET };

    /// What is next while nothing is open.
    fn next_round(job: &JobFile, facts: &JobFacts, now_ms: i64) -> NextRound {
        beside(&QUIET, job, facts, now_ms)
    }

    /// What is next beside open rounds.
    fn beside(underway: &Underway, job: &JobFile, facts: &JobFacts, now_ms: i64) -> NextRound {
        super::next_round(job, None, facts, underway, now_ms)
    }

    fn committed(rounds: u32) -> JobFacts {
        JobFacts {
            rounds_opened: rounds,
            rounds_committed: rounds,
            last_committed_round: Some(rounds),
            last_ended_at_ms: Some(50),
            ..FRESH
        }
    }

    #[test]
    fn inputs_are_fixed_before_the_first_training() {
        let file = job("");
        let model = serde_json::json!({
            "parameters": [{ "name": "w", "shape": [1] }],
            "inputs": { "standardize": "federated", "columns": [{ "name": "x" }] },
        });
        let file = JobFile { model: serde_json::from_value(model).unwrap(), ..file };
        assert_eq!(next_round(&file, &FRESH, 0), NextRound::Open(Task::Describe, 1));
        let open = Underway { description: true, ..QUIET };
        assert_eq!(beside(&open, &file, &FRESH, 0), NextRound::Wait);
        let abandoned = JobFacts { descriptions: Descriptions { opened: 2, last_ended_at_ms: Some(0) }, ..FRESH };
        assert_eq!(next_round(&file, &abandoned, 1), NextRound::NotBefore(2_000), "it doubles with each");
        assert_eq!(next_round(&file, &abandoned, 2_000), NextRound::Open(Task::Describe, 3));
        let paused = JobFacts { state: JobState::Paused, ..FRESH };
        assert_eq!(next_round(&file, &paused, 0), NextRound::Wait);
        let mut fixed = file.clone();
        let column = &mut fixed.model.inputs.as_mut().unwrap().columns[0];
        (column.mean, column.deviation) = (Some(0.0), Some(1.0));
        assert_eq!(next_round(&fixed, &FRESH, 0), NextRound::Open(Task::Train, 1));
    }

    #[test]
    fn a_job_that_only_evaluates_opens_one_evaluation_for_each_model() {
        let only = job("evaluation = { only = true, models = ['a:1', 'a:2'] }");
        let at = |opened| JobFacts { fixed: FixedModels { models: 2, opened }, ..FRESH };
        assert_eq!(next_round(&only, &at(0), 0), NextRound::Open(Task::Evaluate, 1));
        assert_eq!(beside(&EVALUATING, &only, &at(1), 0), NextRound::Wait);
        assert_eq!(next_round(&only, &at(1), 0), NextRound::Open(Task::Evaluate, 2));
        assert_eq!(next_round(&only, &JobFacts { state: JobState::Paused, ..at(1) }, 0), NextRound::Wait);
        assert_eq!(next_round(&only, &at(2), 0), NextRound::Complete);
    }

    #[test]
    fn rounds_follow_each_other_without_a_pause() {
        assert_eq!(next_round(&job(""), &FRESH, 0), NextRound::Open(Task::Train, 1));
        assert_eq!(next_round(&job(""), &committed(1), 50), NextRound::Open(Task::Train, 2));
        assert_eq!(beside(&TRAINING, &job(""), &committed(1), 50), NextRound::Wait);
    }

    #[test]
    fn abandoned_rounds_wait_longer_each_time() {
        let job = job("round = { backoff_ms = 10, backoff_max_ms = 35 }");
        let after = |abandoned_in_a_row| JobFacts { abandoned_in_a_row, ..committed(1) };
        for (in_a_row, opens_at_ms) in [(1, 60), (2, 70), (3, 85), (60, 85)] {
            assert_eq!(next_round(&job, &after(in_a_row), 50), NextRound::NotBefore(opens_at_ms));
            assert_eq!(next_round(&job, &after(in_a_row), opens_at_ms), NextRound::Open(Task::Train, 2));
        }
    }

    #[test]
    fn evaluations_come_every_n_rounds_and_at_the_end() {
        let job = job("evaluation = { every_rounds = 2 }\nstop = { rounds = 3 }");
        assert_eq!(next_round(&job, &committed(1), 50), NextRound::Open(Task::Train, 2));
        assert_eq!(next_round(&job, &committed(2), 50), NextRound::Open(Task::Evaluate, 2));
        let evaluated = JobFacts { last_committed_evaluated: true, ..committed(2) };
        assert_eq!(beside(&EVALUATING, &job, &evaluated, 50), NextRound::Open(Task::Train, 3));
        assert_eq!(next_round(&job, &committed(3), 50), NextRound::Open(Task::Evaluate, 3));
        let last = JobFacts { last_committed_evaluated: true, ..committed(3) };
        assert_eq!(beside(&EVALUATING, &job, &last, 50), NextRound::Wait);
        assert_eq!(next_round(&job, &last, 50), NextRound::Complete);
    }

    #[test]
    fn a_slow_evaluation_does_not_hold_up_training() {
        let job = job("evaluation = {}");
        let facts = JobFacts { last_committed_evaluated: true, ..committed(2) };
        assert_eq!(beside(&EVALUATING, &job, &facts, 50), NextRound::Open(Task::Train, 3));
    }

    #[test]
    fn evaluations_that_nobody_makes_do_not_pile_up() {
        let endless = job("evaluation = {}");
        let full = Underway { evaluations: EVALUATIONS_OPEN_MAX, ..QUIET };
        assert_eq!(beside(&full, &endless, &committed(20), 50), NextRound::Open(Task::Train, 21));
        let room = Underway { evaluations: EVALUATIONS_OPEN_MAX - 1, ..QUIET };
        assert_eq!(beside(&room, &endless, &committed(20), 50), NextRound::Open(Task::Evaluate, 20));
        let waits = Underway { evaluation_waits: true, ..EVALUATING };
        assert_eq!(
            beside(&waits, &endless, &committed(20), 50),
            NextRound::Open(Task::Train, 21),
            "one waits at a time"
        );
        let last = job("evaluation = {}\nstop = { rounds = 20 }");
        assert_eq!(beside(&full, &last, &committed(20), 50), NextRound::Open(Task::Evaluate, 20));
        let gives_way = |job, underway, evaluation| super::gives_way(job, &committed(20), underway, evaluation);
        assert!(gives_way(&last, &waits, 13) && !gives_way(&last, &waits, 20) && !gives_way(&endless, &waits, 13));
        assert!(!gives_way(&last, &Underway { training: true, ..waits }, 13));
    }

    #[test]
    fn a_job_that_ends_at_an_accuracy_waits_for_what_it_has() {
        let job = job("evaluation = {}\nstop = { accuracy = 0.9 }");
        let facts = JobFacts { last_committed_evaluated: true, ..committed(2) };
        assert_eq!(beside(&EVALUATING, &job, &facts, 50), NextRound::Wait);
    }

    #[test]
    fn a_job_is_complete_when_its_accuracy_is_reached() {
        let job = job("evaluation = {}\nstop = { accuracy = 0.9 }");
        let evaluated =
            |accuracy| JobFacts { last_committed_evaluated: true, accuracy: Some(accuracy), ..committed(4) };
        assert_eq!(next_round(&job, &evaluated(0.89), 50), NextRound::Open(Task::Train, 5));
        assert_eq!(next_round(&job, &evaluated(0.9), 50), NextRound::Complete);
    }

    #[test]
    fn a_job_is_complete_when_its_metric_is_good_enough() {
        let evaluated = |metric| JobFacts { last_committed_evaluated: true, metric: Some(metric), ..committed(4) };
        let more = NextRound::Open(Task::Train, 5);
        let auc = job("evaluation = {}\nstop = { metric = 'auc', at_least = 0.9 }");
        assert_eq!(next_round(&auc, &evaluated(0.89), 50), more);
        assert_eq!(next_round(&auc, &evaluated(0.9), 50), NextRound::Complete);
        let perplexity = job("evaluation = {}\nstop = { metric = 'perplexity', at_most = 12.0 }");
        assert_eq!(next_round(&perplexity, &evaluated(12.5), 50), more);
        assert_eq!(next_round(&perplexity, &evaluated(11.0), 50), NextRound::Complete);
        let unmeasured = JobFacts { metric: None, ..evaluated(0.0) };
        assert_eq!(next_round(&perplexity, &unmeasured, 50), more, "no report had it");
        assert_eq!(beside(&EVALUATING, &auc, &evaluated(0.1), 50), NextRound::Wait);
    }

    #[test]
    fn a_paused_job_opens_nothing_but_still_measures_what_it_has() {
        let job = job("evaluation = {}");
        let paused = JobFacts { state: JobState::Paused, ..committed(1) };
        assert_eq!(next_round(&job, &paused, 50), NextRound::Open(Task::Evaluate, 1));
        assert_eq!(next_round(&job, &JobFacts { last_committed_evaluated: true, ..paused }, 50), NextRound::Wait);
        assert_eq!(next_round(&job, &JobFacts { state: JobState::Stopped, ..paused }, 50), NextRound::Wait);
    }

    #[test]
    fn training_opens_only_in_the_minutes_of_the_calendar() {
        const HOUR_MS: i64 = 3_600_000;
        let nights = Calendar::parse("* 22-23,0-5 * * *", "UTC").unwrap();
        let job = job("round = { backoff_ms = 60000 }\nevaluation = {}");
        let next = |facts: &JobFacts, now_ms| super::next_round(&job, Some(&nights), facts, &QUIET, now_ms);
        let open = |number| NextRound::Open(Task::Train, number);
        let evaluated = JobFacts { last_committed_evaluated: true, ..committed(1) };
        let abandoned =
            |ended_at_ms| JobFacts { abandoned_in_a_row: 1, last_ended_at_ms: Some(ended_at_ms), ..evaluated };
        let cases = [
            (FRESH, 12 * HOUR_MS, NextRound::NotBefore(22 * HOUR_MS)),
            (FRESH, 22 * HOUR_MS - 1, NextRound::NotBefore(22 * HOUR_MS)),
            (FRESH, 22 * HOUR_MS, open(1)),
            (FRESH, 30 * HOUR_MS - 1, open(1)),
            (FRESH, 30 * HOUR_MS, NextRound::NotBefore(46 * HOUR_MS)),
            // A pause that ends in the window, and one that outlasts it.
            (abandoned(23 * HOUR_MS), 23 * HOUR_MS, NextRound::NotBefore(23 * HOUR_MS + 60_000)),
            (abandoned(30 * HOUR_MS - 1), 30 * HOUR_MS - 1, NextRound::NotBefore(46 * HOUR_MS)),
            // Evaluations read stored versions, at any time.
            (committed(1), 12 * HOUR_MS, NextRound::Open(Task::Evaluate, 1)),
            (JobFacts { state: JobState::Paused, ..evaluated }, 12 * HOUR_MS, NextRound::Wait),
        ];
        for (facts, now_ms, expected) in cases {
            assert_eq!(next(&facts, now_ms), expected, "{facts:?} at {now_ms}");
        }
    }
}
