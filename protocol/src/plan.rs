//! What a client does in a round: local training settings, as the operator writes them and the SDK follows them.

use serde::{Deserialize, Serialize};

/// Local training (`[training]` of a job file).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// Passes over the client's examples. Either this or `steps` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u32>,
    /// Optimiser steps, however many examples the client has. Either this or `epochs` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// Examples in a step; left out, a step takes all examples of the client (full batch).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<u32>,
    /// What is minimised.
    #[serde(default)]
    pub loss: Loss,
    /// How a step changes the weights.
    pub optimizer: Optimizer,
    /// Draws a new order of the examples for each epoch (on unless the job says otherwise).
    #[serde(default = "yes")]
    pub shuffle: bool,
}

/// What is minimised, averaged over the batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Softmax cross-entropy of class scores `[batch, classes]` against class numbers.
    #[default]
    CrossEntropy,
    /// Mean squared error over all outputs, against targets of the output's shape.
    Mse,
}

/// How a step changes the weights. Formulas as in PyTorch, so that settings carry over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Optimizer {
    /// Stochastic gradient descent.
    Sgd {
        /// Step size.
        learning_rate: f64,
        /// Velocity kept from step to step, in `[0, 1)`.
        #[serde(default)]
        momentum: f64,
        /// L2 penalty added to the gradient.
        #[serde(default)]
        weight_decay: f64,
        /// Looks ahead along the velocity; needs a momentum.
        #[serde(default)]
        nesterov: bool,
    },
    /// Adam (Kingma and Ba 2015), with an L2 penalty added to the gradient.
    Adam {
        /// Step size.
        learning_rate: f64,
        /// Decay of the first moment.
        #[serde(default = "adam_beta1")]
        beta1: f64,
        /// Decay of the second moment.
        #[serde(default = "adam_beta2")]
        beta2: f64,
        /// Added to the denominator.
        #[serde(default = "adam_epsilon")]
        epsilon: f64,
        /// L2 penalty added to the gradient.
        #[serde(default)]
        weight_decay: f64,
    },
    /// Adam with weight decay apart from the gradient (Loshchilov and Hutter 2019).
    AdamW {
        /// Step size.
        learning_rate: f64,
        /// Decay of the first moment.
        #[serde(default = "adam_beta1")]
        beta1: f64,
        /// Decay of the second moment.
        #[serde(default = "adam_beta2")]
        beta2: f64,
        /// Added to the denominator.
        #[serde(default = "adam_epsilon")]
        epsilon: f64,
        /// Share of a weight that a step takes away, times the learning rate.
        #[serde(default = "adamw_weight_decay")]
        weight_decay: f64,
    },
}

/// A training setting that no client could follow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrainingError {
    /// Neither or both of `epochs` and `steps`.
    #[error("[training] needs exactly one of `epochs` and `steps`")]
    Amount,
    /// A count of 0.
    #[error("[training] `{0}` must be at least 1")]
    Zero(&'static str),
    /// A number outside its range.
    #[error("[training.optimizer] `{setting}` must be {range}")]
    OutOfRange {
        /// The setting's name.
        setting: &'static str,
        /// What it may be, in words.
        range: &'static str,
    },
}

impl Training {
    /// Checks what the types cannot: one amount, positive counts, numbers inside their ranges.
    ///
    /// # Errors
    /// [`TrainingError`] names the first setting that does not fit.
    pub fn check(&self) -> Result<(), TrainingError> {
        if self.epochs.is_some() == self.steps.is_some() {
            return Err(TrainingError::Amount);
        }
        for (name, count) in [("epochs", self.epochs), ("steps", self.steps), ("batch_size", self.batch_size)] {
            if count == Some(0) {
                return Err(TrainingError::Zero(name));
            }
        }
        self.optimizer.check()
    }
}

impl Optimizer {
    fn check(&self) -> Result<(), TrainingError> {
        let within = |setting, range, holds: bool| {
            if holds { Ok(()) } else { Err(TrainingError::OutOfRange { setting, range }) }
        };
        let positive =
            |setting, value: f64| within(setting, "a finite number above 0", value.is_finite() && value > 0.0);
        let decay =
            |value: f64| within("weight_decay", "a finite number, 0 or above", value.is_finite() && value >= 0.0);
        let fraction = |setting, value: f64| within(setting, "at least 0 and below 1", (0.0..1.0).contains(&value));
        match *self {
            Self::Sgd { learning_rate, momentum, weight_decay, nesterov } => {
                positive("learning_rate", learning_rate)?;
                fraction("momentum", momentum)?;
                within("nesterov", "off unless there is a momentum", !nesterov || momentum > 0.0)?;
                decay(weight_decay)
            }
            Self::Adam { learning_rate, beta1, beta2, epsilon, weight_decay }
            | Self::AdamW { learning_rate, beta1, beta2, epsilon, weight_decay } => {
                positive("learning_rate", learning_rate)?;
                fraction("beta1", beta1)?;
                fraction("beta2", beta2)?;
                positive("epsilon", epsilon)?;
                decay(weight_decay)
            }
        }
    }
}

fn yes() -> bool {
    true
}
fn adam_beta1() -> f64 {
    0.9
}
fn adam_beta2() -> f64 {
    0.999
}
fn adam_epsilon() -> f64 {
    1e-8
}
fn adamw_weight_decay() -> f64 {
    0.01
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sgd(learning_rate: f64) -> Training {
        Training {
            epochs: Some(1),
            steps: None,
            batch_size: Some(10),
            loss: Loss::CrossEntropy,
            optimizer: Optimizer::Sgd { learning_rate, momentum: 0.0, weight_decay: 0.0, nesterov: false },
            shuffle: true,
        }
    }

    #[test]
    fn settings_that_no_client_could_follow_are_refused_by_name() {
        assert_eq!(sgd(0.1).check(), Ok(()));
        assert_eq!(Training { steps: Some(1), ..sgd(0.1) }.check(), Err(TrainingError::Amount));
        assert_eq!(Training { epochs: None, ..sgd(0.1) }.check(), Err(TrainingError::Amount));
        assert_eq!(Training { batch_size: Some(0), ..sgd(0.1) }.check(), Err(TrainingError::Zero("batch_size")));
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(sgd(rate).check(), Err(TrainingError::OutOfRange { setting: "learning_rate", .. })));
        }
    }

    #[test]
    fn an_unknown_key_of_an_optimizer_is_refused() {
        let text = r#"{"epochs":1,"optimizer":{"kind":"sgd","learning_rate":0.1,"momentun":0.9}}"#;
        assert!(serde_json::from_str::<Training>(text).is_err());
    }
}
