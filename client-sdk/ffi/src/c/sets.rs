//! Calls of an app with several models.

use std::ffi::c_char;
use std::sync::Arc;

use super::callbacks::FromC;
use super::calls::{free, give, session};
use super::status::{TributaryStatus, call, sized, text, there};
use super::types::{
    TributaryCancel, TributaryClient, TributaryExamples, TributaryHost, TributaryOutcome, TributarySets,
    TributaryTrainer,
};
use crate::errors::TributaryError;
use crate::sets::Sets;

/// Makes example sets, by the names that jobs give in `data`; none yet. Free them with `tributary_sets_free`.
///
/// # Safety
/// The pointer is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_sets_new(sets: *mut *mut TributarySets) -> TributaryStatus {
    // SAFETY: the caller promises what the functions ask for.
    call(|| unsafe { give(sets, || Ok(TributarySets(Sets::new()))) })
}

/// Adds examples under a name; with null, those of jobs that name no set. The examples may be freed afterwards.
///
/// # Safety
/// The pointers are null or valid during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_sets_add_examples(
    sets: *const TributarySets,
    name: *const c_char,
    examples: *const TributaryExamples,
) -> TributaryStatus {
    // SAFETY: the caller promises what the functions ask for.
    call(|| unsafe {
        let (sets, examples) = (there("sets", sets)?, there("examples", examples)?);
        sets.0.add_examples(named(name)?, Arc::clone(&examples.0))
    })
}

/// Adds a trainer of the app under a name; with null, that of jobs that name no set. The structure is copied.
///
/// # Safety
/// The pointers are null or valid during the call. The trainer's functions and context are valid until the sets are
/// freed, and the context may be used on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_sets_add_trainer(
    sets: *const TributarySets,
    name: *const c_char,
    trainer: *const TributaryTrainer,
) -> TributaryStatus {
    // SAFETY: the caller promises what the functions ask for.
    call(|| unsafe {
        let (sets, trainer) = (there("sets", sets)?, sized("trainer", trainer)?);
        sets.0.add_trainer(named(name)?, Arc::new(FromC(trainer)))
    })
}

/// Runs one session with these sets: the work of a job goes to the set that the job names. `host` and `cancel` may be
/// null.
///
/// # Safety
/// The pointers are null or valid during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_run_sets(
    client: *const TributaryClient,
    sets: *const TributarySets,
    host: *const TributaryHost,
    cancel: *const TributaryCancel,
    outcome: *mut TributaryOutcome,
) -> TributaryStatus {
    // SAFETY: the caller promises what the functions ask for.
    call(|| unsafe {
        let sets = there("sets", sets)?;
        session(client, host, cancel, outcome, |client, host, conditions, cancel| {
            client.run_sets(&sets.0, host, conditions, cancel)
        })
    })
}

/// Frees them; null is allowed.
///
/// # Safety
/// They come from `tributary_sets_new` and are not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_sets_free(sets: *mut TributarySets) {
    // SAFETY: the caller promises it.
    unsafe { free(sets) };
}

/// The name of a set, which may be null.
///
/// # Safety
/// It is null or ends with a zero.
unsafe fn named(name: *const c_char) -> Result<Option<String>, TributaryError> {
    // SAFETY: the caller says so.
    if name.is_null() { Ok(None) } else { unsafe { text("name", name) }.map(Some) }
}
