//! From combined updates to the step of the model, and to the next model.

use std::collections::BTreeMap;
use std::ops::Range;

use tributary_protocol::model::Companion;

use crate::aggregate::combine::Combined;

/// Turns the combined updates of a round into the step of the model. Companions have the order of
/// [`Self::companions`].
pub trait Optimizer: Send + Sync {
    /// What a model version carries for this optimiser.
    fn companions(&self) -> &'static [Companion];

    /// Every value of a companion before the first step.
    fn initial(&self, companion: Companion) -> f64;

    /// Values of a companion per parameter.
    fn width(&self, _: Companion) -> usize {
        1
    }

    /// What the file of a new companion says beside its values.
    fn notes(&self, _: Companion) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// For an optimiser that must see the whole round before its first step.
    fn survey(&mut self) -> Option<&mut dyn Survey> {
        None
    }

    /// Turns a block of combined values into the step of the same parameters, in place, and moves the values of the
    /// companions on. Each parameter is stepped independently, so blocks of any length give the same bits.
    fn step(&self, block: &mut [f64], companions: &mut [Vec<f64>]);
}

/// A first look at a whole round: [`Self::begin`], then [`Self::look`] at all blocks in order, then [`Self::decide`].
/// Several coordinators can look one after the other, each at its range. Each calls [`Self::begin`], then
/// [`Self::go_on`] with what the one before has [`seen`](Self::seen), then [`Self::look`]. The last one has seen the
/// whole round.
pub trait Survey: Send {
    /// Takes the notes of the base version's first companion, and the mean loss of the clients at the base version.
    ///
    /// # Errors
    /// [`AggregateError::Notes`].
    fn begin(&mut self, notes: &BTreeMap<String, String>, loss: f64) -> Result<(), AggregateError>;

    /// Looks at a block of combined values, and at the companions' values of the same parameters.
    fn look(&mut self, block: &[f64], companions: &[Vec<f64>]);

    /// What was seen so far, as the bits of numbers.
    fn seen(&self) -> Vec<u64>;

    /// Goes on from what was seen before.
    ///
    /// # Errors
    /// [`AggregateError::Notes`] for what no such survey has seen.
    fn go_on(&mut self, seen: &[u64]) -> Result<(), AggregateError>;

    /// Fixes every step.
    fn decide(&mut self);
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
    #[error("the optimiser cannot go on from {0:?}")]
    Notes(String),
}

/// The combined values of a block of parameters.
///
/// # Errors
/// [`AggregateError::NoUpdates`], [`AggregateError::WrongLength`].
pub fn means(combined: &dyn Combined, block: Range<usize>) -> Result<Vec<f64>, AggregateError> {
    if block.end > combined.parameters_total() {
        return Err(AggregateError::WrongLength { model: block.end, updates: combined.parameters_total() });
    }
    combined.mean(block).ok_or(AggregateError::NoUpdates)
}

/// The step of a block of parameters, in f64. `companions` are their values of the block and are moved on.
///
/// # Errors
/// [`AggregateError::NoUpdates`], [`AggregateError::WrongLength`].
pub fn step(
    optimizer: &dyn Optimizer,
    combined: &dyn Combined,
    block: Range<usize>,
    companions: &mut [Vec<f64>],
) -> Result<Vec<f64>, AggregateError> {
    let mut step = means(combined, block)?;
    optimizer.step(&mut step, companions);
    Ok(step)
}

/// Rounds a step to f32, as the file of a model delta holds it. `first` is the index of its first parameter.
///
/// # Errors
/// [`AggregateError::NotFinite`].
pub fn rounded(step: Vec<f64>, first: usize) -> Result<Vec<f32>, AggregateError> {
    finite(step.into_iter().map(|step| step as f32).collect(), first)
}

/// Adds a step to the same parameters of a model, of which the first has the index `first`: `w + step`, computed in f64
/// and rounded once to f32.
///
/// For a step of f32 values this is f32 addition: 53 bits are enough for rounding twice to make no difference (Figueroa
/// 1995, "When is double rounding innocuous?"). Clients that add a model delta therefore get the same bits.
///
/// # Errors
/// [`AggregateError::NotFinite`].
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
