//! The work of one client in one round.

use serde::{Deserialize, Serialize};

use crate::device::Attributes;
use crate::id::{AssignmentId, ClientId, Name};
use crate::scalars::Scalars;
use crate::state::{AssignmentState, Straggler};
use crate::traffic::Traffic;

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
    /// In a coded round: the parts of the data that the client trains on. Absent in others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Name>,
    /// Of a relay: the clients of the cohort that it stands for. Absent for a client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub places: Option<u32>,
    /// Of a relay, or of the holder of a block of parts: the updates in its sum. Absent until it has reported, and for
    /// other clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updates: Option<u32>,
    /// Of a relay: bytes of its clients' updates, which its parent did not receive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_below: Option<u64>,
    /// Of a relay: how long its parent took to answer it, as it said with its sum, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_ms: Option<u64>,
    /// Number of examples of the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u64>,
    /// Loss that the client reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Accuracy that an evaluator reported, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Lower end of the 95 % interval (Wilson's) of that accuracy, by its number of examples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy_low: Option<f64>,
    /// Upper end of that interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy_high: Option<f64>,
    /// Named scalars that the client reported.
    #[serde(default, skip_serializing_if = "Scalars::is_empty")]
    pub metrics: Scalars,
    /// Work time that the client reported, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_ms: Option<u64>,
    /// L2 norm of the update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_norm: Option<f64>,
    /// Bytes of its client.
    #[serde(flatten)]
    pub traffic: Traffic,
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
