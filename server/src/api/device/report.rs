//! Reports without tensors: is the work still wanted, evaluations, failures. And the rules that all reports share.

use std::sync::Arc;

use axum::extract::State;
use tributary_protocol::device::{
    AssignmentStatus, DETAIL_BYTES_MAX, EvaluationReport, FailureReport, LOSS_MAX, ReportAccepted,
};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::AssignmentId;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AssignmentState, Phase, Task};

use super::checkin::retry;
use crate::api::auth::Device;
use crate::api::extract::{Json, Path};
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::blob::Staged;
use crate::db::{AssignmentRow, ClientRow, Happening, Report, RoundRow, Times, Traffic, Tx};
use crate::driver::close_in;
use crate::round::RetryReason;

pub(super) async fn status(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path(id): Path<AssignmentId>,
) -> Answer<Json<AssignmentStatus>> {
    let mut tx = app.db.read().await?;
    let (assignment, round) = own_assignment(&mut tx, &client, id, None).await?;
    drop(tx);
    let reported = assignment.state == AssignmentState::Reported;
    if !reported {
        require_open(&app, &client, &assignment, &round).await?;
    }
    let left_ms = round.deadline_at_ms.unwrap_or(0).saturating_sub(app.clock.now_ms());
    Ok(Json(AssignmentStatus { reported, deadline_in_ms: u64::try_from(left_ms).unwrap_or(0) }))
}

pub(super) async fn put_evaluation(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path(id): Path<AssignmentId>,
    Json(evaluation): Json<EvaluationReport>,
) -> Answer<Json<ReportAccepted>> {
    if let Err(reason) = check_evaluation(&evaluation) {
        let (assignment, round) = own_assignment(&mut app.db.read().await?, &client, id, Some(Task::Evaluate)).await?;
        if assignment.state != AssignmentState::Reported {
            require_open(&app, &client, &assignment, &round).await?;
            refuse(&app, &client, &assignment, AssignmentState::Rejected, reason, Came::default()).await?;
        }
        return Err(ApiError::new(ProblemType::UpdateRejected, reason));
    }
    let body = serde_json::to_vec(&evaluation).map_err(ApiError::internal)?;
    let report = Report {
        weight: evaluation.examples,
        loss: evaluation.loss,
        accuracy: evaluation.accuracy,
        steps: 0,
        work_ms: evaluation.evaluate_ms,
        update_norm: None,
        sha256: Sha256Hash::of(&body),
        // A report without tensors is as plain as it can be.
        traffic: Traffic { bytes_up: body.len() as u64, raw_bytes_up: body.len() as u64, ..app.fetched(client.id) },
        times: Times { fetched_at_ms: app.fetched_at_ms(client.id), ..Times::default() },
    };
    let accepted = accept(&app, &client, id, Task::Evaluate, report, None).await?;
    app.changed();
    Ok(accepted)
}

fn check_evaluation(evaluation: &EvaluationReport) -> Result<(), &'static str> {
    let rejected = Err;
    if evaluation.examples == 0 || evaluation.examples > 1 << 40 {
        return rejected("an evaluation needs 1 to 2^40 examples");
    }
    if !(-LOSS_MAX..=LOSS_MAX).contains(&evaluation.loss) {
        return rejected("the loss is not finite, or above 1e12");
    }
    if evaluation.accuracy.is_some_and(|accuracy| !(0.0..=1.0).contains(&accuracy)) {
        return rejected("the accuracy is not between 0 and 1");
    }
    Ok(())
}

pub(super) async fn post_failure(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path(id): Path<AssignmentId>,
    Json(failure): Json<FailureReport>,
) -> Answer<Json<ReportAccepted>> {
    if failure.detail.len() > DETAIL_BYTES_MAX {
        return Err(ApiError::new(ProblemType::Malformed, format!("a detail has at most {DETAIL_BYTES_MAX} bytes")));
    }
    // PostgreSQL's text has no NUL.
    let detail = failure.detail.replace('\0', "");
    let reason = match detail.as_str() {
        "" => failure.reason.to_string(),
        detail => format!("{}: {detail}", failure.reason),
    };
    let mut tx = app.db.read().await?;
    let (assignment, round) = own_assignment(&mut tx, &client, id, None).await?;
    drop(tx);
    // Saying it twice (the first answer was lost) is no error.
    if assignment.state != AssignmentState::Failed {
        require_open(&app, &client, &assignment, &round).await?;
        refuse(&app, &client, &assignment, AssignmentState::Failed, &reason, Came::default()).await?;
    }
    Ok(Json(ReportAccepted { retry_after_ms: retry(&app, &client, RetryReason::NothingCame).await? }))
}

/// The client's own assignment and its round. Somebody else's is forbidden, another task's is malformed.
pub(super) async fn own_assignment(
    tx: &mut Tx,
    client: &ClientRow,
    id: AssignmentId,
    task: Option<Task>,
) -> Answer<(AssignmentRow, RoundRow)> {
    let assignment = tx.assignment(id).await?.ok_or_else(|| ApiError::not_found(id))?;
    if assignment.client != client.id {
        return Err(ApiError::new(ProblemType::Forbidden, format!("{id} is another client's")));
    }
    let key = assignment.round();
    if task.is_some_and(|task| task != key.task) {
        return Err(ApiError::new(ProblemType::WrongState, format!("the task of {id} is to {}", key.task)));
    }
    let round = tx.round(key).await?.ok_or_else(|| ApiError::not_found(format!("round of {id}")))?;
    Ok((assignment, round))
}

/// Whether the round still takes this report. A late one changes nothing but is counted, and the client is told so.
pub(super) async fn require_open(
    app: &App,
    client: &ClientRow,
    assignment: &AssignmentRow,
    round: &RoundRow,
) -> Answer<()> {
    let in_time = round.deadline_at_ms.is_some_and(|deadline_at_ms| app.clock.now_ms() < deadline_at_ms);
    match assignment.state {
        AssignmentState::Assigned if round.phase == Phase::Training && in_time => return Ok(()),
        AssignmentState::Rejected => {
            let reason = assignment.reason.clone().unwrap_or_default();
            return Err(ApiError::new(ProblemType::UpdateRejected, reason));
        }
        AssignmentState::Expired if assignment.late_at_ms.is_none() => came_late(app, assignment).await?,
        _ => {}
    }
    Err(closed(app, client, assignment, round).await?)
}

async fn came_late(app: &App, assignment: &AssignmentRow) -> Answer<()> {
    let now_ms = app.clock.now_ms();
    let mut tx = app.db.begin().await?;
    if tx.came_late(assignment.id, now_ms).await? {
        tx.record(Happening::of_assignment(assignment.round(), assignment.id, "late"), now_ms).await?;
        tx.commit().await?;
        app.changed();
    }
    Ok(())
}

async fn closed(app: &App, client: &ClientRow, assignment: &AssignmentRow, round: &RoundRow) -> Answer<ApiError> {
    let why = match (assignment.state, round.phase) {
        (AssignmentState::Failed, _) => "this client had given up",
        (AssignmentState::Reported, _) => "this client has reported",
        (_, Phase::Abandoned) => "the round was abandoned",
        (_, Phase::Training) => "the deadline has passed",
        _ => "the round closed with enough other reports",
    };
    let detail = format!("round {}: {why}", round.number);
    // Before the driver has expired it, the same assignment would be handed out again at once.
    let reason = if round.phase == Phase::Training { RetryReason::NothingCame } else { RetryReason::Reported };
    let retry_after_ms = retry(app, client, reason).await?;
    Ok(ApiError::new(ProblemType::AssignmentClosed, detail).retry_after_ms(retry_after_ms))
}

/// What came of a body, and when.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Came {
    pub(super) bytes: u64,
    pub(super) times: Times,
}

/// Ends an assignment without a report, with its reason.
pub(super) async fn refuse(
    app: &App,
    client: &ClientRow,
    assignment: &AssignmentRow,
    state: AssignmentState,
    reason: &str,
    came: Came,
) -> Answer<()> {
    let now_ms = app.clock.now_ms();
    let traffic = Traffic { bytes_up: came.bytes, ..app.fetched(client.id) };
    let times = Times { fetched_at_ms: app.fetched_at_ms(client.id), ..came.times };
    let key = assignment.round();
    let mut tx = app.db.begin().await?;
    tx.lock_job(key.job).await?;
    let ended = tx.end_assignment(assignment.id, state, Some(reason), traffic, now_ms).await?;
    if let Some(traffic) = ended {
        tx.discard_upload(assignment.id).await?;
        tx.store_times(assignment.id, times).await?;
        tx.count_ended(key, state, 1, 0, traffic).await?;
        tx.record(Happening::of_assignment(key, assignment.id, state.as_str()).because(reason), now_ms).await?;
        tx.commit().await?;
        app.forget_downloads(client.id);
        app.changed();
    }
    Ok(())
}

/// Stores an accepted report, with its body if it has one: from here on it is counted, exactly once.
///
/// The same bytes again get the same answer; other bytes conflict.
pub(super) async fn accept(
    app: &App,
    client: &ClientRow,
    id: AssignmentId,
    task: Task,
    report: Report,
    body: Option<&mut Staged>,
) -> Answer<Json<ReportAccepted>> {
    let accepted = ReportAccepted { retry_after_ms: retry(app, client, RetryReason::Reported).await? };
    let now_ms = app.clock.now_ms();
    let mut tx = app.db.begin().await?;
    // The job's row is locked before its round is looked at: no driver can close the round meanwhile.
    tx.lock_job_of(id).await?;
    let (assignment, round) = own_assignment(&mut tx, client, id, Some(task)).await?;
    if assignment.state == AssignmentState::Reported {
        return match assignment.report() == Some(report.sha256) {
            true => Ok(Json(accepted)),
            false => Err(ApiError::new(ProblemType::UpdateConflict, format!("{id} has reported other bytes"))),
        };
    }
    let in_time = round.deadline_at_ms.is_some_and(|deadline_at_ms| now_ms < deadline_at_ms);
    let reported = match in_time && round.phase == Phase::Training {
        true => tx.accept_report(id, &report, now_ms).await?,
        false => None,
    };
    let Some(traffic) = reported else {
        drop(tx);
        require_open(app, client, &assignment, &round).await?;
        return Err(closed(app, client, &assignment, &round).await?);
    };
    if let Some(body) = body {
        body.settle(&mut tx, app.clock.now_ms()).await?;
    }
    let key = assignment.round();
    tx.count_ended(key, AssignmentState::Reported, 1, report.weight, traffic).await?;
    tx.record(Happening::of_assignment(key, id, AssignmentState::Reported.as_str()), now_ms).await?;
    if round.reported + 1 >= round.goal {
        close_in(app, &mut tx, key, now_ms).await?;
    }
    tx.commit().await?;
    app.forget_downloads(client.id);
    Ok(Json(accepted))
}
