//! The end of an assignment in words: what a straggler did, and why a report does not count.

use tributary_protocol::state::{AssignmentState, Straggler};

use super::words::duration;

/// How an assignment and its round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending<'a> {
    pub state: AssignmentState,
    /// Why the assignment was rejected or failed.
    pub reason: Option<&'a str>,
    /// When the client came back with finished work.
    pub late_at_ms: Option<i64>,
    /// When the client stopped without finishing.
    pub stopped_at_ms: Option<i64>,
    /// When the assignment ended: for a straggler, when its round closed.
    pub ended_at_ms: Option<i64>,
    pub deadline_at_ms: Option<i64>,
    /// Whether the round had as many reports as it wanted.
    pub goal_met: bool,
}

impl Ending<'_> {
    /// What became of a straggler; none for other assignments.
    pub fn straggler(&self) -> Option<Straggler> {
        match (self.state, self.late_at_ms, self.stopped_at_ms) {
            (AssignmentState::Expired, Some(_), _) => Some(Straggler::FinishedLate),
            (AssignmentState::Expired, None, Some(_)) => Some(Straggler::Stopped),
            (AssignmentState::Expired, None, None) => Some(Straggler::NotBack),
            _ => None,
        }
    }

    /// Whether the straggler was drawn in addition and not needed. One that does not come back is lost in any case.
    pub fn is_spare(&self) -> bool {
        self.goal_met && matches!(self.straggler(), Some(Straggler::FinishedLate | Straggler::Stopped))
    }

    /// Why there is no accepted report; none for open assignments and accepted reports.
    pub fn explanation(&self) -> Option<String> {
        let straggler = match (self.state, self.straggler()) {
            (AssignmentState::Assigned | AssignmentState::Reported, _) => return None,
            // It expired before its time.
            (AssignmentState::Expired, _) if self.reason.is_some() => return self.reason.map(str::to_owned),
            (_, Some(straggler)) => straggler,
            (_, None) => return Some(self.reason.unwrap_or("no reason given").to_owned()),
        };
        let after_close = |at_ms: Option<i64>| duration(at_ms.unwrap_or(0) - self.ended_at_ms.unwrap_or(0));
        let at_deadline = self.deadline_at_ms.is_some() && self.ended_at_ms >= self.deadline_at_ms;
        let closed = match (self.goal_met, at_deadline) {
            (true, _) => "the round had enough reports",
            (false, true) => "the deadline",
            (false, false) => "the round had closed",
        };
        Some(match straggler {
            Straggler::FinishedLate => format!("finished {} after {closed}", after_close(self.late_at_ms)),
            // A device that measures the deadline itself stops within moments of it.
            Straggler::Stopped if self.stopped_at_ms >= self.deadline_at_ms => {
                "stopped at the deadline, unfinished".to_owned()
            }
            Straggler::Stopped => format!("stopped unfinished, {} after {closed}", after_close(self.stopped_at_ms)),
            Straggler::NotBack => "never came back".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round that closed after 2 s of its 10.
    const EXPIRED: Ending<'_> = Ending {
        state: AssignmentState::Expired,
        reason: None,
        late_at_ms: None,
        stopped_at_ms: None,
        ended_at_ms: Some(2_000),
        deadline_at_ms: Some(10_000),
        goal_met: true,
    };

    #[test]
    fn a_straggler_finished_late_or_stopped_or_never_came_back() {
        let at_deadline = Ending { goal_met: false, ended_at_ms: Some(10_000), ..EXPIRED };
        let cases = [
            (Ending { late_at_ms: Some(8_800), ..EXPIRED }, "finished 6.8 s after the round had enough reports", true),
            (Ending { late_at_ms: Some(12_500), ..at_deadline }, "finished 2.5 s after the deadline", false),
            (
                Ending { stopped_at_ms: Some(2_400), ..EXPIRED },
                "stopped unfinished, 400 ms after the round had enough reports",
                true,
            ),
            (Ending { stopped_at_ms: Some(10_005), ..EXPIRED }, "stopped at the deadline, unfinished", true),
            (Ending { stopped_at_ms: Some(10_000), ..at_deadline }, "stopped at the deadline, unfinished", false),
            (EXPIRED, "never came back", false),
            (at_deadline, "never came back", false),
        ];
        for (ending, words, spare) in cases {
            assert_eq!((ending.explanation().as_deref(), ending.is_spare()), (Some(words), spare), "{ending:?}");
        }
        // Finished work says more than an earlier question.
        let both = Ending { late_at_ms: Some(9_000), stopped_at_ms: Some(3_000), ..EXPIRED };
        assert_eq!(both.straggler(), Some(Straggler::FinishedLate));
    }

    #[test]
    fn other_ends_have_their_own_reason() {
        let reported = Ending { state: AssignmentState::Reported, ..EXPIRED };
        assert_eq!((reported.straggler(), reported.explanation()), (None, None));
        let failed = Ending { state: AssignmentState::Failed, reason: Some("diverged"), ..EXPIRED };
        assert_eq!((failed.explanation().as_deref(), failed.is_spare()), (Some("diverged"), false));
    }
}
