//! Requests and responses of the device API: what SDK and coordinator say to each other.
//!
//! | call | request | response |
//! |---|---|---|
//! | `POST /device/v1/clients` | [`EnrolRequest`] with an enrolment token | [`EnrolResponse`] |
//! | `POST /device/v1/checkins` | [`CheckInRequest`] | [`CheckInResponse`] |
//! | `GET /device/v1/jobs/{job}/models/{version}?form=..` | [`crate::download::FormQuery`] | a safetensors file |
//! | `GET /device/v1/jobs/{job}/models/{version}/delta` | | the step from the version before |
//! | `GET /device/v1/assignments/{id}` | | [`AssignmentStatus`], or 410 |
//! | `PUT /device/v1/assignments/{id}/update?..` | [`UpdateQuery`] and a safetensors file | [`ReportAccepted`] |
//! | `HEAD /device/v1/assignments/{id}/update` | | `Upload-Offset`, `Upload-Complete` |
//! | `PATCH /device/v1/assignments/{id}/update?..` | [`UpdateQuery`] and the rest of the file | [`ReportAccepted`] |
//! | `PUT /device/v1/assignments/{id}/evaluation` | [`EvaluationReport`] | [`ReportAccepted`] |
//! | `POST /device/v1/assignments/{id}/failure` | [`FailureReport`] | [`ReportAccepted`] |

//! # An upload that breaks off
//!
//! goes on where it ended, in the shape of the IETF's resumable uploads (draft-ietf-httpbis-resumable-upload). A client
//! that wants that says in `PUT` what the body will be: `Repr-Digest: sha-256=:<base64>:` (RFC 9530, [`crate::digest`]).
//! What arrived is kept until the round closes, also over a restart of the coordinator; bodies of up to 1 MiB need not be.
//! `HEAD` answers with `Upload-Offset: <bytes that are here>`, `Upload-Complete: ?0` (`?1` once the update is accepted, then
//! without an offset) and the `Repr-Digest` of what is here, and stops whoever is still sending. `PATCH` with
//! `Content-Type: application/partial-upload`, the same `Repr-Digest`, that `Upload-Offset` and `Upload-Complete: ?1` brings
//! the rest, and is answered like `PUT`. With `Upload-Complete: ?0` it brings a part, and is answered with 204 and the
//! offset. Refusals: `upload-offset` (409, with the right `Upload-Offset`), `upload-superseded` (409, a newer request
//! sends this update: the newest wins) and `digest-mismatch` (422, nothing is kept: send all of it).

use std::collections::BTreeMap;

use serde::de::value::{Error as ValueError, StrDeserializer};
use serde::de::{Deserializer, IntoDeserializer};
use serde::{Deserialize, Serialize};

use crate::download::{Download, FormFile, ModelDeltaFile};
use crate::hash::Sha256Hash;
use crate::id::{AssignmentId, ClientId, JobId, Name, Secret};
use crate::layers::ModelSpec;
use crate::plan::Training;
use crate::seed::Seed;
use crate::state::{FailureReason, Task};
use crate::update::{Codec, CodecName};

/// Header: how much of an upload is here, or where a body goes on with it, in bytes.
pub const UPLOAD_OFFSET: &str = "upload-offset";
/// Header: whether an upload ends with this body, `?1` or `?0`.
pub const UPLOAD_COMPLETE: &str = "upload-complete";
/// Media type of a body that goes on with an upload.
pub const PARTIAL_UPLOAD: &str = "application/partial-upload";
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
    /// Update codecs that it can write, each once. Names that this release does not know, those of a newer client, are
    /// left out when it is read.
    #[serde(deserialize_with = "known_codecs")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub codecs: Vec<CodecName>,
    /// How long it would like to be held until there is work, in milliseconds (at most [`WAIT_MS_MAX`]).
    #[serde(default)]
    pub wait_ms: u32,
}

/// The names in a list that are codecs, each once.
fn known_codecs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<CodecName>, D::Error> {
    let mut codecs = Vec::new();
    for name in Vec::<String>::deserialize(deserializer)? {
        let name: StrDeserializer<'_, ValueError> = name.as_str().into_deserializer();
        if let Ok(codec) = CodecName::deserialize(name)
            && !codecs.contains(&codec)
        {
            codecs.push(codec);
        }
    }
    Ok(codecs)
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
    /// The file to start from instead, in the form that the plan names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<FormFile>,
    /// The last steps that lead to that version, at most [`crate::download::DELTA_CHAIN_MAX`], in their order.
    #[serde(rename = "steps", default, skip_serializing_if = "Vec::is_empty")]
    pub model_deltas: Vec<ModelDeltaFile>,
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
    #[cfg_attr(feature = "openapi", schema(value_type = crate::update::WrittenCodec))]
    pub codec: Codec,
    /// Largest weight to claim: a client with more examples says this.
    pub weight_max: u32,
    /// How models travel. Left out where they travel as they are, so that plans keep their hashes.
    #[serde(default, skip_serializing_if = "Download::is_plain")]
    pub download: Download,
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
    fn codecs_of_newer_clients_are_left_out() {
        let json = r#"{"state":{"examples":1},"sdk_version":"9","codecs":["f32","wavelet","top_k","f32",""]}"#;
        let request: CheckInRequest = serde_json::from_str(json).unwrap();
        assert_eq!(request.codecs, [CodecName::F32, CodecName::TopK]);
        let again = serde_json::to_string(&request).unwrap();
        assert_eq!(serde_json::from_str::<CheckInRequest>(&again).unwrap(), request);
        assert!(serde_json::from_str::<CheckInRequest>(&json.replace("\"wavelet\"", "7")).is_err());
    }

    #[test]
    fn an_answer_without_work_is_small() {
        let json = serde_json::to_string(&CheckInResponse::Retry { retry_after_ms: 1500 }).unwrap();
        assert_eq!(json, r#"{"answer":"retry","retry_after_ms":1500}"#);
    }
}
