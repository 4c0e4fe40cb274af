//! A round.

use serde::{Deserialize, Serialize};

use super::{Adapted, AdaptedGoal, MeasuredOn, RoundBuffer, ScalarSummary};
use crate::classes::ClassTotals;
use crate::seed::Seed;
use crate::state::{AbandonReason, Phase, Task};
use crate::traffic::Traffic;

/// A round: training or evaluation by one cohort.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Round {
    /// Number in the job, from 1. An evaluation has the number of the training round whose model it evaluates.
    pub number: u32,
    /// Training or evaluation.
    pub task: Task,
    /// Current phase.
    pub phase: Phase,
    /// Reason of an abandoned round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<AbandonReason>,
    /// Model version that the clients started from.
    pub base_version: u32,
    /// Seed of the cohort's draw and of the random choices of its clients.
    pub seed: Seed,
    /// Number of reports after which the round closes before its deadline. Of an evaluation by all clients that are
    /// here: those that it has drawn so far.
    pub goal: u32,
    /// Fewest reports for a result.
    pub minimum: u32,
    /// Number of clients drawn. In a buffered job: of assignments that ended in this round or are open in it.
    pub cohort: u32,
    /// What the round has as the buffer of a buffered job. Absent in other rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<RoundBuffer>,
    /// What the times of the rounds before gave to it. Absent unless its job follows them, and until enough is
    /// measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapted: Option<Adapted>,
    /// What the diversity of the rounds before gave to its goal. Absent unless its job follows it, and until enough is
    /// measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapted_goal: Option<AdaptedGoal>,
    /// Number of accepted reports.
    pub reported: u32,
    /// Number of updates in the running sum of the coordinator that answers. It equals `reported` unless that
    /// coordinator has just restarted. Absent if the coordinator keeps no sum of this round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folded: Option<u32>,
    /// Number of rejected updates.
    pub rejected: u32,
    /// Number of clients that gave up.
    pub failed: u32,
    /// Number of stragglers: clients that had not reported when the round closed.
    pub expired: u32,
    /// Number of stragglers that the round did not need, because it had reached its goal: spares, drawn in addition on
    /// purpose. Included in `expired`.
    #[serde(default)]
    pub spare: u32,
    /// Time that stragglers did not compute because they stopped before the deadline, in milliseconds. A straggler
    /// that stops is counted with all the time that it had left.
    #[serde(default)]
    pub saved_ms: u64,
    /// Time at which the round opened.
    pub opened_at_ms: i64,
    /// Time at which the cohort was drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_at_ms: Option<i64>,
    /// Deadline of the cohort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at_ms: Option<i64>,
    /// Time at which the round stopped accepting reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at_ms: Option<i64>,
    /// Time at which the round was committed or abandoned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<i64>,
    /// Number of clients of the cohort that still work.
    #[serde(default)]
    pub assigned: u32,
    /// Sum of the work times that clients reported, in milliseconds. Each is capped at the time that its assignment was
    /// open.
    #[serde(default)]
    pub clients_ms: u64,
    /// Sum of the weights (examples) of the accepted reports.
    pub weight: u64,
    /// Mean training loss of the accepted updates, weighted by examples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training_loss: Option<f64>,
    /// Mean loss of the resulting model in its evaluation, weighted by examples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Accuracy of the resulting model in its evaluation, weighted by examples, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// What that accuracy was measured on. Absent without an accuracy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_on: Option<MeasuredOn>,
    /// Bytes of its clients.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// L2 norm of the model delta from the base version to the resulting version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_norm: Option<f64>,
    /// Gradient diversity of the updates: the sum of the squared norms of the weighted deltas over the squared norm of
    /// their sum (Yin et al. 2018, definition 1). It is 1 for orthogonal deltas and 1 / m for equal ones, where m is
    /// the number of updates that count alike: `(sum of weights)^2 / sum of squared weights`, which is the number of
    /// updates only for equal weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diversity: Option<f64>,
    /// Largest L2 norm of an update of the round. Absent without a norm bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm_max: Option<f64>,
    /// Norm to which the updates of the round are clipped, where it adapts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip_norm: Option<f64>,
    /// Weight of FedProx's proximal term, where it adapts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mu: Option<f64>,
    /// Named scalars of the round's own reports, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<ScalarSummary>,
    /// Named scalars of the evaluation of the resulting model, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evaluation_metrics: Vec<ScalarSummary>,
    /// Of an evaluation: targets and right answers of each class. Absent without counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<ClassTotals>,
}
