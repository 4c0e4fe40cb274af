//! Groups of a round that add up among themselves.

use serde::{Deserialize, Serialize};

use crate::hash::Sha256Hash;
use crate::id::GroupId;
use crate::state::{RingState, StallKind, StarReason};

/// How the members of a round added up among themselves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RoundRing {
    /// The groups that formed, in their order.
    pub attempts: Vec<RingAttempt>,
    /// Clients that have finished, and are in no open group.
    pub waiting: u32,
    /// Why members send their own updates to the coordinator instead. Absent while they need not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub star: Option<StarReason>,
}

/// A group that formed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RingAttempt {
    /// Id of the group.
    pub id: GroupId,
    /// Number of the attempt, from 1.
    pub number: u32,
    /// What became of it.
    pub state: RingState,
    /// When it formed.
    pub formed_at_ms: i64,
    /// When it came to this state.
    pub since_ms: i64,
    /// SHA-256 of the sum on which its members agreed. Absent before they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256Hash>,
    /// Where members exchange while they train: the exchanges after which they went on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchanged: Option<u32>,
    /// Its members around the ring: each sends to the next one, the last to the first.
    pub members: Vec<RingPart>,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RingPart {
    /// Number of the client in its population.
    pub client_number: u64,
    /// Examples behind its update.
    pub weight: u32,
    /// SHA-256 of the sum that it has. Absent before it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Sha256Hash>,
    /// Whether it was asked to bring the sum.
    pub brings: bool,
    /// Bytes that it sent to other members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_sent: Option<u64>,
    /// Bytes that it received from other members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_received: Option<u64>,
    /// Time from the roster to the sum, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// Kilobits in a second that the link to the next member took. Absent where it never made the member wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_kbit_s: Option<u64>,
    /// Whether its link to the next member goes through the coordinator.
    #[serde(default)]
    pub relayed: bool,
    /// Bytes on that link that the coordinator passed on, in both directions. Absent before the link has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relayed_bytes: Option<u64>,
    /// In gossip: the distance of its model from the mean of all members' models. Absent before it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<f64>,
    /// Whom it could not go on with. Absent if it could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall: Option<RingBlame>,
}

/// Whom a member could not go on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RingBlame {
    /// Number of that client in its population.
    pub client_number: u64,
    /// What it did.
    pub what: StallKind,
    /// The step of the schedule, from 0.
    pub step: u32,
}
