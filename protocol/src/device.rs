//! Requests and responses of the device API, between SDK and coordinator.
//!
//! | call | request | response |
//! |---|---|---|
//! | `POST /device/v1/clients` | [`EnrolRequest`] with an enrolment token | [`EnrolResponse`] |
//! | `GET /device/v1/jobs` | with an enrolment token | [`OpenJobs`] |
//! | `POST /device/v1/checkins` | [`CheckInRequest`] | [`CheckInReply`] |
//! | `POST /device/v1/certificate` | [`CertificateRequest`](crate::credential::CertificateRequest) |
//! [`IssuedCertificate`] |
//! | `POST /device/v1/secret` | | [`NewSecret`](crate::credential::NewSecret) |
//! | `GET /device/v1/jobs/{job}/models/{version}?form=..` | [`crate::download::FormQuery`] | a safetensors file |
//! | `GET /device/v1/jobs/{job}/models/{version}/delta` | | the model delta from the version before |
//! | `GET /device/v1/jobs/{job}/models/{version}/control` | | SCAFFOLD's control variate of that version |
//! | `GET /device/v1/release?channel=..` | [`ReleaseQuery`](crate::release::ReleaseQuery) | [`ChannelAnswer`], or 304 |
//! | `GET /device/v1/releases/{id}/model` | | a safetensors file |
//! | `GET /device/v1/releases/{id}/difference` | | the 8-bit differences from the release before |
//! | `GET /device/v1/assignments/{id}` | | [`AssignmentStatus`], or 410 |
//! | `PUT /device/v1/assignments/{id}/update?..` | [`UpdateQuery`] and a safetensors file | [`ReportAccepted`] |
//! | `HEAD /device/v1/assignments/{id}/update` | | `Upload-Offset`, `Upload-Complete` |
//! | `PATCH /device/v1/assignments/{id}/update?..` | [`UpdateQuery`] and the rest of the file | [`ReportAccepted`] |
//! | `PUT /device/v1/assignments/{id}/evaluation` | [`EvaluationReport`] | [`ReportAccepted`] |
//! | `PUT /device/v1/assignments/{id}/description` | [`Description`](crate::inputs::Description) | [`ReportAccepted`] |
//! | `POST /device/v1/assignments/{id}/failure` | [`FailureReport`] | [`ReportAccepted`] |
//!
//! # Other releases
//!
//! Requests and answers may have members, and lists names, of a newer release: the other side ignores them. Every
//! answer names the coordinator's release ([`RELEASE`]) and the versions of this API that it serves ([`PROTOCOL`]).
//!
//! # Credentials
//!
//! A client authenticates with its secret (`Authorization: Bearer ..`), or with a certificate in the TLS handshake
//! where the listener asks for one. Refusals: `certificate-required`, `certificate-invalid`, `certificate-expired`
//! (401). A client whose certificate expired enrols again: if it presents the old certificate in the handshake and
//! requests the new one for the same key, it keeps its id. [`CheckInReply::renew`] says when to replace a credential;
//! until the new one is used, the old one works.
//!
//! # Resumable uploads
//!
//! An upload that was interrupted can continue where it ended, as in the IETF's resumable uploads
//! (draft-ietf-httpbis-resumable-upload).
//!
//! The `PUT` must announce the hash of the whole body: `Repr-Digest: sha-256=:<base64>:` (RFC 9530, [`crate::digest`]).
//! The coordinator keeps the bytes that arrived until the round closes, also across a restart. It may drop bodies of up
//! to 1 MiB.
//!
//! `HEAD` returns `Upload-Offset: <bytes received>`, `Upload-Complete: ?0` and the `Repr-Digest` of the upload, and
//! stops any request that still sends it. Once the update is accepted, `Upload-Complete` is `?1` and there is no
//! offset.
//!
//! `PATCH` sends the rest. It needs `Content-Type: application/partial-upload`, the same `Repr-Digest`, that
//! `Upload-Offset` and `Upload-Complete: ?1`, and is answered like `PUT`. With `Upload-Complete: ?0` it sends a chunk;
//! the answer is 204 with the new offset.
//!
//! Refusals: `upload-offset` (409, with the right `Upload-Offset`); `upload-superseded` (409, a newer request sends
//! this update, and the newest wins); `digest-mismatch` (422, all bytes were dropped, so the client sends the whole
//! body).

use std::collections::BTreeMap;

use serde::de::value::{Error as ValueError, StrDeserializer};
use serde::de::{Deserializer, IntoDeserializer};
use serde::{Deserialize, Serialize};

use crate::abilities::Abilities;
use crate::analysis::Analysis;
pub use crate::attributes::{ATTRIBUTE_BYTES_MAX, ATTRIBUTES_MAX, Attributes, AttributesError};
use crate::classes::ClassCounts;
use crate::coded::CodedTerms;
use crate::credential::{Attestation, IssuedCertificate, Renewal};
use crate::download::{CompanionFile, Download, FormFile, ModelDeltaFile};
#[cfg(feature = "openapi")]
use crate::example_sets::ExampleSet;
use crate::example_sets::ExampleSets;
use crate::hash::Sha256Hash;
use crate::id::{AssignmentId, ClientId, JobId, Name, Secret};
use crate::job_model::JobModel;
pub use crate::open_jobs::{OpenJob, OpenJobs};
use crate::plan::{Cadence, Exchange, Masking, Training};
use crate::relay::{RelayOffer, RelayTerms};
use crate::release::ChannelAnswer;
use crate::scalars::Scalars;
use crate::seed::Seed;
use crate::state::{FailureReason, Task};
use crate::update::{Codec, CodecName};

/// Header of every answer: the release of the coordinator, such as `0.1.0`.
pub const RELEASE: &str = "tributary-release";
/// Header of every answer: the versions of the device API that the coordinator serves, such as `1` for `/device/v1`. A
/// coordinator that serves several separates them by commas.
pub const PROTOCOL: &str = "tributary-protocol";
/// Header of an answer about a channel: when to ask again, in milliseconds.
pub const ASK_AFTER: &str = "tributary-ask-after-ms";
/// Header: number of bytes of an upload that the coordinator has, or the offset at which a body continues it.
pub const UPLOAD_OFFSET: &str = "upload-offset";
/// Header: whether this body completes the upload, `?1` or `?0`.
pub const UPLOAD_COMPLETE: &str = "upload-complete";
/// Media type of a body that continues an upload.
pub const PARTIAL_UPLOAD: &str = "application/partial-upload";
/// Longest time for which a client may ask to be held at a check-in, in milliseconds.
pub const WAIT_MS_MAX: u32 = 60_000;
/// Largest magnitude of a reported loss. The weighted mean of larger ones could overflow.
pub const LOSS_MAX: f64 = 1e12;
/// Longest detail of a failure report in bytes. The SDK truncates longer ones.
pub const DETAIL_BYTES_MAX: usize = 1024;

/// The consent with which a client takes part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Consent {
    /// The text that was agreed to, such as its version: 1 to 128 bytes.
    pub text: String,
    /// When, in milliseconds since 1970, by the device's clock.
    #[serde(alias = "givenAtMs")]
    pub given_at_ms: i64,
}

/// Longest name of a text of consent in bytes.
pub const CONSENT_BYTES_MAX: usize = 128;

/// Enrolment of a device or silo as a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EnrolRequest {
    /// Attributes of the client.
    #[serde(default)]
    pub attributes: Attributes,
    /// Requests a certificate: a PKCS #10 request in PEM, as `POST /device/v1/certificate` takes it. The coordinator
    /// remembers the key: no other key can be certified for this client later. Required where clients are identified by
    /// certificates alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_request: Option<String>,
    /// What the platform says about the device, for the operator's attestation webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attestation: Option<Attestation>,
    /// The consent with which the client takes part, for the operator's records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consent: Option<Consent>,
}

/// Response to an enrolment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EnrolResponse {
    /// Id of the client: a new one, unless the request came with the expired certificate of a client and for its key.
    pub client: ClientId,
    /// Bearer credential of the client. The coordinator stores only its hash and cannot show it again.
    pub secret: Secret,
    /// Population of the client, given by the enrolment token.
    pub population: Name,
    /// The certificate, if one was requested and the coordinator's listener asks for certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<IssuedCertificate>,
}

/// Check-in: a client is available for work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CheckInRequest {
    /// Current attributes. They replace those of earlier check-ins.
    #[serde(default)]
    pub attributes: Attributes,
    /// Current state of the device.
    pub state: DeviceState,
    /// Version of the SDK, for information.
    pub sdk_version: String,
    /// Kind of the SDK: `rust`, `python`, `kotlin`, `swift`, `c`, `browser`, or another name. The operator sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sdk: Option<Name>,
    /// Codecs in which the client can write updates. The coordinator ignores names that it does not know, such as those
    /// of a newer SDK.
    #[serde(deserialize_with = "known_codecs")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub codecs: Vec<CodecName>,
    /// What the SDK can do: the client gets no work of plans that need more. Default: what the first release could do.
    #[serde(default, skip_serializing_if = "Abilities::is_first")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub abilities: Abilities,
    /// What the client's table has in common with others: a hash of columns and classes, if a job's columns were
    /// applied to it. It gets no work of jobs with another schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub schema: Option<Sha256Hash>,
    /// The client's named example sets. It gets work of jobs that name one of them, beside that of jobs without a name,
    /// which use the examples of `state`. Default: none.
    #[serde(default, skip_serializing_if = "ExampleSets::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<Name, ExampleSet>))]
    pub sets: ExampleSets,
    /// Whether the client answers analyses. Default: false, and it gets none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answers: bool,
    /// Whether the client can mask updates. Default: false, and it gets no work of jobs with secure aggregation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub masks: bool,
    /// Whether the client can sign in a group, with a certificate for its key. Default: false, and it gets no work of
    /// jobs whose groups sign.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub signs: bool,
    /// The channels whose releases the app follows, at most 8, each with the SHA-256 of the model's file that the
    /// client has of it. A newer release comes with the answer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, Option<String>>))]
    pub channels: BTreeMap<Name, Option<Sha256Hash>>,
    /// What a relay offers. It is refused (`forbidden`) from a client whose token grants no `relay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<RelayOffer>,
    /// Longest time to hold the request until there is work, in milliseconds, at most 60,000. Default: 0, an immediate
    /// answer.
    #[serde(default)]
    pub wait_ms: u32,
}

/// Reads a list of codecs without duplicates and without unknown names.
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

/// State of a device at a check-in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceState {
    /// Number of training examples on the device that have no name. Those of named sets are not among them.
    pub examples: u64,
    /// Charge of the battery in percent, 0 to 100. Absent without a battery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub battery_percent: Option<u8>,
    /// Whether the battery is being charged. Absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charging: Option<bool>,
    /// Whether the network connection is metered. Absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metered: Option<bool>,
}

/// Response to a check-in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum CheckInResponse {
    /// The client was drawn for a round.
    Assigned(Box<Assignment>),
    /// There is no work now.
    Retry {
        /// Time to wait before the next check-in, in milliseconds. It is randomised, so that a fleet does not check in
        /// at once.
        retry_after_ms: u64,
        /// For the person who started the client. Absent in large fleets, where counting would cost too much.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waits_for: Option<WaitsFor>,
    },
}

/// Response to a check-in, with what else the client should do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CheckInReply {
    /// Work, or when to come back.
    #[serde(flatten)]
    pub response: CheckInResponse,
    /// Credentials to replace now: a certificate of which two thirds of the time are over, a secret of 30 days.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renew: Vec<Renewal>,
    /// The channels that have another release for the client than the one that it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<ChannelAnswer>,
}

/// What a client without work waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WaitsFor {
    /// No job of its population is running.
    Job,
    /// A round collects eligible clients.
    Clients {
        /// Name of the job.
        job: Name,
        /// Number of the round in its job, from 1.
        round: u32,
        /// Eligible clients that wait now, this one included.
        available: u32,
        /// Eligible clients with which the round starts at once.
        needed: u32,
        /// With fewer at the end of the selection, the round is abandoned.
        minimum: u32,
        /// Time until the end of the selection, in milliseconds.
        ends_in_ms: u64,
    },
    /// The running jobs do not admit this client.
    Admission {
        /// Name of one of these jobs.
        job: Name,
        /// The first of its rules that this client breaks.
        reason: String,
    },
    /// The open round was drawn without this client, or no round is due yet.
    NextRound {
        /// Name of the job.
        job: Name,
    },
    /// An operator quarantined this client.
    Release,
}

/// The work of one client in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DeviceAssignment))]
pub struct Assignment {
    /// Id of the assignment. Status, update, evaluation and failure are sent under it.
    pub id: AssignmentId,
    /// Training, evaluation or description.
    pub task: Task,
    /// Id of the job.
    pub job: JobId,
    /// Name of the job, by which an app asks the SDK for its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_name: Option<Name>,
    /// The example set to work on, as the client named it. Absent: the examples without a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Name>,
    /// Number of the round in its job, from 1.
    pub round: u32,
    /// Model version to train from or to evaluate.
    pub model_version: u32,
    /// SHA-256 of that version's plain f32 file.
    pub model_sha256: Sha256Hash,
    /// The file to download instead, if the plan chooses another form than plain f32. Train from what it decodes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<FormFile>,
    /// The last model deltas up to that version, at most 3, in ascending order. A client whose model has the
    /// `base_sha256` of one of them downloads only that delta and those after it.
    #[serde(rename = "steps", default, skip_serializing_if = "Vec::is_empty")]
    pub model_deltas: Vec<ModelDeltaFile>,
    /// The control variate of that version, where the plan's algorithm has one. Absent for the first version, where it
    /// is zero, and for evaluations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<CompanionFile>,
    /// The round of the client's last accepted update, if that round was abandoned afterwards and the plan's algorithm
    /// or codec keeps a vector on the device: the client goes back to the vector that it had before that round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_round: Option<u32>,
    /// Model, training settings and codec.
    pub plan: Plan,
    /// Seed of all random choices of the client in this round.
    pub seed: Seed,
    /// Time until the round closes, in milliseconds. A duration, since device clocks are often wrong.
    pub deadline_in_ms: u64,
    /// Time between two questions whether the round is still open, in milliseconds, while the client works. A round
    /// that reaches its goal closes before its deadline. Large cohorts ask less often.
    #[serde(default = "ask_every_ms_default")]
    pub ask_every_ms: u64,
    /// The parts of the data to train on, in a coded round. Absent in others, where `data` names the examples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coded: Option<Box<CodedTerms>>,
    /// The URLs of the coordinators that add up the parts of the update, in the order of the parts; null for the one
    /// that the client knows. Any other coordinator takes a part as well. Absent where an update is one body.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<Option<String>>,
    /// The part of a relay in the round. Absent for clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<Box<RelayTerms>>,
}

/// Shortest time between two questions of a working client, in milliseconds.
pub const ASK_EVERY_MS_MIN: u64 = 3_000;

fn ask_every_ms_default() -> u64 {
    ASK_EVERY_MS_MIN
}

/// The plan of a job: what its clients do in a round. It is the same for all clients, but for the weight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Plan {
    /// The network as layers, or the names and shapes of the parameters of an app's own network; and which parameters
    /// are shared, frozen and personal. An update carries the shared ones.
    pub model: JobModel,
    /// Local training settings.
    pub training: Training,
    /// What the client's table is asked: its answer is the update, and nothing is trained. Absent in trainings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analysis: Option<Analysis>,
    /// Codec of the updates.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::update::WrittenCodec))]
    pub codec: Codec,
    /// Largest weight of an update: the job's, or the number of examples that the client had at its check-in if that is
    /// smaller. A client with more examples reports this number.
    pub weight_max: u32,
    /// Encoding of downloads. Absent for plain f32 models.
    #[serde(default, skip_serializing_if = "Download::is_plain")]
    pub download: Download,
    /// Largest L2 norm of an update as the coordinator decodes it. A client scales a larger delta down. Absent if there
    /// is no bound that clients know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm_max: Option<f64>,
    /// How often the client takes the newest model and sends an update. Absent where each update is one training from
    /// the newest model.
    #[serde(default, skip_serializing_if = "Cadence::is_plain")]
    pub cadence: Cadence,
    /// How updates are masked, so that the coordinator learns sums of groups alone. Absent where it reads each update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub masking: Option<Masking>,
    /// Whether the members of a group add up their updates among themselves, as [`crate::group`] says. Absent where
    /// each sends its own to the coordinator.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ring: bool,
    /// What the members of a group exchange while they train. Absent where they meet after their trainings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Exchange>,
    /// Whether each client trains on the parts that its assignment names ([`Assignment::coded`]). Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub coded: bool,
    /// Into how many parts each update is cut, each of which is sent to the coordinator that its assignment names.
    /// Absent where an update is one body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<u16>,
}

impl Plan {
    /// Whether clients keep a vector that must go back when the round that took their update is abandoned.
    pub fn goes_back(&self) -> bool {
        let algorithm = &self.training.algorithm;
        algorithm.keeps_state()
            || algorithm.elastic().is_some()
            || self.cadence.keeps_weights()
            || self.codec.properties().error_feedback
    }

    /// SHA-256 of the plan's JSON. It identifies the plan in the operator API.
    pub fn hash(&self) -> Sha256Hash {
        Sha256Hash::of(&serde_json::to_vec(self).expect("a plan has no map with keys that JSON lacks"))
    }
}

/// Status of an assignment whose round is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AssignmentStatus {
    /// Whether the client's report was accepted. If so there is nothing more to send.
    pub reported: bool,
    /// Time until the round closes, in milliseconds.
    pub deadline_in_ms: u64,
}

/// What a client says when it asks for the status of its assignment, in the query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct StatusQuery {
    /// Whether the work is finished and has yet to be sent. Without it, the client works on while the answer is 200,
    /// and stops at 410.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub finished: bool,
}

/// Statistics of local training, in the query of an update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct UpdateQuery {
    /// Weight of the update in the mean: the number of examples trained on, from 1 to the plan's `weight_max`.
    pub weight: u32,
    /// Mean loss of the local training, at most 1e12 in magnitude. A job whose rule reads losses needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Number of optimiser steps.
    pub steps: u64,
    /// Time spent in training, in milliseconds.
    pub train_ms: u64,
    /// Named scalars of the training, as `name:value,name:value`; at most 32.
    #[serde(default, with = "crate::scalars::text", skip_serializing_if = "Scalars::is_empty")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>))]
    pub metrics: Scalars,
}

/// Result of an evaluation on one client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EvaluationReport {
    /// Number of examples evaluated: the weight of the report.
    pub examples: u64,
    /// Mean loss per example, at most 1e12 in magnitude.
    pub loss: f64,
    /// Share of correctly classified examples, 0 to 1. Absent for regression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Time spent in evaluation, in milliseconds.
    pub evaluate_ms: u64,
    /// Named scalars of the evaluation.
    #[serde(default, skip_serializing_if = "Scalars::is_empty")]
    pub metrics: Scalars,
    /// Counts by class. Absent for regression, and for more than 1,000 classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<ClassCounts>,
}

/// Report of a client that gives up its assignment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FailureReport {
    /// Kind of failure. The coordinator takes one that it does not know, such as that of a newer SDK, for `other`.
    #[serde(deserialize_with = "known_reason")]
    pub reason: FailureReason,
    /// Explanation for the operator, at most 1024 bytes.
    #[serde(default)]
    pub detail: String,
}

/// Reads a reason; one of an unknown name is another reason.
fn known_reason<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FailureReason, D::Error> {
    Ok(String::deserialize(deserializer)?.parse().unwrap_or(FailureReason::Other))
}

/// Response to a report. It is stored durably, so the client can discard its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReportAccepted {
    /// Time to wait before the next check-in, in milliseconds.
    pub retry_after_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn requests_of_newer_clients_lose_what_is_unknown() {
        let json = r#"{"state":{"examples":1,"lux":3},"sdk_version":"9","codecs":["f32"],"mood":"good"}"#;
        let request: CheckInRequest = serde_json::from_str(json).unwrap();
        assert_eq!(request.state, DeviceState { examples: 1, ..DeviceState::default() });
        let report: FailureReport = serde_json::from_str(r#"{"reason":"too_hot","detail":"61 C"}"#).unwrap();
        assert_eq!(report, FailureReport { reason: FailureReason::Other, detail: "61 C".into() });
        let known: FailureReport = serde_json::from_str(r#"{"reason":"no_data","unit":"C"}"#).unwrap();
        assert_eq!(known.reason, FailureReason::NoData);
    }

    #[test]
    fn a_check_in_without_named_sets_is_that_of_the_first_release() {
        let json = r#"{"attributes":{},"state":{"examples":1},"sdk_version":"9","codecs":[],"wait_ms":0}"#;
        let request: CheckInRequest = serde_json::from_str(json).unwrap();
        assert!(request.sets.is_empty());
        assert_eq!(serde_json::to_string(&request).unwrap(), json);
    }

    #[test]
    fn an_answer_without_work_is_small() {
        let json = serde_json::to_string(&CheckInResponse::Retry { retry_after_ms: 1500, waits_for: None }).unwrap();
        assert_eq!(json, r#"{"answer":"retry","retry_after_ms":1500}"#);
    }

    #[test]
    fn a_renewal_is_a_member_that_older_clients_ignore() {
        let response = CheckInResponse::Retry { retry_after_ms: 1500, waits_for: None };
        let renew = vec![Renewal::Certificate, Renewal::Secret];
        let answer = CheckInReply { response, renew, channels: Vec::new() };
        let json = serde_json::to_string(&answer).unwrap();
        assert_eq!(json, r#"{"answer":"retry","retry_after_ms":1500,"renew":["certificate","secret"]}"#);
        assert_eq!(serde_json::from_str::<CheckInReply>(&json).unwrap(), answer);
        assert_eq!(serde_json::from_str::<CheckInResponse>(&json).unwrap(), answer.response);
        let plain = CheckInReply { renew: Vec::new(), ..answer };
        assert_eq!(serde_json::to_string(&plain).unwrap(), r#"{"answer":"retry","retry_after_ms":1500}"#);
    }
}
