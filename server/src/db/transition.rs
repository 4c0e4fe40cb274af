//! What an event records: a job, a round or an assignment changed its state.

use tributary_protocol::id::{AssignmentId, JobId};
use tributary_protocol::state::{AbandonReason, AssignmentState, JobState, Phase, Task};

use super::RoundKey;

/// A change of state, as an event records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition<'a> {
    Job { job: JobId, state: JobState, cause: Option<JobCause> },
    Round { round: RoundKey, phase: Phase, reason: Option<AbandonReason> },
    Assignment { round: RoundKey, assignment: AssignmentId, became: Became, reason: Option<&'a str> },
}

/// Why the state of a job was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobCause {
    /// An operator moved it.
    Operator,
    /// Its round policy was changed; its state is as before.
    RoundPolicy,
}

/// What became of an assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Became {
    State(AssignmentState),
    /// It had expired, and its client came with a report.
    Late,
}

impl<'a> Transition<'a> {
    /// A round comes into a phase for which there is no reason to record.
    #[must_use]
    pub fn of_round(round: RoundKey, phase: Phase) -> Self {
        Self::Round { round, phase, reason: None }
    }

    /// An assignment comes into a state.
    #[must_use]
    pub fn of_assignment(
        round: RoundKey,
        assignment: AssignmentId,
        state: AssignmentState,
        reason: Option<&'a str>,
    ) -> Self {
        Self::Assignment { round, assignment, became: Became::State(state), reason }
    }
}

impl Transition<'_> {
    #[must_use]
    pub fn job(&self) -> JobId {
        match self {
            Self::Job { job, .. } => *job,
            Self::Round { round, .. } | Self::Assignment { round, .. } => round.job,
        }
    }

    /// Task and number of the round that it concerns.
    pub(super) fn round(&self) -> Option<(Task, u32)> {
        match self {
            Self::Job { .. } => None,
            Self::Round { round, .. } | Self::Assignment { round, .. } => Some((round.task, round.number)),
        }
    }

    pub(super) fn assignment(&self) -> Option<AssignmentId> {
        match self {
            Self::Assignment { assignment, .. } => Some(*assignment),
            Self::Job { .. } | Self::Round { .. } => None,
        }
    }

    /// The word that the column `became` holds.
    pub(super) fn became(&self) -> &'static str {
        match self {
            Self::Job { state, .. } => state.as_str(),
            Self::Round { phase, .. } => phase.as_str(),
            Self::Assignment { became: Became::State(state), .. } => state.as_str(),
            Self::Assignment { became: Became::Late, .. } => "late",
        }
    }

    /// The text that the column `cause` holds.
    pub(super) fn cause(&self) -> Option<&str> {
        match self {
            Self::Job { cause, .. } => cause.map(|cause| match cause {
                JobCause::Operator => "operator",
                JobCause::RoundPolicy => "round_policy",
            }),
            Self::Round { reason, .. } => reason.map(AbandonReason::as_str),
            Self::Assignment { reason, .. } => *reason,
        }
    }
}
