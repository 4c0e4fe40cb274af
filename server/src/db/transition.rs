//! The transitions of jobs, rounds and assignments that events record.

use tributary_protocol::id::{AssignmentId, JobId};
use tributary_protocol::state::{AbandonReason, AssignmentState, JobState, Phase, Task};

use super::RoundKey;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition<'a> {
    /// A coordinator took the job over from one that died; `cause` says so for people.
    TakenOver {
        job: JobId,
        cause: &'a str,
    },
    Job {
        job: JobId,
        state: JobState,
        cause: Option<JobCause>,
    },
    Round {
        round: RoundKey,
        phase: Phase,
        reason: Option<AbandonReason>,
    },
    Assignment {
        round: RoundKey,
        assignment: AssignmentId,
        became: Became,
        reason: Option<&'a str>,
    },
}

/// Why the state of a job was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobCause {
    /// An operator changed the state.
    Operator,
    /// The round policy was changed; the state is unchanged.
    RoundPolicy,
    /// The name, tags or notes were changed, or the job was archived or brought back; the state is unchanged.
    Filing,
    /// A test set was uploaded; the state is unchanged.
    TestSet,
    /// A round fixed what clients feed their networks; the state is unchanged.
    Inputs,
    /// The job's privacy budget allows no further round.
    PrivacyBudget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Became {
    State(AssignmentState),
    /// Expired, and its work was needed no more: the round had its goal, or the job its end.
    Spare,
    /// The client finished after its assignment had expired.
    Late,
    /// The client stopped, unfinished, after its assignment had expired.
    Stopped,
}

impl<'a> Transition<'a> {
    /// A round comes into a phase for which there is no reason to record.
    pub fn of_round(round: RoundKey, phase: Phase) -> Self {
        Self::Round { round, phase, reason: None }
    }

    /// An assignment comes into a state.
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
    pub fn job(&self) -> JobId {
        match self {
            Self::Job { job, .. } | Self::TakenOver { job, .. } => *job,
            Self::Round { round, .. } | Self::Assignment { round, .. } => round.job,
        }
    }

    /// Task and number of the round, for a transition of a round or an assignment.
    pub(super) fn round(&self) -> Option<(Task, u32)> {
        match self {
            Self::Job { .. } | Self::TakenOver { .. } => None,
            Self::Round { round, .. } | Self::Assignment { round, .. } => Some((round.task, round.number)),
        }
    }

    pub(super) fn assignment(&self) -> Option<AssignmentId> {
        match self {
            Self::Assignment { assignment, .. } => Some(*assignment),
            Self::Job { .. } | Self::TakenOver { .. } | Self::Round { .. } => None,
        }
    }

    /// The value of the column `became`.
    pub(super) fn became(&self) -> &'static str {
        match self {
            Self::Job { state, .. } => state.as_str(),
            Self::TakenOver { .. } => "taken_over",
            Self::Round { phase, .. } => phase.as_str(),
            Self::Assignment { became: Became::State(state), .. } => state.as_str(),
            Self::Assignment { became: Became::Spare, .. } => AssignmentState::Expired.as_str(),
            Self::Assignment { became: Became::Late, .. } => "late",
            Self::Assignment { became: Became::Stopped, .. } => "stopped",
        }
    }

    /// The value of the column `cause`.
    pub(super) fn cause(&self) -> Option<&str> {
        match self {
            Self::Job { cause, .. } => cause.map(|cause| match cause {
                JobCause::Operator => "operator",
                JobCause::RoundPolicy => "round_policy",
                JobCause::Filing => "filing",
                JobCause::TestSet => "test_set",
                JobCause::Inputs => "inputs",
                JobCause::PrivacyBudget => "privacy_budget",
            }),
            Self::TakenOver { cause, .. } => Some(cause),
            Self::Round { reason, .. } => reason.map(AbandonReason::as_str),
            Self::Assignment { reason, .. } => *reason,
        }
    }
}
