//! Requests and responses of the device API: what SDK and coordinator say to each other.
//!
//! | call | request | response |
//! |---|---|---|
//! | `POST /device/v1/clients` | [`EnrolRequest`] with an enrolment token | [`EnrolResponse`] |
//! | `POST /device/v1/checkins` | [`CheckInRequest`] | [`CheckInResponse`] |
//! | `GET /device/v1/jobs/{job}/models/{version}` | | a safetensors file |
//! | `GET /device/v1/assignments/{id}` | | [`AssignmentStatus`], or 410 |
//! | `PUT /device/v1/assignments/{id}/update?..` | [`UpdateQuery`] and a safetensors file | [`ReportAccepted`] |
//! | `PUT /device/v1/assignments/{id}/evaluation` | [`EvaluationReport`] | [`ReportAccepted`] |
//! | `POST /device/v1/assignments/{id}/failure` | [`FailureReport`] | [`ReportAccepted`] |

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::hash::Sha256Hash;
use crate::id::{AssignmentId, ClientId, JobId, Name, Secret};
use crate::layers::ModelSpec;
use crate::plan::Training;
use crate::seed::Seed;
use crate::state::{FailureReason, Task};
use crate::update::Codec;

/// Longest time that a check-in may ask to be held, in milliseconds.
pub const WAIT_MS_MAX: u32 = 60_000;
/// Most attributes of a client.
pub const ATTRIBUTES_MAX: usize = 32;
/// Longest attribute name or value in bytes.
pub const ATTRIBUTE_BYTES_MAX: usize = 128;
/// Largest absolute loss of a report: beyond it a weighted mean of losses could overflow.
pub const LOSS_MAX: f64 = 1e12;
/// Longest detail of a failure report in bytes; longer ones are cut by the client.
pub const DETAIL_BYTES_MAX: usize = 1024;

/// What a client is, as far as jobs may ask: `platform`, `ram_class`, ... At most 32 pairs of at most 128 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "BTreeMap<String, String>", try_from = "BTreeMap<String, String>")]
pub struct Attributes(BTreeMap<String, String>);

/// More or longer attributes than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a client has at most {ATTRIBUTES_MAX} attributes, names and values of 1 to {ATTRIBUTE_BYTES_MAX} bytes")]
pub struct AttributesError;

impl Attributes {
    /// The pairs in the order of their names.
    #[must_use]
    pub fn as_map(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// Whether every wanted pair is there.
    #[must_use]
    pub fn include(&self, wanted: &BTreeMap<String, String>) -> bool {
        wanted.iter().all(|(name, value)| self.0.get(name) == Some(value))
    }
}

impl TryFrom<BTreeMap<String, String>> for Attributes {
    type Error = AttributesError;

    fn try_from(pairs: BTreeMap<String, String>) -> Result<Self, AttributesError> {
        let fits = |text: &String| (1..=ATTRIBUTE_BYTES_MAX).contains(&text.len());
        if pairs.len() <= ATTRIBUTES_MAX && pairs.iter().all(|(name, value)| fits(name) && fits(value)) {
            Ok(Self(pairs))
        } else {
            Err(AttributesError)
        }
    }
}

impl From<Attributes> for BTreeMap<String, String> {
    fn from(attributes: Attributes) -> Self {
        attributes.0
    }
}

/// A device asks to become a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct EnrolRequest {
    /// What it is.
    #[serde(default)]
    pub attributes: Attributes,
}

/// The device is a client now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EnrolResponse {
    /// Its id.
    pub client: ClientId,
    /// Its credential; the coordinator keeps only a hash.
    pub secret: Secret,
    /// The population it belongs to.
    pub population: Name,
}

/// A client says that it is available and what it can do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CheckInRequest {
    /// What it is now; replaces what it said before.
    #[serde(default)]
    pub attributes: Attributes,
    /// How it is.
    pub state: DeviceState,
    /// Version of the SDK, for the operator's eyes.
    pub sdk_version: String,
    /// Update codecs that it can write.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub codecs: Vec<Codec>,
    /// How long it would like to be held until there is work, in milliseconds (at most [`WAIT_MS_MAX`]).
    #[serde(default)]
    pub wait_ms: u32,
}

/// How a device is at a check-in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DeviceState {
    /// Examples that it holds.
    pub examples: u64,
    /// Charge of the battery, 0 to 100; none on machines without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub battery_percent: Option<u8>,
    /// Whether it is being charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charging: Option<bool>,
    /// Whether its connection costs by the byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metered: Option<bool>,
}

/// The answer to a check-in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum CheckInResponse {
    /// Work.
    Assigned(Box<Assignment>),
    /// No work now.
    Retry {
        /// How long to wait before the next check-in, in milliseconds; spread so that a fleet does not come at once.
        retry_after_ms: u64,
    },
}

/// One client's work in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DeviceAssignment))]
pub struct Assignment {
    /// Its id: names the update.
    pub id: AssignmentId,
    /// Train or evaluate.
    pub task: Task,
    /// The job.
    pub job: JobId,
    /// The round's number in its job, from 1.
    pub round: u32,
    /// The model version to start from.
    pub model_version: u32,
    /// Content hash of that version's safetensors file.
    pub model_sha256: Sha256Hash,
    /// What to do.
    pub plan: Plan,
    /// Every random choice of the client in this round derives from it.
    pub seed: Seed,
    /// Time left until the round closes, in milliseconds (a duration, because device clocks are wrong).
    pub deadline_in_ms: u64,
}

/// What a client does in a round; the same for every client of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Plan {
    /// The network, or the names and shapes of the app's own.
    pub model: ModelSpec,
    /// Local training.
    pub training: Training,
    /// How updates are encoded.
    pub codec: Codec,
    /// Largest weight to claim: a client with more examples says this.
    pub weight_max: u32,
}

impl Plan {
    /// The plan's version: a hash of its JSON.
    #[must_use]
    pub fn hash(&self) -> Sha256Hash {
        Sha256Hash::of(&serde_json::to_vec(self).expect("a plan has no map with keys that JSON lacks"))
    }
}

/// An assignment that is still open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AssignmentStatus {
    /// Whether this client's report was already accepted: nothing more to send.
    pub reported: bool,
    /// Time left until the round closes, in milliseconds.
    pub deadline_in_ms: u64,
}

/// What goes with an update, in the URL's query.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct UpdateQuery {
    /// Number of examples trained on, 1 to the plan's `weight_max`.
    pub weight: u32,
    /// Mean training loss.
    pub loss: f64,
    /// Optimiser steps made.
    pub steps: u64,
    /// Time spent in training, in milliseconds.
    pub train_ms: u64,
}

/// What a client measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct EvaluationReport {
    /// Number of examples measured on: the report's weight.
    pub examples: u64,
    /// Mean loss per example.
    pub loss: f64,
    /// Share of examples classified rightly, 0 to 1; none for regression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Time spent, in milliseconds.
    pub evaluate_ms: u64,
}

/// A client gives up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FailureReport {
    /// Why.
    pub reason: FailureReason,
    /// For the operator; at most [`DETAIL_BYTES_MAX`] bytes.
    #[serde(default)]
    pub detail: String,
}

/// A report was accepted (and stored: it will not be asked for again).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReportAccepted {
    /// How long to wait before the next check-in, in milliseconds.
    pub retry_after_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_limits() {
        let pair = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let attributes = Attributes::try_from(pair("platform", "android")).unwrap();
        assert!(attributes.include(&pair("platform", "android")));
        assert!(!attributes.include(&pair("platform", "ios")));
        assert!(Attributes::try_from(pair("platform", &"x".repeat(129))).is_err());
        assert!(serde_json::from_str::<Attributes>(r#"{"":"x"}"#).is_err());
    }

    #[test]
    fn an_answer_without_work_is_small() {
        let json = serde_json::to_string(&CheckInResponse::Retry { retry_after_ms: 1500 }).unwrap();
        assert_eq!(json, r#"{"answer":"retry","retry_after_ms":1500}"#);
    }
}
