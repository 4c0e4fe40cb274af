//! A model that predicts, from a file or from the client's folder.

use std::sync::Arc;

use tributary_client::inputs::prepared_rows;
use tributary_client::predict::UsableModel;
use tributary_protocol::job_model::JobModel;

use crate::errors::TributaryError;
use crate::floats::Floats;

/// A model that predicts from raw values, without a network. Threads may share it.
#[derive(Debug, uniffi::Object)]
pub struct Model(pub(crate) UsableModel);

/// What a model says of one example.
#[derive(Clone, Debug, PartialEq, uniffi::Record)]
pub struct Prediction {
    /// The network's outputs.
    pub outputs: Vec<f32>,
    /// The name of the most probable class, or its number where classes have no names; none for numbers.
    pub label: Option<String>,
    /// Probability of each class in their order, for each output row; empty for numbers.
    pub probabilities: Vec<f32>,
    /// The predicted numbers in the target's unit; empty for classes.
    pub numbers: Vec<f64>,
}

#[uniffi::export]
impl Model {
    /// The model of a file that `tributary job export` wrote.
    ///
    /// # Errors
    /// [`TributaryError::BadInput`] if the file is damaged, does not say what it is, or its network is part of an app.
    #[uniffi::constructor]
    pub fn from_file(file: Vec<u8>) -> Result<Arc<Self>, TributaryError> {
        let model = UsableModel::from_bytes(&file);
        Ok(Arc::new(Self(model.map_err(|error| TributaryError::bad_input(error.to_string()))?)))
    }

    /// Names of the columns, in the order of an example's values; empty if the job named none.
    pub fn columns(&self) -> Vec<String> {
        let inputs = self.0.card().model.inputs.iter();
        inputs.flat_map(|inputs| inputs.columns.iter().map(|column| column.name.clone())).collect()
    }

    /// The code of a category in the column of this name; none if it has no such category.
    pub fn category(&self, column: &str, text: &str) -> Option<f64> {
        let column = self.0.card().model.inputs.as_ref()?.columns.iter().find(|known| known.name == column)?;
        column.categories.iter().position(|known| known == text).map(|code| code as f64)
    }

    /// Names of the classes in the order of the outputs; empty if they have none.
    pub fn classes(&self) -> Vec<String> {
        let target = self.0.card().model.inputs.as_ref().and_then(|inputs| inputs.target.clone());
        target.map(|target| target.classes).unwrap_or_default()
    }

    /// What the model says of one example: numbers as they are, categories by their code, dates in days since 1970, NaN
    /// where a value is missing.
    ///
    /// # Errors
    /// [`TributaryError::DoesNotFit`] that names the column.
    pub fn predict(&self, values: &[f64]) -> Result<Prediction, TributaryError> {
        let prediction = self.0.predict(values);
        let prediction = prediction.map_err(|error| TributaryError::DoesNotFit { detail: error.to_string() })?;
        Ok(Prediction {
            label: prediction.class.map(|class| self.0.class_name(class)),
            outputs: prediction.outputs,
            probabilities: prediction.probabilities,
            numbers: prediction.numbers,
        })
    }
}

/// The network's inputs of raw rows, one after the other: for trainers of an app. `model_json` is that of the task; a
/// row has numbers as they are, categories by their code, dates in days since 1970, NaN where a value is missing.
///
/// # Errors
/// [`TributaryError::BadInput`] if `model_json` is not that of a task, [`TributaryError::DoesNotFit`] that names the
/// column whose value cannot be fed.
#[uniffi::export]
pub fn prepared(model_json: &str, rows: Vec<Vec<f64>>) -> Result<Floats, TributaryError> {
    let model: JobModel =
        serde_json::from_str(model_json).map_err(|error| TributaryError::bad_input(error.to_string()))?;
    let mut inputs = Vec::new();
    for row in &rows {
        let prepared = prepared_rows(&model, row, row.len());
        inputs.extend(prepared.map_err(|error| TributaryError::DoesNotFit { detail: error.to_string() })?);
    }
    Ok(Floats(inputs))
}

impl From<UsableModel> for Model {
    fn from(model: UsableModel) -> Self {
        Self(model)
    }
}

/// A model of the tests.
#[cfg(test)]
pub(crate) mod fixture {
    use std::sync::Arc;

    use tributary_protocol::card::ModelCard;
    use tributary_protocol::hash::Sha256Hash;
    use tributary_protocol::job_model::JobModel;
    use tributary_protocol::model::Model;
    use tributary_protocol::plan::Loss;
    use tributary_protocol::safetensors::model_to_bytes;

    /// A file of a job with a number and a category: the first class has the number as its score, the second three for
    /// the ward in the west.
    pub(crate) fn file() -> Vec<u8> {
        let model = r#"{"input":[3],"layers":[{"kind":"linear","out_features":2,"bias":false}],
            "inputs":{"columns":[{"name":"age"},{"name":"ward","kind":"category","categories":["east","west"]}],
            "target":{"name":"stays","classes":["no","yes"]}}}"#;
        let model: JobModel = serde_json::from_str(model).unwrap();
        let weights = vec![1.0, 0.0, 0.0, 0.0, 0.0, 3.0];
        let values = Model::new(Arc::new(model.parameters().unwrap()), weights).unwrap();
        let (hash, job) = (Sha256Hash::of(b""), "stays".parse().unwrap());
        let card = ModelCard { job, version: 1, sha256: hash, plan_sha256: hash, loss: Loss::CrossEntropy, model };
        model_to_bytes(&values, &card.metadata())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_predicts_and_what_does_not_fit_is_named() {
        let model = Model::from_file(fixture::file()).unwrap();
        assert_eq!(
            (model.columns(), model.classes()),
            (vec!["age".into(), "ward".into()], vec!["no".into(), "yes".into()])
        );
        let west = model.category("ward", "west").unwrap();
        let prediction = model.predict(&[2.0, west]).unwrap();
        assert_eq!((prediction.label.as_deref(), prediction.outputs), (Some("yes"), vec![2.0, 3.0]));
        assert_eq!(model.category("ward", "north"), None);
        let refused = model.predict(&[2.0, 5.0]).unwrap_err();
        assert!(
            matches!(&refused, TributaryError::DoesNotFit { detail } if detail.starts_with("ward is 5")),
            "{refused}"
        );
        assert!(matches!(Model::from_file(vec![1, 2, 3]), Err(TributaryError::BadInput { .. })));
    }

    #[test]
    fn rows_are_prepared_for_trainers_of_an_app() {
        let model = r#"{"parameters":[{"name":"w","shape":[3]}],"inputs":{"columns":[
            {"name":"age","mean":40,"deviation":10},{"name":"ward","kind":"category","categories":["east","west"]}]}}"#;
        let inputs = prepared(model, vec![vec![60.0, 1.0], vec![30.0, 0.0]]).unwrap();
        assert_eq!(inputs.0, [2.0, 0.0, 1.0, -1.0, 1.0, 0.0]);
        let refused = |model, row| prepared(model, vec![row]).unwrap_err();
        assert!(matches!(refused(model, vec![1.0]), TributaryError::DoesNotFit { .. }));
        assert!(matches!(refused("{}", vec![1.0]), TributaryError::BadInput { .. }));
    }
}
