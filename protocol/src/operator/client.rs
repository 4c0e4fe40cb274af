//! Populations and their clients.

use serde::{Deserialize, Serialize};

use super::{HeldRelease, SharedBudget};
use crate::device::{Attributes, Consent};
use crate::id::{ClientId, Name};
use crate::state::Standing;

/// Request for a new population.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreatePopulation {
    /// Name of the population, unique in the deployment.
    pub name: Name,
    /// What all its jobs together may tell about a unit. Default: they share no budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<SharedBudget>,
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
    /// Number of clients that are here now: held by any coordinator until there is work, or at work.
    #[serde(default)]
    pub online: u64,
    /// Those of them that are at work: with an open assignment, and heard of in the last five minutes.
    #[serde(default)]
    pub working: u64,
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
    /// The consent that it told at its enrolment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consent: Option<Consent>,
    /// End of the newest certificate that it was given; none if it was given none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_until_ms: Option<i64>,
    /// Kind of its SDK, such as `rust`, `python` or `kotlin`, as of the last check-in; none if it named none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sdk: Option<Name>,
    /// The releases that it says it has, by channel. Only in the answer about one client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub releases: Vec<HeldRelease>,
    /// Number of training examples, as of the last check-in.
    pub examples: u64,
    /// Time of enrolment.
    pub created_at_ms: i64,
    /// Time of its last request.
    pub last_seen_at_ms: i64,
    /// Whether it is here now: a coordinator holds a request of it until there is work, or it is at work.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub online: bool,
    /// Whether it is at work: it has an open assignment, and was heard of in the last five minutes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub working: bool,
    /// Of a relay that waits at this coordinator: the clients that wait behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub places: Option<u32>,
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
