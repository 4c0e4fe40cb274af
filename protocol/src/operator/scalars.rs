//! Named scalars of rounds: their distribution over clients, and their course over rounds.

use serde::{Deserialize, Serialize};

use crate::scalars::ScalarName;
use crate::state::Task;

/// A named scalar of a round: its mean, weighted by examples, and its quantiles over clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = MetricSummary))]
pub struct ScalarSummary {
    /// Name of the metric.
    pub name: ScalarName,
    /// Number of reports that have it.
    pub reports: u32,
    /// Mean, weighted by examples.
    pub mean: f64,
    /// Smallest value.
    pub min: f64,
    /// The value that a tenth of the clients do not exceed (nearest rank).
    pub p10: f64,
    /// The value that half of the clients do not exceed.
    pub p50: f64,
    /// The value that nine tenths of the clients do not exceed.
    pub p90: f64,
    /// Largest value.
    pub max: f64,
}

/// A named scalar over the rounds of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = MetricCurve))]
pub struct ScalarCurve {
    /// Name of the metric.
    pub name: ScalarName,
    /// Whether training or evaluations reported it.
    pub task: Task,
    /// Number of rounds that have it, before the reduction.
    pub rounds: u64,
    /// Rounds in order: the first, the last, and the largest and smallest of each interval in between.
    pub points: Vec<ScalarPoint>,
}

/// A named scalar of one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = MetricPoint))]
pub struct ScalarPoint {
    /// Number of the round.
    pub round: u32,
    /// Time at which the round ended.
    pub at_ms: i64,
    /// Its distribution over the round's clients.
    #[serde(flatten)]
    pub summary: ScalarSummary,
}
