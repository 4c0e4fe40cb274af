//! The order of rounds: when a job opens its next one, which task it has, and when the job is complete.

use tributary_protocol::job_file::JobFile;
use tributary_protocol::state::{JobState, Task};

use super::calendar::Calendar;
use super::step::is_ahead;

/// The stored facts of a job that decide its next round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobFacts {
    pub state: JobState,
    pub training_open: bool,
    /// Number of open evaluations.
    pub evaluations_open: usize,
    /// Whether one of them still waits for clients.
    pub evaluation_waits: bool,
    /// Number of training rounds opened.
    pub rounds_opened: u32,
    /// Number of training rounds committed.
    pub rounds_committed: u32,
    /// Number of training rounds abandoned since the last committed one.
    pub abandoned_in_a_row: u32,
    /// When the last training round ended.
    pub last_ended_at_ms: Option<i64>,
    /// Number of the last committed training round.
    pub last_committed_round: Option<u32>,
    /// Whether an evaluation of that round's model has ended, with or without a result.
    pub last_committed_evaluated: bool,
    /// Accuracy of the newest evaluated version.
    pub accuracy: Option<f64>,
    /// Mean of the metric of `[stop]` in the newest evaluation; none without one.
    pub metric: Option<f64>,
}

/// Most open evaluations of a job. When evaluation is slower than training, versions in between are not evaluated.
const EVALUATIONS_OPEN_MAX: usize = 8;

/// Whether the job has trained as much as its file asks for. What is left is the evaluation of its last version.
#[must_use]
pub fn has_trained(job: &JobFile, facts: &JobFacts) -> bool {
    let rounds_done = job.stop.rounds.is_some_and(|rounds| facts.rounds_committed >= rounds);
    let accuracy_done = matches!((job.stop.accuracy, facts.accuracy), (Some(wanted), Some(got)) if got >= wanted);
    let metric_done = facts.metric.is_some_and(|mean| job.stop.is_reached(mean));
    rounds_done || accuracy_done || metric_done
}

/// Whether an evaluation that waits for clients gives way: the job has trained, and this is not its last version. One
/// that waits while training goes on stays, so that its selection timeout can come.
#[must_use]
pub fn gives_way(job: &JobFile, facts: &JobFacts, evaluation: u32) -> bool {
    has_trained(job, facts) && !facts.training_open && facts.last_committed_round > Some(evaluation)
}

/// The next action of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextRound {
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
#[must_use]
pub fn next_round(job: &JobFile, calendar: Option<&Calendar>, facts: &JobFacts, now_ms: i64) -> NextRound {
    if facts.state != JobState::Running && facts.state != JobState::Paused {
        return NextRound::Wait;
    }
    let finishing = has_trained(job, facts);
    if let Some(round) = due_evaluation(job, facts, finishing) {
        return NextRound::Open(Task::Evaluate, round);
    }
    if facts.training_open {
        return NextRound::Wait;
    }
    if finishing {
        return if facts.evaluations_open > 0 { NextRound::Wait } else { NextRound::Complete };
    }
    // A buffer is there for the updates that are on their way: it opens in a paused job and outside of the calendar,
    // which limit its draws, and gives way to the result of an evaluation when that comes.
    let is_buffered = job.round.mode.buffered().is_some();
    // A job that ends at an accuracy or a metric must know it before it trains on.
    let undecided = job.stop.is_measured() && facts.evaluations_open > 0;
    if !is_buffered && (facts.state == JobState::Paused || undecided) {
        return NextRound::Wait;
    }
    let calendar = calendar.filter(|_| !is_buffered);
    match may_open_at_ms(job, calendar, facts.abandoned_in_a_row, facts.last_ended_at_ms, now_ms) {
        Some(at_ms) if at_ms <= now_ms => NextRound::Open(Task::Train, facts.rounds_opened + 1),
        Some(at_ms) => NextRound::NotBefore(at_ms),
        None => NextRound::Wait,
    }
}

/// The first moment from now on at which a training round may open: after the pause that abandoned rounds cost, in a
/// minute of the calendar. None when the calendar has no further such minute.
#[must_use]
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
fn due_evaluation(job: &JobFile, facts: &JobFacts, finishing: bool) -> Option<u32> {
    let policy = job.evaluation.as_ref()?;
    let round = facts.last_committed_round.filter(|_| !facts.last_committed_evaluated)?;
    // Without evaluators one evaluation waits, not one for each version.
    let room = facts.evaluations_open < EVALUATIONS_OPEN_MAX && !facts.evaluation_waits;
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

    fn next_round(job: &JobFile, facts: &JobFacts, now_ms: i64) -> NextRound {
        super::next_round(job, None, facts, now_ms)
    }

    fn job(extra: &str) -> JobFile {
        let text = format!(
            "name = 'j'\npopulation = 'p'\nmodel = {{ parameters = [{{ name = 'w', shape = [1] }}] }}\n\
             training = {{ epochs = 1, optimizer = {{ kind = 'sgd', learning_rate = 1.0 }} }}\n{extra}"
        );
        JobFile::parse(&text).unwrap()
    }

    fn fresh() -> JobFacts {
        JobFacts {
            state: JobState::Running,
            training_open: false,
            evaluations_open: 0,
            evaluation_waits: false,
            rounds_opened: 0,
            rounds_committed: 0,
            abandoned_in_a_row: 0,
            last_ended_at_ms: None,
            last_committed_round: None,
            last_committed_evaluated: false,
            accuracy: None,
            metric: None,
        }
    }

    fn committed(rounds: u32) -> JobFacts {
        JobFacts {
            rounds_opened: rounds,
            rounds_committed: rounds,
            last_committed_round: Some(rounds),
            last_ended_at_ms: Some(50),
            ..fresh()
        }
    }

    #[test]
    fn rounds_follow_each_other_without_a_pause() {
        assert_eq!(next_round(&job(""), &fresh(), 0), NextRound::Open(Task::Train, 1));
        assert_eq!(next_round(&job(""), &committed(1), 50), NextRound::Open(Task::Train, 2));
        let open = JobFacts { training_open: true, ..committed(1) };
        assert_eq!(next_round(&job(""), &open, 50), NextRound::Wait);
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
        let evaluating = JobFacts { evaluations_open: 1, last_committed_evaluated: true, ..committed(2) };
        assert_eq!(next_round(&job, &evaluating, 50), NextRound::Open(Task::Train, 3));
        assert_eq!(next_round(&job, &committed(3), 50), NextRound::Open(Task::Evaluate, 3));
        let last = JobFacts { evaluations_open: 1, last_committed_evaluated: true, ..committed(3) };
        assert_eq!(next_round(&job, &last, 50), NextRound::Wait);
        assert_eq!(next_round(&job, &JobFacts { evaluations_open: 0, ..last }, 50), NextRound::Complete);
    }

    #[test]
    fn a_slow_evaluation_does_not_hold_up_training() {
        let job = job("evaluation = {}");
        let facts = JobFacts { evaluations_open: 1, last_committed_evaluated: true, ..committed(2) };
        assert_eq!(next_round(&job, &facts, 50), NextRound::Open(Task::Train, 3));
    }

    #[test]
    fn evaluations_that_nobody_makes_do_not_pile_up() {
        let endless = job("evaluation = {}");
        let facts = JobFacts { evaluations_open: EVALUATIONS_OPEN_MAX, ..committed(20) };
        assert_eq!(next_round(&endless, &facts, 50), NextRound::Open(Task::Train, 21));
        let waits = JobFacts { evaluations_open: 1, evaluation_waits: true, ..committed(20) };
        assert_eq!(next_round(&endless, &waits, 50), NextRound::Open(Task::Train, 21), "one waits at a time");
        let last = job("evaluation = {}\nstop = { rounds = 20 }");
        assert_eq!(next_round(&last, &facts, 50), NextRound::Open(Task::Evaluate, 20));
        assert!(gives_way(&last, &waits, 13) && !gives_way(&last, &waits, 20) && !gives_way(&endless, &waits, 13));
        assert!(!gives_way(&last, &JobFacts { training_open: true, ..waits }, 13));
    }

    #[test]
    fn a_job_that_ends_at_an_accuracy_waits_for_what_it_has() {
        let job = job("evaluation = {}\nstop = { accuracy = 0.9 }");
        let facts = JobFacts { evaluations_open: 1, last_committed_evaluated: true, ..committed(2) };
        assert_eq!(next_round(&job, &facts, 50), NextRound::Wait);
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
        let waiting = JobFacts { evaluations_open: 1, ..evaluated(0.1) };
        assert_eq!(next_round(&auc, &waiting, 50), NextRound::Wait);
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
        let next = |facts: &JobFacts, now_ms| super::next_round(&job, Some(&nights), facts, now_ms);
        let open = |number| NextRound::Open(Task::Train, number);
        let evaluated = JobFacts { last_committed_evaluated: true, ..committed(1) };
        let abandoned =
            |ended_at_ms| JobFacts { abandoned_in_a_row: 1, last_ended_at_ms: Some(ended_at_ms), ..evaluated };
        let cases = [
            (fresh(), 12 * HOUR_MS, NextRound::NotBefore(22 * HOUR_MS)),
            (fresh(), 22 * HOUR_MS - 1, NextRound::NotBefore(22 * HOUR_MS)),
            (fresh(), 22 * HOUR_MS, open(1)),
            (fresh(), 30 * HOUR_MS - 1, open(1)),
            (fresh(), 30 * HOUR_MS, NextRound::NotBefore(46 * HOUR_MS)),
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
