//! Reports without tensors: is the work still wanted, evaluations, failures.

use std::sync::Arc;

use axum::extract::State;
use tributary_engine::job::JobSpec;
use tributary_engine::round::RetryReason;
use tributary_protocol::classes::ClassCountsError;
use tributary_protocol::device::{
    AssignmentStatus, DETAIL_BYTES_MAX, EvaluationReport, FailureReport, LOSS_MAX, ReportAccepted, StatusQuery,
};
use tributary_protocol::figures::Figures;
use tributary_protocol::fixed::{Contribution, Weight};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::AssignmentId;
use tributary_protocol::inputs::{Description, Inputs};
use tributary_protocol::layers::ModelSpec;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::relay::ReportQuery;
use tributary_protocol::state::{AssignmentState, Task};
use tributary_protocol::text::visible;
use tributary_protocol::traffic::Traffic;

use crate::api::auth::Device;
use crate::api::extract::{Json, Path, Query};
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::db::{AssignmentRow, ClientRow, DbError, Report, Times};
use crate::fleet::Fleet;
use crate::lifecycle::acceptance::Submission;
use crate::lifecycle::assignments::{self, Comes, Received, Refusal};

/// When an update may be sent again that came while its buffer was made into a model.
const BETWEEN_MS: u64 = 500;

pub(super) async fn status(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path(id): Path<AssignmentId>,
    Query(query): Query<StatusQuery>,
) -> Answer<Json<AssignmentStatus>> {
    let found = assignments::find(&mut app.db.read().await?, client.id, id, None).await;
    let (assignment, round) = or_refused(&app, &client, found).await?;
    Fleet::heard(&app, &client).await?;
    let reported = assignment.state == AssignmentState::Reported;
    if !reported {
        let comes = if query.finished { Comes::Finished } else { Comes::Unfinished };
        or_refused(&app, &client, assignments::require_open(&app, &assignment, &round, comes).await).await?;
    }
    let left_ms = assignment.until_ms(&round).unwrap_or(0).saturating_sub(app.clock.now_ms());
    Ok(Json(AssignmentStatus { reported, deadline_in_ms: u64::try_from(left_ms).unwrap_or(0) }))
}

pub(super) async fn put_evaluation(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path(id): Path<AssignmentId>,
    Query(query): Query<ReportQuery>,
    Json(evaluation): Json<EvaluationReport>,
) -> Answer<Json<ReportAccepted>> {
    if let Err(reason) = check_evaluation(&evaluation) {
        return Err(reject(&app, &client, (id, Task::Evaluate), reason).await?);
    }
    let bounds = or_refused(&app, &client, bounds(&app, &client, id).await).await?;
    let contribution = match bounds.contribution(&evaluation, query) {
        Ok(contribution) => contribution,
        Err(reason) => return Err(reject(&app, &client, (id, Task::Evaluate), &reason).await?),
    };
    let job = bounds.assignment.round().job;
    let body = serde_json::to_vec(&evaluation).map_err(ApiError::internal)?;
    let bytes = body.len() as u64;
    let report = Report {
        figures: Figures {
            contribution,
            loss: Some(evaluation.loss),
            metrics: evaluation.metrics,
            ..Figures::default()
        },
        accuracy: evaluation.accuracy,
        work_ms: evaluation.evaluate_ms,
        classes: evaluation.classes,
        description: None,
        sha256: Sha256Hash::of(&body),
        // A report without tensors is never compressed.
        traffic: Traffic { bytes_up: bytes, raw_bytes_up: bytes, ..Traffic::default() },
        times: Times::default(),
        below: None,
    };
    let (client_id, task) = (client.id, Task::Evaluate);
    let mut submission = Submission { client: client_id, job, assignment: id, task, report, body: None, part: None };
    let accepted = app.updates.acceptance.accept(&app, &mut submission).await;
    if let Err(Refusal::Misfit(error)) = accepted {
        return Err(reject(&app, &client, (id, Task::Evaluate), &error.to_string()).await?);
    }
    or_refused(&app, &client, accepted).await?.tell(&app.signals);
    report_accepted(&app, &client, RetryReason::Reported).await
}

pub(super) async fn put_description(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path(id): Path<AssignmentId>,
    Query(query): Query<ReportQuery>,
    Json(description): Json<Description>,
) -> Answer<Json<ReportAccepted>> {
    let found = or_refused(&app, &client, described_job(&app, &client, id).await).await?;
    let Some((assignment, inputs)) = found else { return Err(ApiError::not_found(id)) };
    let checked = description.check(&inputs).map_err(|error| error.to_string());
    let updates = match checked.and_then(|()| assignment.stands_for(query.reports)) {
        Ok(updates) => updates,
        Err(reason) => return Err(reject(&app, &client, (id, Task::Describe), &reason).await?),
    };
    let job = assignment.round().job;
    let body = serde_json::to_vec(&description).map_err(ApiError::internal)?;
    let bytes = body.len() as u64;
    let weight = Weight::examples(u32::try_from(description.examples).unwrap_or(u32::MAX));
    let report = Report {
        figures: Figures { contribution: Contribution { weight, updates }, ..Figures::default() },
        accuracy: None,
        work_ms: 0,
        classes: None,
        description: Some(description),
        sha256: Sha256Hash::of(&body),
        traffic: Traffic { bytes_up: bytes, raw_bytes_up: bytes, ..Traffic::default() },
        times: Times::default(),
        below: None,
    };
    let (client_id, task) = (client.id, Task::Describe);
    let mut submission = Submission { client: client_id, job, assignment: id, task, report, body: None, part: None };
    let accepted = app.updates.acceptance.accept(&app, &mut submission).await;
    or_refused(&app, &client, accepted).await?.tell(&app.signals);
    report_accepted(&app, &client, RetryReason::Reported).await
}

/// An assignment and the inputs of its job; none where it has none.
async fn described_job(
    app: &App,
    client: &ClientRow,
    id: AssignmentId,
) -> Result<Option<(AssignmentRow, Inputs)>, Refusal> {
    let mut tx = app.db.read().await?;
    let (assignment, _) = assignments::find(&mut tx, client.id, id, Some(Task::Describe)).await?;
    let spec = app.spec(&mut tx, assignment.round().job).await?.ok_or_else(|| Refusal::NotFound(id.to_string()))?;
    Ok(spec.file.model.inputs.clone().map(|inputs| (assignment, inputs)))
}

/// Ends the assignment of a report that cannot be right. Returns the answer.
async fn reject(app: &App, client: &ClientRow, (id, task): (AssignmentId, Task), reason: &str) -> Answer<ApiError> {
    let rejected = end(app, client, (id, Some(task)), AssignmentState::Rejected, reason).await;
    or_refused(app, client, rejected).await?;
    Ok(ApiError::new(ProblemType::UpdateRejected, reason))
}

/// What an evaluation must keep to.
struct Bounds {
    assignment: AssignmentRow,
    spec: Arc<JobSpec>,
    /// The shape of the network's output for one input; none for an app's own network.
    outputs: Option<Vec<usize>>,
}

async fn bounds(app: &App, client: &ClientRow, id: AssignmentId) -> Result<Bounds, Refusal> {
    let mut tx = app.db.read().await?;
    let (assignment, _) = assignments::find(&mut tx, client.id, id, Some(Task::Evaluate)).await?;
    let spec = app.spec(&mut tx, assignment.round().job).await?.ok_or_else(|| Refusal::NotFound(id.to_string()))?;
    let file = &spec.file;
    let outputs = match &file.model.spec {
        ModelSpec::Layers(network) => network.shapes().ok().and_then(|mut shapes| shapes.pop()),
        ModelSpec::Parameters(_) => None,
    };
    Ok(Bounds { assignment, spec, outputs })
}

impl Bounds {
    /// What an evaluation counts for: no evaluator for more than a client of a training round could, nor for more
    /// examples than it told when it was drawn. The clients of a relay are bounded so by the relay.
    ///
    /// # Errors
    /// The rule that the evaluation breaks.
    fn contribution(&self, evaluation: &EvaluationReport, query: ReportQuery) -> Result<Contribution, String> {
        let updates = self.assignment.stands_for(query.reports)?;
        self.check_classes(evaluation).map_err(|error| error.to_string())?;
        if !self.assignment.is_sum() {
            let weight_max = self.assignment.weight_max(&self.spec.file);
            let weight = u32::try_from(evaluation.examples).unwrap_or(u32::MAX).min(weight_max);
            return Ok(Contribution::of_one(Weight::examples(weight)));
        }
        let most = u64::from(self.spec.file.update.weight_max) * u64::from(updates);
        match Weight::of_examples(evaluation.examples).filter(|_| evaluation.examples <= most) {
            Some(weight) => Ok(Contribution { weight, updates }),
            None => Err(format!("{} examples, where {updates} evaluations have {most} at most", evaluation.examples)),
        }
    }

    /// Checks counts by class against the network's output: its last length is the number of classes, the others are
    /// positions with a class each.
    fn check_classes(&self, evaluation: &EvaluationReport) -> Result<(), ClassCountsError> {
        let Some(counts) = &evaluation.classes else { return Ok(()) };
        let (expected, positions) = self.outputs.as_deref().and_then(<[usize]>::split_last).unzip();
        if let Some(&expected) = expected.filter(|expected| **expected != counts.classes()) {
            return Err(ClassCountsError::Differ { expected, got: counts.classes() });
        }
        if self.assignment.is_sum() {
            // They count all examples of the relay's clients, and its weight those that each may count for.
            return counts.check(1, None, None);
        }
        let targets = positions.map(|positions| positions.iter().product::<usize>() as u64);
        counts.check(evaluation.examples, targets, evaluation.accuracy)
    }
}

fn check_evaluation(evaluation: &EvaluationReport) -> Result<(), &'static str> {
    if evaluation.examples == 0 || evaluation.examples > 1 << 40 {
        return Err("an evaluation needs 1 to 2^40 examples");
    }
    if !(-LOSS_MAX..=LOSS_MAX).contains(&evaluation.loss) {
        return Err("the loss is not finite, or above 1e12");
    }
    if evaluation.accuracy.is_some_and(|accuracy| !(0.0..=1.0).contains(&accuracy)) {
        return Err("the accuracy is not between 0 and 1");
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
    // An operator's terminal shows it. (PostgreSQL's text type has no NUL either.)
    let detail = visible(&failure.detail);
    let reason = match detail.as_str() {
        "" => failure.reason.to_string(),
        detail => format!("{}: {detail}", failure.reason),
    };
    let failed = end(&app, &client, (id, None), AssignmentState::Failed, &reason).await;
    or_refused(&app, &client, failed).await?;
    report_accepted(&app, &client, RetryReason::NothingCame).await
}

/// Ends the client's open assignment without a report. A repeated request succeeds, because the first answer may have
/// been lost.
async fn end(
    app: &App,
    client: &ClientRow,
    (id, task): (AssignmentId, Option<Task>),
    state: AssignmentState,
    reason: &str,
) -> Result<(), Refusal> {
    let (assignment, round) = assignments::find(&mut app.db.read().await?, client.id, id, task).await?;
    // A client that gives up has nothing; one whose evaluation is rejected has finished it.
    let comes = if state == AssignmentState::Failed { Comes::Unfinished } else { Comes::Finished };
    let is_repeated = match state {
        AssignmentState::Failed => assignment.state == AssignmentState::Failed,
        _ => assignment.state == AssignmentState::Reported,
    };
    if is_repeated {
        return Ok(());
    }
    assignments::require_open(app, &assignment, &round, comes).await?;
    let reason = assignments::kept_reason(&round, reason.to_owned());
    if !assignments::end(app, &assignment, state, &reason, Received::default()).await? {
        // Another request of this client ended it meanwhile. Only one of the two may be told that it counts.
        let (assignment, round) = assignments::find(&mut app.db.read().await?, client.id, id, task).await?;
        assignments::require_open(app, &assignment, &round, comes).await?;
    }
    Ok(())
}

pub(super) async fn report_accepted(
    app: &App,
    client: &ClientRow,
    reason: RetryReason,
) -> Answer<Json<ReportAccepted>> {
    Ok(Json(ReportAccepted { retry_after_ms: app.fleet.retry_of(app, client, reason).await? }))
}

pub(super) async fn or_refused<T>(app: &App, client: &ClientRow, result: Result<T, Refusal>) -> Answer<T> {
    match result {
        Ok(value) => Ok(value),
        Err(refusal) => Err(refused(app, client, refusal).await?),
    }
}

/// The answer to a refused report. If the assignment is closed, it says when the client should check in again.
pub(super) async fn refused(app: &App, client: &ClientRow, refusal: Refusal) -> Result<ApiError, DbError> {
    let detail = refusal.to_string();
    let kind = match refusal {
        Refusal::NotFound(_) => ProblemType::NotFound,
        Refusal::Forbidden(_) => ProblemType::Forbidden,
        Refusal::WrongTask { .. } => ProblemType::WrongState,
        Refusal::Rejected(_) => ProblemType::UpdateRejected,
        Refusal::Conflict(_) => ProblemType::UpdateConflict,
        Refusal::Misfit(_) | Refusal::Sums(_) | Refusal::Unfit(_) => ProblemType::UpdateRejected,
        Refusal::OtherForm(_) | Refusal::NoGroup(_) => ProblemType::WrongState,
        Refusal::Message(_) => ProblemType::Malformed,
        Refusal::GroupPassed(_) | Refusal::GroupFailed(_) => {
            let is_over = matches!(refusal, Refusal::GroupFailed(_));
            let kind = if is_over { ProblemType::GroupFailed } else { ProblemType::GroupClosed };
            let retry_after_ms = app.fleet.retry_of(app, client, RetryReason::Reported).await?;
            return Ok(ApiError::new(kind, detail).retry_after_ms(retry_after_ms));
        }
        Refusal::Stale(_) => {
            // New work may be there already.
            let retry_after_ms = app.fleet.retry_of(app, client, RetryReason::Reported).await?;
            return Ok(ApiError::new(ProblemType::UpdateStale, detail).retry_after_ms(retry_after_ms));
        }
        Refusal::Between(_) => return Ok(ApiError::new(ProblemType::Unavailable, detail).retry_after_ms(BETWEEN_MS)),
        Refusal::Blob(error) => return Ok(error.into()),
        Refusal::Closed { is_training, .. } => {
            // Until the driver has expired the assignment, a check-in would return the same one at once, so the client
            // waits longer.
            let reason = if is_training { RetryReason::NothingCame } else { RetryReason::Reported };
            let retry_after_ms = app.fleet.retry_of(app, client, reason).await?;
            return Ok(ApiError::new(ProblemType::AssignmentClosed, detail).retry_after_ms(retry_after_ms));
        }
    };
    Ok(ApiError::new(kind, detail))
}
