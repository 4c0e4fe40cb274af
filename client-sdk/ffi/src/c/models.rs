//! Functions that C calls to predict.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::ptr::null;
use std::sync::Arc;

use tributary_client::predict::{self, Prediction, UsableError};

use super::calls::{free, give};
use super::status::{TributaryStatus, c_text, call, fill_in, give_text, text, there, values};
use super::types::{TributaryClient, TributaryModel, TributaryPrediction, TributaryValue};
use crate::errors::TributaryError;
use crate::model::Model;
use crate::release::Freshness;

thread_local! {
    /// What the pointers of this thread's last prediction point to.
    static LAST: RefCell<(Prediction, CString)> = RefCell::default();
}

/// The model of a file that `tributary job export` wrote; the bytes are copied. Free it with `tributary_model_free`.
///
/// # Safety
/// The pointers are null or point to as many bytes as the count says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_model_of_file(
    file: *const u8,
    bytes: usize,
    model: *mut *mut TributaryModel,
) -> TributaryStatus {
    // SAFETY: the caller promises what the functions ask for.
    call(|| unsafe { give(model, || Ok(TributaryModel(Model::from_file(values("file", file, bytes)?.to_vec())?))) })
}

/// The model of a job that the client downloaded last, with its own personal parameters: from its folder, without a
/// network. It is null until the client has taken part in a round of the job. Free it with `tributary_model_free`.
///
/// # Safety
/// The pointers are null or valid, and the text ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_model_of_job(
    client: *const TributaryClient,
    job: *const c_char,
    model: *mut *mut TributaryModel,
) -> TributaryStatus {
    // SAFETY: the caller promises what the functions ask for.
    call(|| unsafe { give_found(model, || there("client", client)?.0.model(&text("job", job)?)) })
}

/// The model that was released on a channel, such as `stable`, whether or not this client trains. `freshness` is
/// `latest`, which downloads a newer release first, or `local`, which asks nobody. It is null until a release is here.
/// Free it with `tributary_model_free`.
///
/// # Safety
/// The pointers are null or valid, and the texts end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_model_of_channel(
    client: *const TributaryClient,
    channel: *const c_char,
    freshness: *const c_char,
    model: *mut *mut TributaryModel,
) -> TributaryStatus {
    // SAFETY: the caller promises what the functions ask for.
    call(|| unsafe {
        give_found(model, || {
            let freshness = match text("freshness", freshness)?.as_ref() {
                "latest" => Freshness::Latest,
                "local" => Freshness::Local,
                _ => return Err(TributaryError::bad_input("freshness is latest or local")),
            };
            there("client", client)?.0.released(&text("channel", channel)?, Some(freshness), None, None)
        })
    })
}

/// Gives C a model, or null where there is none.
///
/// # Safety
/// `out` is null or may be written.
unsafe fn give_found(
    out: *mut *mut TributaryModel,
    find: impl FnOnce() -> Result<Option<Arc<Model>>, TributaryError>,
) -> Result<(), TributaryError> {
    if out.is_null() {
        return Err(TributaryError::bad_input("the place for the result is null"));
    }
    // SAFETY: it is not null, and the caller says that it may be written.
    unsafe {
        out.write(std::ptr::null_mut());
        find()?.map_or(Ok(()), |found| give(out, || Ok(TributaryModel(found))))
    }
}

/// Frees a model; null is allowed. No prediction of it may run.
///
/// # Safety
/// It comes from a function of this page that gives one, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_model_free(model: *mut TributaryModel) {
    // SAFETY: the caller promises it.
    unsafe { free(model) };
}

/// Gives what the model says of itself, as JSON: job, version, hashes, loss, and with `model` the layers, and the
/// columns and classes in their order. The text is valid until this thread's next call that gives a text.
///
/// # Safety
/// The pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_model_card(
    model: *const TributaryModel,
    json: *mut *const c_char,
) -> TributaryStatus {
    // SAFETY: the caller promises what the functions ask for.
    call(|| unsafe {
        let model = there("model", model)?;
        give_text(json, || {
            let card = serde_json::to_string(model.0.0.card());
            card.map_err(|error| TributaryError::State { detail: error.to_string() })
        })
    })
}

/// Predicts one row by the names of its columns, in any order. Columns that the model has not are ignored. Threads may
/// share the model. What `prediction` points to is valid until this thread's next prediction.
///
/// # Safety
/// The pointers are null or valid, and texts end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_predict_row(
    model: *const TributaryModel,
    row: *const TributaryValue,
    count: usize,
    prediction: *mut TributaryPrediction,
) -> TributaryStatus {
    // SAFETY: the caller promises what the functions ask for.
    call(|| unsafe {
        let model = there("model", model)?;
        let mut texts = Vec::with_capacity(count.min(1024));
        for value in values("row", row, count)? {
            let word = if value.text.is_null() { None } else { Some(text("a value's text", value.text)?) };
            texts.push((text("a value's column", value.column)?, word, value.number));
        }
        let row = texts.iter().map(|(column, word, number)| {
            let value = word.as_deref().map_or(predict::Value::Number(*number), predict::Value::Text);
            (column.as_str(), value)
        });
        tell(&model.0, model.0.0.predict_row(&row.collect::<Vec<_>>()), prediction)
    })
}

/// Predicts one row of raw values in the order of the model's columns: numbers as they are, categories by their code,
/// dates in days since 1970, NaN where a value is missing. As `tributary_predict_row` otherwise.
///
/// # Safety
/// The pointers are null or valid, and there are as many values as the count says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_predict(
    model: *const TributaryModel,
    raw: *const f64,
    count: usize,
    prediction: *mut TributaryPrediction,
) -> TributaryStatus {
    // SAFETY: the caller promises what the functions ask for.
    call(|| unsafe {
        let model = there("model", model)?;
        tell(&model.0, model.0.0.predict(values("raw", raw, count)?), prediction)
    })
}

/// Predicts one example that the app has prepared: the inputs of the network, which are neither scaled nor checked. As
/// `tributary_predict_row` otherwise.
///
/// # Safety
/// The pointers are null or valid, and there are as many values as the count says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_predict_prepared(
    model: *const TributaryModel,
    inputs: *const f32,
    count: usize,
    prediction: *mut TributaryPrediction,
) -> TributaryStatus {
    // SAFETY: the caller promises what the functions ask for.
    call(|| unsafe {
        let model = there("model", model)?;
        tell(&model.0, model.0.0.predict_prepared(values("inputs", inputs, count)?), prediction)
    })
}

/// Gives C a prediction, which stays where this thread keeps it.
///
/// # Safety
/// The pointer is null or points to as many bytes as its first member says.
unsafe fn tell(
    model: &Arc<Model>,
    predicted: Result<Prediction, UsableError>,
    out: *mut TributaryPrediction,
) -> Result<(), TributaryError> {
    let predicted = predicted.map_err(|error| TributaryError::DoesNotFit { detail: error.to_string() })?;
    let label = predicted.class.map(|class| c_text(&model.0.class_name(class)));
    LAST.with_borrow_mut(|last| {
        *last = (predicted, label.unwrap_or_default());
        let (Prediction { outputs, probabilities, class, numbers, .. }, label) = &*last;
        let told = TributaryPrediction {
            size: size_of::<TributaryPrediction>(),
            outputs: outputs.as_ptr(),
            outputs_count: outputs.len(),
            probabilities: probabilities.as_ptr(),
            probabilities_count: probabilities.len(),
            numbers: numbers.as_ptr(),
            numbers_count: numbers.len(),
            class_index: class.and_then(|class| i64::try_from(class).ok()).unwrap_or(-1),
            label: if class.is_some() { label.as_ptr() } else { null() },
        };
        // SAFETY: the caller says so.
        unsafe { fill_in("prediction", out, told) }
    })
}
