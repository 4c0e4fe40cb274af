//! Requests and responses of the operator API: what command line and dashboard see.
//!
//! Lists are paged: `?limit=` (1 to [`PAGE_ITEMS_MAX`]) and `?after=` (the `next` of the page before).
//! Times are milliseconds since 1970 (UTC).

mod overview;
mod people;
mod round;
mod system;

use serde::{Deserialize, Serialize};

use crate::device::Attributes;
use crate::hash::Sha256Hash;
use crate::id::{AssignmentId, ClientId, JobId, Name, Secret, TokenId};
use crate::job_file::JobFile;
use crate::seed::Seed;
use crate::state::{AbandonReason, AssignmentState, JobState, Phase, Task};

pub use overview::{Cell, JobOverview, JobSummary, OpenRound, Overview, SparkPoint};
pub use people::{AttributeName, ClassStats, ClientAssignment, ClientOrder, ShapeCount};
pub use round::{Curve, CurvePoint, Order, PhaseSpan, RoundDetail, Target, WhatIf};
pub use system::{AuditEntry, DbLatency, Engine, JobDraft, Storage, System};

/// Most items of one page.
pub const PAGE_ITEMS_MAX: u32 = 1000;
/// Items of a page when the caller does not say.
pub const PAGE_ITEMS_DEFAULT: u32 = 100;

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Page<T> {
    /// The items, in the order that the call documents.
    pub items: Vec<T>,
    /// What to send as `after` for the next page; none at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Which part of a list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct PageQuery {
    /// Most items wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Start after this item (a page's `next`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// A population is wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreatePopulation {
    /// Its name.
    pub name: Name,
}

/// A population.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Population {
    /// Its name.
    pub name: Name,
    /// Enrolled clients.
    pub clients: u64,
    /// When it was made.
    pub created_at_ms: i64,
}

/// A token is wanted: for enrolment in a population, or for an operator when no population is named.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// The population whose clients it may enrol; none makes an operator token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub population: Option<Name>,
    /// What it is for, for people.
    #[serde(default)]
    pub label: String,
    /// Life time in milliseconds; for ever when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_for_ms: Option<u64>,
}

/// A new token with its secret, which is shown this once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedToken {
    /// What can be seen of it later.
    pub token: Token,
    /// The credential.
    pub secret: Secret,
}

/// A token without its secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Token {
    /// Its id.
    pub id: TokenId,
    /// The population it enrols in; none for an operator token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub population: Option<Name>,
    /// What it is for.
    pub label: String,
    /// When it was made.
    pub created_at_ms: i64,
    /// When it stops working by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<i64>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at_ms: Option<i64>,
}

/// A client as operators see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Client {
    /// Its id.
    pub id: ClientId,
    /// Its number in the order of enrolment.
    pub number: u64,
    /// Its population.
    pub population: Name,
    /// What it said it is.
    pub attributes: Attributes,
    /// Examples it said it holds.
    pub examples: u64,
    /// When it enrolled.
    pub created_at_ms: i64,
    /// When it was last heard of.
    pub last_seen_at_ms: i64,
    /// Rounds in which it reported.
    pub reported: u64,
    /// Rounds that closed without it.
    pub expired: u64,
    /// Rounds in which it failed or its update was rejected.
    pub failed: u64,
    /// Those of them in which its update was rejected.
    #[serde(default)]
    pub rejected: u64,
    /// Bytes of the updates that it sent.
    #[serde(default)]
    pub bytes_up: u64,
    /// Bytes of the models that it fetched.
    #[serde(default)]
    pub bytes_down: u64,
    /// Mean time that it worked for a report, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_ms_mean: Option<u64>,
}

/// A job is wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateJob {
    /// The job.
    pub job: JobFile,
}

/// A job as operators see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// The job file, with the seed filled in.
    pub file: JobFile,
    /// Hash of the plan that its clients follow.
    pub plan_hash: Sha256Hash,
    /// Where it stands.
    pub state: JobState,
    /// Newest model version; none while the job waits for version 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_version: Option<u32>,
    /// Parameters of the model.
    pub parameters: u64,
    /// Rounds opened so far.
    pub rounds_opened: u32,
    /// Rounds committed so far.
    pub rounds_committed: u32,
    /// When it was made.
    pub created_at_ms: i64,
    /// When it stopped or was completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<i64>,
    /// No training round opens before this time: its schedule or the pause after abandoned rounds says so. None when one
    /// may open at any moment, or only after an operator acted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds_not_before_ms: Option<i64>,
}

/// A round as operators see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Round {
    /// Its number in the job, from 1. An evaluation has the number of the round whose model it measures.
    pub number: u32,
    /// Training or evaluation.
    pub task: Task,
    /// Where it stands.
    pub phase: Phase,
    /// Why it was abandoned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<AbandonReason>,
    /// The model version that it started from.
    pub base_version: u32,
    /// Seed of the cohort and of what its clients draw.
    pub seed: Seed,
    /// Reports that close it early.
    pub goal: u32,
    /// Reports without which it is abandoned.
    pub minimum: u32,
    /// Clients selected.
    pub cohort: u32,
    /// Reports counted.
    pub reported: u32,
    /// Updates in the running sum of the coordinator that answers; all of `reported` unless it was just started. None
    /// for rounds that it does not sum up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folded: Option<u32>,
    /// Updates refused.
    pub rejected: u32,
    /// Clients that gave up.
    pub failed: u32,
    /// Stragglers.
    pub expired: u32,
    /// When it was opened.
    pub opened_at_ms: i64,
    /// When the cohort was drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_at_ms: Option<i64>,
    /// When the cohort's time is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at_ms: Option<i64>,
    /// When it took its last report: from here on its result was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at_ms: Option<i64>,
    /// When it was committed or abandoned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<i64>,
    /// Members of the cohort that still work.
    #[serde(default)]
    pub assigned: u32,
    /// Sum of the time that clients say they worked for their reports, in milliseconds; of each at most the time that its
    /// assignment was open.
    #[serde(default)]
    pub clients_ms: u64,
    /// Sum of the reported weights (examples).
    pub weight: u64,
    /// Mean training loss over the reported updates, weighted by examples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training_loss: Option<f64>,
    /// Mean loss of the resulting model over the evaluators, weighted by examples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Accuracy of the resulting model over the evaluators, weighted by examples, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Bytes that clients sent in this round (bodies of reports, those that broke off or were refused included).
    pub bytes_up: u64,
    /// Bytes that clients fetched in this round (model bodies).
    pub bytes_down: u64,
    /// What the accepted reports would have taken as plain f32 files.
    #[serde(default)]
    pub raw_bytes_up: u64,
    /// What the fetched models would have taken as plain f32 files.
    #[serde(default)]
    pub raw_bytes_down: u64,
    /// L2 norm of the step from the base version to the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_norm: Option<f64>,
    /// Diversity of the updates: sum of the squared norms of the weighted deltas over the squared norm of their sum
    /// (Yin et al. 2018, definition 1). 1 / updates when all point the same way, 1 when they are orthogonal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diversity: Option<f64>,
}

/// An assignment as operators see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Assignment {
    /// Its id.
    pub id: AssignmentId,
    /// The client.
    pub client: ClientId,
    /// The client's number in the order of enrolment.
    pub client_number: u64,
    /// Where it stands.
    pub state: AssignmentState,
    /// Why it was rejected or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the client was drawn.
    pub assigned_at_ms: i64,
    /// When its download of the model ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetched_at_ms: Option<i64>,
    /// When the first byte of its update came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload_at_ms: Option<i64>,
    /// Time from that byte to the last one, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload_ms: Option<u64>,
    /// When it ended: report, refusal, failure or expiry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<i64>,
    /// When a straggler came back with its late work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_at_ms: Option<i64>,
    /// Examples behind the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u64>,
    /// Loss that the client told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Accuracy that an evaluator told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Time that the client says it worked, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_ms: Option<u64>,
    /// L2 norm of the update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_norm: Option<f64>,
    /// Bytes that it sent (bodies of its report, those that broke off or were refused included).
    pub bytes_up: u64,
    /// Bytes of the model that it fetched.
    pub bytes_down: u64,
    /// What its accepted report would have taken as a plain f32 file.
    #[serde(default)]
    pub raw_bytes_up: u64,
    /// What the model that it fetched would have taken as a plain f32 file.
    #[serde(default)]
    pub raw_bytes_down: u64,
    /// Cosine of the angle between the update and the mean of its round, -1 to 1; none where it would have cost too much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cosine: Option<f64>,
    /// Shape of the session, one letter per event: `c` checked in, `a` assigned, `d` downloaded, `t` trained, `u` uploaded,
    /// then `+` reported, `!` rejected, `x` failed, `i` interrupted or `.` expired, and `~` came late.
    #[serde(default)]
    pub shape: String,
    /// What the client said it is, at its last check-in.
    #[serde(default)]
    pub attributes: Attributes,
}

/// A model version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelVersion {
    /// Its number, from 0.
    pub version: u32,
    /// The round that made it; none for version 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// Content hash of its safetensors file.
    pub sha256: Sha256Hash,
    /// Size of that file.
    pub bytes: u64,
    /// When it was stored.
    pub created_at_ms: i64,
    /// When its file was deleted, as the job's retention says; what stands here stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at_ms: Option<i64>,
}

/// Work that the coordinators do by the clock, once for all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScheduledWork {
    /// What is done: `retention` or `upkeep`.
    pub name: String,
    /// When, as a cron expression: minute, hour, day of month, month, day of week.
    pub cron: String,
    /// The zone of the expression.
    pub time_zone: String,
    /// When it is due next.
    pub next_at_ms: i64,
    /// The last run; none before the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<ScheduledRun>,
}

/// A run of scheduled work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScheduledRun {
    /// When it began.
    pub started_at_ms: i64,
    /// Which coordinator ran it.
    pub node: String,
    /// When it ended; none while it runs, or if its coordinator was killed (the next run does what is left).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<i64>,
    /// Whether it failed.
    pub failed: bool,
    /// What was done, or why it failed.
    pub outcome: String,
}

/// Something that happened, for those who watch: look the round up for the details.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Event {
    /// Rises by one with each event of the job.
    pub sequence: u64,
    /// When.
    pub at_ms: i64,
    /// Which job.
    pub job: JobId,
    /// Which round; none for events of the job itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// Training or evaluation, with `round`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// Which assignment; none for events of the round itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignment: Option<AssignmentId>,
    /// The new phase or state, in its word.
    pub became: String,
    /// Why, where there is a reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// A coordinator process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Node {
    /// Its name.
    pub id: Name,
    /// Release of its program.
    pub version: String,
    /// When it started.
    pub started_at_ms: i64,
    /// When it was last heard of.
    pub seen_at_ms: i64,
    /// The jobs that it drives.
    pub leases: Vec<Lease>,
}

/// The right to drive a job, for a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Lease {
    /// Which job.
    pub job: JobId,
    /// How often the job has changed hands.
    pub token: u64,
    /// When it ends unless it is renewed.
    pub expires_at_ms: i64,
}
