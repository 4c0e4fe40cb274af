//! What computes networks for the coordinator's own evaluations.
//!
//! The coordinator sums and stores models and knows no layers. The program that serves brings an evaluator, so that the
//! library does not depend on a client's trainer.

use std::fmt::Debug;

use tributary_protocol::device::EvaluationReport;
use tributary_protocol::inputs::Inputs;
use tributary_protocol::layers::ModelSpec;
use tributary_protocol::model::Model;
use tributary_protocol::plan::Loss;

/// Measures a model on examples. It is called on a separate thread, of low priority, one evaluation at a time.
pub trait Evaluator: Debug + Send + Sync {
    /// Measures the model. Calls `should_stop` before every batch, and stops when that returns `true`.
    ///
    /// # Errors
    /// [`EvaluatorError`]: the round is abandoned, or evaluated later if it was stopped.
    fn evaluate(
        &self,
        task: &EvaluatorTask<'_>,
        examples: TestExamples,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<EvaluationReport, EvaluatorError>;
}

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct EvaluatorTask<'a> {
    pub model: &'a Model,
    /// A list of layers.
    pub spec: &'a ModelSpec,
    /// How raw examples become what the network reads; none where they are fed as they are.
    pub inputs: Option<&'a Inputs>,
    pub loss: Loss,
}

/// The examples of a test set. Each fits the job's columns, or the network's input, and each class is one of its
/// outputs.
#[derive(Clone, Debug, PartialEq)]
pub struct TestExamples {
    /// Row by row.
    pub inputs: Vec<f32>,
    pub targets: TestTargets,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TestTargets {
    /// A class for each output row.
    Classes(Vec<u32>),
    /// As many values as outputs.
    Values(Vec<f32>),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluatorError {
    #[error("the evaluation was stopped")]
    Stopped,
    /// The model cannot be measured; the text says why.
    #[error("{0}")]
    Failed(String),
}
