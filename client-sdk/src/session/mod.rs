//! One session: deliver finished work, or check in, get the model, compute, store the result and deliver it.
//!
//! A session is a value, [`Step`], that says what comes next. The loop here does it with the client's store and
//! coordinator and hands the result back. What a session has achieved is stored before the next request, so a session
//! that ends anywhere (the process is killed, the future is dropped) is continued by the next one.

mod check_in;
mod context;
mod exchange;
mod held;
#[cfg(feature = "group")]
mod made;
#[cfg(feature = "group")]
mod ring;
mod step;
mod watch;

use std::time::Duration;

use tributary_protocol::device::{Assignment, CheckInRequest, DeviceState, ReportAccepted};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::state::Task;

use self::check_in::ask_for_work;
use self::exchange::exchange;
use self::step::{Fate, Step};
use self::watch::Watch;
use crate::clock::Clock;
use crate::error::ClientError;
use crate::host::Host;
use crate::models::{Base, fetch_base};
use crate::outcome::Outcome;
use crate::platform::{rest, within};
use crate::progress::Progress;
use crate::store::client_state::ClientState;
use crate::store::state::{Finished, Identity, Pending, Work};
#[cfg(feature = "group")]
use crate::tasks::Exchanging;
use crate::tasks::{Completed, Given, PartsSoFar, answer, describe, evaluate, train, train_parts, update_parts};
use crate::trainer::{TrainError, Trainer};
use crate::transport::parts::UploadInParts;
use crate::transport::upload::{Figures, Upload};

pub(crate) use self::check_in::{as_known, check_in, plain_request, wait_ms};
pub(crate) use self::context::{Context, PeerCertificates};
pub(crate) use self::step::{cut, interrupted, leaves_assignment_open};

/// Bytes from which on a client asks whether the round is still open before it sends an update for the first time. The
/// answer to a smaller update says so as well, and that is one request instead of two.
const ASKED_BYTES_MIN: usize = 64 * 1024;
/// How often training that waits asks its host.
const LOOK: Duration = Duration::from_secs(1);

/// Runs one session to its end.
pub(crate) async fn run_once<T: Trainer + ?Sized>(
    context: &Context,
    trainer: &mut T,
    host: &dyn Host,
) -> Result<Outcome, ClientError> {
    let Context { state, coordinator, clock, .. } = context;
    if !host.may_continue() {
        return Ok(interrupted());
    }
    let mut identity = context.identity().await?;
    let mut step = Step::Resume;
    loop {
        step = match step {
            Step::Resume => Step::after_resume(state.finished()?),
            Step::CheckIn => {
                let request = check_in_request(context, trainer, host)?;
                Step::after_check_in(Box::pin(ask_for_work(context, &mut identity, &request)).await)
            }
            Step::Fetch(assignment) => match kept_back(context, &assignment) {
                Some(why) => Step::kept_back(assignment.id, why),
                None => {
                    let deadline_ms = clock.now_ms().saturating_add(assignment.deadline_in_ms);
                    let base = fetch_base(state, coordinator, &identity.secret, &assignment).await;
                    Step::after_fetch(assignment, base, deadline_ms)
                }
            },
            Step::Compute { assignment, base, deadline_ms } => {
                let watch = Watch::begin(context, &identity.secret, &assignment);
                let clock = clock.as_ref();
                let given = given(context, &assignment, &base, deadline_ms);
                coordinator.listener.hear(&work(&assignment));
                let left = || Duration::from_millis(deadline_ms.saturating_sub(clock.now_ms()));
                let working = worked((context, &identity), trainer, host, &given, &watch);
                // A GPU that hangs must not hold the session for ever.
                let completed = within(clock, left(), working).await;
                let completed = completed.unwrap_or(Err(TrainError::Interrupted));
                Step::after_compute(assignment, completed, left(), watch.closed())
            }
            Step::Store(finished, next_state) => {
                store(context, &finished, next_state.as_ref());
                Step::after_store(finished, host.may_continue())
            }
            Step::Deliver(finished) => {
                let answer = deliver(context, &identity, &finished, host).await;
                settle(context, &finished, &answer)?;
                Step::after_delivery(&finished.pending, answer)
            }
            Step::AskStatus { assignment, round } => {
                Step::after_status(round, coordinator.status(&identity.secret, assignment, false).await)
            }
            Step::ReportFailure { assignment, report, error } => {
                let answer = coordinator.post_failure(&identity.secret, assignment, &report).await;
                Step::after_failure(error, answer.map(|accepted| accepted.retry_after_ms))
            }
            Step::End(outcome) => return outcome,
        }
    }
}

/// Does the work of an assignment, by itself or with a group whose members exchange while they train.
async fn worked<T: Trainer + ?Sized>(
    (context, identity): (&Context, &Identity),
    trainer: &mut T,
    host: &dyn Host,
    given: &Given<'_>,
    watch: &Watch,
) -> Result<Completed, TrainError> {
    #[cfg(feature = "group")]
    if let Some(exchange) = given.assignment.plan.exchange {
        let examples = examples(trainer, given.assignment);
        let group = ring::Together { context, identity, given, exchange, examples, host, watch };
        let mut train = |exchange: Exchanging<'_>| {
            // A training without the coordinator draws other batches than the one before.
            let again = (exchange.again > 0).then(|| {
                let seed = given.assignment.seed.derive("again", exchange.again);
                Assignment { seed, ..given.assignment.clone() }
            });
            let assignment = again.as_ref().unwrap_or(given.assignment);
            let given = Given { assignment, exchange: Some(exchange), ..*given };
            compute(trainer, host, &given, &mut PartsSoFar::default(), (watch, context))
        };
        return Box::pin(ring::together(group, &mut train)).await;
    }
    // Groups alone speak to the coordinator while they work.
    let _ = identity;
    let mut parts = PartsSoFar::default();
    loop {
        match compute(trainer, host, given, &mut parts, (watch, context)) {
            Err(TrainError::Pending) => trainer.ready().await,
            completed => return completed,
        }
    }
}

/// Why this client takes no part in an assignment, if it does not.
fn kept_back(context: &Context, assignment: &Assignment) -> Option<String> {
    match context.state.noised(assignment.job) {
        Ok(noised) => context.floor.refuses(&assignment.plan, noised),
        Err(error) => Some(error.to_string()),
    }
}

fn check_in_request<T: Trainer + ?Sized>(
    context: &Context,
    trainer: &T,
    host: &dyn Host,
) -> Result<CheckInRequest, ClientError> {
    let state = DeviceState { examples: trainer.examples(), ..host.device_state() };
    Ok(CheckInRequest {
        channels: context.held_releases()?,
        abilities: context.abilities(trainer.abilities()),
        schema: trainer.schema(),
        sets: trainer.sets(),
        answers: context.table.is_some(),
        masks: true,
        wait_ms: context.wait_ms,
        ..plain_request(context, state)
    })
}

/// How many examples an assignment trains on.
#[cfg(feature = "group")]
fn examples<T: Trainer + ?Sized>(trainer: &T, assignment: &Assignment) -> u64 {
    match &assignment.data {
        None => trainer.examples(),
        Some(data) => trainer.sets().get(data).map_or(0, |set| set.examples),
    }
}

/// What an assignment makes the trainer do.
fn work(assignment: &Assignment) -> Progress {
    let round = assignment.round;
    match assignment.task {
        Task::Train if assignment.plan.analysis.is_some() => Progress::Describing { round },
        Task::Train => Progress::Training { round },
        Task::Evaluate => Progress::Evaluating { round },
        Task::Describe => Progress::Describing { round },
    }
}

/// What a task that begins now is given.
fn given<'a>(context: &'a Context, assignment: &'a Assignment, base: &'a Base, deadline_ms: u64) -> Given<'a> {
    Given {
        assignment,
        base,
        state: &context.state,
        clock: context.clock.as_ref(),
        started_ms: context.clock.now_ms(),
        deadline_ms,
        checkpoint_every_ms: context.checkpoint_every_ms,
        exchange: None,
    }
}

fn compute<T: Trainer + ?Sized>(
    trainer: &mut T,
    host: &dyn Host,
    given: &Given<'_>,
    parts: &mut PartsSoFar,
    (watch, context): (&Watch, &Context),
) -> Result<Completed, TrainError> {
    let in_time = || given.clock.now_ms() < given.deadline_ms;
    let is_over = || !in_time() || watch.is_closed();
    let should_stop = || is_over() || !goes_on(host, given.clock, &is_over);
    // The app may have lost the set since the client checked in. Another one teaches the model something else.
    if given.assignment.data.as_ref().is_some_and(|data| trainer.sets().get(data).is_none()) {
        return Err(TrainError::NoExamples);
    }
    match given.assignment.task {
        Task::Train => match (&given.assignment.plan.analysis, &given.assignment.coded) {
            (Some(analysis), _) => answer(context.table.as_deref(), analysis, given, context.describe_floor),
            (None, Some(terms)) => train_parts(trainer, given, (terms, parts), &should_stop),
            (None, None) => train(trainer, given, &should_stop),
        },
        Task::Evaluate => evaluate(trainer, given, &should_stop),
        Task::Describe => describe(trainer, given, context.describe_floor),
    }
}

/// Waits, if the host wants to, until it lets training continue. `false` if the work ends here.
fn goes_on(host: &dyn Host, clock: &dyn Clock, is_over: &dyn Fn() -> bool) -> bool {
    while !host.may_continue() {
        if !host.may_wait() || is_over() || !rest(clock, LOOK) {
            return false;
        }
    }
    true
}

/// Stores finished work. Where that fails (the disk is full) the work can still be delivered now.
fn store(context: &Context, finished: &Finished, next_state: Option<&ClientState>) {
    if let Err(error) = context.state.save_next_state(next_state) {
        tracing::warn!(%error, "the client state is lost");
    }
    if let Err(error) = context.state.save_finished(finished) {
        tracing::warn!(%error, "the finished work is not stored");
    }
    if let Err(error) = context.state.remove_suspended() {
        tracing::warn!(%error, "a checkpoint that is not needed any more stays");
    }
}

/// Delivers finished work. Answers how long the coordinator asks to wait before the next session, in milliseconds.
async fn deliver(
    context: &Context,
    identity: &Identity,
    finished: &Finished,
    host: &dyn Host,
) -> Result<u64, ClientError> {
    let (coordinator, secret) = (&context.coordinator, &identity.secret);
    let id = finished.pending.assignment.id;
    let accepted = match &finished.pending.work {
        Work::Update { query, .. } if finished.pending.assignment.plan.masking.is_some() => {
            exchange(context, identity, (finished, query), host).await?
        }
        #[cfg(feature = "group")]
        Work::Update { query, .. }
            if finished.pending.assignment.plan.ring
                && finished.pending.assignment.plan.exchange.is_none()
                && let ring::Delivered::Counted(accepted) =
                    Box::pin(ring::add_up(context, identity, (finished, query), host)).await? =>
        {
            accepted
        }
        Work::Update { query, sha256 } => {
            upload(context, identity, finished, (Figures::Update(query), *sha256)).await?
        }
        Work::Sum { query, sha256 } => upload(context, identity, finished, (Figures::Sum(query), *sha256)).await?,
        Work::Evaluation(report) => coordinator.put_evaluation(secret, id, None, report).await?,
        Work::Description(description) => coordinator.put_description(secret, id, None, description).await?,
    };
    Ok(accepted.retry_after_ms)
}

/// Sends the body of finished work, unless the coordinator has it.
async fn upload(
    Context { coordinator, .. }: &Context,
    Identity { secret, .. }: &Identity,
    Finished { pending, body, begun }: &Finished,
    (figures, sha256): (Figures<'_>, Sha256Hash),
) -> Result<ReportAccepted, ClientError> {
    let (id, begun) = (pending.assignment.id, *begun);
    // Asked first, so that no bytes are sent to a round that has closed.
    // The sum of a group that exchanged while it trained is there already.
    let is_asked = begun || pending.assignment.plan.exchange.is_some() || body.len() >= ASKED_BYTES_MIN;
    if is_asked && coordinator.status(secret, id, true).await?.reported {
        // An earlier upload was accepted; only its response was lost.
        return Ok(ReportAccepted { retry_after_ms: 0 });
    }
    let unusable = |error: TrainError| ClientError::BadAnswer(error.to_string());
    match (figures, update_parts(body, &pending.assignment).map_err(unusable)?) {
        (Figures::Update(query), Some(bodies)) => {
            let owners = &pending.assignment.owners;
            coordinator.upload_parts(secret, &UploadInParts { id, query, bodies: &bodies, owners, begun }).await
        }
        _ => coordinator.upload(secret, &Upload { id, figures, body, sha256, begun }).await,
    }
}

/// Stores what became of finished work.
fn settle(context: &Context, finished: &Finished, answer: &Result<u64, ClientError>) -> Result<(), ClientError> {
    let (state, pending) = (&context.state, &finished.pending);
    match Fate::of(pending.failures, answer) {
        Fate::Accepted => state.accepted(pending)?,
        Fate::Refused => state.remove_finished()?,
        Fate::GivenUp => {
            tracing::warn!(
                deliveries = pending.failures + 1,
                "finished work is given up: no delivery was answered usably"
            );
            state.remove_finished()?;
        }
        Fate::Kept => {}
        Fate::KeptAfterFailures(failures) => state.save_pending(&Pending { failures, ..pending.clone() })?,
    }
    Ok(())
}
