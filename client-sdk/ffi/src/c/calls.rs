//! Functions that C calls.

use std::ffi::c_char;
use std::sync::Arc;

use tributary_client::Locked;

use super::callbacks::{FromC, floats};
use super::settings::read;
use super::status::{TributaryStatus, call, give_text, set_waits_for, sized, text, there, values};
use super::types::{
    TributaryAttestation, TributaryCancel, TributaryCheckpoint, TributaryClient, TributaryConditions,
    TributaryExamples, TributaryHost, TributaryOutcome, TributaryOutcomeKind, TributarySettings, TributaryStop,
    TributaryTask, TributaryTrainer,
};
use crate::attest::{Attestation, Attester};
use crate::checkpoint::Checkpoint;
use crate::client::{Cancel, Client};
use crate::errors::TributaryError;
use crate::examples::Examples;
use crate::host::{Conditions, Host};
use crate::keys::KeyStore;
use crate::outcome::Outcome;
use crate::table::Table;
use crate::trainer::{Trainer, checked};

/// Gives C a new object.
///
/// # Safety
/// `out` is null or may be written.
pub(super) unsafe fn give<T>(
    out: *mut *mut T,
    make: impl FnOnce() -> Result<T, TributaryError>,
) -> Result<(), TributaryError> {
    if out.is_null() {
        return Err(TributaryError::bad_input("the place for the result is null"));
    }
    let made = Box::into_raw(Box::new(make()?));
    // SAFETY: it is not null, and the caller says that it may be written.
    unsafe { out.write(made) };
    Ok(())
}

/// Takes an object back. A panic of its destructor ends here.
///
/// # Safety
/// It is null or was given by [`give`] and not taken back.
pub(super) unsafe fn free<T>(object: *mut T) {
    let _ = call(|| {
        if !object.is_null() {
            // SAFETY: it comes from `Box::into_raw` in `give`.
            drop(unsafe { Box::from_raw(object) });
        }
        Ok(())
    });
}

/// Makes a client. Nothing is read, written or sent yet. Free it with `tributary_client_free`.
///
/// # Safety
/// The pointers are null or valid, and texts end with a zero. The contexts of key store, attester and table live as
/// long as the client.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_client_new(
    settings: *const TributarySettings,
    client: *mut *mut TributaryClient,
) -> TributaryStatus {
    // SAFETY: the caller promises what the functions ask for.
    call(|| unsafe {
        give(client, || {
            let asked = sized("settings", settings)?;
            let keys: Option<Arc<dyn KeyStore>> = match asked.key_store.is_null() {
                true => None,
                false => Some(Arc::new(FromC(*there("key_store", asked.key_store)?))),
            };
            let attester: Option<Arc<dyn Attester>> = match asked.attester.is_null() {
                true => None,
                false => Some(Arc::new(FromC(*there("attester", asked.attester)?))),
            };
            let table: Option<Arc<dyn Table>> = match asked.table.is_null() {
                true => None,
                false => Some(Arc::new(FromC(*there("table", asked.table)?))),
            };
            Ok(TributaryClient(Client::new(read(&asked)?, keys, attester, table)?))
        })
    })
}

/// Gives the client's id, which enrols the client if it has none. The text is valid until this thread's next call of
/// this function or of `tributary_open_jobs`.
///
/// # Safety
/// The pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_enrol(client: *const TributaryClient, id: *mut *const c_char) -> TributaryStatus {
    // SAFETY: the caller promises what the functions ask for.
    call(|| unsafe {
        let client = there("client", client)?;
        give_text(id, || client.0.enrol())
    })
}

/// Leaves: deletes the client's folder, and has the coordinator delete what it has stored of the client. Stop its
/// sessions first. Writes 1 to `told` if the coordinator knows, else 0: then call it again, or the next session tells
/// it.
///
/// # Safety
/// The pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_leave(client: *const TributaryClient, told: *mut u8) -> TributaryStatus {
    // SAFETY: the caller promises what the functions ask for.
    call(|| unsafe {
        let client = there("client", client)?;
        if told.is_null() {
            return Err(TributaryError::bad_input("the place for the result is null"));
        }
        told.write(u8::from(client.0.leave()?));
        Ok(())
    })
}

/// Gives what the running jobs of the population require of examples, as a list in JSON, with `name`, `loss`, and for
/// networks as layers `input` and `output`. It needs no enrolment. The text is valid until this thread's next call of
/// this function or of `tributary_enrol`.
///
/// # Safety
/// The pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_open_jobs(
    client: *const TributaryClient,
    json: *mut *const c_char,
) -> TributaryStatus {
    // SAFETY: the caller promises what the functions ask for.
    call(|| unsafe {
        let client = there("client", client)?;
        give_text(json, || client.0.open_jobs())
    })
}

/// Passes a statement of the device's platform: its kind, for example `ios-app-attest`, and its text, binary ones in
/// base64. An attester calls it.
///
/// # Safety
/// The attestation is null or that of the callback, and texts end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_attest(
    attestation: *mut TributaryAttestation,
    platform: *const c_char,
    statement: *const c_char,
) -> TributaryStatus {
    // SAFETY: the caller promises what the functions ask for.
    call(|| unsafe {
        let stated = Attestation { platform: text("platform", platform)?, statement: text("statement", statement)? };
        there("attestation", attestation)?;
        (*attestation).0 = Some(stated);
        Ok(())
    })
}

/// Frees a client; null is allowed. No session of it may run.
///
/// # Safety
/// It comes from `tributary_client_new` and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_client_free(client: *mut TributaryClient) {
    // SAFETY: the caller promises it.
    unsafe { free(client) };
}

/// Makes examples of classes, which are copied: `inputs` are those of all examples one after another, each with the
/// values of `shape`; `labels` are numbers from 0, one for each example. Free them with `tributary_examples_free`.
///
/// # Safety
/// The pointers are null or point to as many values as the counts say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_examples_of_classes(
    shape: *const usize,
    dimensions: usize,
    inputs: *const f32,
    inputs_count: usize,
    labels: *const u32,
    labels_count: usize,
    examples: *mut *mut TributaryExamples,
) -> TributaryStatus {
    // SAFETY: the caller promises what the functions ask for.
    call(|| unsafe {
        give(examples, || {
            let shape = values("shape", shape, dimensions)?.iter().map(|size| *size as u64).collect();
            let inputs = floats(values("inputs", inputs, inputs_count)?);
            let labels = values("labels", labels, labels_count)?.to_vec();
            Ok(TributaryExamples(Examples::of_classes(shape, inputs, labels)?))
        })
    })
}

/// Makes examples of numbers, which are copied: `targets` has `width` of them for each example. Free them with
/// `tributary_examples_free`.
///
/// # Safety
/// The pointers are null or point to as many values as the counts say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_examples_of_values(
    shape: *const usize,
    dimensions: usize,
    inputs: *const f32,
    inputs_count: usize,
    targets: *const f32,
    targets_count: usize,
    width: usize,
    examples: *mut *mut TributaryExamples,
) -> TributaryStatus {
    // SAFETY: the caller promises what the functions ask for.
    call(|| unsafe {
        give(examples, || {
            let shape = values("shape", shape, dimensions)?.iter().map(|size| *size as u64).collect();
            let inputs = floats(values("inputs", inputs, inputs_count)?);
            let targets = floats(values("targets", targets, targets_count)?);
            Ok(TributaryExamples(Examples::of_values(shape, inputs, targets, width as u64)?))
        })
    })
}

/// Frees examples; null is allowed.
///
/// # Safety
/// They come from `tributary_examples_of_classes` or `tributary_examples_of_values` and are not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_examples_free(examples: *mut TributaryExamples) {
    // SAFETY: the caller promises it.
    unsafe { free(examples) };
}

/// Makes what ends sessions. Free it with `tributary_cancel_free`, after the sessions.
///
/// # Safety
/// The pointer is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_cancel_new(cancel: *mut *mut TributaryCancel) -> TributaryStatus {
    // SAFETY: the caller promises it.
    call(|| unsafe { give(cancel, || Ok(TributaryCancel(Cancel::new()))) })
}

/// Ends the sessions that were started with it, from any thread: a waiting one at once, a training one before its next
/// batch.
///
/// # Safety
/// The pointer is null or comes from `tributary_cancel_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_cancel(cancel: *const TributaryCancel) -> TributaryStatus {
    // SAFETY: the caller promises it.
    call(|| unsafe {
        there("cancel", cancel)?.0.cancel();
        Ok(())
    })
}

/// Frees it; null is allowed.
///
/// # Safety
/// It comes from `tributary_cancel_new` and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_cancel_free(cancel: *mut TributaryCancel) {
    // SAFETY: the caller promises it.
    unsafe { free(cancel) };
}

/// The default conditions: unmetered, charging or at least 30 % of the battery, cooler than moderate, ten minutes.
#[unsafe(no_mangle)]
pub extern "C" fn tributary_conditions() -> TributaryConditions {
    let Conditions { unmetered, battery_percent_min, cool, time_budget_ms } = Conditions::default();
    TributaryConditions {
        unmetered: unmetered.into(),
        battery_percent_min: battery_percent_min.into(),
        cool: cool.into(),
        time_budget_ms,
    }
}

/// Runs one session on these examples: the SDK trains, or evaluates, the layers that the job describes. `host` and
/// `cancel` may be null.
///
/// # Safety
/// The pointers are null or valid during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_run_once(
    client: *const TributaryClient,
    examples: *const TributaryExamples,
    host: *const TributaryHost,
    cancel: *const TributaryCancel,
    outcome: *mut TributaryOutcome,
) -> TributaryStatus {
    // SAFETY: the caller promises what the functions ask for.
    call(|| unsafe {
        let examples = there("examples", examples)?;
        session(client, host, cancel, outcome, |client, host, conditions, cancel| {
            client.run_once(&examples.0, host, conditions, cancel)
        })
    })
}

/// Runs one session with a trainer of the app. `host` and `cancel` may be null.
///
/// # Safety
/// The pointers are null or valid during the call, and the trainer's context may be used on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_run_trainer(
    client: *const TributaryClient,
    trainer: *const TributaryTrainer,
    host: *const TributaryHost,
    cancel: *const TributaryCancel,
    outcome: *mut TributaryOutcome,
) -> TributaryStatus {
    // SAFETY: the caller promises what the functions ask for.
    call(|| unsafe {
        let trainer: Arc<dyn Trainer> = Arc::new(FromC(sized("trainer", trainer)?));
        session(client, host, cancel, outcome, |client, host, conditions, cancel| {
            client.run_trainer(trainer, host, conditions, cancel)
        })
    })
}

/// One session, whose outcome C reads.
///
/// # Safety
/// The pointers are null or valid during the call.
pub(super) unsafe fn session(
    client: *const TributaryClient,
    host: *const TributaryHost,
    cancel: *const TributaryCancel,
    outcome: *mut TributaryOutcome,
    run: impl FnOnce(
        &Client,
        Option<Arc<dyn Host>>,
        Option<Conditions>,
        Option<Arc<Cancel>>,
    ) -> Result<Outcome, TributaryError>,
) -> Result<(), TributaryError> {
    if outcome.is_null() {
        return Err(TributaryError::bad_input("the place for the outcome is null"));
    }
    let failed = |retry_after_ms| TributaryOutcome { kind: TributaryOutcomeKind::Failed, round: 0, retry_after_ms };
    // SAFETY: it is not null, and the caller says that it may be written.
    unsafe { outcome.write(failed(0)) };
    set_waits_for("");
    // SAFETY: the caller says so.
    let client = unsafe { there("client", client) }?;
    let (mut app, mut conditions) = (None, None);
    if !host.is_null() {
        // SAFETY: the caller says so.
        let host = unsafe { sized("host", host) }?;
        conditions = Some(asked(&host.conditions)?);
        app = Some(Arc::new(FromC(host)) as Arc<dyn Host>);
    }
    let cancel = match cancel.is_null() {
        true => None,
        // SAFETY: the caller says so.
        false => Some(Arc::clone(&unsafe { there("cancel", cancel) }?.0)),
    };
    let ended = run(&client.0, app, conditions, cancel);
    if let Err(TributaryError::Refused { retry_after_ms: Some(retry_after_ms), .. }) = &ended {
        // SAFETY: as above.
        unsafe { outcome.write(failed(*retry_after_ms)) };
    }
    let (kind, round, retry_after_ms) = match ended? {
        Outcome::Contributed { round, retry_after_ms } => (TributaryOutcomeKind::Contributed, round, retry_after_ms),
        Outcome::Evaluated { round, retry_after_ms } => (TributaryOutcomeKind::Evaluated, round, retry_after_ms),
        Outcome::NothingToDo { waits_for, retry_after_ms } => {
            set_waits_for(&waits_for.unwrap_or_default());
            (TributaryOutcomeKind::NothingToDo, 0, retry_after_ms)
        }
        Outcome::Described { round, retry_after_ms } => (TributaryOutcomeKind::Described, round, retry_after_ms),
        Outcome::TooLate { round, retry_after_ms } => (TributaryOutcomeKind::TooLate, round, retry_after_ms),
        Outcome::Interrupted { retry_after_ms } => (TributaryOutcomeKind::Interrupted, 0, retry_after_ms),
    };
    // SAFETY: as above.
    unsafe { outcome.write(TributaryOutcome { kind, round, retry_after_ms }) };
    Ok(())
}

fn asked(conditions: &TributaryConditions) -> Result<Conditions, TributaryError> {
    let TributaryConditions { unmetered, battery_percent_min, cool, time_budget_ms } = *conditions;
    let battery_percent_min = u8::try_from(battery_percent_min)
        .map_err(|_| TributaryError::bad_input(format!("a battery never has {battery_percent_min} %")))?;
    Ok(Conditions { unmetered: unmetered != 0, battery_percent_min, cool: cool != 0, time_budget_ms })
}

/// Whether a trainer should return `TRIBUTARY_STATUS_INTERRUPTED`: 1 or 0. For null it is 1.
///
/// # Safety
/// The pointer is null or that of the task.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_should_stop(stop: *const TributaryStop) -> i32 {
    // SAFETY: the caller promises it.
    unsafe { there("stop", stop) }.map_or(1, |stop| stop.stop.is_set().into())
}

/// Keeps where a training stopped, for a later session. A trainer returns what this call returns:
/// `TRIBUTARY_STATUS_INTERRUPTED`, or another status for a checkpoint that cannot be used. Where no later session can
/// go on, nothing is kept.
///
/// # Safety
/// The task is that of the callback. The checkpoint and its state live as long as the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_suspend(
    task: *const TributaryTask,
    checkpoint: *const TributaryCheckpoint,
) -> TributaryStatus {
    let kept = call(|| {
        // SAFETY: the caller promises it.
        let (stop, checkpoint) = unsafe { given(task, checkpoint) }?;
        if stop.may_suspend {
            *stop.checkpoint.locked() = Some(checkpoint);
        }
        Ok(())
    });
    if kept == TributaryStatus::Ok { TributaryStatus::Interrupted } else { kept }
}

/// A checkpoint of C, and where its task says whether to stop.
///
/// # Safety
/// The pointers are null or valid.
unsafe fn given<'a>(
    task: *const TributaryTask,
    checkpoint: *const TributaryCheckpoint,
) -> Result<(&'a TributaryStop, Checkpoint), TributaryError> {
    // SAFETY: the caller promises it.
    let (task, checkpoint) = unsafe { (there("task", task)?, there("checkpoint", checkpoint)?) };
    let TributaryCheckpoint { steps, losses, state, state_bytes } = *checkpoint;
    // SAFETY: the caller promises it.
    let (stop, bytes) = unsafe { (there("stop", task.stop)?, values("state", state, state_bytes)?) };
    if bytes.is_empty() {
        return Err(TributaryError::bad_input("the checkpoint has no state"));
    }
    Ok((stop, Checkpoint { steps, losses, bytes: bytes.to_vec() }))
}

/// Reports a figure of the app's own, such as an AUC, with the result of this training or evaluation: a finite number,
/// with a name of a-z, 0-9, `_`, `.` and `-`; at most 32. One of a name that was reported is replaced.
///
/// # Safety
/// The task is that of the callback, and the name ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_metric(
    task: *const TributaryTask,
    name: *const c_char,
    value: f64,
) -> TributaryStatus {
    // SAFETY: the caller promises what the functions ask for.
    call(|| unsafe {
        let stop = there("stop", there("task", task)?.stop)?;
        let (name, mut metrics) = (text("name", name)?, stop.metrics.locked());
        let mut next = metrics.clone();
        next.insert(name, value);
        checked(&next).map_err(|error| TributaryError::bad_input(error.to_string()))?;
        *metrics = next;
        Ok(())
    })
}

/// Whether a trainer should call `tributary_keep` and train on: 1 or 0. For null it is 0.
///
/// # Safety
/// The pointer is null or that of the task.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_checkpoint_is_due(stop: *const TributaryStop) -> i32 {
    // SAFETY: the caller promises it.
    unsafe { there("stop", stop) }.map_or(0, |stop| stop.stop.checkpoint_is_due().into())
}

/// Keeps where a training is that goes on, so that after a crash or a kill a later session goes on from there.
///
/// # Safety
/// The task is that of the callback. The checkpoint and its state live as long as the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_keep(
    task: *const TributaryTask,
    checkpoint: *const TributaryCheckpoint,
) -> TributaryStatus {
    call(|| {
        // SAFETY: the caller promises it.
        let (stop, checkpoint) = unsafe { given(task, checkpoint) }?;
        if stop.may_suspend {
            stop.stop.keep(checkpoint);
        }
        Ok(())
    })
}

/// Whether the time that the job leaves for training is over: 1 or 0. The trainer then returns what it learned.
///
/// # Safety
/// The pointer is null or that of the task.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_is_over(stop: *const TributaryStop) -> i32 {
    // SAFETY: the caller promises it.
    unsafe { there("stop", stop) }.map_or(1, |stop| stop.stop.is_over().into())
}
