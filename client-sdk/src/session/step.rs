//! What a session does next: pure functions of what has happened so far. The loop in `session` does what a step asks
//! for.

use std::time::Duration;

use tributary_protocol::device::{AssignmentStatus, DETAIL_BYTES_MAX, FailureReport};
use tributary_protocol::id::AssignmentId;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::FailureReason;

use crate::error::ClientError;
use crate::models::Base;
use crate::outcome::Outcome;
use crate::store::client_state::ClientState;
use crate::store::state::{Finished, Pending, Work};
use crate::tasks::Completed;
use crate::trainer::TrainError;
use crate::transport::received::{CheckInAnswer, Received};

/// How often the delivery of finished work may end with an unusable answer before the work is given up.
const DELIVERY_FAILURES_MAX: u32 = 10;
/// The pause after an interruption.
const INTERRUPTED_RETRY: Duration = Duration::from_secs(60);

/// The outcome when the host stops a session that holds no assignment.
pub(crate) fn interrupted() -> Outcome {
    Outcome::Interrupted { retry_after: INTERRUPTED_RETRY }
}

/// What a session does next. The function in parentheses takes the result and gives the step after it.
#[derive(Debug)]
pub(crate) enum Step {
    /// Look for work that an earlier session finished ([`Step::after_resume`]).
    Resume,
    /// Check in ([`Step::after_check_in`]).
    CheckIn,
    /// Get what the assignment starts from ([`Step::after_fetch`]).
    Fetch(Box<Received>),
    /// Train or evaluate, until the deadline by the device's clock ([`Step::after_compute`]).
    Compute { assignment: Box<Received>, base: Base, deadline_ms: u64 },
    /// Store finished work, and the state that replaces the job's once it is accepted ([`Step::after_store`]).
    Store(Box<Finished>, Option<ClientState>),
    /// Deliver finished work ([`Fate::of`] says what becomes of it, then [`Step::after_delivery`]).
    Deliver(Box<Finished>),
    /// Ask about the round, because its deadline has passed on this device ([`Step::after_status`]).
    AskStatus { assignment: AssignmentId, round: u32 },
    /// Report that the assignment ends without a result ([`Step::after_failure`]).
    ReportFailure { assignment: AssignmentId, report: FailureReport, error: ClientError },
    /// The session has ended.
    End(Result<Outcome, ClientError>),
}

/// What becomes of finished work after an attempt to deliver it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The coordinator accepted it.
    Accepted,
    /// The coordinator refused it for good.
    Refused,
    /// Too many deliveries ended with an unusable answer.
    GivenUp,
    /// A later session delivers it.
    Kept,
    /// The same, and so many deliveries have ended with an unusable answer.
    KeptAfterFailures(u32),
}

impl Step {
    pub(crate) fn after_resume(finished: Option<Finished>) -> Self {
        match finished {
            Some(finished) => Self::Deliver(Box::new(finished)),
            None => Self::CheckIn,
        }
    }

    pub(crate) fn after_check_in(answer: Result<CheckInAnswer, ClientError>) -> Self {
        match answer {
            Ok(CheckInAnswer::Assigned(assignment)) => Self::Fetch(assignment),
            Ok(CheckInAnswer::Unreadable { assignment, why }) => {
                Self::ReportFailure { assignment, report: unreadable(&why), error: ClientError::BadAnswer(why) }
            }
            Ok(CheckInAnswer::Retry { retry_after_ms, waits_for }) => {
                let retry_after = Duration::from_millis(retry_after_ms);
                Self::End(Ok(Outcome::NothingToDo { waits_for, retry_after }))
            }
            Err(error) => Self::End(Err(error)),
        }
    }

    /// The client takes no part in what it was drawn for.
    pub(crate) fn kept_back(assignment: AssignmentId, why: String) -> Self {
        let error = ClientError::Privacy(why);
        let report = FailureReport { reason: FailureReason::Privacy, detail: cut(error.to_string()) };
        Self::ReportFailure { assignment, report, error }
    }

    pub(crate) fn after_fetch(assignment: Box<Received>, base: Result<Base, ClientError>, deadline_ms: u64) -> Self {
        match base {
            Ok(base) => Self::Compute { assignment, base, deadline_ms },
            Err(error) => Self::without_result(assignment.id, error),
        }
    }

    /// `left` is the time until the deadline.
    pub(crate) fn after_compute(
        assignment: Box<Received>,
        completed: Result<Completed, TrainError>,
        left: Duration,
        closed: Option<Duration>,
    ) -> Self {
        match completed {
            Ok(Completed { work, body, next_state }) => {
                let Received { assignment, plan_sha256 } = *assignment;
                let pending = Pending { assignment, plan_sha256: Some(plan_sha256), work, failures: 0 };
                Self::Store(Box::new(Finished { pending, body, begun: false }), next_state)
            }
            // The coordinator has said so, and when to come back: nothing is left to ask.
            Err(TrainError::Interrupted | TrainError::Suspended(_)) if closed.is_some() => {
                Self::End(Ok(Outcome::TooLate { round: assignment.round, retry_after: closed.unwrap_or_default() }))
            }
            Err(TrainError::Interrupted | TrainError::Suspended(_)) if left.is_zero() => {
                Self::AskStatus { assignment: assignment.id, round: assignment.round }
            }
            // Nothing is reported. The next check-in is answered with the same assignment, and training continues.
            Err(TrainError::Suspended(_)) if left > INTERRUPTED_RETRY => Self::End(Ok(interrupted())),
            Err(TrainError::Suspended(_)) => {
                Self::without_result(assignment.id, ClientError::Training(TrainError::Interrupted))
            }
            Err(error) => Self::without_result(assignment.id, ClientError::Training(error)),
        }
    }

    pub(crate) fn after_store(finished: Box<Finished>, may_continue: bool) -> Self {
        if may_continue { Self::Deliver(finished) } else { Self::End(Ok(interrupted())) }
    }

    /// `answer` holds the coordinator's retry window in milliseconds.
    pub(crate) fn after_delivery(pending: &Pending, answer: Result<u64, ClientError>) -> Self {
        let round = pending.assignment.round;
        match answer {
            Ok(retry_after_ms) => {
                let retry_after = Duration::from_millis(retry_after_ms);
                Self::End(Ok(match pending.work {
                    Work::Update { .. } | Work::Sum { .. } => Outcome::Contributed { round, retry_after },
                    Work::Evaluation(_) => Outcome::Evaluated { round, retry_after },
                    Work::Description(_) => Outcome::Described { round, retry_after },
                }))
            }
            Err(error) if error.ends_assignment() => {
                Self::End(Ok(Outcome::TooLate { round, retry_after: error.retry_after().unwrap_or_default() }))
            }
            Err(ClientError::Privacy(why)) => Self::kept_back(pending.assignment.id, why),
            // The host ended the session while its group was awaited.
            Err(ClientError::Training(TrainError::Interrupted)) => Self::End(Ok(interrupted())),
            Err(error) if leaves_assignment_open(&error) => {
                // Without a report the coordinator would hand out the same work again.
                let report = FailureReport { reason: FailureReason::DoesNotFit, detail: cut(error.to_string()) };
                Self::ReportFailure { assignment: pending.assignment.id, report, error }
            }
            Err(error) => Self::End(Err(error)),
        }
    }

    pub(crate) fn after_status(round: u32, status: Result<AssignmentStatus, ClientError>) -> Self {
        let retry_after = match status {
            // The device's clock runs a little fast: the round is still open.
            Ok(status) => Duration::from_millis(status.deadline_in_ms),
            Err(error) if error.ends_assignment() => error.retry_after().unwrap_or_default(),
            Err(error) => return Self::End(Err(error)),
        };
        Self::End(Ok(Outcome::TooLate { round, retry_after }))
    }

    /// `answer` holds the coordinator's retry window in milliseconds. A failure report that was not received changes
    /// nothing else: the round waits for its deadline.
    pub(crate) fn after_failure(error: ClientError, answer: Result<u64, ClientError>) -> Self {
        let ClientError::Training(TrainError::Interrupted) = error else { return Self::End(Err(error)) };
        let retry_after = match answer {
            Ok(retry_after_ms) => Duration::from_millis(retry_after_ms),
            Err(error) => error.retry_after().unwrap_or(INTERRUPTED_RETRY),
        };
        Self::End(Ok(Outcome::Interrupted { retry_after }))
    }

    /// The assignment ends without a result. The coordinator learns why, so that the round need not wait for it, unless
    /// the error is temporary: then a later session does the work.
    fn without_result(assignment: AssignmentId, error: ClientError) -> Self {
        let reason = match &error {
            ClientError::Training(TrainError::Interrupted) => FailureReason::Interrupted,
            ClientError::Training(TrainError::NoExamples) => FailureReason::NoData,
            ClientError::Training(TrainError::Diverged) => FailureReason::Diverged,
            ClientError::Training(
                TrainError::DoesNotFit(_)
                | TrainError::CannotFollow(_)
                | TrainError::CannotExchange
                | TrainError::CannotDescribe
                | TrainError::CannotAnswer,
            )
            | ClientError::BadAnswer(_) => FailureReason::DoesNotFit,
            ClientError::Training(TrainError::Thrown { .. } | TrainError::Other(_)) => FailureReason::Other,
            _ => return Self::End(Err(error)),
        };
        let detail = match &error {
            ClientError::Training(TrainError::Interrupted) => String::new(),
            ClientError::Training(TrainError::Thrown { kind, .. }) => cut(format!("the app's trainer failed: {kind}")),
            error => cut(error.to_string()),
        };
        Self::ReportFailure { assignment, report: FailureReport { reason, detail }, error }
    }
}

impl Fate {
    /// What becomes of work whose delivery has failed `failures` times before, after this answer.
    pub(crate) fn of<T>(failures: u32, answer: &Result<T, ClientError>) -> Self {
        match answer {
            Ok(_) => Self::Accepted,
            // Being offline does not count as a failure: once it answers, the coordinator says what became of the
            // round.
            Err(
                ClientError::Unreachable(_)
                | ClientError::Untrusted(_)
                | ClientError::Training(TrainError::Interrupted),
            ) => Self::Kept,
            Err(error) if error.is_final() => Self::Refused,
            Err(ClientError::Privacy(_)) => Self::Refused,
            // Not from the coordinator (a proxy, a captive portal), or it is busy. Work must not stay for ever all the
            // same.
            Err(_) if failures + 1 >= DELIVERY_FAILURES_MAX => Self::GivenUp,
            Err(_) => Self::KeptAfterFailures(failures + 1),
        }
    }
}

/// Whether the coordinator refused a report for good and still waits for another one.
pub(crate) fn leaves_assignment_open(error: &ClientError) -> bool {
    let ends = [ProblemType::UpdateRejected, ProblemType::UpdateConflict];
    error.is_final() && !error.ends_assignment() && !ends.iter().any(|kind| error.is(*kind))
}

/// The report about work that this SDK cannot read.
pub(crate) fn unreadable(why: &str) -> FailureReport {
    let detail = cut(format!("SDK {} cannot follow the plan: {why}", env!("CARGO_PKG_VERSION")));
    FailureReport { reason: FailureReason::DoesNotFit, detail }
}

/// A detail that is not longer than the coordinator accepts.
pub(crate) fn cut(mut detail: String) -> String {
    while detail.len() > DETAIL_BYTES_MAX {
        detail.pop();
    }
    detail
}

#[cfg(test)]
mod tests {
    use tributary_protocol::hash::Sha256Hash;
    use tributary_protocol::problem::Problem;

    use super::*;

    fn refused(kind: ProblemType) -> ClientError {
        ClientError::Refused(Box::new(Problem::new(kind, "a detail").retry_after_ms(1_500)))
    }

    fn unreachable() -> ClientError {
        ClientError::Unreachable("nobody answers".to_owned())
    }

    fn bad_answer() -> ClientError {
        ClientError::BadAnswer("a login page".to_owned())
    }

    fn assignment() -> Box<Received> {
        let assignment = serde_json::json!({
            "id": AssignmentId::from_random([6; 16]), "task": "train",
            "job": tributary_protocol::id::JobId::from_random([5; 16]), "round": 3, "model_version": 2,
            "model_sha256": Sha256Hash([0; 32]),
            "plan": {
                "model": { "parameters": [{ "name": "w", "shape": [1] }] },
                "training": { "epochs": 1, "optimizer": { "kind": "sgd", "learning_rate": 0.1 } },
                "codec": "f32", "weight_max": 10,
            },
            "seed": 1, "deadline_in_ms": 1000,
        });
        let assignment = serde_json::from_value(assignment).unwrap();
        Box::new(Received { assignment, plan_sha256: Sha256Hash([7; 32]) })
    }

    fn evaluation() -> Work {
        let report = serde_json::json!({ "examples": 1, "loss": 0.5, "evaluate_ms": 1 });
        Work::Evaluation(serde_json::from_value(report).unwrap())
    }

    fn completed() -> Completed {
        Completed { work: evaluation(), body: bytes::Bytes::new(), next_state: None }
    }

    fn outcome(step: Step) -> Outcome {
        let Step::End(Ok(outcome)) = step else { panic!("{step:?}") };
        outcome
    }

    fn reason(step: &Step) -> Option<FailureReason> {
        match step {
            Step::ReportFailure { report, .. } => Some(report.reason),
            _ => None,
        }
    }

    const WINDOW: Duration = Duration::from_millis(1_500);
    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn work_that_cannot_be_read_is_given_back_at_once() {
        let (id, why) = (assignment().id, "unknown variant `wavelet`".to_owned());
        let step = Step::after_check_in(Ok(CheckInAnswer::Unreadable { assignment: id, why }));
        let Step::ReportFailure { assignment, report, error } = step else { panic!("{step:?}") };
        assert_eq!((assignment, report.reason), (id, FailureReason::DoesNotFit));
        assert!(report.detail.contains("wavelet") && report.detail.contains(env!("CARGO_PKG_VERSION")));
        assert!(matches!(Step::after_failure(error, Ok(9)), Step::End(Err(ClientError::BadAnswer(_)))));
    }

    #[test]
    fn a_suspended_training_keeps_its_assignment_if_another_session_comes_in_time() {
        let after =
            |left, closed| Step::after_compute(assignment(), Err(TrainError::Suspended(Box::default())), left, closed);
        let kept = outcome(after(HOUR, None));
        assert!(matches!(kept, Outcome::Interrupted { retry_after: INTERRUPTED_RETRY }), "{kept:?}");
        assert_eq!(reason(&after(INTERRUPTED_RETRY, None)), Some(FailureReason::Interrupted));
        assert!(matches!(after(Duration::ZERO, None), Step::AskStatus { round: 3, .. }));
        assert!(matches!(outcome(after(HOUR, Some(WINDOW))), Outcome::TooLate { retry_after: WINDOW, .. }));
    }

    #[test]
    fn the_text_of_an_exception_stays_on_the_device() {
        let thrown = TrainError::Thrown { kind: "KeyError".into(), text: "KeyError: patient_17".into() };
        let step = Step::without_result(assignment().id, thrown.into());
        let Step::ReportFailure { report, error, .. } = step else { panic!("{step:?}") };
        assert_eq!(
            (report.reason, report.detail.as_str()),
            (FailureReason::Other, "the app's trainer failed: KeyError")
        );
        assert!(error.to_string().contains("patient_17"), "the app learns it: {error}");
    }

    #[test]
    fn an_assignment_without_a_result_is_reported_unless_a_later_session_can_do_it() {
        let cases = [
            (ClientError::Training(TrainError::Interrupted), Some(FailureReason::Interrupted)),
            (ClientError::Training(TrainError::NoExamples), Some(FailureReason::NoData)),
            (ClientError::Training(TrainError::Diverged), Some(FailureReason::Diverged)),
            (ClientError::Training(TrainError::DoesNotFit("a".into())), Some(FailureReason::DoesNotFit)),
            (ClientError::Training(TrainError::CannotFollow("scaffold".into())), Some(FailureReason::DoesNotFit)),
            (ClientError::Training(TrainError::Other("b".into())), Some(FailureReason::Other)),
            (bad_answer(), Some(FailureReason::DoesNotFit)),
            (unreachable(), None),
            (refused(ProblemType::Unavailable), None),
        ];
        for (error, expected) in cases {
            let text = error.to_string();
            assert_eq!(reason(&Step::after_fetch(assignment(), Err(error), 0)), expected, "{text}");
        }
    }

    #[test]
    fn an_interruption_is_late_when_the_deadline_has_passed_and_a_failure_otherwise() {
        let after = |left| Step::after_compute(assignment(), Err(TrainError::Interrupted), left, None);
        assert!(matches!(after(Duration::ZERO), Step::AskStatus { round: 3, .. }));
        assert_eq!(reason(&after(HOUR)), Some(FailureReason::Interrupted));
        let late = Step::after_compute(assignment(), Err(TrainError::Diverged), Duration::ZERO, None);
        assert_eq!(reason(&late), Some(FailureReason::Diverged));
    }

    #[test]
    fn a_closed_round_ends_the_session_without_another_question() {
        let step = Step::after_compute(assignment(), Err(TrainError::Interrupted), HOUR, Some(WINDOW));
        assert_eq!(outcome(step), Outcome::TooLate { round: 3, retry_after: WINDOW });
    }

    #[test]
    fn finished_work_is_stored_before_the_host_may_stop_the_session() {
        let step = Step::after_compute(assignment(), Ok(completed()), Duration::ZERO, Some(WINDOW));
        let Step::Store(finished, None) = step else { panic!("{step:?}") };
        assert!(!finished.begun);
        assert_eq!(finished.pending.plan_hash(), Sha256Hash([7; 32]), "the plan's text as it came");
        let step = Step::after_store(finished, false);
        assert!(matches!(step, Step::End(Ok(Outcome::Interrupted { .. }))), "{step:?}");
    }

    #[test]
    fn only_an_answer_of_the_coordinator_ends_the_life_of_finished_work() {
        let cases = [
            (Ok(()), Fate::Accepted),
            (Err(unreachable()), Fate::Kept),
            (Err(bad_answer()), Fate::KeptAfterFailures(5)),
            (Err(refused(ProblemType::Unavailable)), Fate::KeptAfterFailures(5)),
            (Err(refused(ProblemType::TooManyRequests)), Fate::KeptAfterFailures(5)),
            (Err(refused(ProblemType::UploadOffset)), Fate::KeptAfterFailures(5)),
            (Err(refused(ProblemType::AssignmentClosed)), Fate::Refused),
            (Err(refused(ProblemType::UpdateRejected)), Fate::Refused),
            (Err(refused(ProblemType::Forbidden)), Fate::Refused),
        ];
        for (answer, expected) in cases {
            assert_eq!(Fate::of(4, &answer), expected, "{answer:?}");
        }
        assert_eq!(Fate::of(9, &Err::<(), _>(bad_answer())), Fate::GivenUp);
        assert_eq!(Fate::of(1_000, &Err::<(), _>(unreachable())), Fate::Kept);
    }

    #[test]
    fn a_refusal_that_leaves_the_assignment_open_is_reported() {
        let assignment = assignment().assignment;
        let pending = Pending { assignment, plan_sha256: None, work: evaluation(), failures: 0 };
        let after = |error| Step::after_delivery(&pending, Err(error));
        for (kind, reported) in [
            (ProblemType::Malformed, true),
            (ProblemType::TooLarge, true),
            (ProblemType::Forbidden, true),
            (ProblemType::UpdateRejected, false),
            (ProblemType::UpdateConflict, false),
            (ProblemType::Unavailable, false),
            (ProblemType::UploadSuperseded, false),
        ] {
            let step = after(refused(kind));
            assert_eq!(reason(&step), reported.then_some(FailureReason::DoesNotFit), "{kind:?}");
            assert_eq!(matches!(step, Step::End(Err(_))), !reported, "{kind:?}");
        }
        assert_eq!(reason(&after(bad_answer())), None);
        assert_eq!(
            outcome(after(refused(ProblemType::AssignmentClosed))),
            Outcome::TooLate { round: 3, retry_after: WINDOW }
        );
        let stale = outcome(after(refused(ProblemType::UpdateStale)));
        assert_eq!(stale, Outcome::TooLate { round: 3, retry_after: WINDOW });
        let done = Step::after_delivery(&pending, Ok(7));
        assert_eq!(outcome(done), Outcome::Evaluated { round: 3, retry_after: Duration::from_millis(7) });
    }

    #[test]
    fn a_deadline_that_has_passed_is_too_late_whatever_the_round_became() {
        let open = AssignmentStatus { reported: false, deadline_in_ms: 40 };
        let late = outcome(Step::after_status(3, Ok(open)));
        assert_eq!(late, Outcome::TooLate { round: 3, retry_after: Duration::from_millis(40) });
        let late = outcome(Step::after_status(3, Err(refused(ProblemType::AssignmentClosed))));
        assert_eq!(late, Outcome::TooLate { round: 3, retry_after: WINDOW });
        assert!(matches!(Step::after_status(3, Err(unreachable())), Step::End(Err(_))));
    }

    #[test]
    fn after_an_interruption_the_coordinator_says_when_to_come_back() {
        let interrupted = || ClientError::Training(TrainError::Interrupted);
        let wait = |answer| outcome(Step::after_failure(interrupted(), answer)).retry_after();
        assert_eq!(wait(Ok(9)), Duration::from_millis(9));
        assert_eq!(wait(Err(refused(ProblemType::AssignmentClosed))), WINDOW);
        assert_eq!(wait(Err(unreachable())), INTERRUPTED_RETRY);
        let diverged = Step::after_failure(ClientError::Training(TrainError::Diverged), Ok(9));
        assert!(matches!(diverged, Step::End(Err(ClientError::Training(TrainError::Diverged)))), "{diverged:?}");
    }

    #[test]
    fn a_detail_is_cut_between_letters() {
        let detail = cut("ü".repeat(DETAIL_BYTES_MAX));
        assert_eq!(detail, "ü".repeat(DETAIL_BYTES_MAX / 2));
    }
}
