//! Bad input from C, and whether the header fits.

use std::ffi::{CStr, CString, c_void};
use std::process::Command;
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex};

use tributary_client::TrainError;
use tributary_client::trainer::{self, Trainer as _};
use tributary_protocol::plan::Loss;
use tributary_protocol::seed::Seed;

use super::callbacks::FromC;
use super::calls::*;
use super::status::{
    TributaryStatus, call, sized, tributary_abi_version, tributary_last_error, tributary_status_name,
    tributary_waits_for,
};
use super::types::*;
use crate::attest::Attester;
use crate::host::ask;
use crate::keys::KeyStore;
use crate::tests::{model, settings, spec, training};
use crate::trainer::AppTrainer;

pub(super) fn last_error() -> String {
    // SAFETY: the text lives until the next call of this thread.
    unsafe { CStr::from_ptr(tributary_last_error()) }.to_str().unwrap().to_owned()
}

/// Settings of C, with the texts that they point to.
fn c_settings() -> (TributarySettings, [CString; 3]) {
    let good = settings();
    let texts = [good.server, good.token, good.state_dir].map(|text| CString::new(text).unwrap());
    let settings = TributarySettings {
        size: size_of::<TributarySettings>(),
        server: texts[0].as_ptr(),
        token: texts[1].as_ptr(),
        state_dir: texts[2].as_ptr(),
        ca_pem: null(),
        attributes: null(),
        attributes_count: 0,
        wait_ms: 0,
        allow_plaintext: 0,
        key_store: null(),
        checkpoint_every_s: 0,
        attester: null(),
        channels: null(),
        channels_count: 0,
        consent: null(),
        consent_given_at_ms: 0,
        secure_aggregation: 0,
        signed_groups: 0,
        survivors_min: 0,
        epsilon_max: 0.0,
        clip_max: 0.0,
        table: null(),
    };
    (settings, texts)
}

pub(super) fn client() -> *mut TributaryClient {
    let (settings, _texts) = c_settings();
    let mut client = null_mut();
    // SAFETY: all pointers are valid.
    assert_eq!(unsafe { tributary_client_new(&raw const settings, &raw mut client) }, TributaryStatus::Ok);
    client
}

fn examples() -> *mut TributaryExamples {
    let mut examples = null_mut();
    let (shape, inputs, labels) = ([1], [1.0], [0]);
    // SAFETY: all pointers are valid.
    let status = unsafe {
        tributary_examples_of_classes(shape.as_ptr(), 1, inputs.as_ptr(), 1, labels.as_ptr(), 1, &raw mut examples)
    };
    assert_eq!(status, TributaryStatus::Ok);
    examples
}

pub(super) fn refused(status: TributaryStatus, text: &str) {
    assert_eq!(status, TributaryStatus::BadInput, "{text}");
    assert!(last_error().contains(text), "{:?} instead of {text:?}", last_error());
}

#[test]
fn null_and_texts_that_are_none_are_refused_with_their_name() {
    let mut made = null_mut();
    let bad_text = CString::new([0xff]).unwrap();
    let (name, value) = (CString::new("platform").unwrap(), null());
    let empty = CString::default();
    let bad_name = empty.as_ptr();
    let attribute = TributaryAttribute { name: name.as_ptr(), value };
    type Change<'a> = &'a dyn Fn(&mut TributarySettings);
    let cases: [(Change<'_>, &str); 10] = [
        (&|settings| settings.server = null(), "server is null"),
        (&|settings| settings.token = null(), "token is null"),
        (&|settings| settings.state_dir = null(), "state_dir is null"),
        (&|settings| settings.server = bad_text.as_ptr(), "server is not UTF-8"),
        (&|settings| settings.attributes_count = 1, "attributes is null"),
        (&|settings| (settings.attributes, settings.attributes_count) = (&raw const attribute, 1), "value is null"),
        (&|settings| settings.channels_count = 1, "channels is null"),
        (&|settings| (settings.channels, settings.channels_count) = (&raw const bad_name, 1), "is not a name"),
        (&|settings| settings.consent = empty.as_ptr(), "consent"),
        (&|settings| settings.survivors_min = 65_536, "survivors_min is above 65535"),
    ];
    for (change, text) in cases {
        let (mut settings, _texts) = c_settings();
        change(&mut settings);
        // SAFETY: pointers are null or valid.
        refused(unsafe { tributary_client_new(&raw const settings, &raw mut made) }, text);
    }
    let (settings, _texts) = c_settings();
    // SAFETY: pointers are null or valid.
    unsafe {
        refused(tributary_client_new(null(), &raw mut made), "settings is null");
        refused(tributary_client_new(&raw const settings, null_mut()), "the place for the result is null");
        refused(tributary_cancel(null()), "cancel is null");
        refused(tributary_cancel_new(null_mut()), "the place for the result is null");
        tributary_client_free(null_mut());
        tributary_examples_free(null_mut());
        tributary_cancel_free(null_mut());
        assert_eq!((tributary_should_stop(null()), tributary_is_over(null())), (1, 1));
    }
    assert!(made.is_null());
}

/// Goal: an app that was compiled with an older header goes on working. Method: settings without their last member,
/// which is followed by other bytes, as on a stack.
#[test]
fn members_that_an_older_header_lacks_are_zero_and_a_size_of_none_is_refused() {
    let (mut settings, _texts) = c_settings();
    let mut made = null_mut();
    settings.key_store = std::ptr::dangling();
    settings.size = std::mem::offset_of!(TributarySettings, key_store);
    // SAFETY: the texts live, and what is beyond the size is not read.
    assert_eq!(unsafe { tributary_client_new(&raw const settings, &raw mut made) }, TributaryStatus::Ok);
    // SAFETY: it was made above.
    unsafe { tributary_client_free(made) };

    // SAFETY: the texts live.
    let copy = unsafe { sized("settings", &raw const settings) }.unwrap();
    assert!(copy.key_store.is_null() && copy.server == settings.server);
    for size in [0, size_of::<usize>()] {
        settings.size = size;
        // SAFETY: as above.
        refused(unsafe { tributary_client_new(&raw const settings, &raw mut made) }, "settings.size is");
    }
}

#[test]
fn examples_of_another_size_and_nan_are_refused() {
    let mut made = null_mut();
    let out = &raw mut made;
    let (shape, inputs, labels) = ([2], [1.0, f32::NAN], [0]);
    let (shape, inputs, labels) = (shape.as_ptr(), inputs.as_ptr(), labels.as_ptr());
    // SAFETY: pointers are null or valid, and the counts are not larger than what is there.
    unsafe {
        refused(tributary_examples_of_classes(shape, 1, inputs, 2, labels, 1, out), "not finite");
        refused(tributary_examples_of_classes(shape, 1, inputs, 1, labels, 1, out), "whole number of examples");
        refused(tributary_examples_of_classes(shape, 0, inputs, 1, labels, 1, out), "not a shape");
        refused(tributary_examples_of_classes(null(), 1, inputs, 1, labels, 1, out), "shape is null");
        refused(tributary_examples_of_classes(shape, 1, null(), 2, labels, 1, out), "inputs is null");
        refused(tributary_examples_of_classes(shape, 1, inputs, usize::MAX, labels, 1, out), "inputs is no array");
        let odd = inputs.byte_add(1);
        refused(tributary_examples_of_classes(shape, 1, odd, 1, labels, 1, out), "inputs is no array");
        refused(tributary_examples_of_values(shape, 1, inputs, 2, inputs, 1, 0, out), "not finite");
        refused(tributary_examples_of_values(shape, 1, inputs, 0, inputs, 1, 0, out), "do not fit");
    }
    assert!(made.is_null());
}

unsafe extern "C" fn fails(_: *mut c_void, _: *mut TributaryDevice) -> i32 {
    1
}

unsafe extern "C" fn is_hot(_: *mut c_void, device: *mut TributaryDevice) -> i32 {
    // SAFETY: the SDK gives a place for the answer.
    unsafe { device.write(TributaryDevice { metered: 0, charging: 7, battery_percent: 1_000, thermal: i32::MAX }) };
    0
}

#[test]
fn a_session_needs_its_parts_and_a_host_can_end_it() {
    let (client, examples) = (client(), examples());
    let mut outcome = TributaryOutcome { kind: TributaryOutcomeKind::Evaluated, round: 9, retry_after_ms: 9 };
    let host = |device| TributaryHost {
        size: size_of::<TributaryHost>(),
        context: null_mut(),
        device,
        conditions: tributary_conditions(),
    };
    let out = &raw mut outcome;
    // SAFETY: pointers are null or valid.
    unsafe {
        refused(tributary_run_once(null(), examples, null(), null(), out), "client is null");
        assert_eq!((outcome.kind, outcome.round), (TributaryOutcomeKind::Failed, 0));
        refused(tributary_run_once(client, null(), null(), null(), out), "examples is null");
        refused(tributary_run_once(client, examples, null(), null(), null_mut()), "outcome is null");
        refused(tributary_run_trainer(client, null(), null(), null(), out), "trainer is null");
        for percent in [-1, 101, i32::MAX] {
            let conditions = TributaryConditions { battery_percent_min: percent, ..tributary_conditions() };
            let host = TributaryHost { conditions, ..host(Some(fails)) };
            refused(tributary_run_once(client, examples, &raw const host, null(), out), "a battery never has");
        }
        for device in [None, Some(fails as unsafe extern "C" fn(_, _) -> i32), Some(is_hot)] {
            let host = host(device);
            let status = tributary_run_once(client, examples, &raw const host, null(), out);
            assert_eq!((status, outcome.kind), (TributaryStatus::Ok, TributaryOutcomeKind::Interrupted));
        }
        let found = ask(Some(&FromC(host(Some(is_hot))))).unwrap();
        assert_eq!((found.metered, found.charging, found.battery_percent), (Some(false), Some(true), Some(100)));
        let mut cancel = null_mut();
        assert_eq!(tributary_cancel_new(&raw mut cancel), TributaryStatus::Ok);
        assert_eq!(tributary_cancel(cancel), TributaryStatus::Ok);
        let status = tributary_run_once(client, examples, null(), cancel, out);
        assert_eq!((status, outcome.kind), (TributaryStatus::Ok, TributaryOutcomeKind::Interrupted));
        tributary_cancel_free(cancel);
        tributary_examples_free(examples);
        tributary_client_free(client);
    }
}

unsafe extern "C" fn no_key(_: *mut c_void, _: *mut u8) -> i32 {
    -1
}

unsafe extern "C" fn long_signature(_: *mut c_void, _: *const u8, _: usize, _: *mut u8, bytes: *mut usize) -> i32 {
    // SAFETY: the SDK gives a place for the length.
    unsafe { bytes.write(73) };
    0
}

#[test]
fn a_key_store_that_fails_or_lies_about_lengths_is_an_error() {
    for (public_key, sign) in [
        (None, None),
        (
            Some(no_key as unsafe extern "C" fn(_, _) -> i32),
            Some(long_signature as unsafe extern "C" fn(_, _, _, _, _) -> _),
        ),
    ] {
        let keys = FromC(TributaryKeyStore { context: null_mut(), public_key, sign });
        assert!(keys.public_key().is_err() && keys.sign(vec![1]).is_err());
    }
}

/// What a trainer in C does, as its context says.
#[repr(C)]
struct Script {
    status: i32,
    value: f32,
    loss: f64,
}

unsafe extern "C" fn scripted(context: *mut c_void, task: *const TributaryTask, result: *mut TributaryResult) -> i32 {
    // SAFETY: the test gives a script, and the SDK a task and a result.
    let (script, task, result) = unsafe { (&*context.cast::<Script>(), &*task, &mut *result) };
    // SAFETY: the task has so many tensors, with so many values.
    let tensors = unsafe { std::slice::from_raw_parts_mut(task.tensors, task.tensors_count) };
    // SAFETY: as above, and names end with a zero.
    let name = unsafe { CStr::from_ptr(tensors[0].name) };
    assert_eq!((name.to_str().unwrap(), tensors[0].dimensions, tensors[0].count), ("w", 2, 4));
    // SAFETY: as above.
    unsafe { tensors[0].values.write(script.value) };
    *result = TributaryResult { examples: 4, steps: task.steps.into(), loss: script.loss, accuracy: script.loss };
    script.status
}

#[test]
fn a_trainer_trains_in_place_and_its_statuses_keep_their_kind() {
    let run = |status: i32, value: f32| {
        let mut script = Script { status, value, loss: 0.5 };
        let trainer = TributaryTrainer {
            size: size_of::<TributaryTrainer>(),
            context: (&raw mut script).cast(),
            examples: 4,
            train: Some(scripted),
            evaluate: Some(scripted),
        };
        let mut trainer = AppTrainer::new(Arc::new(FromC(trainer))).unwrap();
        let (model, spec, training) = (model(), spec(), training());
        let evaluated = trainer::EvaluateTask::new(&model, &spec, Loss::CrossEntropy);
        let evaluated = trainer.evaluate(&evaluated, &|| false);
        let task = trainer::TrainTask::new(&model, &spec, &training, Seed(7));
        (trainer.train(&task, &|| false), evaluated)
    };
    let (trained, evaluated) = run(0, 9.0);
    let trained = trained.unwrap();
    assert_eq!((trained.values, trained.steps), (vec![9.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3));
    assert_eq!(evaluated.unwrap().accuracy, Some(0.5));
    assert_eq!(run(0, f32::NAN).0.unwrap_err(), TrainError::Diverged);
    for (status, error) in [
        (TributaryStatus::Interrupted, TrainError::Interrupted),
        (TributaryStatus::NoExamples, TrainError::NoExamples),
        (TributaryStatus::Diverged, TrainError::Diverged),
    ] {
        let (trained, evaluated) = run(status as i32, 1.0);
        assert_eq!((trained.unwrap_err(), evaluated.unwrap_err()), (error.clone(), error));
    }
    assert!(matches!(run(TributaryStatus::DoesNotFit as i32, 1.0).0, Err(TrainError::DoesNotFit(_))));
    for status in [TributaryStatus::Training as i32, 99, -1] {
        assert!(matches!(run(status, 1.0), (Err(TrainError::Other(_)), Err(TrainError::Other(_)))), "{status}");
    }
    let without = TributaryTrainer {
        size: size_of::<TributaryTrainer>(),
        context: null_mut(),
        examples: 1,
        train: None,
        evaluate: None,
    };
    let mut without = AppTrainer::new(Arc::new(FromC(without))).unwrap();
    let (model, spec, training) = (model(), spec(), training());
    let task = trainer::TrainTask::new(&model, &spec, &training, Seed(7));
    let error = without.train(&task, &|| false).unwrap_err().to_string();
    assert!(error.contains("no function `train`"), "{error}");
}

/// Suspends a training with the context's bytes, or ends one that goes on after three steps.
unsafe extern "C" fn suspends(context: *mut c_void, task: *const TributaryTask, result: *mut TributaryResult) -> i32 {
    // SAFETY: the test gives bytes, and the SDK a task and a result.
    let (state, asked, result) = unsafe { (&*context.cast::<Vec<u8>>(), &*task, &mut *result) };
    // SAFETY: a checkpoint is there if it is not null.
    if let Some(resume) = unsafe { asked.resume.as_ref() } {
        // SAFETY: a checkpoint has so many bytes.
        let kept = unsafe { std::slice::from_raw_parts(resume.state, resume.state_bytes) };
        assert_eq!(kept, state);
        *result = TributaryResult { examples: 4, steps: resume.steps, loss: resume.losses, accuracy: -1.0 };
        return TributaryStatus::Ok as i32;
    }
    let here = TributaryCheckpoint { steps: 3, losses: 1.5, state: state.as_ptr(), state_bytes: state.len() };
    // SAFETY: everything lives as long as the call.
    unsafe { tributary_suspend(task, &raw const here) as i32 }
}

#[test]
fn a_training_is_suspended_where_a_later_session_can_go_on() {
    let run = |mut state: Vec<u8>, resume: Option<&trainer::Checkpoint>, may_suspend| {
        let context = (&raw mut state).cast();
        let trainer = TributaryTrainer {
            size: size_of::<TributaryTrainer>(),
            context,
            examples: 4,
            train: Some(suspends),
            evaluate: None,
        };
        let (model, spec, training) = (model(), spec(), training());
        let mut task = trainer::TrainTask::new(&model, &spec, &training, Seed(7));
        (task.resume, task.may_suspend) = (resume, may_suspend);
        AppTrainer::new(Arc::new(FromC(trainer))).unwrap().train(&task, &|| false)
    };
    assert_eq!(run(vec![1, 2], None, false).unwrap_err(), TrainError::Interrupted);
    let Err(TrainError::Suspended(checkpoint)) = run(vec![1, 2], None, true) else { panic!("not suspended") };
    let expected = trainer::Checkpoint::new(3, 1.5).with_bytes(vec![1, 2]);
    assert_eq!(*checkpoint, expected);
    let trained = run(vec![1, 2], Some(&checkpoint), true).unwrap();
    assert_eq!((trained.steps, trained.loss), (3, 1.5));
    let of_another_trainer = checkpoint.with_bytes(Vec::new());
    assert!(matches!(run(vec![1], Some(&of_another_trainer), true), Err(TrainError::Suspended(_))), "it begins");
    assert!(matches!(run(Vec::new(), None, true), Err(TrainError::Other(_))), "without bytes");
    // SAFETY: null is refused.
    assert_eq!(unsafe { tributary_suspend(null(), null()) }, TributaryStatus::BadInput);
}

/// Keeps a checkpoint as soon as one is due, then reports metrics: one good, one of a bad name.
unsafe extern "C" fn keeps_and_measures(
    _: *mut c_void,
    task: *const TributaryTask,
    result: *mut TributaryResult,
) -> i32 {
    // SAFETY: the SDK gives a task, a result, and what they point to.
    unsafe {
        while tributary_checkpoint_is_due((*task).stop) == 0 {
            std::thread::yield_now();
        }
        let state = [7];
        let here = TributaryCheckpoint { steps: 2, losses: 0.5, state: state.as_ptr(), state_bytes: 1 };
        assert_eq!(tributary_keep(task, &raw const here), TributaryStatus::Ok);
        assert_eq!(tributary_metric(task, c"auc".as_ptr(), 0.5), TributaryStatus::Ok);
        assert_eq!(tributary_metric(task, c"auc".as_ptr(), 0.75), TributaryStatus::Ok);
        assert_eq!(tributary_metric(task, c"A U C".as_ptr(), 0.75), TributaryStatus::BadInput);
        assert_eq!(tributary_metric(task, c"f1".as_ptr(), f64::NAN), TributaryStatus::BadInput);
        while tributary_checkpoint_is_due((*task).stop) == 0 {
            std::thread::yield_now();
        }
        *result = TributaryResult { examples: 4, steps: 3, loss: 0.5, accuracy: -1.0 };
    }
    TributaryStatus::Ok as i32
}

/// Always asks for the next checkpoint.
#[derive(Debug, Default)]
struct Always(Mutex<Vec<trainer::Checkpoint>>);

impl trainer::Checkpoints for Always {
    fn is_due(&self) -> bool {
        true
    }

    fn keep(&self, checkpoint: trainer::Checkpoint) {
        self.0.lock().unwrap().push(checkpoint);
    }
}

#[test]
fn a_trainer_in_c_keeps_checkpoints_while_it_goes_on_and_reports_metrics() {
    let trainer = TributaryTrainer {
        size: size_of::<TributaryTrainer>(),
        context: null_mut(),
        examples: 4,
        train: Some(keeps_and_measures),
        evaluate: None,
    };
    let (model, spec, training, always) = (model(), spec(), training(), Always::default());
    let checkpoints: &dyn trainer::Checkpoints = &always;
    let mut task = trainer::TrainTask::new(&model, &spec, &training, Seed(7));
    (task.may_suspend, task.checkpoints) = (true, Some(checkpoints));
    let trained = AppTrainer::new(Arc::new(FromC(trainer))).unwrap().train(&task, &|| false).unwrap();
    let metrics: Vec<_> = trained.metrics.iter().map(|(name, value)| (name.to_string(), value)).collect();
    assert_eq!(metrics, [("auc".to_owned(), 0.75)]);
    assert_eq!(*always.0.lock().unwrap(), [trainer::Checkpoint::new(2, 0.5).with_bytes(vec![7])]);
    // SAFETY: null is refused.
    unsafe {
        assert_eq!(tributary_checkpoint_is_due(null()), 0);
        assert_eq!(tributary_keep(null(), null()), TributaryStatus::BadInput);
        assert_eq!(tributary_metric(null(), c"auc".as_ptr(), 0.5), TributaryStatus::BadInput);
    }
}

/// States the context's text about the device.
unsafe extern "C" fn states(context: *mut c_void, key: *const u8, attestation: *mut TributaryAttestation) -> i32 {
    assert!(!key.is_null());
    // SAFETY: the test gives a text that ends with a zero.
    unsafe { tributary_attest(attestation, c"test".as_ptr(), context.cast()) as i32 }
}

unsafe extern "C" fn states_nothing(_: *mut c_void, _: *const u8, _: *mut TributaryAttestation) -> i32 {
    0
}

#[test]
fn an_attester_in_c_passes_its_statement_and_one_that_makes_none_is_an_error() {
    let attester = |attest| FromC(TributaryAttester { context: c"true".as_ptr().cast_mut().cast(), attest });
    let stated = attester(Some(states)).attest(Some(vec![7; 32])).unwrap();
    assert_eq!((stated.platform.as_str(), stated.statement.as_str()), ("test", "true"));
    assert!(attester(Some(states_nothing)).attest(None).is_err());
    assert!(attester(None).attest(None).is_err());
    // SAFETY: null is refused.
    let refused = unsafe { tributary_attest(null_mut(), c"a".as_ptr(), c"b".as_ptr()) };
    assert_eq!(refused, TributaryStatus::BadInput);
}

#[test]
fn enrol_and_open_jobs_say_why_they_fail_and_statuses_have_names() {
    let (settings, _texts) = c_settings();
    let (mut made, mut text) = (null_mut(), null());
    // SAFETY: the texts live, and pointers are null or valid.
    unsafe {
        assert_eq!(tributary_client_new(&raw const settings, &raw mut made), TributaryStatus::Ok);
        refused(tributary_enrol(null(), &raw mut text), "client is null");
        refused(tributary_enrol(made, null_mut()), "place for the result is null");
        refused(tributary_open_jobs(null(), &raw mut text), "client is null");
        tributary_client_free(made);
        assert_eq!(CStr::from_ptr(tributary_waits_for()), c"");
    }
    assert!(text.is_null());
    let name = |status| {
        // SAFETY: names are constants.
        unsafe { CStr::from_ptr(tributary_status_name(status)) }
    };
    assert_eq!(name(TributaryStatus::Untrusted as i32), c"untrusted");
    assert_eq!(name(TributaryStatus::Privacy as i32), c"privacy");
    assert_eq!((name(0), name(14), name(-1)), (c"ok", c"unknown", c"unknown"));
}

#[test]
fn a_panic_ends_at_the_border() {
    assert_eq!(call(|| panic!("on purpose")), TributaryStatus::Internal);
    assert!(last_error().contains("panicked"));
}

const HEADER: &str = include_str!("../../include/tributary.h");

/// Name and parameters of each function of a text; `begin` is what stands before its name.
fn functions(text: &str, begin: &str, parameter: impl Fn(&str) -> String) -> Vec<(String, Vec<String>)> {
    let mut functions: Vec<_> = text
        .match_indices(begin)
        .filter_map(|(at, _)| {
            let (name, rest) = text[at + begin.len()..].split_once('(')?;
            let name = name.trim_start_matches('*');
            let parameters = rest.split_once(')')?.0.split(',').map(str::trim);
            let parameters = parameters.filter(|one| !one.is_empty() && *one != "void").map(&parameter).collect();
            name.starts_with("tributary_").then(|| (name.to_owned(), parameters))
        })
        .collect();
    functions.sort();
    functions
}

#[test]
fn the_header_declares_what_is_exported() {
    let sources = concat!(
        include_str!("status.rs"),
        include_str!("calls.rs"),
        include_str!("models.rs"),
        include_str!("sets.rs"),
        include_str!("tables.rs")
    );
    let exported = functions(sources, "extern \"C\" fn ", |one| one.split(':').next().unwrap().to_owned());
    let last_word = |one: &str| one.rsplit([' ', '*']).next().unwrap().to_owned();
    // Declarations begin at the start of a line, with their type.
    let types = ["TributaryStatus ", "TributaryConditions ", "void ", "int32_t ", "uint32_t ", "const char "];
    let mut declared: Vec<_> =
        types.iter().flat_map(|begin| functions(HEADER, &format!("\n{begin}"), last_word)).collect();
    declared.sort();
    assert_eq!(declared, exported);
    assert_eq!(exported.len(), 39);
}

macro_rules! layout {
    ($($name:ident { $($field:ident),* })*) => {
        [$((
            stringify!($name),
            size_of::<$name>(),
            vec![$((stringify!($field), std::mem::offset_of!($name, $field))),*],
        )),*]
    };
}

/// Goal: C and Rust agree about each byte. Method: the compiler of C checks sizes and offsets.
#[test]
fn structures_have_the_same_layout_in_c() {
    let structures = layout! {
        TributaryAttribute { name, value }
        TributaryKeyStore { context, public_key, sign }
        TributarySettings {
            size, server, token, state_dir, ca_pem, attributes, attributes_count, wait_ms, allow_plaintext, key_store,
            checkpoint_every_s, attester, channels, channels_count, consent, consent_given_at_ms, secure_aggregation,
            signed_groups, survivors_min, epsilon_max, clip_max, table
        }
        TributaryTable { context, rows }
        TributaryAttester { context, attest }
        TributaryDevice { metered, charging, battery_percent, thermal }
        TributaryConditions { unmetered, battery_percent_min, cool, time_budget_ms }
        TributaryHost { size, context, device, conditions }
        TributaryTensor { name, shape, dimensions, values, count, frozen }
        TributaryTask {
            tensors, tensors_count, epochs, steps, batch_size, learning_rate, proximal, seed, loss, training_json,
            model_json, stop, resume, job, data
        }
        TributaryCheckpoint { steps, losses, state, state_bytes }
        TributaryResult { examples, steps, loss, accuracy }
        TributaryTrainer { size, context, examples, train, evaluate }
        TributaryOutcome { kind, round, retry_after_ms }
        TributaryValue { column, text, number }
        TributaryPrediction {
            size, outputs, outputs_count, probabilities, probabilities_count, numbers, numbers_count, class_index, label
        }
    };
    let mut program = String::from("#include <tributary.h>\n");
    let mut same = |expression: String, value: usize| {
        program += &format!("_Static_assert({expression} == {value}, \"{expression}\");\n");
    };
    for (name, size, fields) in structures {
        same(format!("sizeof({name})"), size);
        for (field, offset) in fields {
            same(format!("offsetof({name}, {field})"), offset);
        }
    }
    for (name, value) in [
        ("ABI_VERSION", tributary_abi_version() as usize),
        ("STATUS_OK", TributaryStatus::Ok as usize),
        ("STATUS_BAD_INPUT", TributaryStatus::BadInput as usize),
        ("STATUS_UNREACHABLE", TributaryStatus::Unreachable as usize),
        ("STATUS_REFUSED", TributaryStatus::Refused as usize),
        ("STATUS_BUSY", TributaryStatus::Busy as usize),
        ("STATUS_STATE", TributaryStatus::State as usize),
        ("STATUS_NO_EXAMPLES", TributaryStatus::NoExamples as usize),
        ("STATUS_DIVERGED", TributaryStatus::Diverged as usize),
        ("STATUS_DOES_NOT_FIT", TributaryStatus::DoesNotFit as usize),
        ("STATUS_TRAINING", TributaryStatus::Training as usize),
        ("STATUS_INTERRUPTED", TributaryStatus::Interrupted as usize),
        ("STATUS_INTERNAL", TributaryStatus::Internal as usize),
        ("STATUS_UNTRUSTED", TributaryStatus::Untrusted as usize),
        ("STATUS_PRIVACY", TributaryStatus::Privacy as usize),
        ("OUTCOME_KIND_FAILED", TributaryOutcomeKind::Failed as usize),
        ("OUTCOME_KIND_CONTRIBUTED", TributaryOutcomeKind::Contributed as usize),
        ("OUTCOME_KIND_EVALUATED", TributaryOutcomeKind::Evaluated as usize),
        ("OUTCOME_KIND_NOTHING_TO_DO", TributaryOutcomeKind::NothingToDo as usize),
        ("OUTCOME_KIND_TOO_LATE", TributaryOutcomeKind::TooLate as usize),
        ("OUTCOME_KIND_INTERRUPTED", TributaryOutcomeKind::Interrupted as usize),
        ("OUTCOME_KIND_DESCRIBED", TributaryOutcomeKind::Described as usize),
    ] {
        same(format!("TRIBUTARY_{name}"), value);
    }
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("layout.c");
    std::fs::write(&source, program).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-fsyntax-only", "-I", concat!(env!("CARGO_MANIFEST_DIR"), "/include")]).arg(&source);
    let output = cc.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
