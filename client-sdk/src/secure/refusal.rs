//! Why a member gives up a group, and other errors of a member.

use serde::{Deserialize, Serialize};

use super::entropy::EntropyError;
use crate::keys::KeyError;

/// What a member does not go along with. It is stored, and no other answer of the group is read afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The group is of another job or round.
    #[error("the group is of another job or round")]
    Job,
    /// The group's model is not the one that was trained.
    #[error("the group has another model")]
    Model,
    /// The group's plan is not that of the assignment.
    #[error("the group has another plan")]
    Plan,
    /// Length, degree or threshold are not those of a safe group for this model.
    #[error("the group's parameters are not safe for this model")]
    Parameters,
    /// The group is too small.
    #[error("the group has {given} members, and {least} are demanded")]
    Members {
        /// Members of the group.
        given: u16,
        /// Fewest members.
        least: u16,
    },
    /// The hashes of records make no roster: one is there twice, or the own one is not at the own place.
    #[error("the roster is wrong, or lacks this client")]
    Roster,
    /// The neighbours are not those that follow from the roster, or a record is not the one in it.
    #[error("member {0} is no neighbour by the roster")]
    Neighbour(u16),
    /// A neighbour's key gives no secret.
    #[error("the key of member {0} gives no secret")]
    Key(u16),
    /// A member's certificate is not the one of its record, or not of the pinned CA, or not valid now.
    #[error("the certificate of member {0} is not trusted")]
    Certificate(u16),
    /// Two members have the same certificate.
    #[error("member {0} has the certificate of another member")]
    RepeatedCertificate(u16),
    /// A neighbour has signed another roster, or none.
    #[error("member {0} has not signed this roster")]
    Signature(u16),
    /// Too few neighbours sent shares.
    #[error("{given} neighbours sent shares, and {least} are demanded")]
    Inbox {
        /// Neighbours with a valid share.
        given: u16,
        /// Fewest neighbours.
        least: u16,
    },
    /// Too few members survived.
    #[error("{given} members survived, and {least} are demanded")]
    Survivors {
        /// Survivors.
        given: u16,
        /// Fewest survivors.
        least: u16,
    },
    /// The client's own update is not in the sum.
    #[error("the survivors lack this client")]
    Lost,
    /// Too few members signed the same survivors.
    #[error("{given} members signed the survivors, and {least} are demanded")]
    Quorum {
        /// Valid signatures over the survivors.
        given: u16,
        /// Fewest signatures.
        least: u16,
    },
    /// A second set of survivors: with both, the coordinator could get both secrets of a neighbour.
    #[error("the group has a second set of survivors")]
    SecondSurvivors,
    /// A second group for one update.
    #[error("the update already belongs to another group")]
    SecondGroup,
    /// Other senders of shares than before.
    #[error("the group has a second list of senders")]
    SecondInbox,
    /// Another update under the same masks: the difference of both would be readable.
    #[error("another update was already masked in this group")]
    SecondUpdate,
}

/// A member does not answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MemberError {
    /// The member gives up the group, now or earlier.
    #[error("the group is refused: {0}")]
    Refused(#[from] Refusal),
    /// There are no random bytes.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// The device's key does not sign.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The group needs signatures, and the device has no key or does not know whom to trust.
    #[error("the group needs signatures, which this client cannot make")]
    NoSigners,
    /// The answer belongs to another stage.
    #[error("the group is not at this stage")]
    Stage,
    /// The update has another number of values or bits than the group, or too many slots.
    #[error("the update does not fit the group")]
    Update,
    /// The stored member cannot be read.
    #[error("the stored member of a group cannot be read")]
    Stored,
}
