//! Releases of models to the apps of a population.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::gate::Gate;
use crate::hash::Sha256Hash;
use crate::id::{JobId, Name, ReleaseId};
use crate::release::Share;
use crate::state::ReleaseState;

/// A model version that the apps of a population predict with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Release {
    /// Its id.
    pub id: ReleaseId,
    /// Population of its clients.
    pub population: Name,
    /// The channel that apps ask for.
    pub channel: Name,
    /// Its number in the channel, from 1.
    pub number: u32,
    /// Job that made the version. It may be deleted since.
    pub job: JobId,
    /// Name of that job when the release was made.
    pub job_name: Name,
    /// The version.
    pub version: u32,
    /// Where it stands.
    pub state: ReleaseState,
    /// Share of the clients that it is meant for, in millionths.
    pub share: Share,
    /// Attributes of the clients that it is meant for. Empty: all of them.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
    /// What its evaluation must show before it goes out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub gate: Option<Gate>,
    /// The job that evaluates it for its gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate_job: Option<JobId>,
    /// What that evaluation came to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// SHA-256 of the model's file. It is the version's, unless the release was made by 8-bit differences.
    pub sha256: Sha256Hash,
    /// Length of that file in bytes.
    pub bytes: u64,
    /// The release that the differences are added to. Absent where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<u32>,
    /// Length of the differences in bytes, as they are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference_bytes: Option<u64>,
    /// Number of clients that say that they have it.
    pub clients: u64,
    /// When it was made.
    pub created_at_ms: i64,
    /// When its state or share changed last.
    pub changed_at_ms: i64,
    /// When its files were deleted, because newer releases had replaced it. This entry stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at_ms: Option<i64>,
}

/// The release of a version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateRelease {
    /// Job that made the version.
    pub job: JobId,
    /// The version.
    pub version: u32,
    /// The channel.
    pub channel: Name,
    /// Share of the clients, in millionths. Default: all.
    #[serde(default)]
    pub share: Share,
    /// Attributes that a client must have. Default: none.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
    /// What an evaluation of the release must show before it goes out: a measure, `>=` or `<=`, and a number, such as
    /// `accuracy >= 0.9`. Default: none, it goes out at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub gate: Option<Gate>,
    /// Whether clients get the version's own bits. Default: false, and where the channel has a release with the same
    /// parameters, the release is that one plus 8-bit differences.
    #[serde(default)]
    pub exact: bool,
}

/// A change of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WidenRelease {
    /// The new share of the clients, in millionths: more than before.
    pub share: Share,
}

/// The release that a client has of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HeldRelease {
    /// The channel.
    pub channel: Name,
    /// Number of the release in the channel.
    pub number: u32,
    /// Job that made the model.
    pub job_name: Name,
    /// Version in that job.
    pub version: u32,
    /// Since when the client says that it has it.
    pub since_ms: i64,
}
