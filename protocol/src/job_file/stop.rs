//! When a job is complete (`[stop]`).

use serde::{Deserialize, Serialize};

use super::JobFileError;
use super::error::require;
use crate::scalars::{SCALAR_MAX, ScalarName};

/// When a job is complete (`[stop]`): as soon as one of these is reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct StopPolicy {
    /// Number of committed training rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// Accuracy of an evaluated version, above 0 and below 1: the lower end of its 95 % interval must reach it.
    /// Requires an `[evaluation]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Name of a metric of the evaluation, with one of `at_least` and `at_most`. Requires an `[evaluation]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<ScalarName>,
    /// The job is complete when the mean of `metric` is this or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// The job is complete when the mean of `metric` is this or less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
}

impl StopPolicy {
    /// Whether the job ends by a result of its evaluations.
    pub fn is_measured(&self) -> bool {
        self.accuracy.is_some() || self.metric.is_some()
    }

    /// Whether a mean of `metric` is good enough.
    pub fn is_reached(&self, mean: f64) -> bool {
        self.at_least.is_some_and(|wanted| mean >= wanted) || self.at_most.is_some_and(|wanted| mean <= wanted)
    }
}

impl StopPolicy {
    pub(super) fn check(&self, is_evaluated: bool) -> Result<(), JobFileError> {
        require(self.rounds.is_none_or(|rounds| rounds > 0), "[stop] rounds", "at least 1")?;
        let accuracy = self.accuracy.is_none_or(|accuracy| accuracy > 0.0 && accuracy < 1.0);
        require(accuracy, "[stop] accuracy", "above 0 and below 1: no number of examples makes sure of 1")?;
        let evaluated = "left out, or there must be an [evaluation] to measure it";
        require(self.accuracy.is_none() || is_evaluated, "[stop] accuracy", evaluated)?;
        require(self.metric.is_none() || is_evaluated, "[stop] metric", evaluated)?;
        let bounds = u8::from(self.at_least.is_some()) + u8::from(self.at_most.is_some());
        let expected = u8::from(self.metric.is_some());
        require(bounds == expected, "[stop] metric", "given with exactly one of at_least and at_most")?;
        let is_finite = |bound: Option<f64>| bound.is_none_or(|bound| bound.abs() <= SCALAR_MAX);
        let finite = is_finite(self.at_least) && is_finite(self.at_most);
        require(finite, "[stop] at_least and at_most", "finite numbers, at most 1e12 in magnitude")
    }
}
