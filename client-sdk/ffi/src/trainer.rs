//! A trainer that the app brings.

use std::collections::HashMap;
use std::sync::Arc;

use tributary_client::trainer::{self, apart, tensors_of, values_of};
use tributary_client::{Name, NamedTensor, Scalars, StopFlags, TrainError};
use tributary_protocol::plan::{Algorithm, Loss};

use crate::checkpoint::Checkpoint;
use crate::errors::{TrainerError, TributaryError};
use crate::floats::Floats;

/// A parameter with its values.
#[derive(Clone, Debug, PartialEq, uniffi::Record)]
pub struct Tensor {
    /// Name of the parameter.
    pub name: String,
    /// Its dimensions; empty for a single number.
    pub shape: Vec<u64>,
    /// Values row by row, as many as the product of the shape.
    pub values: Floats,
}

/// What to learn, and how.
#[derive(Clone, Debug, uniffi::Record)]
pub struct TrainTask {
    /// Name of the job.
    pub job: Option<String>,
    /// The example set that the job names; none for the examples without a name.
    pub data: Option<String>,
    /// The global model, from which training starts.
    pub model: Vec<Tensor>,
    /// Names of parameters that must stay as they are.
    pub frozen: Vec<String>,
    /// How often to train on every example; if none, `steps` says how long.
    pub epochs: Option<u32>,
    /// Number of optimiser steps.
    pub steps: Option<u32>,
    /// Examples of a step; none for all.
    pub batch_size: Option<u32>,
    /// The optimiser's step size.
    pub learning_rate: f64,
    /// `cross_entropy`, `mse`, or `other` for a loss of the app.
    pub loss: String,
    /// Weight of `(w - w_global)` in each gradient (FedProx); 0 for nothing.
    pub proximal: f64,
    /// The source of all randomness.
    pub seed: u64,
    /// Where an earlier session suspended this training, perhaps in an earlier release of the app; none to begin. The
    /// result must be that of a training that was not suspended. Begin if the checkpoint does not fit.
    pub resume: Option<Checkpoint>,
    /// Whether a later session can go on where this one is stopped: then [`TrainerError::Suspended`] may be thrown.
    pub may_suspend: bool,
    /// `[training]` of the job file as JSON: optimiser, algorithm and everything else.
    pub training_json: String,
    /// `[model]` of the job file as JSON.
    pub model_json: String,
}

/// The result of training.
#[derive(Clone, Debug, PartialEq, uniffi::Record)]
pub struct Trained {
    /// The local model: a tensor for each parameter, with its name and shape, in any order.
    pub model: Vec<Tensor>,
    /// Number of examples trained on, at least 1.
    pub examples: u64,
    /// Number of optimiser steps.
    pub steps: u64,
    /// Mean loss of the steps.
    pub loss: f64,
    /// Named scalars of the training.
    #[uniffi(default)]
    pub metrics: HashMap<String, f64>,
}

/// What to measure.
#[derive(Clone, Debug, uniffi::Record)]
pub struct EvaluateTask {
    /// Name of the job.
    pub job: Option<String>,
    /// The example set that the job names; none for the examples without a name.
    pub data: Option<String>,
    /// The global model.
    pub model: Vec<Tensor>,
    /// `cross_entropy`, `mse`, or `other` for a loss of the app.
    pub loss: String,
    /// `[model]` of the job file as JSON.
    pub model_json: String,
}

/// The result of an evaluation.
#[derive(Clone, Debug, PartialEq, uniffi::Record)]
pub struct Evaluated {
    /// Number of examples measured, at least 1.
    pub examples: u64,
    /// Mean loss per example.
    pub loss: f64,
    /// Share of right classes, 0 to 1; none unless the targets are classes.
    #[uniffi(default = None)]
    pub accuracy: Option<f64>,
    /// Named scalars of the evaluation.
    #[uniffi(default)]
    pub metrics: HashMap<String, f64>,
}

/// Whether a training should stop. A trainer looks before each batch.
#[derive(Debug, uniffi::Object)]
pub struct Stop(pub(crate) Arc<StopFlags>);

#[uniffi::export]
impl Stop {
    /// Whether to throw [`TrainerError::Interrupted`], or [`TrainerError::Suspended`] where [`TrainTask::may_suspend`].
    pub fn is_set(&self) -> bool {
        self.0.is_set()
    }

    /// Whether the time that the job leaves for training is over: return now what was learned so far.
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }

    /// Whether to give [`Stop::keep`] a checkpoint and train on, so that an app that is killed loses little.
    pub fn checkpoint_is_due(&self) -> bool {
        self.0.checkpoint_is_due()
    }

    /// Keeps where the training is, for a later session ([`TrainTask::resume`]).
    pub fn keep(&self, checkpoint: Checkpoint) {
        self.0.keep(checkpoint.into());
    }
}

/// Learns from the examples of one client. `train` and `evaluate` are called on a thread of the SDK.
#[uniffi::export(with_foreign)]
pub trait Trainer: Send + Sync {
    /// How many examples the client has.
    ///
    /// # Errors
    /// [`TrainerError`] ends the session before it begins.
    fn examples(&self) -> Result<u64, TrainerError>;

    /// Trains the global model on the client's examples.
    ///
    /// # Errors
    /// [`TrainerError`], which is reported to the coordinator.
    fn train(&self, task: TrainTask, stop: Arc<Stop>) -> Result<Trained, TrainerError>;

    /// Measures the global model on the client's examples.
    ///
    /// # Errors
    /// [`TrainerError`], which is reported to the coordinator.
    fn evaluate(&self, task: EvaluateTask, stop: Arc<Stop>) -> Result<Evaluated, TrainerError>;
}

/// The app's trainer as the SDK's.
pub(crate) struct AppTrainer {
    trainer: Arc<dyn Trainer>,
    examples: u64,
}

impl AppTrainer {
    /// # Errors
    /// What `examples()` throws.
    pub(crate) fn new(trainer: Arc<dyn Trainer>) -> Result<Self, TributaryError> {
        let examples = trainer.examples().map_err(|error| TributaryError::Training { detail: error.to_string() })?;
        Ok(Self { trainer, examples })
    }
}

impl trainer::Trainer for AppTrainer {
    fn examples(&self) -> u64 {
        self.examples
    }

    /// It reads `proximal`, but is given no constants for its gradients.
    fn follows(&self, algorithm: &Algorithm) -> bool {
        !algorithm.keeps_state()
    }

    fn train(
        &mut self,
        task: &trainer::TrainTask<'_>,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<trainer::Trained, TrainError> {
        let specs = task.model.parameters().specs().iter().enumerate();
        let told = TrainTask {
            job: task.job.map(Name::to_string),
            data: task.data.map(Name::to_string),
            model: tensors(task.model),
            frozen: specs.filter(|(index, _)| task.is_frozen(*index)).map(|(_, spec)| spec.name.clone()).collect(),
            epochs: task.training.epochs,
            steps: task.training.steps,
            batch_size: task.training.batch_size,
            learning_rate: task.training.optimizer.learning_rate(),
            loss: loss_name(task.training.loss),
            proximal: task.correction().pull,
            seed: task.seed.0,
            resume: task.resume.and_then(Checkpoint::own),
            may_suspend: task.may_suspend,
            training_json: json(task.training)?,
            model_json: json(&task.table())?,
        };
        let trainer = &self.trainer;
        let work = |flags: &Arc<StopFlags>| trainer.train(told, Arc::new(Stop(Arc::clone(flags))));
        let trained = apart(Some(task), should_stop, work)??;
        let returned: Result<Vec<NamedTensor>, _> = trained.model.into_iter().map(named).collect();
        Ok(trainer::Trained::new(values_of(&returned?, task.model)?, trained.examples, trained.steps, trained.loss)
            .with_metrics(checked(&trained.metrics)?))
    }

    fn evaluate(
        &mut self,
        task: &trainer::EvaluateTask<'_>,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<trainer::Evaluated, TrainError> {
        let told = EvaluateTask {
            job: task.job.map(Name::to_string),
            data: task.data.map(Name::to_string),
            model: tensors(task.model),
            loss: loss_name(task.loss),
            model_json: json(&task.table())?,
        };
        let trainer = &self.trainer;
        let work = |flags: &Arc<StopFlags>| trainer.evaluate(told, Arc::new(Stop(Arc::clone(flags))));
        let Evaluated { examples, loss, accuracy, metrics } = apart(None, should_stop, work)??;
        if accuracy.is_some_and(|accuracy| !(0.0..=1.0).contains(&accuracy)) {
            return Err(TrainError::DoesNotFit(format!("{accuracy:?} is no share of right classes")));
        }
        Ok(trainer::Evaluated::new(examples, loss).with_accuracy(accuracy).with_metrics(checked(&metrics)?))
    }
}

fn tensors(model: &tributary_protocol::model::Model) -> Vec<Tensor> {
    let tensor = |NamedTensor { name, shape, values }| Tensor {
        name,
        shape: shape.into_iter().map(|size| size as u64).collect(),
        values: Floats(values),
    };
    tensors_of(model).into_iter().map(tensor).collect()
}

fn named(Tensor { name, shape, values }: Tensor) -> Result<NamedTensor, TrainError> {
    let shape: Result<Vec<usize>, _> = shape.into_iter().map(usize::try_from).collect();
    let shape = shape.map_err(|error| TrainError::DoesNotFit(format!("the shape of {name:?}: {error}")))?;
    Ok(NamedTensor { name, shape, values: values.0 })
}

fn loss_name(loss: Loss) -> String {
    match loss {
        Loss::CrossEntropy => "cross_entropy",
        Loss::Mse => "mse",
        Loss::Other => "other",
    }
    .to_owned()
}

fn json(value: &impl serde::Serialize) -> Result<String, TrainError> {
    serde_json::to_string(value).map_err(|error| TrainError::Other(error.to_string()))
}

/// Metrics of the app, if names and values may be reported.
pub(crate) fn checked(metrics: &HashMap<String, f64>) -> Result<Scalars, TrainError> {
    let metrics = metrics.iter().try_fold(Scalars::new(), |metrics, (name, value)| metrics.with(name, *value));
    metrics.map_err(|error| TrainError::DoesNotFit(error.to_string()))
}
