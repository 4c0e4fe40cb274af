//! Check-ins: a client is held until there is work for it, or its waiting time ends.
//!
//! No check-in waits for a fixed time. The driver draws a cohort as soon as enough clients wait, and calls each held
//! request.

use std::sync::Arc;

use axum::extract::State;
use tributary_engine::job::JobSpec;
use tributary_engine::round::{Candidate, HELD_MS_MIN, RetryReason};
use tributary_protocol::device::{
    ASK_EVERY_MS_MIN, Assignment, CheckInReply, CheckInRequest, CheckInResponse, Plan, WAIT_MS_MAX, WaitsFor,
};
use tributary_protocol::download::{CompanionFile, DELTA_CHAIN_MAX, FormFile, ModelDeltaFile, ModelForm};
use tributary_protocol::model::Companion;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{Standing, Task};

use super::texts::require_text;
use crate::api::auth::{DueDevice, Origin};
use crate::api::extract::Json;
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::db::{AssignmentRow, ClientRow, DbError, MadeFor, ModelFileRow, Text, Tx};
use crate::fleet::Size;
use crate::fleet::lobby::{Call, Work};
use crate::fleet::waits::{EXPLAINED_CLIENTS_MAX, waits_for};
use crate::guard;
use crate::metrics::CheckInAnswer;

/// Largest error of `last_seen_at_ms`. It saves a write per check-in.
const SEEN_EVERY_MS: i64 = 60_000;

pub(super) async fn check_in(
    State(app): State<Arc<App>>,
    DueDevice { client, due }: DueDevice,
    origin: Origin,
    Json(mut request): Json<CheckInRequest>,
) -> Answer<Json<CheckInReply>> {
    let answer = |response| Ok(Json(CheckInReply { response, renew: due.renewals() }));
    require_text(&request.attributes)?;
    app.fleet.check_ins.count(app.clock.now_ms());
    if !client.granted.0.is_empty() {
        request.attributes = request.attributes.with_granted(&client.granted.0);
    }
    // The futures that ask the database are boxed and freed before the client is held, because ten thousand futures
    // wait in the code below.
    Box::pin(remember(&app, &client, &request)).await?;
    if client.standing == Standing::Quarantined {
        app.metrics.checkin(client.population.as_str(), CheckInAnswer::NoJob);
        let retry_after_ms = Box::pin(retry_of(&app, &client, RetryReason::NoJob)).await?;
        return answer(CheckInResponse::Retry { retry_after_ms, waits_for: Some(WaitsFor::Release) });
    }
    let client = client.with_examples(request.state.examples);
    let address = origin.address;
    drop(origin);
    let _held = app.guard.hold(address).ok_or_else(too_many_held)?;
    let wait_ms = i64::from(request.wait_ms.min(WAIT_MS_MAX));
    let since_ms = app.clock.now_ms();
    let until_ms = since_ms.saturating_add(wait_ms);
    let candidate = Arc::new(candidate(&client, request));
    // The other coordinators see the seat while the client is held. Dropping it removes the seat however the wait ends.
    let _seat = app.fleet.seats.as_ref().map(|seats| seats.hold(&client.population, &candidate));
    let mut seat = app.fleet.lobby.enter(client.population.clone(), Arc::clone(&candidate));
    // Looked up after the client entered the lobby: an assignment that is stored from here on calls it. A client that
    // does not wait is looked up once, below.
    if wait_ms > 0
        && let Some(assignment) = Box::pin(look_for_work(&app, &client)).await?
    {
        app.metrics.checkin(client.population.as_str(), CheckInAnswer::Assigned);
        return answer(CheckInResponse::Assigned(Box::new(assignment)));
    }
    app.signals.client_waits(&client.population);
    let (call, stopping) = tokio::select! {
        call = seat.called() => (Some(call), false),
        () = app.clock.sleep_until(until_ms) => (None, false),
        () = app.stopping.cancelled() => (None, true),
    };
    // Who was called has just left the lobby, and finds out at its next check-in what it waits for.
    let is_explained = call.is_none() && app.fleet.lobby.len() <= EXPLAINED_CLIENTS_MAX;
    match call {
        Some(Call::Work(work)) => {
            if let Some(assignment) = Box::pin(given(&app, &client, &work)).await? {
                app.metrics.checkin(client.population.as_str(), CheckInAnswer::Assigned);
                return answer(CheckInResponse::Assigned(Box::new(assignment)));
            }
        }
        Some(Call::Replaced) => app.guard.replaced(),
        Some(Call::Look) | None => {}
    }
    drop(seat);
    let candidate = is_explained.then_some(candidate);
    let held_ms = u64::try_from(app.clock.now_ms() - since_ms).unwrap_or(0);
    answer(Box::pin(after_wait(&app, &client, candidate.as_ref(), stopping, held_ms)).await?)
}

fn too_many_held() -> ApiError {
    let detail = "too many clients of this address wait for work already";
    ApiError::new(ProblemType::TooManyRequests, detail).retry_after_ms(guard::RETRY_MS)
}

/// The answer after the wait: the client was called, its time has passed, or the coordinator stops. A `candidate` is
/// told what it waits for.
async fn after_wait(
    app: &App,
    client: &ClientRow,
    candidate: Option<&Arc<Candidate>>,
    stopping: bool,
    held_ms: u64,
) -> Result<CheckInResponse, DbError> {
    let changes = app.signals.changes();
    let mut tx = app.db.read().await?;
    if !stopping && let Some(assignment) = open_work(app, &mut tx, client).await? {
        app.metrics.checkin(client.population.as_str(), CheckInAnswer::Assigned);
        return Ok(CheckInResponse::Assigned(Box::new(assignment)));
    }
    let wanted = match stopping {
        true => None,
        false => Some(app.fleet.wants.read(app, &mut tx, client, changes, candidate.is_some()).await?),
    };
    let (reason, answer) = match &wanted {
        None => (RetryReason::Unavailable, CheckInAnswer::Stopping),
        Some(wanted) if !wanted.has_running_job => (RetryReason::NoJob, CheckInAnswer::NoJob),
        Some(_) if held_ms >= HELD_MS_MIN => (RetryReason::Held, CheckInAnswer::NothingCame),
        Some(_) => (RetryReason::NothingCame, CheckInAnswer::NothingCame),
    };
    app.metrics.checkin(client.population.as_str(), answer);
    let waits_for = match candidate.zip(wanted.as_ref()) {
        Some((candidate, wanted)) => Some(waits_for(app, &app.fleet, &mut tx, wanted, candidate).await?),
        None => None,
    };
    drop(tx);
    Ok(CheckInResponse::Retry { retry_after_ms: retry_of(app, client, reason).await?, waits_for })
}

/// When a client of this population should check in again.
pub(super) async fn retry_of(app: &App, client: &ClientRow, reason: RetryReason) -> Result<u64, DbError> {
    let size = app.fleet.sizes.get_or_make(client.population.clone(), &app.clock, async || {
        let mut tx = app.db.read().await?;
        let clients = tx.population(&client.population).await?.map_or(0, |population| population.clients);
        let places = match app.fleet.pace.is_set_by_jobs(clients) {
            true => tx.running_places(&client.population).await?,
            false => 0,
        };
        Ok::<_, DbError>(Size { clients, places })
    });
    let size = size.await?;
    Ok(app.fleet.retry_after_ms(reason, size))
}

fn candidate(client: &ClientRow, request: CheckInRequest) -> Candidate {
    Candidate {
        client: client.id,
        number: client.number,
        attributes: request.attributes,
        examples: request.state.examples,
        codecs: request.codecs,
    }
}

/// Stores what the client declared, if it changed or `last_seen_at_ms` is too old.
async fn remember(app: &App, client: &ClientRow, request: &CheckInRequest) -> Result<(), DbError> {
    let now_ms = app.clock.now_ms();
    let changed = client.attributes.0 != request.attributes
        || client.sdk.as_ref().map(|Text(sdk)| sdk) != request.sdk.as_ref()
        || client.examples != request.state.examples;
    if changed || now_ms - client.last_seen_at_ms >= SEEN_EVERY_MS {
        let mut tx = app.db.begin().await?;
        let (attributes, sdk, examples) = (&request.attributes, request.sdk.as_ref(), request.state.examples);
        tx.client_seen(client.id, attributes, sdk, examples, now_ms).await?;
        tx.commit().await?;
    }
    Ok(())
}

async fn look_for_work(app: &App, client: &ClientRow) -> Result<Option<Assignment>, DbError> {
    // Most clients have none: one statement needs no snapshot.
    let open = app.db.look().await?.open_assignment(client.id).await?;
    // The connection is given back by now: clients that held one and waited for another would stop each other.
    match open {
        Some(_) => open_work(app, &mut app.db.read().await?, client).await,
        None => Ok(None),
    }
}

/// The client's open assignment: a new one, or one whose answer was lost.
async fn open_work(app: &App, tx: &mut Tx, client: &ClientRow) -> Result<Option<Assignment>, DbError> {
    let Some(assignment) = tx.open_assignment(client.id).await? else { return Ok(None) };
    let (key, id) = (assignment.round(), assignment.id);
    let missing = |what: &str| DbError::Corrupt(format!("{id} has no {what}"));
    let spec = app.spec(tx, key.job).await?.ok_or_else(|| missing("job"))?;
    let round = Arc::new(tx.round(key).await?.ok_or_else(|| missing("round"))?);
    let model = tx.model(key.job, assignment.base_version).await?.ok_or_else(|| missing("model"))?;
    let work = Work { assignment, round, model: Arc::new(model) };
    let files = files_of(tx, client, &work, &spec).await?;
    Ok(described(app, client, &work, &spec, files))
}

/// The work that a client was drawn for.
async fn given(app: &App, client: &ClientRow, work: &Work) -> Result<Option<Assignment>, DbError> {
    let Some(spec) = app.specs.known(work.round.job) else {
        return open_work(app, &mut app.db.read().await?, client).await;
    };
    let files = match needs_files(&spec) {
        true => files_of(&mut app.db.read().await?, client, work, &spec).await?,
        false => Files::default(),
    };
    Ok(described(app, client, work, &spec, files))
}

/// What a client fetches beside the model's plain file, or instead of it.
#[derive(Default)]
struct Files {
    form: Option<FormFile>,
    deltas: Vec<ModelDeltaFile>,
    control: Option<CompanionFile>,
    dropped_round: Option<u32>,
}

/// Whether the database has more to say about a client's work than assignment, round and model.
fn needs_files(spec: &JobSpec) -> bool {
    let download = spec.plan.download;
    download.codec != ModelForm::F32 || download.delta || spec.plan.goes_back()
}

async fn files_of(tx: &mut Tx, client: &ClientRow, work: &Work, spec: &JobSpec) -> Result<Files, DbError> {
    let (key, model, download) = (work.round.key(), &work.model, spec.plan.download);
    let form = match download.codec {
        ModelForm::F32 => None,
        form => {
            let file = tx.model_file(key.job, model.version, MadeFor::Form(form)).await?;
            let corrupt = || DbError::Corrupt(format!("{} has no model in its form", work.assignment.id));
            let ModelFileRow { sha256, bytes, .. } = file.ok_or_else(corrupt)?;
            Some(FormFile { form, sha256, bytes })
        }
    };
    let deltas = match download.delta {
        true => tx.steps(key.job, model.version.saturating_sub(DELTA_CHAIN_MAX), model.version).await?,
        false => Vec::new(),
    };
    let (control, dropped_round) = carried_on(tx, client, &work.assignment, spec).await?;
    Ok(Files { form, deltas: unbroken(deltas), control, dropped_round })
}

/// The work as its client sees it. An assignment past its deadline is left out, because the driver is about to
/// expire it.
fn described(app: &App, client: &ClientRow, work: &Work, spec: &JobSpec, files: Files) -> Option<Assignment> {
    let Work { assignment: row, round, model } = work;
    let left_ms = row.until_ms(round).unwrap_or(0).saturating_sub(app.clock.now_ms());
    let deadline_in_ms = u64::try_from(left_ms).ok().filter(|left_ms| *left_ms > 0)?;
    let key = row.round();
    let seed = row.term().seed(round.seed(), client.number);
    // An update with a larger weight than the client told is refused, so the client learns what it told.
    let weight_max = match u32::try_from(client.examples).unwrap_or(u32::MAX) {
        0 => spec.plan.weight_max,
        examples => spec.plan.weight_max.min(examples),
    };
    let training = round.policy().training(&spec.plan.training);
    Some(Assignment {
        id: row.id,
        task: key.task,
        job: key.job,
        round: key.number,
        model_version: row.base_version,
        model_sha256: model.sha256,
        form: files.form,
        model_deltas: files.deltas,
        control: files.control,
        dropped_round: files.dropped_round,
        plan: Plan { weight_max, training, ..spec.plan.clone() },
        seed,
        deadline_in_ms,
        ask_every_ms: ask_every_ms(round.cohort),
    })
}

/// What a client needs to go on from its last update: the control variate, and whether that update did not count.
async fn carried_on(
    tx: &mut Tx,
    client: &ClientRow,
    row: &AssignmentRow,
    spec: &JobSpec,
) -> Result<(Option<CompanionFile>, Option<u32>), DbError> {
    let (key, algorithm) = (row.round(), spec.plan.training.algorithm);
    if key.task != Task::Train || !spec.plan.goes_back() {
        return Ok((None, None));
    }
    let control = match algorithm.sends_control() {
        true => tx.model_file(key.job, row.base_version, MadeFor::Companion(Companion::Control)).await?,
        false => None,
    };
    let control = control.map(|ModelFileRow { sha256, bytes, .. }| CompanionFile { sha256, bytes });
    Ok((control, tx.dropped_round(key.job, client.id).await?))
}

/// The last of these model deltas that follow each other without a gap.
fn unbroken(mut steps: Vec<ModelDeltaFile>) -> Vec<ModelDeltaFile> {
    let gap = steps.windows(2).rposition(|pair| pair[0].version + 1 != pair[1].version);
    steps.split_off(gap.map_or(0, |gap| gap + 1))
}

/// Questions of working clients that a cohort may ask per second. Each is a read of two rows.
const QUESTIONS_PER_S: u64 = 100;

/// How often a client of such a cohort asks whether its round is still open.
fn ask_every_ms(cohort: u32) -> u64 {
    ASK_EVERY_MS_MIN.max(u64::from(cohort) * 1_000 / QUESTIONS_PER_S)
}

#[cfg(test)]
mod tests {
    use tributary_protocol::hash::Sha256Hash;

    use super::*;

    #[test]
    fn steps_after_the_last_gap_are_left() {
        let hash = Sha256Hash::of(b"");
        let left = |versions: &[u32]| {
            let step = |version: &u32| ModelDeltaFile { version: *version, base_sha256: hash, sha256: hash, bytes: 1 };
            let left = unbroken(versions.iter().map(step).collect());
            left.iter().map(|step| step.version).collect::<Vec<_>>()
        };
        assert_eq!(left(&[]), [0; 0]);
        assert_eq!(left(&[4, 5, 6]), [4, 5, 6]);
        assert_eq!(left(&[4, 6, 7]), [6, 7]);
        assert_eq!(left(&[1, 3, 5]), [5]);
    }

    #[test]
    fn a_cohort_of_any_size_asks_at_most_a_hundred_times_a_second() {
        for (cohort, every_ms) in [(1, 3_000), (300, 3_000), (1_000, 10_000), (100_000, 1_000_000)] {
            assert_eq!(ask_every_ms(cohort), every_ms);
            assert!(u64::from(cohort) * 1_000 <= QUESTIONS_PER_S * every_ms);
        }
    }
}
