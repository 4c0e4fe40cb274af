//! Why a ring ends without a sum.

use tributary_protocol::group::{AbortReason, FrameError};
use tributary_protocol::sum::SumError;

use crate::place::PlaceError;

/// The end of an attempt without a sum. The member has told its neighbours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// There is no such place. Nothing was sent.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// An integer of the member itself is beyond the limit.
    #[error("value {place} of this member is {got}, beyond the magnitude of {magnitude_max}")]
    Own {
        /// Place of the value.
        place: usize,
        /// The value.
        got: i64,
        /// Largest magnitude of a value of one member.
        magnitude_max: u64,
    },
    /// A neighbour does not do its part. This member blames it.
    #[error("member {rank} in step {step}, frame {frame}: {what}")]
    Neighbour {
        /// Rank of the neighbour.
        rank: u16,
        /// What is wrong with it.
        what: Fault,
        /// Step of the frame that the neighbour owes, or that it should take.
        step: u32,
        /// Number of the frame in its chunk.
        frame: u32,
    },
    /// Another member ended the attempt. This one blames nobody.
    #[error("the attempt was ended because of member {rank} in step {step}: {reason:?}")]
    Aborted {
        /// Rank of the blamed member; of the one that stalled, if nobody is blamed.
        rank: u16,
        /// Step that failed.
        step: u32,
        /// Why.
        reason: AbortReason,
    },
    /// Both neighbours live, and no frame was taken for six times the time of a frame. Nobody is blamed, because the
    /// cause may lie anywhere in the ring.
    #[error("nothing moved in step {step}, frame {frame}, although both neighbours live")]
    Stalled {
        /// Step of the frame that this member waits for.
        step: u32,
        /// Number of the frame in its chunk.
        frame: u32,
    },
}

/// What is wrong with a neighbour.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It sent nothing, not even that it lives, or took nothing, for the time of a frame.
    #[error("silent")]
    Silent,
    /// The link to it ended.
    #[error("the link ended")]
    Closed,
    /// It sent what it must not.
    #[error(transparent)]
    Wrong(#[from] Mistake),
}

/// What a neighbour must not send.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// The frame is none.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The frame is of another member.
    #[error("a frame of member {0}, which is at no end of the link")]
    From(u16),
    /// An exponent of the grid is beyond what any update needs.
    #[error("exponent {got} of the grid, beyond {most}")]
    Exponent {
        /// The exponent.
        got: u8,
        /// The largest one that an update may need.
        most: u8,
    },
    /// The frame is of another attempt.
    #[error("a frame of attempt {0}")]
    Attempt(u32),
    /// No frame of this kind comes here.
    #[error("a frame of a kind that does not belong here")]
    Kind,
    /// The frame is not the next one of its step.
    #[error("step {step}, chunk {place}, frame {part} is not due")]
    Order {
        /// Step of the frame.
        step: u32,
        /// Its chunk.
        place: u32,
        /// Its number in the chunk.
        part: u32,
    },
    /// There are more frames than the link may have, or fewer were taken than before, or more than were sent.
    #[error("frames that were not granted, or taken before they were sent")]
    Window,
    /// The blocks are not those of the frame's values, or have values that cannot be.
    #[error(transparent)]
    Blocks(#[from] SumError),
    /// A part of a model is none of the codec, or has a value that no member may have.
    #[error("values from place {0} on are none of a member's model")]
    Values(usize),
    /// The blamed member is none of the ring.
    #[error("the attempt was ended because of member {0}, which does not exist")]
    Rank(u16),
}

impl Fault {
    /// How the fault is told to other members.
    pub(crate) fn reason(&self) -> AbortReason {
        match self {
            Self::Silent => AbortReason::Silent,
            Self::Closed => AbortReason::Closed,
            Self::Wrong(_) => AbortReason::Wrong,
        }
    }
}
