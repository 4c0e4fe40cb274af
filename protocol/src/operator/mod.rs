//! Requests and responses of the operator API, which command line and dashboard use.
//!
//! Lists are paged with `?limit=` (1 to [`PAGE_ITEMS_MAX`]) and `?after=` (the `next` of the page before).
//! Fields that end in `_at_ms` are milliseconds since 1970 (UTC); other fields in `_ms` are durations.

mod access;
mod adapted;
mod audit;
mod filing;
mod health;
mod metrics;
mod overview;
mod people;
mod progress;
mod round;
mod system;
mod table;
mod test_set;

use serde::{Deserialize, Serialize};

use crate::classes::ClassTotals;
use crate::device::Attributes;
use crate::hash::Sha256Hash;
use crate::id::{AssignmentId, ClientId, JobId, Name};
use crate::job_file::JobFile;
use crate::metrics::Metrics;
use crate::seed::Seed;
use crate::state::{AbandonReason, AssignmentState, JobState, NodeState, Phase, Standing, Straggler, Task};

pub use access::{
    Account, ChangePassword, CreateAccount, CreateToken, CreatedToken, LABEL_BYTES_MAX, Login,
    OPERATOR_TOKEN_VALID_FOR_MS_DEFAULT, PASSWORD_BYTES_MAX, PASSWORD_CHARS_MIN, REQUESTED_BY, Session, SignInWays,
    SignedIn, Token,
};
pub use adapted::Adapted;
pub use audit::{AuditEntry, CHAIN_BEGINS, ChainCheck, ChainError};
pub use filing::{ChangeJob, NOTES_BYTES_MAX, TAGS_MAX};
pub use health::Health;
pub use metrics::{MetricCurve, MetricPoint, MetricSummary};
pub use overview::{Cell, JobOverview, JobSummary, OpenRound, Overview, SparkPoint};
pub use people::{AttributeName, ClassStats, ClientAssignment, ClientOrder, ShapeCount};
pub use progress::{BestVersion, Progress};
pub use round::{Curve, CurveMark, CurvePoint, MemberClock, Order, PhaseSpan, RoundDetail, Target, WhatIf};
pub use system::{DbLatency, Engine, JobDraft, LoadSample, Storage, System};
pub use table::{MetricsOf, RoundTable};
pub use test_set::{TestSet, TestSetState};

/// Largest `limit` of a page.
pub const PAGE_ITEMS_MAX: u32 = 1000;
/// Default `limit` of a page.
pub const PAGE_ITEMS_DEFAULT: u32 = 100;

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Page<T> {
    /// The items, in the order that the call documents.
    pub items: Vec<T>,
    /// Value of `after` for the next page. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Query of a page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct PageQuery {
    /// Most items of the page, 1 to 1000. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The `next` of the page before. Default: the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Request for a new population.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreatePopulation {
    /// Name of the population, unique in the deployment.
    pub name: Name,
}

/// A population: the clients of one app or study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Population {
    /// Name of the population.
    pub name: Name,
    /// Number of enrolled clients.
    pub clients: u64,
    /// Time of creation.
    pub created_at_ms: i64,
    /// Number of clients that wait for work now, held by any coordinator.
    #[serde(default)]
    pub online: u64,
}

/// A client: an enrolled device or silo.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Client {
    /// Id of the client.
    pub id: ClientId,
    /// Number in the order of enrolment, from 1, unique in the population.
    pub number: u64,
    /// Population of the client.
    pub population: Name,
    /// Attributes, as of the last check-in.
    pub attributes: Attributes,
    /// Those of the attributes that its enrolment token granted. The client cannot change them.
    #[serde(default)]
    pub granted: Attributes,
    /// Whether it may take part.
    #[serde(default = "active")]
    pub standing: Standing,
    /// Why it is quarantined or revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing_reason: Option<String>,
    /// End of the newest certificate that it was given; none if it was given none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_until_ms: Option<i64>,
    /// Number of training examples, as of the last check-in.
    pub examples: u64,
    /// Time of enrolment.
    pub created_at_ms: i64,
    /// Time of its last request.
    pub last_seen_at_ms: i64,
    /// Whether a coordinator holds a request of it now, until there is work.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub online: bool,
    /// Number of rounds in which it reported.
    pub reported: u64,
    /// Number of rounds that closed before it reported.
    pub expired: u64,
    /// Number of those rounds that did not need its report, because they had reached their goal, and after which it
    /// came back. Included in `expired`; not counted as dropped.
    #[serde(default)]
    pub spare: u64,
    /// Number of rounds in which it gave up or its update was rejected.
    pub failed: u64,
    /// Number of rounds in which its update was rejected; included in `failed`.
    #[serde(default)]
    pub rejected: u64,
    /// Bytes of the updates that it uploaded.
    #[serde(default)]
    pub bytes_up: u64,
    /// Bytes of the models that it downloaded.
    #[serde(default)]
    pub bytes_down: u64,
    /// Mean work time per report, in milliseconds, as reported by the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_ms_mean: Option<u64>,
}

fn active() -> Standing {
    Standing::Active
}

/// Request that quarantines or revokes a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ChangeStanding {
    /// The new standing.
    pub standing: Standing,
    /// The reason, for people; at most 200 bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// Request for a new job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateJob {
    /// The job file.
    pub job: JobFile,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Job {
    /// Id of the job.
    pub id: JobId,
    /// The job file, with the seed that the coordinator drew and all changes since.
    pub file: JobFile,
    /// SHA-256 of the plan that its clients follow.
    pub plan_hash: Sha256Hash,
    /// State of the job.
    pub state: JobState,
    /// Newest model version. Absent while the job waits for the upload of version 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_version: Option<u32>,
    /// Number of parameters of the model.
    pub parameters: u64,
    /// Number of training rounds opened so far.
    pub rounds_opened: u32,
    /// Number of training rounds committed so far.
    pub rounds_committed: u32,
    /// Time of creation.
    pub created_at_ms: i64,
    /// Time at which the job stopped or completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<i64>,
    /// Time before which no training round opens, because of the schedule or the pause after abandoned rounds. Absent
    /// if a round may open now, or only after an operator acts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds_not_before_ms: Option<i64>,
    /// How the job is. Absent in the answer to a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// How far it has come. Absent in lists and in the answer to a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Tags, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Name>,
    /// Notes for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// Time at which the job was archived. Absent unless it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived_at_ms: Option<i64>,
}

/// What a round of a buffered job has beside its counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RoundBuffer {
    /// Most clients that work at a time.
    pub concurrency: u32,
    /// Largest number of versions that an update may be behind. In a stale-synchronous job, the slack bounds it.
    pub staleness_max: u32,
    /// In a stale-synchronous job: how far members may be ahead of the slowest when they begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slack: Option<u32>,
    /// Mean staleness of the accepted updates. Absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staleness_mean: Option<f64>,
    /// Weight, in examples, that staleness took from the accepted updates.
    pub lost_weight: f64,
}

/// Accepted updates that were the same number of versions behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StalenessCount {
    /// Number of versions behind.
    pub staleness: u32,
    /// Number of updates.
    pub updates: u64,
    /// Sum of their examples.
    pub examples: u64,
}

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
    /// Number of reports after which the round closes before its deadline.
    pub goal: u32,
    /// Fewest reports for a result.
    pub minimum: u32,
    /// Number of clients drawn. In a buffered job: of assignments that ended in this round or are open in it.
    pub cohort: u32,
    /// What the round has as the buffer of a buffered job. Absent in other rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<RoundBuffer>,
    /// What the times of the rounds before gave to it. Absent unless its job follows them, and until enough is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapted: Option<Adapted>,
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
    /// Bytes that clients uploaded in this round: bodies of reports, including interrupted and refused ones.
    pub bytes_up: u64,
    /// Bytes that clients downloaded in this round: bodies of models.
    pub bytes_down: u64,
    /// Bytes of the accepted reports if they were plain f32 files.
    #[serde(default)]
    pub raw_bytes_up: u64,
    /// Bytes of the downloaded models if they were plain f32 files.
    #[serde(default)]
    pub raw_bytes_down: u64,
    /// L2 norm of the model delta from the base version to the resulting version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_norm: Option<f64>,
    /// Gradient diversity of the updates: the sum of the squared norms of the weighted deltas over the squared norm of
    /// their sum (Yin et al. 2018, definition 1). It is 1 / updates for equal deltas and 1 for orthogonal ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diversity: Option<f64>,
    /// Largest L2 norm of an update of the round. Absent without a norm bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm_max: Option<f64>,
    /// Named scalars of the round's own reports, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricSummary>,
    /// Named scalars of the evaluation of the resulting model, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evaluation_metrics: Vec<MetricSummary>,
    /// Of an evaluation: targets and right answers of each class. Absent without counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<ClassTotals>,
}

/// An assignment: the work of one client in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Assignment {
    /// Id of the assignment.
    pub id: AssignmentId,
    /// Id of the client.
    pub client: ClientId,
    /// Number of the client in the order of enrolment.
    pub client_number: u64,
    /// State of the assignment.
    pub state: AssignmentState,
    /// Why the update was rejected or the client gave up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Model version that the client started from.
    #[serde(default)]
    pub base_version: u32,
    /// Versions between that one and the version from which its round starts. Above 0 only in buffered jobs.
    #[serde(default)]
    pub staleness: u32,
    /// Time at which the client was drawn.
    pub assigned_at_ms: i64,
    /// Time at which the download of the model ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetched_at_ms: Option<i64>,
    /// Time at which the first byte of the update arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload_at_ms: Option<i64>,
    /// Time from the first to the last byte of the update, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload_ms: Option<u64>,
    /// Time at which the assignment ended: by report, rejection, failure or expiry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<i64>,
    /// Time at which a straggler came back with finished work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_at_ms: Option<i64>,
    /// Time at which a straggler stopped without finishing its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_at_ms: Option<i64>,
    /// Outcome of a straggler. Absent for other assignments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub straggler: Option<Straggler>,
    /// Whether the straggler was a spare: its round had reached its goal, and the client came back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spare: bool,
    /// Why the assignment ended without an accepted report, in words for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
    /// Number of examples of the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u64>,
    /// Loss that the client reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Accuracy that an evaluator reported, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Named scalars that the client reported.
    #[serde(default, skip_serializing_if = "Metrics::is_empty")]
    pub metrics: Metrics,
    /// Work time that the client reported, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_ms: Option<u64>,
    /// L2 norm of the update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_norm: Option<f64>,
    /// Bytes that the client uploaded: bodies of its report, including interrupted and refused ones.
    pub bytes_up: u64,
    /// Bytes of the model that the client downloaded.
    pub bytes_down: u64,
    /// Bytes of the accepted report if it were a plain f32 file.
    #[serde(default)]
    pub raw_bytes_up: u64,
    /// Bytes of the downloaded model if it were a plain f32 file.
    #[serde(default)]
    pub raw_bytes_down: u64,
    /// Cosine of the angle between the update and the mean of its round, -1 to 1. Absent where it would cost too much
    /// to compute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cosine: Option<f64>,
    /// Course of the client's session, one character per event: `c` checked in, `a` assigned, `d` downloaded, `t`
    /// trained, `u` uploaded; then `+` reported, `!` rejected, `x` failed, `i` interrupted or `.` expired; then `~` for
    /// finished late or `s` for stopped unfinished.
    #[serde(default)]
    pub shape: String,
    /// Attributes of the client, as of its last check-in.
    #[serde(default)]
    pub attributes: Attributes,
}

/// A version of a job's model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelVersion {
    /// Number of the version, from 0.
    pub version: u32,
    /// Training round that made the version. Absent for version 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// SHA-256 of its plain f32 safetensors file.
    pub sha256: Sha256Hash,
    /// Length of that file in bytes.
    pub bytes: u64,
    /// Time at which the version was stored.
    pub created_at_ms: i64,
    /// Time at which the file was deleted under the job's retention policy. This entry stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at_ms: Option<i64>,
    /// Accuracy of its evaluation, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Loss of its evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Whether its evaluation is the best of the job.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub best: bool,
    /// Time at which an operator pinned it. Retention keeps a pinned version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned_at_ms: Option<i64>,
}

/// Scheduled work. At each due time one of the coordinators does it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScheduledWork {
    /// Kind of work: `retention` or `upkeep`.
    pub name: String,
    /// Cron expression of the due times: minute, hour, day of month, month, day of week.
    pub cron: String,
    /// IANA time zone of the expression.
    pub time_zone: String,
    /// Next due time.
    pub next_at_ms: i64,
    /// The last run. Absent before the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<ScheduledRun>,
}

/// A run of scheduled work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScheduledRun {
    /// Time at which the run began.
    pub started_at_ms: i64,
    /// Name of the coordinator that ran it.
    pub node: String,
    /// Time at which the run ended. Absent while it runs, or if its coordinator was killed; the next run then does the
    /// rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<i64>,
    /// Whether the run failed.
    pub failed: bool,
    /// Summary of the work done, or the error.
    pub outcome: String,
}

/// An event of a job: a change of phase or state. The round or assignment itself has the details.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Event {
    /// Increases by one with each event of the job.
    pub sequence: u64,
    /// Time of the event.
    pub at_ms: i64,
    /// Id of the job.
    pub job: JobId,
    /// Number of the round. Absent for events of the job itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// Task of the round. Present whenever `round` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// Id of the assignment. Absent for events of the round or job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignment: Option<AssignmentId>,
    /// The new phase of the round, or the new state of the assignment or job.
    pub became: String,
    /// The reason, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// A coordinator process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Node {
    /// Name of the coordinator.
    pub id: Name,
    /// Release that it runs.
    pub version: String,
    /// Time at which it started.
    pub started_at_ms: i64,
    /// Time of its last sign of life in the database.
    pub seen_at_ms: i64,
    /// Whether it lives, by its lease. A dead one stays in the list for a day.
    #[serde(default = "alive")]
    pub state: NodeState,
    /// Leases of the jobs that it drives.
    pub leases: Vec<Lease>,
}

fn alive() -> NodeState {
    NodeState::Alive
}

/// The temporary right of one coordinator to drive a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Lease {
    /// Id of the job.
    pub job: JobId,
    /// How often the job's coordinator has changed.
    pub token: u64,
    /// Time at which the lease ends unless it is renewed.
    pub expires_at_ms: i64,
}
