//! Aggregation rules: the step that a round's combined updates make, one file per rule.

mod fedavg;

use std::ops::Range;

use tributary_protocol::job_file::Aggregation;

use super::combine::Combined;
pub use fedavg::FedAvg;

/// Turns the combined updates of a round into the step of the model.
pub trait Rule: Send {
    /// Turns a block of combined values into the step of the same parameters, in place. The block begins at parameter
    /// `first`.
    fn step(&self, first: usize, block: &mut [f64]);
}

/// The rule that a job file names.
#[must_use]
pub fn rule_of(aggregation: &Aggregation) -> Box<dyn Rule> {
    match aggregation {
        Aggregation::FedAvg { server_learning_rate } => {
            Box::new(FedAvg { server_learning_rate: *server_learning_rate })
        }
    }
}

/// Why combined updates make no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AggregateError {
    #[error("the round has no update")]
    NoUpdates,
    #[error("the model ends at parameter {model}, the combined updates at {updates}")]
    WrongLength { model: usize, updates: usize },
    #[error("parameter {index} of the new model would not be finite")]
    NotFinite {
        /// Index in the flat vector of parameters.
        index: usize,
    },
}

/// The step of a block of parameters, in f64.
pub fn step(rule: &dyn Rule, combined: &dyn Combined, block: Range<usize>) -> Result<Vec<f64>, AggregateError> {
    if block.end > combined.parameters_total() {
        return Err(AggregateError::WrongLength { model: block.end, updates: combined.parameters_total() });
    }
    let first = block.start;
    let mut step = combined.mean(block).ok_or(AggregateError::NoUpdates)?;
    rule.step(first, &mut step);
    Ok(step)
}

/// Rounds a step to f32, as the file of a model delta holds it. `first` is the index of its first parameter.
pub fn rounded(step: Vec<f64>, first: usize) -> Result<Vec<f32>, AggregateError> {
    finite(step.into_iter().map(|step| step as f32).collect(), first)
}

/// Adds a step to the same parameters of a model, of which the first has the index `first`: `w + step`, computed in f64
/// and rounded once to f32.
///
/// For a step of f32 values this is f32 addition: 53 bits are enough for rounding twice to make no difference (Figueroa
/// 1995, "When is double rounding innocuous?"). Clients that add a model delta therefore get the same bits.
pub fn advance<S: Copy + Into<f64>>(model: &[f32], step: &[S], first: usize) -> Result<Vec<f32>, AggregateError> {
    let next = model.iter().zip(step).map(|(weight, step)| (f64::from(*weight) + (*step).into()) as f32);
    finite(next.collect(), first)
}

fn finite(values: Vec<f32>, first: usize) -> Result<Vec<f32>, AggregateError> {
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(values),
        Some(index) => Err(AggregateError::NotFinite { index: first + index }),
    }
}
