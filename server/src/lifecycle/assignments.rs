//! States of assignments: Assigned, then Reported, Rejected, Failed or Expired. How they become Reported is in
//! [`super::acceptance`].

use tributary_protocol::classes::ClassCountsError;
use tributary_protocol::fixed::{Contribution, Weight};
use tributary_protocol::id::{AssignmentId, ClientId};
use tributary_protocol::inputs::DescriptionError;
use tributary_protocol::state::{AssignmentState, GroupFailure, GroupStage, Phase, Task};
use tributary_protocol::traffic::Traffic;

use super::standings::quarantine_offender;
use crate::blob::BlobError;
use crate::db::{AssignmentRow, Became, DbError, Download, RoundRow, Times, Transition, Tx};
use crate::fleet::Fleet;
use crate::services::Services;

/// Why a report is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("there is no {0}")]
    NotFound(String),
    #[error("{0} is another client's")]
    Forbidden(AssignmentId),
    #[error("the task of {id} is to {task}")]
    WrongTask { id: AssignmentId, task: Task },
    /// The assignment was rejected before, for this reason.
    #[error("{0}")]
    Rejected(String),
    #[error("round {round}: {why}")]
    Closed {
        round: u32,
        why: Closed,
        /// Whether the round is still training: the driver has not expired the assignment yet.
        is_training: bool,
    },
    /// The update is more versions behind than its job allows.
    #[error("the update is {0}")]
    Stale(String),
    /// The buffer has closed and the next one opens in a moment. The assignment is still open.
    #[error("round {0} is making its model; the update counts in the next round")]
    Between(u32),
    #[error("{0} has reported other bytes")]
    Conflict(AssignmentId),
    /// The assignment takes another form of report: an update, a masked one, or the sum of a relay.
    #[error("{0}")]
    OtherForm(&'static str),
    /// The client has joined no group, or its group has not formed yet.
    #[error("{0} is in no group")]
    NoGroup(AssignmentId),
    #[error("the group is at another stage, {0}")]
    GroupPassed(GroupStage),
    #[error("the group has no sum: {0}")]
    GroupFailed(GroupFailure),
    /// The message of a member is malformed.
    #[error("{0}")]
    Message(String),
    /// The report contradicts earlier ones of its round. The assignment is still open.
    #[error(transparent)]
    Misfit(ClassCountsError),
    /// The parts of the update contradict each other, or are too long together: its assignment is to be rejected.
    #[error("{0}")]
    Unfit(String),
    /// The sums cannot be added to those of the round. The assignment is still open.
    #[error(transparent)]
    Sums(DescriptionError),
    #[error(transparent)]
    Blob(#[from] BlobError),
}

/// Why an assignment takes no report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Closed {
    #[error("this client had given up")]
    Failed,
    #[error("this client has reported")]
    Reported,
    #[error("the round was abandoned")]
    Abandoned,
    #[error("the deadline has passed")]
    Deadline,
    #[error("the round closed with enough other reports")]
    Full,
}

impl From<DbError> for Refusal {
    fn from(error: DbError) -> Self {
        Self::Blob(error.into())
    }
}

/// What was received of a report's body, and when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Received {
    pub(crate) bytes: u64,
    pub(crate) times: Times,
}

/// A client's own assignment with its round. `task` is the task that the report is for, if it is for one.
pub(crate) async fn find(
    tx: &mut Tx,
    client: ClientId,
    id: AssignmentId,
    task: Option<Task>,
) -> Result<(AssignmentRow, RoundRow), Refusal> {
    let assignment = tx.assignment(id).await?.ok_or_else(|| Refusal::NotFound(id.to_string()))?;
    if assignment.client != client {
        return Err(Refusal::Forbidden(id));
    }
    let key = assignment.round();
    if task.is_some_and(|task| task != key.task) {
        return Err(Refusal::WrongTask { id, task: key.task });
    }
    let round = tx.round(key).await?.ok_or_else(|| Refusal::NotFound(format!("round of {id}")))?;
    // Two reads need not be one snapshot: the assignment's own report may have closed the round in between.
    let is_torn = assignment.state == AssignmentState::Assigned && round.phase != Phase::Training;
    let again = if is_torn { tx.assignment(id).await? } else { None };
    Ok((again.unwrap_or(assignment), round))
}

/// What a client has when it asks about its assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comes {
    /// Finished work.
    Finished,
    /// Unfinished work, which it stops when the round has closed.
    Unfinished,
}

/// Checks that an assignment still takes a report. A client that comes too late changes nothing, but is recorded with
/// what it has.
pub(crate) async fn require_open(
    services: &Services,
    assignment: &AssignmentRow,
    round: &RoundRow,
    comes: Comes,
) -> Result<(), Refusal> {
    let in_time = assignment.until_ms(round).is_some_and(|deadline_at_ms| services.clock.now_ms() < deadline_at_ms);
    let is_open = in_time && (assignment.term().is_own() || round.phase == Phase::Training);
    match assignment.state {
        AssignmentState::Assigned if is_open => return Ok(()),
        AssignmentState::Rejected => {
            return Err(Refusal::Rejected(assignment.reason.clone().unwrap_or_default()));
        }
        // The driver may not have expired it yet.
        AssignmentState::Expired | AssignmentState::Assigned if assignment.late_at_ms.is_none() => {
            came_back(services, assignment, comes).await?;
        }
        _ => {}
    }
    Err(closed(assignment, round))
}

/// Checks that a client which waits in its round has not been let go. Its deadline does not matter: the driver ends it.
pub(crate) fn require_held(assignment: &AssignmentRow, round: &RoundRow) -> Result<(), Refusal> {
    if assignment.state == AssignmentState::Assigned { Ok(()) } else { Err(closed(assignment, round)) }
}

async fn came_back(services: &Services, assignment: &AssignmentRow, comes: Comes) -> Result<(), DbError> {
    if comes == Comes::Unfinished && assignment.stopped_at_ms.is_some() {
        return Ok(());
    }
    let (round, now_ms) = (assignment.round(), services.clock.now_ms());
    let mut tx = services.db.begin().await?;
    tx.lock_job(round.job).await?;
    let (is_news, became) = match comes {
        Comes::Finished => (tx.came_late(assignment.id, now_ms).await?, Became::Late),
        Comes::Unfinished => (tx.stopped_late(assignment.id, round, now_ms).await?, Became::Stopped),
    };
    if is_news && assignment.state == AssignmentState::Expired {
        let back = Transition::Assignment { round, assignment: assignment.id, became, reason: None };
        tx.record(back, now_ms).await?;
    }
    if is_news {
        tx.commit().await?;
        services.signals.changed(round.job);
    }
    Ok(())
}

/// Why an assignment takes no report.
pub(crate) fn closed(assignment: &AssignmentRow, round: &RoundRow) -> Refusal {
    if let (AssignmentState::Expired, Some(reason)) = (assignment.state, &assignment.reason) {
        return Refusal::Stale(reason.clone());
    }
    let why = match (assignment.state, round.phase) {
        (AssignmentState::Failed, _) => Closed::Failed,
        (AssignmentState::Reported, _) => Closed::Reported,
        (_, Phase::Abandoned) => Closed::Abandoned,
        (_, Phase::Training) => Closed::Deadline,
        _ if assignment.term().is_own() => Closed::Deadline,
        _ => Closed::Full,
    };
    Refusal::Closed { round: round.number, why, is_training: round.phase == Phase::Training }
}

/// What is kept of a reason that may quote what its client sent: in a private round its words, without the numbers.
pub(crate) fn kept_reason(round: &RoundRow, reason: String) -> String {
    if round.policy().is_private { without_numbers(&reason) } else { reason }
}

fn without_numbers(reason: &str) -> String {
    let is_of_word = |letter: char| letter.is_ascii_alphanumeric() || "+-._".contains(letter);
    let kept = |piece: &str| {
        let word = piece.trim_end_matches(|letter| !is_of_word(letter)).trim_end_matches('.');
        let has_digit_first = word.trim_start_matches(['+', '-', '.']).starts_with(|c: char| c.is_ascii_digit());
        // Infinities and NaN are numbers, too.
        match has_digit_first || word.parse::<f64>().is_ok() {
            true => format!("..{}", &piece[word.len()..]),
            false => piece.to_owned(),
        }
    };
    reason.split_inclusive(|letter| !is_of_word(letter)).map(kept).collect()
}

/// Assigned to Rejected or Failed, with the reason. Returns false when the assignment has ended meanwhile; then nothing
/// changes.
pub(crate) async fn end(
    services: &Services,
    assignment: &AssignmentRow,
    state: AssignmentState,
    reason: &str,
    received: Received,
) -> Result<bool, DbError> {
    let key = assignment.round();
    let mut tx = services.db.begin().await?;
    tx.lock_job(key.job).await?;
    let now_ms = services.clock.now_ms();
    let ended = end_in(&mut tx, assignment, state, reason, received, now_ms).await?;
    if ended {
        if state == AssignmentState::Rejected {
            quarantine_offender(services, &mut tx, assignment.client, now_ms).await?;
        }
        tx.commit().await?;
        services.signals.changed(key.job);
    }
    Ok(ended)
}

/// [`end`] as part of a transaction that has locked the job.
pub(super) async fn end_in(
    tx: &mut Tx,
    assignment: &AssignmentRow,
    state: AssignmentState,
    reason: &str,
    received: Received,
    now_ms: i64,
) -> Result<bool, DbError> {
    let (key, client) = (assignment.round(), assignment.client);
    let Download { traffic, ended_at_ms } = tx.downloaded(client);
    let traffic = Traffic { bytes_up: received.bytes, ..traffic };
    let times = Times { fetched_at_ms: ended_at_ms, ..received.times };
    let ended = tx.end_assignment(assignment.id, state, Some(reason), traffic, now_ms).await?;
    if let Some(traffic) = ended {
        tx.discard_upload(assignment.id).await?;
        tx.store_times(assignment.id, times).await?;
        let missing = Contribution { weight: Weight::default(), updates: assignment.updates_max() };
        tx.count_ended(key, state, missing, traffic).await?;
        if assignment.term().is_own() {
            tx.remove_member(key.job, client).await?;
        }
        tx.record(Transition::of_assignment(key, assignment.id, state, Some(reason)), now_ms).await?;
    }
    Ok(ended.is_some())
}

/// Ends the work of a client that may no longer take part, and its wait for work.
pub(crate) async fn shut_out(services: &Services, fleet: &Fleet, client: ClientId) -> Result<(), DbError> {
    let open = services.db.read().await?.open_assignment(client).await?;
    if let Some(assignment) = open {
        let reason = "the client was quarantined or revoked";
        let state = AssignmentState::Failed;
        end(services, &assignment, state, reason, Received::default()).await?;
    }
    fleet.lobby.call([client]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_without_its_numbers_has_all_other_words() {
        for (reason, kept) in [
            (
                "value 3 of tensor \"w1\" is -9.5e3, above the largest magnitude of 8",
                "value .. of tensor \"w1\" is .., above the largest magnitude of ..",
            ),
            ("the weight is 0: an update must come", "the weight is ..: an update must come"),
            ("the norm of the update is inf", "the norm of the update is .."),
            ("17 (of 20) examples in 9ms: loss=-inf.", ".. (of ..) examples in ..: loss=..."),
            ("e-mail, f32, x=y. None.", "e-mail, f32, x=y. None."),
        ] {
            assert_eq!(without_numbers(reason), kept);
        }
    }
}
