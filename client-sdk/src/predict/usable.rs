//! A model file, ready to be used: raw values in, classes and numbers out.

use std::sync::{Arc, Mutex};

use tributary_protocol::card::{CardError, ModelCard};
use tributary_protocol::layers::ModelSpec;
use tributary_protocol::model::Model;
use tributary_protocol::plan::Loss;
use tributary_protocol::safetensors::{ModelFileError, model_with_metadata};

use super::error::PredictError;
use super::predictor::Predictor;
use crate::inputs::{Preparation, PrepareError};
use crate::locked::Locked;

/// The model of an exported file. It may be shared by threads.
#[derive(Debug)]
pub struct UsableModel {
    card: ModelCard,
    preparation: Preparation,
    predictor: Predictor,
    /// Channels of an image.
    channels: usize,
    /// Buffers for prepared inputs: as many as there were predictions at the same time.
    inputs: Mutex<Vec<Vec<f32>>>,
}

/// What a model says of one example. Its buffers are used again by the next prediction that is written into it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prediction {
    /// The network's outputs.
    pub outputs: Vec<f32>,
    /// Probability of each class, for each output row; empty for numbers.
    pub probabilities: Vec<f32>,
    /// The most probable class, of the last output row; `None` for numbers.
    pub class: Option<usize>,
    /// The predicted numbers, in the target's unit; empty for classes.
    pub numbers: Vec<f64>,
}

/// A file that cannot be used, or a prediction that it cannot make.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UsableError {
    /// It is not a model file.
    #[error("it is not a model file: {0}")]
    File(#[from] ModelFileError),
    /// It does not say what it is.
    #[error(transparent)]
    Card(#[from] CardError),
    /// Its network is part of an app.
    #[error("the network of this model is part of an app, and the file has its parameters alone")]
    NoLayers,
    /// Its inputs are not known yet.
    #[error("this model has learned nothing yet: the means of its inputs are not fixed")]
    NoStatistics,
    /// Its layers and parameters do not fit, or the inputs do not fit its network.
    #[error(transparent)]
    Network(#[from] PredictError),
    /// The example cannot be fed to it.
    #[error(transparent)]
    Example(#[from] PrepareError),
    /// The row lacks a column of the model, or a value of it cannot be read.
    #[error("{0}")]
    Row(String),
}

impl UsableModel {
    /// The model of a file that `tributary job export` wrote.
    ///
    /// # Errors
    /// [`UsableError`] if it is no such file, or the network is not in it.
    pub fn from_bytes(file: &[u8]) -> Result<Self, UsableError> {
        let (model, metadata) = model_with_metadata(file)?;
        Self::new(ModelCard::of(&metadata)?, &model)
    }

    /// A model with what is known of it.
    ///
    /// # Errors
    /// [`UsableError`] if the network is not in the card, or its parameters are others.
    pub fn new(card: ModelCard, model: &Model) -> Result<Self, UsableError> {
        let ModelSpec::Layers(network) = &card.model.spec else { return Err(UsableError::NoLayers) };
        if card.model.lacks_statistics() {
            return Err(UsableError::NoStatistics);
        }
        // Other programs sort the tensors of a file by their names.
        let ordered = card.model.parameters().ok().and_then(|parameters| model.in_order_of(&Arc::new(parameters)));
        let predictor = Predictor::new(network, ordered.as_ref().unwrap_or(model))?;
        let channels = network.input.first().copied().unwrap_or(1);
        let preparation = Preparation::of(card.model.inputs.as_ref().unwrap_or(&Default::default()));
        Ok(Self { preparation, predictor, channels, card, inputs: Mutex::default() })
    }

    /// What the model is, what it is fed, and what its outputs mean.
    pub fn card(&self) -> &ModelCard {
        &self.card
    }

    /// What the model says of one raw example: numbers as they are, categories by their code, dates in days since 1970,
    /// NaN where a value is missing.
    ///
    /// # Errors
    /// [`UsableError::Example`] or [`UsableError::Network`] if the values do not fit.
    pub fn predict(&self, raw: &[f64]) -> Result<Prediction, UsableError> {
        let mut prediction = Prediction::default();
        self.predict_into(raw, &mut prediction)?;
        Ok(prediction)
    }

    /// The same into an earlier prediction: nothing is allocated after the first call of each thread that predicts at
    /// the same time.
    ///
    /// # Errors
    /// As [`Self::predict`].
    pub fn predict_into(&self, raw: &[f64], prediction: &mut Prediction) -> Result<(), UsableError> {
        let mut inputs = self.inputs.locked().pop().unwrap_or_default();
        inputs.clear();
        let predicted = self.preparation.prepare(raw, self.channels, &mut inputs).map_err(UsableError::from);
        let predicted = predicted.and_then(|()| {
            prediction.outputs.resize(self.predictor.output_shape().iter().product(), 0.0);
            Ok(self.predictor.predict(&inputs, &mut prediction.outputs)?)
        });
        self.inputs.locked().push(inputs);
        predicted?;
        self.interpret(prediction);
        Ok(())
    }

    /// What the model says of one example that is prepared already, in the order of the network's inputs: an app with
    /// a preparation of its own.
    ///
    /// # Errors
    /// [`UsableError::Network`] if the values do not fit.
    pub fn predict_prepared(&self, inputs: &[f32]) -> Result<Prediction, UsableError> {
        let outputs = vec![0.0; self.predictor.output_shape().iter().product()];
        let mut prediction = Prediction { outputs, ..Prediction::default() };
        self.predictor.predict(inputs, &mut prediction.outputs)?;
        self.interpret(&mut prediction);
        Ok(prediction)
    }

    /// The name of a class; its number where classes have no names.
    pub fn class_name(&self, class: usize) -> String {
        let named = self.card.model.inputs.as_ref().and_then(|inputs| inputs.class_name(class));
        named.map_or_else(|| class.to_string(), str::to_owned)
    }

    fn interpret(&self, prediction: &mut Prediction) {
        let Prediction { outputs, probabilities, class, numbers } = prediction;
        probabilities.clear();
        numbers.clear();
        *class = None;
        if self.card.loss != Loss::CrossEntropy {
            numbers.extend(outputs.iter().map(|output| self.preparation.number(*output)));
            return;
        }
        let classes = self.predictor.output_shape().last().copied().unwrap_or(1).max(1);
        for row in outputs.chunks(classes) {
            let first = probabilities.len();
            softmax(row, probabilities);
            let best = probabilities[first..].iter().enumerate().max_by(|one, other| one.1.total_cmp(other.1));
            *class = best.map(|(class, _)| class);
        }
    }
}

/// Appends `exp(x) / sum exp(x)`, computed from the distances to the largest, which cannot overflow.
fn softmax(scores: &[f32], probabilities: &mut Vec<f32>) {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let first = probabilities.len();
    probabilities.extend(scores.iter().map(|score| (score - largest).exp()));
    let sum: f32 = probabilities[first..].iter().sum();
    probabilities[first..].iter_mut().for_each(|value| *value /= sum);
}

#[cfg(test)]
mod tests {
    use tributary_protocol::hash::Sha256Hash;
    use tributary_protocol::job_model::JobModel;
    use tributary_protocol::model::ParameterList;
    use tributary_protocol::safetensors::{model_metadata, model_to_bytes};

    use super::*;

    fn file(model: &str, values: Vec<f32>, loss: Loss) -> Vec<u8> {
        let model: JobModel = serde_json::from_str(model).unwrap();
        let values = Model::new(Arc::new(model.parameters().unwrap()), values).unwrap();
        let hash = Sha256Hash::of(b"");
        let card =
            ModelCard { job: "points".parse().unwrap(), version: 1, sha256: hash, plan_sha256: hash, loss, model };
        model_to_bytes(&values, &card.metadata())
    }

    const WARDS: &str = r#"{"input":[2],"layers":[{"kind":"linear","out_features":2}],
        "inputs":{"columns":[{"name":"age","mean":40,"deviation":10,"missing":"replace"},{"name":"height"}],
        "target":{"name":"stays","classes":["no","yes"]}}}"#;

    #[test]
    fn a_file_alone_predicts_from_raw_values() {
        let file = file(WARDS, vec![1.0, 0.0, 0.0, 1.0, 0.0, 0.0], Loss::CrossEntropy);
        let model = UsableModel::from_bytes(&file).unwrap();
        let mut prediction = model.predict(&[60.0, 1.0]).unwrap();
        assert_eq!(prediction.outputs, [2.0, 1.0]);
        assert_eq!((prediction.class, model.class_name(0).as_str()), (Some(0), "no"));
        assert!((prediction.probabilities[0] - 1.0 / (1.0 + (-1.0f32).exp())).abs() < 1e-6);
        model.predict_into(&[f64::NAN, 1.0], &mut prediction).unwrap();
        assert_eq!((prediction.class, prediction.outputs.as_slice()), (Some(1), &[0.0, 1.0][..]));
        let refused = model.predict(&[60.0]).unwrap_err();
        assert_eq!(refused.to_string(), "1 values, where the job has 2 columns");
    }

    #[test]
    fn a_file_whose_tensors_were_sorted_by_name_is_the_same_model() {
        let file = file(WARDS, vec![1.0, 0.0, 0.0, 1.0, 0.0, 0.0], Loss::CrossEntropy);
        let (model, metadata) = model_with_metadata(&file).unwrap();
        let mut sorted = model.parameters().specs().to_vec();
        sorted.sort_by(|one, other| one.name.cmp(&other.name));
        let sorted = model.in_order_of(&Arc::new(ParameterList::new(sorted).unwrap())).unwrap();
        assert_ne!(sorted.parameters(), model.parameters());
        let usable = UsableModel::new(ModelCard::of(&metadata).unwrap(), &sorted).unwrap();
        assert_eq!(usable.predict(&[60.0, 1.0]).unwrap().outputs, [2.0, 1.0]);
    }

    #[test]
    fn numbers_have_the_unit_of_the_target() {
        let model = r#"{"input":[1],"layers":[{"kind":"linear","out_features":1}],
            "inputs":{"columns":[{"name":"x"}],"target":{"name":"days","mean":4,"deviation":2}}}"#;
        let model = UsableModel::from_bytes(&file(model, vec![1.0, 0.0], Loss::Mse)).unwrap();
        let prediction = model.predict(&[3.0]).unwrap();
        assert_eq!((prediction.numbers, prediction.class), (vec![10.0], None));
    }

    #[test]
    fn files_that_cannot_be_used_say_why() {
        let refused = |file: &[u8]| UsableModel::from_bytes(file).unwrap_err().to_string();
        let values = vec![1.0, 0.0, 0.0, 1.0, 0.0, 0.0];
        let spec: JobModel = serde_json::from_str(WARDS).unwrap();
        let plain = Model::new(Arc::new(spec.parameters().unwrap()), values.clone()).unwrap();
        assert!(refused(&model_to_bytes(&plain, &model_metadata())).contains("job export"));
        assert!(refused(b"no model").starts_with("it is not a model file"));
        let open = WARDS.replace("\"inputs\":{", "\"inputs\":{\"standardize\":\"federated\",");
        assert!(refused(&file(&open, values, Loss::CrossEntropy)).contains("not fixed"));
        let own = r#"{"parameters":[{"name":"w","shape":[1]}]}"#;
        assert!(refused(&file(own, vec![1.0], Loss::Mse)).contains("part of an app"));
    }
}
