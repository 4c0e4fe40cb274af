//! The calls of a member whose group adds up among itself.
//!
//! | call | request | response |
//! |---|---|---|
//! | `PUT /device/v1/assignments/{id}/ring` | [`RingReady`] | [`RingAnswer`], or 204: ask again |
//! | `PUT /device/v1/assignments/{id}/ring/stall` | [`RingStall`] | 204 |
//! | `PUT /device/v1/assignments/{id}/ring/outcome` | [`RingOutcome`] | [`RingAnswer`], or 204: ask again |
//! | `PUT /device/v1/assignments/{id}/sum?..` | [`SumQuery`] and the body of the sum | `ReportAccepted` |
//! | `GET /device/v1/groups/{group}/links/{rank}` | `Upgrade: tributary-link` | 101, then bytes of the other member |
//!
//! A call may be repeated, and gets the answer that holds then. The first and the third are held for up to a minute.
//! A member whose answer is `over` calls `PUT ring` again, with the attempt that it saw last.

use serde::{Deserialize, Serialize};

use crate::device::UpdateQuery;
use crate::graph::Edge;
use crate::hash::Sha256Hash;
use crate::id::GroupId;
use crate::relay::SumQuery;
use crate::scalars::Scalars;
use crate::state::StallKind;

/// Most members of a group.
pub const GROUP_MAX: u32 = 256;
/// Most addresses of a member.
pub const ADDRESSES_MAX: usize = 4;
/// What HTTP/1.1 is upgraded to (RFC 9110, section 7.8) where the coordinator passes on what two members send.
pub const LINK_UPGRADE: &str = "tributary-link";
/// Longest address of a member in bytes.
pub const ADDRESS_BYTES_MAX: usize = 255;
/// The attribute that an enrolment token grants to clients whose addresses are not those that the coordinator sees:
/// addresses, separated by commas.
pub const ADDRESS_ATTRIBUTE: &str = "group_address";

/// A member joins the next attempt: it has finished its work, or begins it where members exchange while they train.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RingReady {
    /// Number of the attempt that it saw last, 0 before the first.
    pub attempt: u32,
    /// Where others reach it.
    pub member: RingMember,
    /// Examples, loss and steps of its training. Where members exchange while they train, it has only its examples yet.
    pub report: RingReport,
    /// Where members exchange while they train: the number of exchanges that it has completed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub exchanged: u32,
}

/// What a member tells of its training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RingReport {
    /// Number of examples trained on, from 1 to the plan's `weight_max`.
    pub weight: u32,
    /// Mean loss of the local training, at most 1e12 in magnitude.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Number of optimiser steps.
    pub steps: u64,
    /// Time spent in training, in milliseconds.
    pub train_ms: u64,
}

impl From<&UpdateQuery> for RingReport {
    fn from(query: &UpdateQuery) -> Self {
        Self { weight: query.weight, loss: query.loss, steps: query.steps, train_ms: query.train_ms }
    }
}

/// How others reach a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RingMember {
    /// SHA-256 of the SubjectPublicKeyInfo of its device key, in DER. Others accept no other key at its addresses.
    pub key: Sha256Hash,
    /// Host and port, such as `silo-7.example.org:7400`, at most 4 of at most 255 bytes.
    pub addresses: Vec<String>,
}

/// What a member does next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum RingAnswer {
    /// It is in this group, which begins now.
    Formed(Box<RingRoster>),
    /// It sends the sum of the group to the coordinator, with these figures in the query.
    Upload(RingSum),
    /// The sum is stored, and its update is in it.
    Done {
        /// Time to wait before the next check-in, in milliseconds.
        retry_after_ms: u64,
    },
    /// The attempt is over.
    Over,
    /// It sends its own update to the coordinator.
    Star,
}

/// What is known of a sum beside its values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RingSum {
    /// Examples behind its updates.
    pub examples: u64,
    /// Mean loss of the trainings, weighted by examples. Absent where no member told one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Optimiser steps of all members.
    pub steps: u64,
    /// Time that the members trained, in milliseconds, summed over them.
    pub train_ms: u64,
}

impl From<RingSum> for SumQuery {
    fn from(sum: RingSum) -> Self {
        let RingSum { examples, loss, steps, train_ms } = sum;
        Self { examples, loss, steps, train_ms, metrics: Scalars::default(), bytes_below: None, round_trip_ms: None }
    }
}

/// A group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RingRoster {
    /// Id of the group, another one in each attempt.
    pub group: GroupId,
    /// Number of the attempt in its round, from 1.
    pub attempt: u32,
    /// The reader's place among the members.
    pub rank: u16,
    /// The members around the ring: each sends to the next one, the last to the first.
    pub members: Vec<RingMember>,
    /// Whether all updates count alike. Otherwise they count by their examples.
    pub uniform: bool,
    /// Total weight of the updates, in units of 2^-16 examples: it is in the header of the sum.
    pub weight: u64,
    /// Binary places of the integers of the sum.
    pub binary_point: u32,
    /// Largest magnitude of an integer that one update adds.
    pub value_max: u64,
    /// What the coordinator multiplies the mean of the updates with before it adds it to the model, where it does
    /// nothing else: members then make the next model by themselves, and need not download it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_rate: Option<f64>,
    /// Bits of the integers on the grid of the group; all bits if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grid_bits: Option<u32>,
    /// Longest silence of a neighbour that owes a frame, in milliseconds.
    pub frame_ms: u64,
    /// Time until members send their own updates instead, in milliseconds.
    pub ends_in_ms: u64,
    /// The ranks of members whose link to the next one goes through the coordinator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relayed: Vec<u16>,
    /// Where members exchange while they train: they go on after this number of exchanges. One that has completed one
    /// more goes back to where it was before it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub exchanged: u32,
    /// Who mixes with whom, as pairs of ranks with the lower one first, where the job names edges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<[u16; 2]>))]
    pub edges: Vec<Edge>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Why a member could not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RingStall {
    /// The attempt.
    pub attempt: u32,
    /// The neighbour's place among the members.
    pub rank: u16,
    /// What it did.
    pub what: StallKind,
    /// The step of the schedule, from 0.
    pub step: u32,
}

/// A member has the sum of its group.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RingOutcome {
    /// The attempt.
    pub attempt: u32,
    /// SHA-256 of the body of the sum.
    pub sha256: Sha256Hash,
    /// Bytes that it sent to other members.
    pub bytes_sent: u64,
    /// Bytes that it received from other members.
    pub bytes_received: u64,
    /// Time from the roster to the sum, in milliseconds.
    pub took_ms: u64,
    /// Kilobits in a second that the link to the next member took. Absent where it never made the member wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_kbit_s: Option<u64>,
    /// Examples, loss and steps of its training, where members exchange while they train.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<RingReport>,
    /// In gossip: the distance of its model from the mean of all members' models, as an L2 norm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_name_themselves() {
        let text = |answer: &RingAnswer| serde_json::to_string(answer).unwrap();
        assert_eq!(text(&RingAnswer::Star), r#"{"answer":"star"}"#);
        assert_eq!(text(&RingAnswer::Over), r#"{"answer":"over"}"#);
        let done = RingAnswer::Done { retry_after_ms: 7 };
        assert_eq!(text(&done), r#"{"answer":"done","retry_after_ms":7}"#);
        assert_eq!(serde_json::from_str::<RingAnswer>(&text(&done)).unwrap(), done);
    }
}
