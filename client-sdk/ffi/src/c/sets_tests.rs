//! Example sets of an app in C.

use std::ffi::{CStr, CString, c_void};
use std::ptr::{null, null_mut};

use tributary_client::Name;
use tributary_client::trainer::{TrainTask, Trainer as _};
use tributary_protocol::seed::Seed;

use super::calls::tributary_examples_of_classes;
use super::sets::*;
use super::status::TributaryStatus;
use super::tests::{client, refused};
use super::types::*;
use crate::tests::{model, spec, training};

/// Writes job and set of the task, as `job/set`.
unsafe extern "C" fn tells(context: *mut c_void, task: *const TributaryTask, result: *mut TributaryResult) -> i32 {
    // SAFETY: the SDK passes both, and the context is the test's text.
    let (told, task, result) = unsafe { (&mut *context.cast::<String>(), &*task, &mut *result) };
    let names = [task.job, task.data].map(|name| match name.is_null() {
        true => "none".to_owned(),
        // SAFETY: the texts of a task end with a zero.
        false => unsafe { CStr::from_ptr(name) }.to_str().unwrap().to_owned(),
    });
    *told = names.join("/");
    (result.examples, result.steps, result.loss) = (5, 1, 0.5);
    TributaryStatus::Ok as i32
}

#[test]
fn a_task_goes_to_the_trainer_of_its_set_and_says_its_name() {
    let (mut sets, mut told, typing) = (null_mut(), String::new(), CString::new("typing").unwrap());
    let trainer = TributaryTrainer {
        size: size_of::<TributaryTrainer>(),
        context: (&raw mut told).cast(),
        examples: 5,
        train: Some(tells),
        evaluate: None,
    };
    let mut examples = null_mut();
    let (shape, inputs, labels) = ([1], [1.0, 2.0], [0, 1]);
    let (shape, inputs, labels) = (shape.as_ptr(), inputs.as_ptr(), labels.as_ptr());
    // SAFETY: all pointers are valid.
    unsafe {
        assert_eq!(tributary_sets_new(&raw mut sets), TributaryStatus::Ok);
        let made = tributary_examples_of_classes(shape, 1, inputs, 2, labels, 2, &raw mut examples);
        assert_eq!(made, TributaryStatus::Ok);
        assert_eq!(tributary_sets_add_trainer(sets, typing.as_ptr(), &raw const trainer), TributaryStatus::Ok);
        assert_eq!(tributary_sets_add_examples(sets, null(), examples), TributaryStatus::Ok);
        super::calls::tributary_examples_free(examples);
    }
    // SAFETY: it was made above.
    let mut trainers = unsafe { &*sets }.0.trainers().unwrap();
    assert_eq!(trainers.examples(), 2);
    let names: Vec<_> = trainers.sets().iter().map(|(name, set)| (name.to_string(), set.examples)).collect();
    assert_eq!(names, [("typing".to_owned(), 5)]);
    let (model, spec, training) = (model(), spec(), training());
    let [job, data]: [Name; 2] = ["keyboard", "typing"].map(|name| name.parse().unwrap());
    let mut task = TrainTask::new(&model, &spec, &training, Seed(1));
    (task.job, task.data) = (Some(&job), Some(&data));
    assert_eq!(trainers.train(&task, &|| false).unwrap().examples, 5);
    drop(trainers);
    // SAFETY: it was made above, and nobody uses it any more.
    unsafe { tributary_sets_free(sets) };
    assert_eq!(told, "keyboard/typing");
}

#[test]
fn null_and_names_that_are_none_are_refused() {
    let (mut sets, name) = (null_mut(), CString::new("not a name").unwrap());
    let trainer = TributaryTrainer {
        size: size_of::<TributaryTrainer>(),
        context: null_mut(),
        examples: 1,
        train: None,
        evaluate: None,
    };
    let client = client();
    // SAFETY: pointers are null or valid.
    unsafe {
        refused(tributary_sets_new(null_mut()), "the place for the result is null");
        assert_eq!(tributary_sets_new(&raw mut sets), TributaryStatus::Ok);
        refused(tributary_sets_add_trainer(null(), name.as_ptr(), &raw const trainer), "sets is null");
        refused(tributary_sets_add_trainer(sets, name.as_ptr(), &raw const trainer), "\"not a name\" is not a name");
        refused(tributary_sets_add_trainer(sets, null(), null()), "trainer is null");
        refused(tributary_sets_add_examples(sets, null(), null()), "examples is null");
        refused(tributary_run_sets(client, null(), null(), null(), null_mut()), "sets is null");
        tributary_sets_free(null_mut());
        tributary_sets_free(sets);
        super::calls::tributary_client_free(client);
    }
}
