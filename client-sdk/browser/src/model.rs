//! Models that predict, as JavaScript sees them.

use serde_json::json;
use tributary_client::predict::{Prediction, UsableError, UsableModel, Value};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::outcome::{misused, unfit};

/// A model that predicts without a network.
#[derive(Debug)]
#[wasm_bindgen]
pub struct BrowserModel(UsableModel);

impl From<UsableModel> for BrowserModel {
    fn from(model: UsableModel) -> Self {
        Self(model)
    }
}

#[wasm_bindgen]
impl BrowserModel {
    /// The model of a file that `tributary job export` wrote.
    ///
    /// # Errors
    /// A JavaScript error of the kind `model` if the file is damaged, or does not say what it is.
    #[wasm_bindgen(constructor)]
    pub fn new(file: &[u8]) -> Result<Self, JsValue> {
        Ok(Self(UsableModel::from_bytes(file).map_err(|error| unfit(&error.to_string()))?))
    }

    /// What the model says of itself, as JSON.
    ///
    /// # Errors
    /// A JavaScript error; there is none in practice.
    pub fn card(&self) -> Result<String, JsValue> {
        serde_json::to_string(self.0.card()).map_err(|error| misused(&error.to_string()))
    }

    /// What the model says of raw values in the order of its columns, NaN where one is missing, as JSON.
    ///
    /// # Errors
    /// A JavaScript error of the kind `model` that names the column.
    pub fn predict(&self, values: &[f64]) -> Result<String, JsValue> {
        self.told(self.0.predict(values))
    }

    /// The same of a row by the names of its columns: numbers and texts.
    ///
    /// # Errors
    /// As [`Self::predict`].
    #[wasm_bindgen(js_name = predictRow)]
    pub fn predict_row(&self, names: Vec<String>, values: Vec<JsValue>) -> Result<String, JsValue> {
        let texts: Vec<Option<String>> = values.iter().map(JsValue::as_string).collect();
        let value = |(value, text): (&JsValue, &'_ Option<String>)| value.as_f64().filter(|_| text.is_none());
        let numbers: Vec<Option<f64>> = values.iter().zip(&texts).map(value).collect();
        let row = names.iter().zip(texts.iter().zip(&numbers)).map(|(name, (text, number))| {
            let value = text.as_deref().map_or(Value::Number(number.unwrap_or(f64::NAN)), Value::Text);
            (name.as_str(), value)
        });
        self.told(self.0.predict_row(&row.collect::<Vec<_>>()))
    }

    fn told(&self, predicted: Result<Prediction, UsableError>) -> Result<String, JsValue> {
        let Prediction { outputs, probabilities, class, numbers, .. } =
            predicted.map_err(|error| unfit(&error.to_string()))?;
        let label = class.map(|class| self.0.class_name(class));
        let told = json!({
            "outputs": outputs, "class": class, "label": label, "probabilities": probabilities, "numbers": numbers,
        });
        Ok(told.to_string())
    }
}
