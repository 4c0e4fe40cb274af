//! Predictions from C.

use std::ffi::{CStr, CString};
use std::ptr::{null, null_mut};

use super::models::*;
use super::status::TributaryStatus;
use super::tests::{client, last_error, refused};
use super::types::{TributaryModel, TributaryPrediction, TributaryValue};
use crate::model::fixture::file;

fn model() -> *mut TributaryModel {
    let (file, mut model) = (file(), null_mut());
    // SAFETY: all pointers are valid.
    let status = unsafe { tributary_model_of_file(file.as_ptr(), file.len(), &raw mut model) };
    assert_eq!(status, TributaryStatus::Ok, "{}", last_error());
    model
}

fn nothing() -> TributaryPrediction {
    TributaryPrediction {
        size: size_of::<TributaryPrediction>(),
        outputs: null(),
        outputs_count: 9,
        probabilities: null(),
        probabilities_count: 9,
        numbers: null(),
        numbers_count: 9,
        class_index: 9,
        label: null(),
    }
}

#[test]
fn a_row_by_columns_raw_values_and_prepared_inputs_predict_the_same() {
    let (model, mut told) = (model(), nothing());
    let [age, ward, west] = ["age", "ward", "west"].map(|text| CString::new(text).unwrap());
    let row = [
        TributaryValue { column: ward.as_ptr(), text: west.as_ptr(), number: f64::NAN },
        TributaryValue { column: age.as_ptr(), text: null(), number: 2.0 },
    ];
    let out = &raw mut told;
    // SAFETY: all pointers are valid, and each prediction is read before the next one.
    unsafe {
        for call in 0..3 {
            out.write(nothing());
            let status = match call {
                0 => tributary_predict_row(model, row.as_ptr(), 2, out),
                1 => tributary_predict(model, [2.0, 1.0].as_ptr(), 2, out),
                _ => tributary_predict_prepared(model, [2.0, 0.0, 1.0].as_ptr(), 3, out),
            };
            assert_eq!(status, TributaryStatus::Ok, "{}", last_error());
            let told = out.read();
            assert_eq!(std::slice::from_raw_parts(told.outputs, told.outputs_count), [2.0, 3.0]);
            let shares = std::slice::from_raw_parts(told.probabilities, told.probabilities_count);
            assert!((shares[1] - 1.0 / (1.0 + (-1.0f32).exp())).abs() < 1e-6, "{shares:?}");
            assert_eq!((told.class_index, CStr::from_ptr(told.label), told.numbers_count), (1, c"yes", 0));
        }
        // The header of an older release: what follows its members stays.
        out.write(nothing());
        (*out).size = std::mem::offset_of!(TributaryPrediction, numbers);
        assert_eq!(tributary_predict(model, [2.0, 1.0].as_ptr(), 2, out), TributaryStatus::Ok);
        assert_eq!((told.outputs_count, told.numbers_count, told.class_index), (2, 9, 9));
        assert_eq!(told.size, std::mem::offset_of!(TributaryPrediction, numbers));
        let mut json = null();
        assert_eq!(tributary_model_card(model, &raw mut json), TributaryStatus::Ok);
        let card: serde_json::Value = serde_json::from_str(CStr::from_ptr(json).to_str().unwrap()).unwrap();
        assert_eq!(card["model"]["inputs"]["columns"][1]["name"], "ward");
        tributary_model_free(model);
    }
}

#[test]
fn models_and_rows_that_cannot_be_used_are_refused_with_the_reason() {
    let (made, client, mut model_of_job) = (model(), client(), null_mut());
    let (file, mut told, out) = (file(), nothing(), &raw mut model_of_job);
    let prediction = &raw mut told;
    let [age, ward, north] = ["age", "ward", "north"].map(|text| CString::new(text).unwrap());
    let row = [
        TributaryValue { column: age.as_ptr(), text: null(), number: 2.0 },
        TributaryValue { column: ward.as_ptr(), text: north.as_ptr(), number: 0.0 },
    ];
    let does_not_fit = |status, text: &str| {
        assert_eq!(status, TributaryStatus::DoesNotFit, "{text}");
        assert!(last_error().contains(text), "{:?} instead of {text:?}", last_error());
    };
    // SAFETY: pointers are null or valid, and the counts are not larger than what is there.
    unsafe {
        refused(tributary_model_of_file(null(), 3, out), "file is null");
        refused(tributary_model_of_file(file.as_ptr(), file.len() - 1, out), "not a model file");
        refused(tributary_model_of_file(file.as_ptr(), file.len(), null_mut()), "the place for the result is null");
        refused(tributary_model_of_job(null(), age.as_ptr(), out), "client is null");
        refused(tributary_model_of_job(client, null(), out), "job is null");
        *out = std::ptr::dangling_mut();
        assert_eq!(tributary_model_of_job(client, age.as_ptr(), out), TributaryStatus::Ok);
        assert!((*out).is_null(), "it has taken part in no round");
        tributary_model_free(null_mut());
        refused(tributary_predict(null(), null(), 0, prediction), "model is null");
        refused(tributary_predict(made, null(), 2, prediction), "raw is null");
        refused(tributary_predict(made, [2.0, 1.0].as_ptr(), 2, null_mut()), "prediction is null");
        does_not_fit(tributary_predict(made, [2.0].as_ptr(), 1, prediction), "1 values, where the job has 2 columns");
        does_not_fit(tributary_predict(made, [2.0, 5.0].as_ptr(), 2, prediction), "ward is 5");
        does_not_fit(tributary_predict_row(made, row.as_ptr(), 1, prediction), "ward is missing in the row");
        does_not_fit(tributary_predict_row(made, row.as_ptr(), 2, prediction), "none of east, west");
        does_not_fit(tributary_predict_prepared(made, [2.0].as_ptr(), 1, prediction), "1 input values");
        (*prediction).size = 0;
        refused(tributary_predict(made, [2.0, 1.0].as_ptr(), 2, prediction), "prediction.size is 0");
        assert_eq!((*prediction).outputs_count, 9, "nothing was filled in");
        tributary_model_free(made);
        super::calls::tributary_client_free(client);
    }
}
