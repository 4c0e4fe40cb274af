//! How updates become the next model version (`[aggregation]`).

use serde::{Deserialize, Serialize};

use super::combine::Combine;
use super::error::require;
use super::optimizer::ServerOptimizer;
use super::{JobFile, JobFileError};
use crate::download::Download;
use crate::rate::RateSchedule;
use crate::update::SHARDS_MAX;

const PLAIN_MODEL: &str = "left out in a job with shards: its clients download ranges of the model's plain file";

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
    /// Into how many ranges of parameters the sum of a round is cut, each at one of several coordinators: 2 to 64, or
    /// `auto` for as many as there are coordinators when the job is created. Default: one coordinator adds up all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<Shards>,
}

/// The number of shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Shards {
    /// So many, or fewer where the model is too small for them.
    Count(u16),
    /// One for each coordinator that is alive when the job is created.
    Auto(Auto),
}

/// The word `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Auto {
    Auto,
}

impl Aggregation {
    /// The number of shards that the job asks for; none for a sum at one coordinator.
    #[must_use]
    pub fn shards(&self) -> Option<u16> {
        match self.shards? {
            Shards::Count(count) => Some(count),
            Shards::Auto(_) => None,
        }
    }

    /// Settles `auto`: a shard for each of so many coordinators.
    pub fn settle_shards(&mut self, coordinators: usize) {
        if let Some(Shards::Auto(_)) = self.shards {
            let count = u16::try_from(coordinators).unwrap_or(SHARDS_MAX).min(SHARDS_MAX);
            self.shards = (count > 1).then_some(Shards::Count(count));
        }
    }

    /// What a sharded sum has no place for.
    pub(super) fn check_shards(&self, job: &JobFile) -> Result<(), JobFileError> {
        if self.shards.is_none() {
            return Ok(());
        }
        require(job.download == Download::default(), "[download]", PLAIN_MODEL)?;
        require(job.group.is_none(), "[group]", "left out in a job with shards, whose sums go to coordinators")?;
        require(job.coded.is_none(), "[coded]", "left out in a job with shards, whose clients send single updates")?;
        require(job.analysis.is_none(), "[aggregation] shards", "left out: the answers of an analysis are small")
    }

    pub(super) fn check(&self) -> Result<(), JobFileError> {
        self.combine.check()?;
        self.optimizer.check()?;
        let is_number = !matches!(self.shards, Some(Shards::Count(count)) if !(2..=SHARDS_MAX).contains(&count));
        require(is_number, "[aggregation] shards", "2 to 64, or \"auto\"")?;
        match self.schedule.problem() {
            None => Ok(()),
            Some((setting, range)) => require(false, "[aggregation] schedule", &format!("right: {setting} {range}")),
        }
    }
}
