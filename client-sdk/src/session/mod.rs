//! One session: pending work first, else check in, fetch, work, keep the result on disk, deliver it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tributary_protocol::body::shrink;
use tributary_protocol::device::{
    Assignment, CheckInRequest, CheckInResponse, DETAIL_BYTES_MAX, DeviceState, EnrolRequest, EvaluationReport,
    FailureReport, UpdateQuery,
};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::model::Model;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{FailureReason, Task};
use tributary_protocol::update::{CodecName, EncodeError, Memory, UpdateHeader, encode_with_memory};

use crate::client::{Client, Outcome};
use crate::host::Host;
use crate::models::fetch_model;
use crate::state::{Identity, Pending, Work};
use crate::trainer::{EvaluateTask, TrainError, TrainTask, Trainer};
use crate::transfer::Update;
use crate::{ClientError, Trained};

/// Sessions in which finished work was answered with nonsense, after which it is given up.
const PENDING_FAILURES_MAX: u32 = 10;
/// When to come back after an interruption.
const INTERRUPTED_RETRY: Duration = Duration::from_secs(60);

pub(crate) async fn run_once<T: Trainer + ?Sized>(
    client: &Client,
    trainer: &mut T,
    host: &dyn Host,
) -> Result<Outcome, ClientError> {
    if !host.may_continue() {
        return Ok(Outcome::Interrupted { retry_after: INTERRUPTED_RETRY });
    }
    let mut identity = identity(client).await?;
    if let Some((pending, body)) = client.state.pending()? {
        return deliver(client, &identity, &pending, &body, true).await;
    }
    let request = CheckInRequest {
        attributes: client.attributes.clone(),
        state: DeviceState { examples: trainer.examples(), ..host.device_state() },
        sdk_version: env!("CARGO_PKG_VERSION").to_owned(),
        codecs: CodecName::ALL.to_vec(),
        wait_ms: client.wait_ms,
    };
    let answer = match client.transport.check_in(&identity.secret, &request).await {
        // The coordinator has forgotten this client (another database): enrol again, once.
        Err(error) if error.is(ProblemType::Unauthorized) => {
            identity = enrol_anew(client).await?;
            client.transport.check_in(&identity.secret, &request).await?
        }
        answer => answer?,
    };
    match answer {
        CheckInResponse::Retry { retry_after_ms } => {
            Ok(Outcome::NothingToDo { retry_after: Duration::from_millis(retry_after_ms) })
        }
        CheckInResponse::Assigned(assignment) => work(client, &identity, trainer, host, *assignment).await,
    }
}

/// Who the client is; enrols at the first time.
pub(crate) async fn identity(client: &Client) -> Result<Identity, ClientError> {
    if let Some(identity) = client.state.identity(&client.server)? {
        return Ok(identity);
    }
    enrol_anew(client).await
}

/// Becomes a new client. What it was before is replaced only once that has worked.
async fn enrol_anew(client: &Client) -> Result<Identity, ClientError> {
    let request = EnrolRequest { attributes: client.attributes.clone() };
    let enrolled = client.transport.enrol(&client.enrolment, &request).await?;
    let identity = Identity {
        server: client.server.clone(),
        client: enrolled.client,
        secret: enrolled.secret,
        population: enrolled.population,
    };
    client.state.save_identity(&identity)?;
    Ok(identity)
}

/// Does the work of an assignment and delivers it.
async fn work<T: Trainer + ?Sized>(
    client: &Client,
    identity: &Identity,
    trainer: &mut T,
    host: &dyn Host,
    assignment: Assignment,
) -> Result<Outcome, ClientError> {
    let deadline_ms = client.clock.now_ms().saturating_add(assignment.deadline_in_ms);
    let model = match fetch_model(client, identity, &assignment).await {
        Ok(model) => model,
        Err(error) => return give_up(client, identity, &assignment, error).await,
    };
    let in_time = || client.clock.now_ms() < deadline_ms;
    let should_stop = || !host.may_continue() || !in_time();
    let started_ms = client.clock.now_ms();
    let result = match assignment.task {
        Task::Train => train(client, trainer, &assignment, &model, &should_stop).map(|(trained, body, memory)| {
            // Counts once the update is accepted.
            if let Err(error) = client.state.save_next_memory(memory.as_ref()) {
                tracing::warn!(%error, "what the update leaves out is lost");
            }
            let query = UpdateQuery {
                weight: u32::try_from(trained.examples).unwrap_or(u32::MAX).min(assignment.plan.weight_max),
                loss: trained.loss,
                steps: trained.steps,
                train_ms: client.clock.now_ms().saturating_sub(started_ms),
            };
            (Work::Update { query, sha256: Sha256Hash::of(&body) }, body)
        }),
        Task::Evaluate => evaluate(trainer, &assignment, &model, &should_stop).map(|mut report| {
            report.evaluate_ms = client.clock.now_ms().saturating_sub(started_ms);
            (Work::Evaluation(report), Vec::new())
        }),
    };
    match result {
        Ok((work, body)) => {
            let pending = Pending { assignment, work, failures: 0 };
            // Without it (a full disk) the work can still be delivered now.
            if let Err(error) = client.state.save_pending(&pending, &body) {
                tracing::warn!(%error, "the finished work is not on disk");
            }
            if !host.may_continue() {
                return Ok(Outcome::Interrupted { retry_after: INTERRUPTED_RETRY });
            }
            deliver(client, identity, &pending, &body, false).await
        }
        Err(TrainError::Interrupted) if !in_time() => too_late(client, identity, &assignment).await,
        Err(error) => give_up(client, identity, &assignment, ClientError::Training(error)).await,
    }
}

/// Trains, and encodes what changed: local minus global, and what earlier updates left out where the codec remembers it.
fn train<T: Trainer + ?Sized>(
    client: &Client,
    trainer: &mut T,
    assignment: &Assignment,
    model: &Model,
    should_stop: &dyn Fn() -> bool,
) -> Result<(Trained, Vec<u8>, Option<Memory>), TrainError> {
    let plan = &assignment.plan;
    let task = TrainTask { model, spec: &plan.model, training: &plan.training, seed: assignment.seed };
    let mut trained = computing(|| trainer.train(&task, should_stop))?;
    if trained.values.len() != model.values().len() {
        let (got, expected) = (trained.values.len(), model.values().len());
        return Err(TrainError::DoesNotFit(format!("the trainer gave {got} values for {expected} parameters")));
    }
    if trained.examples == 0 {
        return Err(TrainError::NoExamples);
    }
    for (value, global) in trained.values.iter_mut().zip(model.values()) {
        *value -= global;
    }
    if !trained.loss.is_finite() || trained.values.iter().any(|value| !value.is_finite()) {
        return Err(TrainError::Diverged);
    }
    let header = UpdateHeader {
        codec: plan.codec,
        job: assignment.job.to_string(),
        base_version: assignment.model_version.into(),
    };
    let memory = match plan.codec.properties().feedback {
        true => client.state.memory(assignment.job),
        false => None,
    };
    let encoded = encode_with_memory(
        &trained.values,
        model.parameters(),
        &header,
        assignment.round,
        assignment.seed.derive("update", 0),
        memory.as_ref(),
        assignment.model_sha256,
    );
    let (file, memory) = encoded.map_err(|error| match error {
        EncodeError::NotFinite { .. } => TrainError::Diverged,
        error => TrainError::DoesNotFit(error.to_string()),
    })?;
    Ok((trained, shrink(file), memory))
}

fn evaluate<T: Trainer + ?Sized>(
    trainer: &mut T,
    assignment: &Assignment,
    model: &Model,
    should_stop: &dyn Fn() -> bool,
) -> Result<EvaluationReport, TrainError> {
    let plan = &assignment.plan;
    let task = EvaluateTask { model, spec: &plan.model, loss: plan.training.loss };
    let evaluated = computing(|| trainer.evaluate(&task, should_stop))?;
    if evaluated.examples == 0 {
        return Err(TrainError::NoExamples);
    }
    if !evaluated.loss.is_finite() {
        return Err(TrainError::Diverged);
    }
    let crate::Evaluated { examples, loss, accuracy } = evaluated;
    Ok(EvaluationReport { examples, loss, accuracy, evaluate_ms: 0 })
}

/// Runs a trainer without stopping the runtime's other tasks (where the runtime has other threads), and without letting
/// its panics into the app.
fn computing<T>(compute: impl FnOnce() -> Result<T, TrainError>) -> Result<T, TrainError> {
    let guarded = || match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(compute),
        _ => compute(),
    };
    catch_unwind(AssertUnwindSafe(guarded)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(TrainError::Other(format!("the trainer panicked: {text}")))
    })
}

/// Delivers finished work, and forgets it once the coordinator has answered for good. An earlier session may have begun to.
async fn deliver(
    client: &Client,
    identity: &Identity,
    pending: &Pending,
    body: &[u8],
    begun: bool,
) -> Result<Outcome, ClientError> {
    let assignment = &pending.assignment;
    let round = assignment.round;
    let delivered = match &pending.work {
        Work::Update { query, sha256 } => {
            let update = Update { id: assignment.id, query, body, sha256: *sha256 };
            send_update(client, identity, &update, begun).await
        }
        Work::Evaluation(report) => {
            let accepted = client.transport.put_evaluation(&identity.secret, assignment.id, report).await;
            accepted.map(|accepted| accepted.retry_after_ms)
        }
    };
    match delivered {
        Ok(retry_after_ms) => {
            if matches!(pending.work, Work::Update { .. }) {
                client.state.remember(assignment.job)?;
            }
            client.state.delivered()?;
            let retry_after = Duration::from_millis(retry_after_ms);
            Ok(match pending.work {
                Work::Update { .. } => Outcome::Contributed { round, retry_after },
                Work::Evaluation(_) => Outcome::Evaluated { round, retry_after },
            })
        }
        Err(error) if error.is(ProblemType::AssignmentClosed) => {
            client.state.delivered()?;
            Ok(Outcome::TooLate { round, retry_after: error.retry_after().unwrap_or_default() })
        }
        // Nobody answered, or somebody who is not the coordinator (a proxy, a captive portal): the work waits.
        Err(error) if error.is_passing() || !matches!(error, ClientError::Refused(_)) => {
            keep_pending(client, pending, &error)?;
            Err(error)
        }
        // Refused for good.
        Err(error) => {
            client.state.delivered()?;
            if !error.is(ProblemType::UpdateRejected) && !error.is(ProblemType::UpdateConflict) {
                // The assignment may still be open: without a word the same work would be handed out again.
                let report = FailureReport { reason: FailureReason::DoesNotFit, detail: cut(error.to_string()) };
                let _ = client.transport.post_failure(&identity.secret, assignment.id, &report).await;
            }
            Err(error)
        }
    }
}

/// Keeps work for a later session, but not for ever: an answer that makes no sense each time never will. (Being offline
/// does not count: whenever the coordinator answers, it says what became of the round.)
fn keep_pending(client: &Client, pending: &Pending, error: &ClientError) -> Result<(), ClientError> {
    if matches!(error, ClientError::Unreachable(_)) {
        return Ok(());
    }
    let failures = pending.failures + 1;
    if failures >= PENDING_FAILURES_MAX {
        tracing::warn!(%error, failures, "finished work is given up");
        return client.state.delivered();
    }
    client.state.count_failure(pending, failures)
}

/// Asks whether the round still wants the update before sending its bytes.
async fn send_update(
    client: &Client,
    identity: &Identity,
    update: &Update<'_>,
    begun: bool,
) -> Result<u64, ClientError> {
    let status = client.transport.status(&identity.secret, update.id).await?;
    if status.reported {
        // It arrived; only the answer was lost.
        return Ok(0);
    }
    let accepted = client.transport.send_update(&identity.secret, update, begun).await?;
    Ok(accepted.retry_after_ms)
}

/// The deadline passed during training: the coordinator says what became of the round.
async fn too_late(client: &Client, identity: &Identity, assignment: &Assignment) -> Result<Outcome, ClientError> {
    let retry_after = match client.transport.status(&identity.secret, assignment.id).await {
        // Our clock was a little ahead.
        Ok(status) => Duration::from_millis(status.deadline_in_ms),
        Err(error) if error.is(ProblemType::AssignmentClosed) => error.retry_after().unwrap_or_default(),
        Err(error) => return Err(error),
    };
    Ok(Outcome::TooLate { round: assignment.round, retry_after })
}

/// Tells the coordinator that nothing will come, so that the round need not wait for it.
async fn give_up(
    client: &Client,
    identity: &Identity,
    assignment: &Assignment,
    error: ClientError,
) -> Result<Outcome, ClientError> {
    let Some(reason) = failure_reason(&error) else { return Err(error) };
    let detail = if reason == FailureReason::Interrupted { String::new() } else { cut(error.to_string()) };
    let told = client.transport.post_failure(&identity.secret, assignment.id, &FailureReport { reason, detail }).await;
    let retry_after = match told {
        Ok(accepted) => Duration::from_millis(accepted.retry_after_ms),
        Err(error) => error.retry_after().unwrap_or(INTERRUPTED_RETRY),
    };
    match error {
        ClientError::Training(TrainError::Interrupted) => Ok(Outcome::Interrupted { retry_after }),
        error => Err(error),
    }
}

/// A detail as long as the coordinator takes it.
fn cut(mut detail: String) -> String {
    while detail.len() > DETAIL_BYTES_MAX {
        detail.pop();
    }
    detail
}

/// What to tell the coordinator; nothing when the trouble may pass and the assignment be taken up again.
fn failure_reason(error: &ClientError) -> Option<FailureReason> {
    match error {
        ClientError::Training(error) => Some(match error {
            TrainError::Interrupted => FailureReason::Interrupted,
            TrainError::NoExamples => FailureReason::NoData,
            TrainError::Diverged => FailureReason::Diverged,
            TrainError::DoesNotFit(_) => FailureReason::DoesNotFit,
            TrainError::Other(_) => FailureReason::Other,
        }),
        ClientError::BadAnswer(_) => Some(FailureReason::DoesNotFit),
        _ => None,
    }
}
