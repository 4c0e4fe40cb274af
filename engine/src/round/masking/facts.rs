//! What a step of a group is decided from: counts and times, no rows.

use tributary_protocol::state::{GroupFailure, GroupStage};

use super::parameters::GroupParameters;

/// What one snapshot says of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFacts {
    pub stage: GroupStage,
    /// When the stage began. A coordinator that takes the group over begins the time of its stage anew.
    pub began_at_ms: i64,
    /// Longest time of the stage.
    pub stage_ms: i64,
    pub parameters: GroupParameters,
    /// Fewest members that must share their secrets.
    pub group_min: u32,
    /// Whether the survivors sign who has survived.
    pub is_signed: bool,
    /// How the group's round or job has ended, if it has.
    pub over: Option<RoundOver>,
    /// Members whose message of this stage may still come: it is not here, and they have not given up.
    pub awaited: u32,
    /// Members whose shares are here. It stays as it is from Masking on.
    pub shared: u32,
    /// Of those, members whose body is whole. From Agreeing on, the size of the stored set of survivors.
    pub whole: u32,
    /// Survivors that have signed the stored set of survivors.
    pub signed: u32,
    /// One of each survivor, the secret of its own mask, and one of each lost member whose shares are here and whose
    /// neighbours survived, the key of its masks with them. It is read in Unmasking.
    pub secrets: Vec<SecretFacts>,
}

/// What is here of a secret that must be rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretFacts {
    /// Shares that are here, less those of members that were found to lie.
    pub shares: u32,
    /// Whether no choice of the shares that are here gives what the owner has committed to. Further shares may.
    pub is_false: bool,
}

/// What ends a group from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundOver {
    /// An operator stopped the job.
    Stopped,
    /// The round closed or was abandoned.
    Ended,
}

impl RoundOver {
    pub(super) fn failure(self) -> GroupFailure {
        match self {
            Self::Stopped => GroupFailure::Stopped,
            Self::Ended => GroupFailure::RoundEnded,
        }
    }
}

impl GroupFacts {
    /// When the stage ends at the latest.
    pub fn ends_at_ms(&self) -> i64 {
        self.began_at_ms.saturating_add(self.stage_ms)
    }

    /// Fewest members that must share their secrets: with fewer, too few would be left to survive.
    pub fn shared_min(&self) -> u32 {
        self.group_min.max(self.parameters.survivors_min)
    }
}
