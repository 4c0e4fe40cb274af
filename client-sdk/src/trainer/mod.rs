//! Local training: what a trainer is asked, what it may answer, and the burn implementation behind the feature `burn`.
//!
//! A [`Trainer`] is synchronous and knows nothing of networks or servers: the session hands it a model and settings and
//! takes its values back.

#[cfg(feature = "burn")]
mod burn;

use tributary_protocol::layers::ModelSpec;
use tributary_protocol::model::Model;
use tributary_protocol::plan::{Loss, Training};
use tributary_protocol::seed::Seed;

#[cfg(feature = "burn")]
pub use self::burn::{BurnTrainer, LayeredNetwork, Network, Pass, parameters_of};

/// Learns from the examples of one client.
pub trait Trainer: Send {
    /// How many examples the client has; told at check-in.
    fn examples(&self) -> u64;

    /// Trains the global model on the client's examples. `should_stop` is asked before every batch.
    ///
    /// # Errors
    /// [`TrainError`].
    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError>;

    /// Measures the global model on the client's examples. `should_stop` is asked before every batch.
    ///
    /// # Errors
    /// [`TrainError`].
    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError>;
}

/// What a client learns and how; a trainer's result may depend on nothing else but its examples.
#[derive(Clone, Copy, Debug)]
pub struct TrainTask<'a> {
    /// The global model, which training starts from.
    pub model: &'a Model,
    /// The network that the model's values belong to.
    pub spec: &'a ModelSpec,
    /// Amount, batch size, loss and optimiser.
    pub training: &'a Training,
    /// Seed of this client in this round: order of the examples, dropout.
    pub seed: Seed,
}

/// What a client measures.
#[derive(Clone, Copy, Debug)]
pub struct EvaluateTask<'a> {
    /// The global model.
    pub model: &'a Model,
    /// The network that the model's values belong to.
    pub spec: &'a ModelSpec,
    /// What is measured beside the accuracy.
    pub loss: Loss,
}

/// What training gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Trained {
    /// Values of the local model in the order of the global model's parameters; all finite.
    pub values: Vec<f32>,
    /// Examples of the client: the weight of its update.
    pub examples: u64,
    /// Optimiser steps taken.
    pub steps: u64,
    /// Mean of the steps' losses.
    pub loss: f64,
}

/// What measuring gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluated {
    /// Examples measured.
    pub examples: u64,
    /// Mean loss per example.
    pub loss: f64,
    /// Share of class numbers that had the highest score; only for cross-entropy.
    pub accuracy: Option<f64>,
}

/// Why a client has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrainError {
    /// `should_stop` said so.
    #[error("training was interrupted")]
    Interrupted,
    /// Nothing to learn from.
    #[error("there are no examples")]
    NoExamples,
    /// The loss or a weight is no longer finite.
    #[error("training diverged: the loss or a weight is not finite")]
    Diverged,
    /// Examples, settings, model and network do not belong together.
    #[error("{0}")]
    DoesNotFit(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}
