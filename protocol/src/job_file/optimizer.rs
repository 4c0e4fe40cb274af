//! What a round's step does to the model (`[aggregation.optimizer]`).

use serde::{Deserialize, Serialize};

use super::error::require;
use super::{JobFileError, one};

/// Largest learning rate.
const RATE_MAX: f64 = 1e3;
/// Most pairs of L-BFGS.
const PAIRS_MAX: u32 = 20;

/// The optimiser of the coordinator. Its gradient is the negative combined delta D of a round (Reddi et al. 2021,
/// algorithm 2).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ServerOptimizer {
    /// Adds the step, with a momentum if one is set (FedAvgM, Hsu et al. 2019).
    Sgd {
        /// Factor of the step, above 0 and at most 1000. Default: 1.
        #[serde(default = "one")]
        learning_rate: f64,
        /// Momentum, in `[0, 1)`. Default: 0.
        #[serde(default)]
        momentum: f64,
        /// Nesterov momentum; requires a momentum above 0. Default: false.
        #[serde(default)]
        nesterov: bool,
    },
    /// Divides by the root of the summed squares (FedAdagrad).
    Adagrad {
        /// Learning rate, above 0 and at most 1000. Default: 0.1.
        #[serde(default = "tenth")]
        learning_rate: f64,
        /// Decay rate of the first moment, in `[0, 1)`. Default: 0.
        #[serde(default)]
        beta1: f64,
        /// Degree of adaptivity, above 0: added to the root. Default: 0.001.
        #[serde(default = "thousandth")]
        tau: f64,
        /// First second moment. Default: the square of `tau`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        v0: Option<f64>,
    },
    /// Divides by the root of the decaying mean of squares (FedAdam).
    Adam {
        /// Learning rate, above 0 and at most 1000. Default: 0.1.
        #[serde(default = "tenth")]
        learning_rate: f64,
        /// Decay rate of the first moment, in `[0, 1)`. Default: 0.9.
        #[serde(default = "beta1")]
        beta1: f64,
        /// Decay rate of the second moment, in `[0, 1)`. Default: 0.99.
        #[serde(default = "beta2")]
        beta2: f64,
        /// Degree of adaptivity, above 0: added to the root. Default: 0.001.
        #[serde(default = "thousandth")]
        tau: f64,
        /// First second moment. Default: the square of `tau`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        v0: Option<f64>,
        /// Bias correction. Default: none, as in the paper.
        #[serde(default)]
        bias_correction: BiasCorrection,
    },
    /// As Adam, with a second moment that moves by a bounded amount (FedYogi).
    Yogi {
        /// Learning rate, above 0 and at most 1000. Default: 0.01.
        #[serde(default = "hundredth")]
        learning_rate: f64,
        /// Decay rate of the first moment, in `[0, 1)`. Default: 0.9.
        #[serde(default = "beta1")]
        beta1: f64,
        /// Decay rate of the second moment, in `[0, 1)`. Default: 0.99.
        #[serde(default = "beta2")]
        beta2: f64,
        /// Degree of adaptivity, above 0: added to the root. Default: 0.001.
        #[serde(default = "thousandth")]
        tau: f64,
        /// First second moment. Default: the square of `tau`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        v0: Option<f64>,
    },
    /// L-BFGS with a line search over rounds (Nocedal 1980). Clients take one step over all their examples, so that
    /// updates are gradients.
    Lbfgs {
        /// Pairs of steps and gradient changes that are kept, 1 to 20. The coordinator stores `2 pairs + 2` vectors of
        /// the model's size with each version. Default: 8.
        #[serde(default = "eight")]
        pairs: u32,
    },
}

/// Bias correction of Adam's moments: a factor of the learning rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BiasCorrection {
    /// None (Reddi et al. 2021).
    #[default]
    None,
    /// `sqrt(1 - beta2^t) / (1 - beta1^t)` with the number t of the step, from 1 (Kingma and Ba 2015).
    Kingma,
    /// The same with t + 1, for comparisons with Flower.
    Flower,
}

impl Default for ServerOptimizer {
    fn default() -> Self {
        Self::plain(one())
    }
}

impl ServerOptimizer {
    /// Adds the step times a factor.
    pub fn plain(learning_rate: f64) -> Self {
        Self::Sgd { learning_rate, momentum: 0.0, nesterov: false }
    }

    pub(super) fn check(&self) -> Result<(), JobFileError> {
        match *self {
            Self::Sgd { learning_rate, momentum, nesterov } => {
                check_rate(learning_rate)?;
                check_decay("[aggregation.optimizer] momentum", momentum)?;
                let has_momentum = !nesterov || momentum > 0.0;
                require(has_momentum, "[aggregation.optimizer] nesterov", "false unless there is a momentum")
            }
            Self::Adagrad { learning_rate, beta1, tau, v0 } => {
                check_rate(learning_rate)?;
                check_adaptive([beta1, 0.0], tau, v0)
            }
            Self::Adam { learning_rate, beta1, beta2, tau, v0, .. }
            | Self::Yogi { learning_rate, beta1, beta2, tau, v0 } => {
                check_rate(learning_rate)?;
                check_adaptive([beta1, beta2], tau, v0)
            }
            Self::Lbfgs { pairs } => {
                require((1..=PAIRS_MAX).contains(&pairs), "[aggregation.optimizer] pairs", "1 to 20")
            }
        }
    }
}

fn check_rate(rate: f64) -> Result<(), JobFileError> {
    require(rate > 0.0 && rate <= RATE_MAX, "[aggregation.optimizer] learning_rate", "above 0 and at most 1000")
}

fn check_decay(setting: &'static str, decay: f64) -> Result<(), JobFileError> {
    require((0.0..1.0).contains(&decay), setting, "at least 0 and below 1")
}

fn check_adaptive([beta1, beta2]: [f64; 2], tau: f64, v0: Option<f64>) -> Result<(), JobFileError> {
    check_decay("[aggregation.optimizer] beta1", beta1)?;
    check_decay("[aggregation.optimizer] beta2", beta2)?;
    require((1e-9..=1e3).contains(&tau), "[aggregation.optimizer] tau", "1e-9 to 1000")?;
    let is_moment = v0.is_none_or(|v0| (0.0..=1e6).contains(&v0));
    require(is_moment, "[aggregation.optimizer] v0", "0 to 1e6")
}

fn eight() -> u32 {
    8
}
fn tenth() -> f64 {
    0.1
}
fn hundredth() -> f64 {
    0.01
}
fn thousandth() -> f64 {
    1e-3
}
fn beta1() -> f64 {
    0.9
}
fn beta2() -> f64 {
    0.99
}
