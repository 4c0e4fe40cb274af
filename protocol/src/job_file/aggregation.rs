//! How updates become the next model version (`[aggregation]`).

use serde::{Deserialize, Serialize};

use super::JobFileError;
use super::combine::Combine;
use super::error::require;
use super::optimizer::ServerOptimizer;
use crate::rate::RateSchedule;

/// How updates become the next model version (`[aggregation]`). The default is federated averaging (McMahan et al.
/// 2017): the mean of the deltas, weighted by examples, is added to the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
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
