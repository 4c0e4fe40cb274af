//! How updates become the next model version (`[aggregation]`).

use serde::{Deserialize, Serialize};

use super::combine::Combine;
use super::error::require;
use super::optimizer::ServerOptimizer;
use super::{JobFileError, one};
use crate::rate::RateSchedule;

/// How updates become the next model version (`[aggregation]`). The default is federated averaging (McMahan et al.
/// 2017): the mean of the deltas, weighted by examples, is added to the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(try_from = "WrittenAggregation")]
pub struct Aggregation {
    /// How the updates of a round become one step: a name, or a table of its `kind` and settings. Default:
    /// `weighted_mean`.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = super::combine::WrittenCombine))]
    pub combine: Combine,
    /// What the step does to the model. Default: it is added.
    #[serde(default)]
    pub optimizer: ServerOptimizer,
    /// Schedule of the optimiser's learning rate. Default: constant.
    #[serde(default, skip_serializing_if = "RateSchedule::is_constant")]
    pub schedule: RateSchedule,
}

/// The table as it is read. Job files of early releases have `rule = "fed_avg"` and a `server_learning_rate`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAggregation {
    #[serde(default)]
    combine: Combine,
    optimizer: Option<ServerOptimizer>,
    #[serde(default)]
    schedule: RateSchedule,
    rule: Option<Rule>,
    server_learning_rate: Option<f64>,
}

/// The only rule of early releases: a weighted mean and plain addition.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Rule {
    FedAvg,
}

/// Settings of early releases beside those that replace them.
#[derive(Debug, thiserror::Error)]
enum OldSetting {
    #[error("`rule` is an old name: `combine` and [aggregation.optimizer] replace it")]
    Rule,
    #[error("`server_learning_rate` is an old name: set `learning_rate` in [aggregation.optimizer]")]
    Rate,
}

impl TryFrom<WrittenAggregation> for Aggregation {
    type Error = OldSetting;

    fn try_from(written: WrittenAggregation) -> Result<Self, OldSetting> {
        let WrittenAggregation { combine, optimizer, schedule, rule, server_learning_rate } = written;
        if matches!(rule, Some(Rule::FedAvg)) && (combine != Combine::default() || optimizer.is_some()) {
            return Err(OldSetting::Rule);
        }
        let optimizer = match (optimizer, server_learning_rate) {
            (Some(_), Some(_)) => return Err(OldSetting::Rate),
            (Some(optimizer), None) => optimizer,
            (None, rate) => ServerOptimizer::plain(rate.unwrap_or_else(one)),
        };
        Ok(Self { combine, optimizer, schedule })
    }
}

impl Aggregation {
    pub(super) fn check(&self) -> Result<(), JobFileError> {
        self.combine.check()?;
        self.optimizer.check()?;
        match self.schedule.problem() {
            None => Ok(()),
            Some((setting, range)) => require(false, "[aggregation] schedule", &format!("right: {setting} {range}")),
        }
    }
}
