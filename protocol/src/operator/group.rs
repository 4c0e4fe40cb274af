//! Groups of a round whose updates are masked.

use serde::{Deserialize, Serialize};

use crate::id::GroupId;
use crate::state::{GroupFailure, GroupStage};

/// A group: clients that add up their updates under masks, so that nobody sees a single one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RoundGroup {
    /// Id of the group.
    pub id: GroupId,
    /// What its members are doing.
    pub stage: GroupStage,
    /// Time at which this stage began.
    pub since_ms: i64,
    /// Number of members that each member shares masks with.
    pub degree: u32,
    /// Shares that rebuild a secret of a lost member.
    pub threshold: u32,
    /// Fewest members whose updates make a sum.
    pub survivors_min: u32,
    /// Whether its members sign who they are and who has survived.
    pub signed: bool,
    /// Why it has no sum. Absent unless it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<GroupFailure>,
    /// Its members around a circle: each shares masks with those at most half of `degree` places away, and with all
    /// others where `degree` is as large as that.
    pub members: Vec<RoundGroupMember>,
}

/// A member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RoundGroupMember {
    /// Number of the client in its population.
    pub client_number: u64,
    /// How far it came.
    pub came: GroupProgress,
}

/// How far a member of a group came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum GroupProgress {
    /// It joined, and has sent nothing yet.
    Joined,
    /// Its shares are there.
    Shared,
    /// Its masked update is there: it counts in the sum.
    Masked,
    /// It has also signed who has survived.
    Signed,
    /// It has sent the shares that open the sum.
    Opened,
    /// It did not send its masked update in time: its update is lost.
    Lost,
}
