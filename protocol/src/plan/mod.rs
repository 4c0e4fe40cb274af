//! Local training settings: written by the operator, followed by the SDK.

mod algorithm;
mod cadence;
mod exchange;
mod masking;

use serde::{Deserialize, Serialize};

use crate::rate::RateSchedule;

pub use algorithm::{AdaptiveMu, Algorithm, CLIENTS_MAX, Control, MU_MAX};
pub use cadence::{CADENCE_MAX, Cadence};
pub use exchange::{Exchange, Gossip, MixCodec};
pub use masking::{GroupNoise, GroupTrust, Masking};

/// Most changes of a work schedule.
const WORK_CHANGES_MAX: usize = 1000;

/// Local training (`[training]` of a job file).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// Passes over the client's examples. Exactly one of `epochs` and `steps` is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u32>,
    /// Optimiser steps, independent of the number of examples. Exactly one of `epochs` and `steps` is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// Model versions from which on the amount of work is another one, in ascending order. Post-local SGD (Lin et al.
    /// 2020) begins with `steps = 1` and takes more later. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub work_schedule: Vec<WorkChange>,
    /// Examples per optimiser step. Default: all examples of the client (full batch).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<u32>,
    /// Epochs in which a client trains its personal parameters alone, before it trains the others alone (FedRep,
    /// Collins et al. 2021). Default: all parameters are trained together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub personal_epochs: Option<u32>,
    /// Share of the time until its deadline after which a client stops training and sends what it has, above 0 and
    /// below 1. The rest of the time is for sending. Default: a client that is not done in time does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_work: Option<f64>,
    /// Loss function.
    #[serde(default)]
    pub loss: Loss,
    /// Optimiser and its settings.
    pub optimizer: Optimizer,
    /// Whether each epoch draws a new order of the examples. Default: true.
    #[serde(default = "yes")]
    pub shuffle: bool,
    /// What the clients optimise. Default: the loss of their examples.
    #[serde(default, skip_serializing_if = "Algorithm::is_plain")]
    pub algorithm: Algorithm,
    /// Schedule of the optimiser's learning rate. Default: constant.
    #[serde(default, skip_serializing_if = "RateSchedule::is_constant")]
    pub schedule: RateSchedule,
}

/// The amount of work from a model version on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WorkChange {
    /// The first version whose rounds do this amount of work, at least 1.
    pub version: u32,
    /// Passes over the client's examples. Exactly one of `epochs` and `steps` is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u32>,
    /// Optimiser steps. Exactly one of `epochs` and `steps` is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
}

/// Loss function, averaged over the batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Softmax cross-entropy between class scores `[batch, classes]` and class indices.
    #[default]
    CrossEntropy,
    /// Mean squared error over all outputs; targets have the shape of the output.
    Mse,
    /// A loss of the app's own trainer, such as that of a detector: reported as it is, and lower is better. A model
    /// that is a list of layers has none.
    Other,
}

/// Optimiser. The formulas are those of `torch.optim` (PyTorch 2), so settings carry over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Optimizer {
    /// Stochastic gradient descent.
    Sgd {
        /// Learning rate, above 0.
        learning_rate: f64,
        /// Momentum, in `[0, 1)`. Default: 0.
        #[serde(default)]
        momentum: f64,
        /// Weight of the L2 penalty, which is added to the gradient. Default: 0.
        #[serde(default)]
        weight_decay: f64,
        /// Nesterov momentum; requires a momentum above 0. Default: false.
        #[serde(default)]
        nesterov: bool,
    },
    /// Adam (Kingma and Ba 2015), with the L2 penalty added to the gradient.
    Adam {
        /// Learning rate, above 0.
        learning_rate: f64,
        /// Decay rate of the first moment, in `[0, 1)`. Default: 0.9.
        #[serde(default = "adam_beta1")]
        beta1: f64,
        /// Decay rate of the second moment, in `[0, 1)`. Default: 0.999.
        #[serde(default = "adam_beta2")]
        beta2: f64,
        /// Added to the denominator for numerical stability. Default: 1e-8.
        #[serde(default = "adam_epsilon")]
        epsilon: f64,
        /// Weight of the L2 penalty, which is added to the gradient. Default: 0.
        #[serde(default)]
        weight_decay: f64,
    },
    /// Adam with decoupled weight decay (Loshchilov and Hutter 2019).
    AdamW {
        /// Learning rate, above 0.
        learning_rate: f64,
        /// Decay rate of the first moment, in `[0, 1)`. Default: 0.9.
        #[serde(default = "adam_beta1")]
        beta1: f64,
        /// Decay rate of the second moment, in `[0, 1)`. Default: 0.999.
        #[serde(default = "adam_beta2")]
        beta2: f64,
        /// Added to the denominator for numerical stability. Default: 1e-8.
        #[serde(default = "adam_epsilon")]
        epsilon: f64,
        /// Weight decay: each step multiplies the weights by 1 - learning_rate * weight_decay. Default: 0.01.
        #[serde(default = "adamw_weight_decay")]
        weight_decay: f64,
    },
}

/// A training setting that is missing, contradictory or out of range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrainingError {
    /// Neither or both of `epochs` and `steps` are given.
    #[error("[training] needs exactly one of `epochs` and `steps`")]
    Amount,
    /// A count is 0.
    #[error("[training] `{0}` must be at least 1")]
    Zero(&'static str),
    /// The changes of the work schedule have no order, or one has no amount of work.
    #[error("[training] `work_schedule` {0}")]
    WorkSchedule(&'static str),
    /// The share of partial work is out of range.
    #[error("[training] `partial_work` must be above 0 and below 1")]
    PartialWork,
    /// A setting of the algorithm is out of range.
    #[error("[training] algorithm: {0}")]
    Algorithm(&'static str),
    /// A setting of the schedule is out of range.
    #[error("[training] schedule: {setting} must be {range}")]
    Schedule {
        /// Key of the setting.
        setting: &'static str,
        /// The allowed values, in words.
        range: &'static str,
    },
    /// A number is out of range.
    #[error("[training.optimizer] `{setting}` must be {range}")]
    OutOfRange {
        /// Key of the setting.
        setting: &'static str,
        /// The allowed values, in words.
        range: &'static str,
    },
}

/// No work: the training of a job file that has none.
impl Default for Training {
    fn default() -> Self {
        Self {
            epochs: None,
            steps: None,
            work_schedule: Vec::new(),
            batch_size: None,
            personal_epochs: None,
            partial_work: None,
            loss: Loss::CrossEntropy,
            optimizer: Optimizer::Sgd { learning_rate: 1.0, momentum: 0.0, weight_decay: 0.0, nesterov: false },
            shuffle: true,
            algorithm: Algorithm::Plain,
            schedule: RateSchedule::Constant,
        }
    }
}

impl Training {
    /// Whether it is the training of a file that has none.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Checks what the types do not: one amount of work, positive counts, numbers in range.
    ///
    /// # Errors
    /// [`TrainingError`] names the first setting that fails.
    pub fn check(&self) -> Result<(), TrainingError> {
        if self.epochs.is_some() == self.steps.is_some() {
            return Err(TrainingError::Amount);
        }
        for (name, count) in [
            ("epochs", self.epochs),
            ("steps", self.steps),
            ("batch_size", self.batch_size),
            ("personal_epochs", self.personal_epochs),
        ] {
            if count == Some(0) {
                return Err(TrainingError::Zero(name));
            }
        }
        self.check_work_schedule()?;
        if self.partial_work.is_some_and(|share| !(share > 0.0 && share < 1.0)) {
            return Err(TrainingError::PartialWork);
        }
        if !(0.0..=MU_MAX).contains(&self.algorithm.proximal()) {
            return Err(TrainingError::Algorithm("mu and alpha must be 0 to 1000"));
        }
        self.algorithm.check()?;
        if let Some((setting, range)) = self.schedule.problem() {
            return Err(TrainingError::Schedule { setting, range });
        }
        self.optimizer.check()
    }

    fn check_work_schedule(&self) -> Result<(), TrainingError> {
        let changes = &self.work_schedule;
        if changes.len() > WORK_CHANGES_MAX {
            return Err(TrainingError::WorkSchedule("may have at most 1000 changes"));
        }
        // A change at version 0 would contradict `epochs` and `steps`, which are the amount from the start.
        let first = changes.first().is_none_or(|first| first.version > 0);
        if !(first && changes.is_sorted_by(|one, next| one.version < next.version)) {
            return Err(TrainingError::WorkSchedule("needs versions of at least 1 in ascending order"));
        }
        let is_amount = |change: &WorkChange| {
            let amounts = [change.epochs, change.steps];
            amounts.iter().flatten().count() == 1 && !amounts.contains(&Some(0))
        };
        match changes.iter().all(is_amount) {
            true => Ok(()),
            false => Err(TrainingError::WorkSchedule("needs one of `epochs` and `steps`, at least 1, in each change")),
        }
    }

    /// The settings of a round that starts from this model version: the schedules are applied to the learning rate and
    /// to the amount of work.
    #[must_use]
    pub fn at_version(&self, version: u32) -> Self {
        let mut training = self.clone();
        if let Some(change) = self.work_schedule.iter().rfind(|change| change.version <= version) {
            (training.epochs, training.steps) = (change.epochs, change.steps);
        }
        if !self.schedule.is_constant() {
            *training.optimizer.learning_rate_mut() *= self.schedule.factor(version);
        }
        training
    }
}

impl Optimizer {
    /// The learning rate, before any schedule.
    pub fn learning_rate(&self) -> f64 {
        match *self {
            Self::Sgd { learning_rate, .. } | Self::Adam { learning_rate, .. } | Self::AdamW { learning_rate, .. } => {
                learning_rate
            }
        }
    }

    fn learning_rate_mut(&mut self) -> &mut f64 {
        match self {
            Self::Sgd { learning_rate, .. } | Self::Adam { learning_rate, .. } | Self::AdamW { learning_rate, .. } => {
                learning_rate
            }
        }
    }

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
            work_schedule: Vec::new(),
            batch_size: Some(10),
            personal_epochs: None,
            partial_work: None,
            loss: Loss::CrossEntropy,
            optimizer: Optimizer::Sgd { learning_rate, momentum: 0.0, weight_decay: 0.0, nesterov: false },
            shuffle: true,
            algorithm: Algorithm::Plain,
            schedule: RateSchedule::Constant,
        }
    }

    #[test]
    fn settings_that_no_client_could_follow_are_refused_by_name() {
        assert_eq!(sgd(0.1).check(), Ok(()));
        assert_eq!(Training { steps: Some(1), ..sgd(0.1) }.check(), Err(TrainingError::Amount));
        assert_eq!(Training { epochs: None, ..sgd(0.1) }.check(), Err(TrainingError::Amount));
        assert_eq!(Training { batch_size: Some(0), ..sgd(0.1) }.check(), Err(TrainingError::Zero("batch_size")));
        for share in [0.0, 1.0, -0.5, f64::NAN] {
            assert_eq!(Training { partial_work: Some(share), ..sgd(0.1) }.check(), Err(TrainingError::PartialWork));
        }
        assert_eq!(Training { partial_work: Some(0.9), ..sgd(0.1) }.check(), Ok(()));
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(sgd(rate).check(), Err(TrainingError::OutOfRange { setting: "learning_rate", .. })));
        }
    }

    #[test]
    fn settings_of_an_algorithm_are_in_range() {
        let prox = |mu| Training { algorithm: Algorithm::FedProx { mu, adaptive: None }, ..sgd(0.1) };
        let nova = |mu| Training { algorithm: Algorithm::FedNova { mu }, ..sgd(0.1) };
        for senseless in [prox(-1.0), prox(f64::NAN), nova(1001.0)] {
            assert!(matches!(senseless.check(), Err(TrainingError::Algorithm(_))), "{senseless:?}");
        }
        assert_eq!(prox(0.5).check(), Ok(()));
        let adaptive = |step, falls| {
            let adaptive = Some(AdaptiveMu { step, falls });
            Training { algorithm: Algorithm::FedProx { mu: 0.0, adaptive }, ..sgd(0.1) }
        };
        assert_eq!(adaptive(0.1, 5).check(), Ok(()));
        assert!(adaptive(0.1, 5).algorithm.corrects_gradients(), "mu may rise");
        for senseless in [adaptive(0.0, 5), adaptive(f64::NAN, 5), adaptive(2e3, 5), adaptive(0.1, 0)] {
            assert!(matches!(senseless.check(), Err(TrainingError::Algorithm(_))), "{senseless:?}");
        }
    }

    #[test]
    fn algorithms_with_a_state_name_their_clients() {
        let with = |algorithm| Training { algorithm, ..sgd(0.1) };
        let scaffold = |clients| with(Algorithm::Scaffold { clients, control: Control::Steps });
        assert_eq!((scaffold(1).check(), scaffold(CLIENTS_MAX).check()), (Ok(()), Ok(())));
        assert_eq!(with(Algorithm::FedDyn { alpha: 0.1, clients: 5 }).check(), Ok(()));
        for senseless in [
            scaffold(0),
            scaffold(CLIENTS_MAX + 1),
            with(Algorithm::FedDyn { alpha: 0.0, clients: 5 }),
            with(Algorithm::FedDyn { alpha: 1.0, clients: 0 }),
        ] {
            assert!(matches!(senseless.check(), Err(TrainingError::Algorithm(_))), "{senseless:?}");
        }
        let default: Algorithm = serde_json::from_str(r#"{"kind":"scaffold","clients":7}"#).unwrap();
        assert_eq!(default, Algorithm::Scaffold { clients: 7, control: Control::Steps });
    }

    #[test]
    fn a_schedule_changes_the_learning_rate_and_nothing_else() {
        let plain = sgd(0.5);
        assert_eq!(plain.at_version(7), plain);
        let decays = Training { schedule: RateSchedule::Exponential { decay: 0.5, every: 1 }, ..plain };
        let later = decays.at_version(2);
        assert_eq!(later.optimizer.learning_rate(), 0.125);
        assert_eq!(Training { optimizer: decays.optimizer.clone(), ..later }, decays);
        let wrong = Training { schedule: RateSchedule::Warmup { versions: 0 }, ..decays };
        assert!(matches!(wrong.check(), Err(TrainingError::Schedule { setting: "versions", .. })));
    }

    #[test]
    fn a_work_schedule_changes_the_amount_of_work_and_nothing_else() {
        let change = |version, epochs, steps| WorkChange { version, epochs, steps };
        let with = |work_schedule| Training { epochs: None, steps: Some(1), work_schedule, ..sgd(0.1) };
        let post_local = with(vec![change(3, None, Some(16)), change(5, Some(2), None)]);
        assert_eq!(post_local.check(), Ok(()));
        let amounts: Vec<_> =
            (0..7).map(|version| post_local.at_version(version)).map(|t| (t.epochs, t.steps)).collect();
        let (one, many, passes) = ((None, Some(1)), (None, Some(16)), (Some(2), None));
        assert_eq!(amounts, [one, one, one, many, many, passes, passes]);
        let later = post_local.at_version(9);
        assert_eq!((later.at_version(9), later.check()), (later.clone(), Ok(())));
        assert_eq!(Training { epochs: None, steps: Some(1), ..later }, post_local);

        for wrong in [
            vec![change(0, None, Some(2))],
            vec![change(3, None, Some(2)), change(3, None, Some(4))],
            vec![change(4, None, Some(2)), change(3, None, Some(4))],
            vec![change(3, None, None)],
            vec![change(3, Some(1), Some(1))],
            vec![change(3, None, Some(0))],
            (1..=1001).map(|version| change(version, None, Some(2))).collect(),
        ] {
            assert!(matches!(with(wrong.clone()).check(), Err(TrainingError::WorkSchedule(_))), "{wrong:?}");
        }
    }

    #[test]
    fn an_unknown_key_of_an_optimizer_is_refused() {
        let text = r#"{"epochs":1,"optimizer":{"kind":"sgd","learning_rate":0.1,"momentun":0.9}}"#;
        assert!(serde_json::from_str::<Training>(text).is_err());
    }
}
