//! What every trainer promises.

use std::collections::BTreeMap;
use std::fmt;

use futures_util::future::BoxFuture;
use tributary_protocol::abilities::{Abilities, Ability, of_algorithm};
use tributary_protocol::classes::ClassCounts;
use tributary_protocol::example_sets::ExampleSets;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::Name;
use tributary_protocol::inputs::{Description, Inputs};
use tributary_protocol::job_model::JobModel;
use tributary_protocol::layers::ModelSpec;
use tributary_protocol::model::Model;
use tributary_protocol::plan::{Algorithm, Control, Loss, Training};
use tributary_protocol::scalars::Scalars;
use tributary_protocol::seed::Seed;
use tributary_protocol::sharing::Sharing;

/// Algorithms that correct gradients whatever their settings are. (FedProx and FedNova correct none with `mu = 0`.)
const CORRECTING: [Algorithm; 2] =
    [Algorithm::Scaffold { clients: 1, control: Control::Steps }, Algorithm::FedDyn { alpha: 1.0, clients: 1 }];

/// The vector of a checkpoint that has the model's values.
pub(super) const VALUES: &str = "values";

/// Learns from the examples of one client.
pub trait Trainer: Send {
    /// How many examples the client has, those of named sets left out. A check-in reports it; jobs may require a
    /// minimum.
    fn examples(&self) -> u64;

    /// The named example sets, with what each has. A job that names one (`data`) is trained by clients that have it,
    /// and the name is in its tasks. Default: none. [`Sets`](super::Sets) has a trainer for each.
    fn sets(&self) -> ExampleSets {
        ExampleSets::default()
    }

    /// What the columns of its examples have in common with those of other sites, if they were read by a job's
    /// `[model.inputs]` ([`Inputs::schema_hash`]): it gets no work of jobs with another schema. Default: `None`, it
    /// takes work of any job.
    fn schema(&self) -> Option<Sha256Hash> {
        None
    }

    /// Whether it trains as this algorithm says, by adding [`TrainTask::correction`] to its gradients. A round that
    /// needs it is refused without it ([`TrainError::CannotFollow`]). Default: only algorithms that correct nothing.
    fn follows(&self, algorithm: &Algorithm) -> bool {
        !algorithm.corrects_gradients()
    }

    /// Whether it pauses as [`TrainTask::pauses_after`] says, so that the members of a group can exchange their models
    /// while they train. Default: no, and the client gets no work of such jobs.
    fn exchanges(&self) -> bool {
        false
    }

    /// What plans may ask of it. Every check-in tells it, and the client gets no work of jobs that need more. Default:
    /// everything that this SDK knows, without the algorithms that the trainer does not [follow](Self::follows).
    fn abilities(&self) -> Abilities {
        let followed = |abilities: Abilities, algorithm: &Algorithm| match self.follows(algorithm) {
            true => abilities,
            false => abilities.without(of_algorithm(algorithm)),
        };
        let abilities = CORRECTING.iter().fold(Abilities::ALL, followed);
        match self.exchanges() {
            true => abilities,
            false => abilities.without(Ability::Exchange).without(Ability::Gossip),
        }
    }

    /// Trains the global model on the client's examples. It calls `should_stop` before every batch. When that returns
    /// `true` it ends with [`TrainError::Interrupted`], or, if it can go on later from [`TrainTask::resume`] and
    /// [`TrainTask::may_suspend`] says so, with [`TrainError::Suspended`].
    ///
    /// # Errors
    /// [`TrainError`], which is reported to the coordinator. A panic counts as [`TrainError::Other`].
    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError>;

    /// Completes when a training that was [`TrainError::Pending`] can go on. The session waits for it, at most until
    /// the deadline, and calls [`Trainer::train`] again with the same task. Default: at once.
    fn ready(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Measures the global model on the client's examples. It calls `should_stop` before every batch and ends with
    /// [`TrainError::Interrupted`] when that returns `true`.
    ///
    /// # Errors
    /// [`TrainError`], which is reported to the coordinator. A panic counts as [`TrainError::Other`].
    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError>;

    /// Adds up the client's examples, so that all clients feed their networks alike. Default: it is refused
    /// ([`TrainError::CannotDescribe`]); [`inputs::describe`](crate::inputs::describe) does it for any example set.
    ///
    /// # Errors
    /// [`TrainError`], which is reported to the coordinator. A panic counts as [`TrainError::Other`].
    fn describe(&mut self, _task: &DescribeTask<'_>) -> Result<Description, TrainError> {
        Err(TrainError::CannotDescribe)
    }
}

/// What to learn and how. The result must depend on nothing but this and the examples, so that it can be reproduced.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TrainTask<'a> {
    /// Name of the job; `None` outside of a round.
    pub job: Option<&'a Name>,
    /// The example set that the job names; `None` for the examples without a name.
    pub data: Option<&'a Name>,
    /// The global model, from which training starts; personal parameters are the client's own.
    pub model: &'a Model,
    /// The network, as layers or as a list of parameters.
    pub spec: &'a ModelSpec,
    /// How raw examples become what the network reads; `None` where they are fed as they are.
    /// [`Preparation`](crate::inputs::Preparation) applies it.
    pub inputs: Option<&'a Inputs>,
    /// Epochs or steps, batch size, loss and optimiser.
    pub training: &'a Training,
    /// The source of all randomness: the order of the examples, dropout. Every client of a round has another seed.
    pub seed: Seed,
    /// What this client adds to each gradient, one value per parameter; `None` for nothing. Use
    /// [`TrainTask::correction`].
    pub constant: Option<&'a [f32]>,
    /// Whether the time that the job leaves for training is over; `None` if it leaves all. Use [`TrainTask::is_over`].
    pub budget: Option<Budget<'a>>,
    /// For each parameter of the model, whether it must stay as it is; empty if none must. A result in which one of
    /// them changed is refused.
    pub frozen: &'a [bool],
    /// Where an earlier training of the same task was suspended; `None` to begin. The result must be that of a training
    /// that was not.
    pub resume: Option<&'a Checkpoint>,
    /// Whether a later session can go on where this one is stopped, and whether a training that is
    /// [`TrainError::Pending`] is called again.
    pub may_suspend: bool,
    /// Keeps checkpoints of a training that goes on; `None` if no later session could use one. Use
    /// [`TrainTask::checkpoint_is_due`].
    pub checkpoints: Option<&'a dyn Checkpoints>,
    /// Steps after which the training pauses; `None` for never. Use [`TrainTask::pauses_after`].
    pub pause_every: Option<u32>,
}

impl<'a> TrainTask<'a> {
    /// The network and its inputs, as in the job's file.
    pub fn table(&self) -> JobModel {
        JobModel { spec: self.spec.clone(), sharing: Sharing::default(), inputs: self.inputs.cloned(), license: None }
    }

    /// Training of every parameter on the plain loss, for as long as it takes.
    pub fn new(model: &'a Model, spec: &'a ModelSpec, training: &'a Training, seed: Seed) -> Self {
        Self {
            job: None,
            data: None,
            model,
            spec,
            inputs: None,
            training,
            seed,
            constant: None,
            budget: None,
            frozen: &[],
            resume: None,
            may_suspend: false,
            checkpoints: None,
            pause_every: None,
        }
    }

    /// What is added to the gradient of the loss.
    pub fn correction(&self) -> Correction<'a> {
        Correction { pull: self.training.algorithm.proximal(), constant: self.constant }
    }

    /// Whether to end now with what was learned so far, as a whole result with the steps that were taken. A trainer
    /// that asks before each batch but the first contributes where it would be too late otherwise.
    pub fn is_over(&self) -> bool {
        self.budget.is_some_and(|Budget(is_over)| is_over())
    }

    /// Whether to give [`TrainTask::keep`] a checkpoint now and train on, so that a process that is killed loses
    /// little. A trainer that can go on from [`TrainTask::resume`] asks before each batch but the first.
    pub fn checkpoint_is_due(&self) -> bool {
        self.checkpoints.is_some_and(Checkpoints::is_due)
    }

    /// Whether to end after so many steps with [`TrainError::Paused`]: the members of a group exchange their models,
    /// and the training goes on from the checkpoint with other values. It pauses after its last step, too.
    pub fn pauses_after(&self, steps: u64) -> bool {
        let is_last = self.training.steps.is_some_and(|all| steps >= u64::from(all));
        self.pause_every.is_some_and(|every| is_last || steps.is_multiple_of(u64::from(every.max(1))))
    }

    /// Keeps where the training is, in the place of an earlier checkpoint. One that is not finite is left out: the
    /// training will end with [`TrainError::Diverged`].
    pub fn keep(&self, checkpoint: Checkpoint) {
        if let Some(checkpoints) = self.checkpoints.filter(|_| checkpoint.is_finite()) {
            checkpoints.keep(checkpoint);
        }
    }

    /// Whether the parameter with this index must stay as it is.
    pub fn is_frozen(&self, parameter: usize) -> bool {
        self.frozen.get(parameter).copied().unwrap_or_default()
    }
}

/// Where a training was suspended.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Checkpoint {
    /// Number of steps that were taken.
    pub steps: u64,
    /// Sum of their losses.
    pub losses: f64,
    /// What the trainer needs besides, by name; all values are finite.
    pub vectors: BTreeMap<String, Vec<f32>>,
    /// What it needs in a format of its own.
    pub bytes: Vec<u8>,
}

impl Checkpoint {
    /// Whether it has these vectors of so many values. One of another trainer or release may not.
    #[cfg(any(feature = "layers", feature = "burn"))]
    pub(super) fn has<'a>(&self, mut vectors: impl Iterator<Item = &'a str>, values: usize) -> bool {
        self.losses.is_finite() && vectors.all(|name| self.vectors.get(name).map(Vec::len) == Some(values))
    }

    /// The model's values, in its order; `None` if the trainer keeps them in a format of its own.
    pub fn values(&self) -> Option<&[f32]> {
        self.vectors.get(VALUES).map(Vec::as_slice)
    }

    /// The same with these values of the model.
    #[must_use]
    pub fn with_values(mut self, values: Vec<f32>) -> Self {
        self.vectors.insert(VALUES.to_owned(), values);
        self
    }

    /// The pause of a training that goes on with other values, [`TrainError::Diverged`] if a value or the sum of losses
    /// is not finite.
    #[must_use]
    pub fn paused(self) -> TrainError {
        match self.is_finite() {
            true => TrainError::Paused(Box::new(self)),
            false => TrainError::Diverged,
        }
    }

    /// After so many steps, with this sum of losses.
    pub fn new(steps: u64, losses: f64) -> Self {
        Self { steps, losses, ..Self::default() }
    }

    /// The same with what the trainer needs besides, in a format of its own.
    #[must_use]
    pub fn with_bytes(self, bytes: Vec<u8>) -> Self {
        Self { bytes, ..self }
    }

    /// The end of a training that goes on from here, [`TrainError::Diverged`] if a value or the sum of losses is not
    /// finite.
    #[must_use]
    pub fn suspended(self) -> TrainError {
        match self.is_finite() {
            true => TrainError::Suspended(Box::new(self)),
            false => TrainError::Diverged,
        }
    }

    fn is_finite(&self) -> bool {
        self.losses.is_finite() && self.vectors.values().flatten().all(|value| value.is_finite())
    }
}

/// Keeps checkpoints of a training that goes on, as the session does from time to time.
pub trait Checkpoints: fmt::Debug {
    /// Whether it is time for the next one.
    fn is_due(&self) -> bool;

    /// Keeps this one in the place of an earlier one. A failure is logged: the training goes on without it.
    fn keep(&self, checkpoint: Checkpoint);
}

/// Says whether the time that a job leaves for training is over (`[training] partial_work`).
#[derive(Clone, Copy)]
pub struct Budget<'a>(pub &'a dyn Fn() -> bool);

impl fmt::Debug for Budget<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Budget")
    }
}

/// What an algorithm adds to the gradient g of the loss in each step: `g + pull (w - w_t) + constant`, where w_t is the
/// global model. It serves FedProx (the pull), SCAFFOLD (the constant) and FedDyn (both).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Correction<'a> {
    /// Weight of the distance from the global model; 0 for none.
    pub pull: f64,
    /// One value for each parameter of the model, in its order.
    pub constant: Option<&'a [f32]>,
}

/// What to measure.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct EvaluateTask<'a> {
    /// Name of the job; `None` outside of a round.
    pub job: Option<&'a Name>,
    /// The example set that the job names; `None` for the examples without a name.
    pub data: Option<&'a Name>,
    /// The global model, or the one with the client's own personal parameters.
    pub model: &'a Model,
    /// The network, as layers or as a list of parameters.
    pub spec: &'a ModelSpec,
    /// How raw examples become what the network reads; `None` where they are fed as they are.
    pub inputs: Option<&'a Inputs>,
    /// The loss to report; with cross-entropy the accuracy as well.
    pub loss: Loss,
}

impl<'a> EvaluateTask<'a> {
    /// The network and its inputs, as in the job's file.
    pub fn table(&self) -> JobModel {
        JobModel { spec: self.spec.clone(), sharing: Sharing::default(), inputs: self.inputs.cloned(), license: None }
    }

    /// Measures this loss of the model on all examples.
    pub fn new(model: &'a Model, spec: &'a ModelSpec, loss: Loss) -> Self {
        Self { job: None, data: None, model, spec, inputs: None, loss }
    }

    /// The same for examples that these inputs prepare.
    #[must_use]
    pub fn with_inputs(self, inputs: Option<&'a Inputs>) -> Self {
        Self { inputs, ..self }
    }
}

/// What to add up.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct DescribeTask<'a> {
    /// Name of the job; `None` outside of a round.
    pub job: Option<&'a Name>,
    /// The example set that the job names; `None` for the examples without a name.
    pub data: Option<&'a Name>,
    /// The columns and the target of the job.
    pub inputs: &'a Inputs,
}

impl<'a> DescribeTask<'a> {
    /// Adds up the columns that these inputs name.
    pub fn new(inputs: &'a Inputs) -> Self {
        Self { job: None, data: None, inputs }
    }
}

/// The result of training.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Trained {
    /// The local model: one value for each parameter of the global model, in its order, all finite.
    pub values: Vec<f32>,
    /// Number of examples trained on: the weight of the update. At least 1.
    pub examples: u64,
    /// Number of optimiser steps.
    pub steps: u64,
    /// Mean loss of the steps; finite.
    pub loss: f64,
    /// Named scalars of the training, where the app has any: [`Scalars::with`] checks them.
    pub metrics: Scalars,
}

impl Trained {
    /// A result without metrics: the local model, the number of examples, the number of optimiser steps, and their mean
    /// loss.
    pub fn new(values: Vec<f32>, examples: u64, steps: u64, loss: f64) -> Self {
        Self { values, examples, steps, loss, metrics: Scalars::new() }
    }

    /// The same with named scalars.
    #[must_use]
    pub fn with_metrics(self, metrics: Scalars) -> Self {
        Self { metrics, ..self }
    }
}

/// The result of an evaluation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Evaluated {
    /// Number of examples measured: the weight of the report. At least 1.
    pub examples: u64,
    /// Mean loss per example; finite.
    pub loss: f64,
    /// Share of targets, 0 to 1, whose class had the highest score; `None` unless the targets are classes.
    pub accuracy: Option<f64>,
    /// Named scalars of the evaluation, such as AUC or F1: [`Scalars::with`] checks them.
    pub metrics: Scalars,
    /// Counts by class ([`ClassCounts::of_classes`], [`ClassCounts::count`]); `None` unless the targets are classes, at
    /// most 1,000. They must fit the examples and the accuracy.
    pub classes: Option<ClassCounts>,
}

impl Evaluated {
    /// The number of examples, and their mean loss.
    pub fn new(examples: u64, loss: f64) -> Self {
        Self { examples, loss, accuracy: None, metrics: Scalars::new(), classes: None }
    }

    /// The same with the share of targets, 0 to 1, whose class had the highest score.
    #[must_use]
    pub fn with_accuracy(self, accuracy: impl Into<Option<f64>>) -> Self {
        Self { accuracy: accuracy.into(), ..self }
    }

    /// The same with named scalars.
    #[must_use]
    pub fn with_metrics(self, metrics: Scalars) -> Self {
        Self { metrics, ..self }
    }

    /// The same with counts by class.
    #[must_use]
    pub fn with_classes(self, classes: impl Into<Option<ClassCounts>>) -> Self {
        Self { classes: classes.into(), ..self }
    }
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// `should_stop` returned `true`: the host stopped the session, or the round's deadline passed.
    #[error("training was interrupted")]
    Interrupted,
    /// The same, and a later session can go on from here ([`TrainTask::may_suspend`]).
    #[error("training was interrupted after {} steps", .0.steps)]
    Suspended(Box<Checkpoint>),
    /// The training has come to an exchange ([`TrainTask::pauses_after`]). Not reported: the session calls again.
    #[error("training pauses after {} steps", .0.steps)]
    Paused(Box<Checkpoint>),
    /// The training goes on elsewhere, on a GPU for example. Only where [`TrainTask::may_suspend`] says so, and not
    /// reported: the session waits for [`Trainer::ready`] and calls again.
    #[error("training is not done yet")]
    Pending,
    /// The client has nothing to learn from.
    #[error("there are no examples")]
    NoExamples,
    /// A NaN or an infinity: the learning rate may be too high.
    #[error("training diverged: the loss or a weight is not finite")]
    Diverged,
    /// Examples, settings, model and network do not match. The text says which.
    #[error("{0}")]
    DoesNotFit(String),
    /// The trainer does not correct its gradients as the job's algorithm needs ([`Trainer::follows`]).
    #[error("the app's trainer cannot train as {0} asks: it adds no correction to its gradients")]
    CannotFollow(String),
    /// The trainer does not pause ([`Trainer::exchanges`]).
    #[error("the app's trainer cannot exchange its model while it trains, as the job's group asks")]
    CannotExchange,
    /// The trainer adds up no examples ([`Trainer::describe`]).
    #[error("the app's trainer cannot describe its examples, which the job standardises")]
    CannotDescribe,
    /// The client has no table ([`Table`](crate::Table)).
    #[error("the app answers no analyses")]
    CannotAnswer,
    /// Code of the app failed with an exception. The operator learns only its kind: the text stays on the device, since
    /// it may quote examples or paths.
    #[error("{text}")]
    Thrown {
        /// The kind of exception, such as `KeyError`.
        kind: String,
        /// The exception as text.
        text: String,
    },
    /// Any other reason, as text for the operator.
    #[error("{0}")]
    Other(String),
}
