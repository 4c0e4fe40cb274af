//! Gates: what an evaluation must show before a release goes out.
//!
//! A gate is written as `accuracy >= 0.9`, `loss <= 0.3` or with the name of a metric that evaluators report. The words
//! `on evaluators` may follow.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::scalars::{SCALAR_MAX, ScalarName};

/// The words that may end a gate: who evaluates follows from the job.
const WHERE: &str = "on evaluators";

/// A bound that the evaluation of a model must meet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Gate {
    /// What is compared.
    pub measure: Measure,
    /// With which bound.
    pub bound: Bound,
}

/// What an evaluation says of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The lower end of the 95 % interval of the accuracy.
    Accuracy,
    /// The mean loss.
    Loss,
    /// The mean of a named metric.
    Metric(ScalarName),
}

/// On which side of a number a measure must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
}

/// A text that is no gate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a gate is a measure, >= or <=, and a number, such as \"accuracy >= 0.9 on evaluators\" or \"loss <= 0.3\"")]
pub struct GateError;

impl Gate {
    /// Whether a measured value meets the bound.
    pub fn is_met(&self, measured: f64) -> bool {
        match self.bound {
            Bound::AtLeast(wanted) => measured >= wanted,
            Bound::AtMost(wanted) => measured <= wanted,
        }
    }
}

impl FromStr for Gate {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Self, GateError> {
        let text = text.trim();
        let text = text.strip_suffix(WHERE).unwrap_or(text);
        let is_least = text.contains(">=");
        let (measure, number) = text.split_once(if is_least { ">=" } else { "<=" }).ok_or(GateError)?;
        let number: f64 = number.trim().parse().map_err(|_| GateError)?;
        if number.is_nan() || number.abs() > SCALAR_MAX {
            return Err(GateError);
        }
        let measure = match measure.trim() {
            "accuracy" => Measure::Accuracy,
            "loss" => Measure::Loss,
            name => Measure::Metric(name.parse().map_err(|_| GateError)?),
        };
        Ok(Self { measure, bound: if is_least { Bound::AtLeast(number) } else { Bound::AtMost(number) } })
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.measure {
            Measure::Accuracy => formatter.write_str("accuracy")?,
            Measure::Loss => formatter.write_str("loss")?,
            Measure::Metric(name) => write!(formatter, "{name}")?,
        }
        match self.bound {
            Bound::AtLeast(wanted) => write!(formatter, " >= {wanted}"),
            Bound::AtMost(wanted) => write!(formatter, " <= {wanted}"),
        }
    }
}

impl From<Gate> for String {
    fn from(gate: Gate) -> Self {
        gate.to_string()
    }
}

impl TryFrom<String> for Gate {
    type Error = GateError;

    fn try_from(text: String) -> Result<Self, GateError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_read_and_written_as_people_say_it() {
        let gate: Gate = "accuracy >= 0.9 on evaluators".parse().unwrap();
        assert_eq!(gate, Gate { measure: Measure::Accuracy, bound: Bound::AtLeast(0.9) });
        assert_eq!(gate.to_string(), "accuracy >= 0.9");
        assert!(gate.is_met(0.9) && !gate.is_met(0.899) && !gate.is_met(f64::NAN));
        let loss: Gate = "loss<=0.3".parse().unwrap();
        assert!(loss.is_met(0.3) && !loss.is_met(0.31));
        let metric: Gate = " auc >= 0.75 ".parse().unwrap();
        assert!(matches!(&metric.measure, Measure::Metric(name) if name.to_string() == "auc"));
        for gate in [gate, loss, metric] {
            assert_eq!(serde_json::from_str::<Gate>(&serde_json::to_string(&gate).unwrap()).unwrap(), gate);
        }
        for wrong in
            ["", "accuracy", "accuracy > 0.9", "accuracy >= ", "accuracy >= nan", ">= 1", "a b >= 1", "auc >= 1e13"]
        {
            assert_eq!(wrong.parse::<Gate>(), Err(GateError), "{wrong:?}");
        }
    }
}
