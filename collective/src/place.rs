//! The place of a member in a ring.

use tributary_protocol::group::{FRAME_BYTES_MAX, FrameHeader, FrameKind};
use tributary_protocol::sum::BLOCK_BYTES_MAX;

/// Shortest time of a frame, in milliseconds.
pub const FRAME_MS_MIN: u64 = 100;
/// Longest time of a frame, in milliseconds.
pub const FRAME_MS_MAX: u64 = 600_000;
/// Times of a frame without a frame in or out, after which a member ends although its neighbours live.
///
/// A dead member is noticed within one time of a frame, and all members know of it right after. More is a member that
/// says it lives and does nothing, and without this limit the others would wait for it for ever.
pub(crate) const STALL_WAITS: u32 = 6;
/// Alive frames in the time of one frame: two may be late.
pub(crate) const ALIVE_PER_FRAME: u64 = 3;

/// The place of a member. All members have the same numbers but for their rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPlace {
    /// Rank of the member: it sends to the one with the next rank, the last one to member 0.
    pub rank: u16,
    /// Members of the ring, at least 2.
    pub members: u16,
    /// Attempt of the group. Frames of another one are refused.
    pub attempt: u32,
    /// Most bytes of a frame's body, from those of one block to
    /// [`FRAME_BYTES_MAX`](tributary_protocol::group::FRAME_BYTES_MAX).
    pub frame_bytes: u32,
    /// Milliseconds without a byte after which a neighbour is silent, from [`FRAME_MS_MIN`] to [`FRAME_MS_MAX`].
    pub frame_ms: u64,
    /// Largest magnitude of an integer of one member. As many as there are members must fit 63 bits.
    pub magnitude_max: u64,
}

/// Why there is no such place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// No ring has so few members, or the rank is none of them.
    #[error("there is no member {rank} in a ring of {members}")]
    Rank {
        /// The rank.
        rank: u16,
        /// Members of the ring.
        members: u16,
    },
    /// A frame that holds no block, or is longer than any frame may be.
    #[error("frames have {BLOCK_BYTES_MAX} to {FRAME_BYTES_MAX} bytes, not {0}")]
    FrameBytes(u32),
    /// A time of a frame that is too short or too long.
    #[error("a frame has {FRAME_MS_MIN} to {FRAME_MS_MAX} milliseconds, not {0}")]
    FrameMs(u64),
    /// A sum could overflow.
    #[error("{members} values of a magnitude of {magnitude_max} do not fit 63 bits")]
    Magnitude {
        /// Members of the ring.
        members: u16,
        /// Largest magnitude of an integer of one of them.
        magnitude_max: u64,
    },
}

impl RingPlace {
    /// Checks that the ring can work.
    ///
    /// # Errors
    /// [`PlaceError`] if it cannot.
    pub fn check(&self) -> Result<(), PlaceError> {
        let Self { rank, members, frame_bytes, frame_ms, magnitude_max, .. } = *self;
        if members < 2 || rank >= members {
            return Err(PlaceError::Rank { rank, members });
        }
        if !(BLOCK_BYTES_MAX as u32..=FRAME_BYTES_MAX).contains(&frame_bytes) {
            return Err(PlaceError::FrameBytes(frame_bytes));
        }
        if !(FRAME_MS_MIN..=FRAME_MS_MAX).contains(&frame_ms) {
            return Err(PlaceError::FrameMs(frame_ms));
        }
        let most = magnitude_max.checked_mul(members.into());
        let fits = most.is_some_and(|most| i64::try_from(most).is_ok());
        if fits { Ok(()) } else { Err(PlaceError::Magnitude { members, magnitude_max }) }
    }

    /// Rank of the neighbour that sends to this member.
    pub fn left(&self) -> u16 {
        self.rank.checked_sub(1).unwrap_or(self.members - 1)
    }

    /// Rank of the neighbour that this member sends to.
    pub fn right(&self) -> u16 {
        if self.rank + 1 < self.members { self.rank + 1 } else { 0 }
    }

    /// Largest magnitude of a value that is received in a step: in reduce-scatter, one more member has added each time.
    pub(crate) fn magnitude_max_in(&self, step: u32) -> u64 {
        self.magnitude_max * (u64::from(step) + 1).min(self.members.into())
    }

    /// Milliseconds between two signs of life.
    pub(crate) fn alive_ms(&self) -> u64 {
        self.frame_ms / ALIVE_PER_FRAME
    }

    /// A header of this member.
    pub(crate) fn header(&self, kind: FrameKind) -> FrameHeader {
        FrameHeader::of(kind, self.rank, self.attempt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: RingPlace =
        RingPlace { rank: 3, members: 4, attempt: 1, frame_bytes: 2050, frame_ms: 10_000, magnitude_max: 1 << 40 };

    #[test]
    fn a_place_that_cannot_work_is_refused() {
        assert_eq!(PLACE.check(), Ok(()));
        let refused = |change: fn(&mut RingPlace)| {
            let mut place = PLACE;
            change(&mut place);
            place.check().unwrap_err()
        };
        assert_eq!(refused(|place| place.rank = 4), PlaceError::Rank { rank: 4, members: 4 });
        assert_eq!(refused(|place| (place.rank, place.members) = (0, 1)), PlaceError::Rank { rank: 0, members: 1 });
        assert_eq!(refused(|place| place.frame_bytes = 2049), PlaceError::FrameBytes(2049));
        assert_eq!(refused(|place| place.frame_bytes = 1 << 21), PlaceError::FrameBytes(1 << 21));
        assert_eq!(refused(|place| place.frame_ms = 99), PlaceError::FrameMs(99));
        assert_eq!(refused(|place| place.frame_ms = u64::MAX), PlaceError::FrameMs(u64::MAX));
        for magnitude_max in [1 << 61, u64::MAX] {
            let place = RingPlace { magnitude_max, ..PLACE };
            assert_eq!(place.check(), Err(PlaceError::Magnitude { members: 4, magnitude_max }));
        }
        assert_eq!(RingPlace { magnitude_max: (1 << 61) - 1, ..PLACE }.check(), Ok(()));
    }

    #[test]
    fn neighbours_are_next_to_each_other() {
        assert_eq!((PLACE.left(), PLACE.right()), (2, 0));
        let first = RingPlace { rank: 0, ..PLACE };
        assert_eq!((first.left(), first.right()), (3, 1));
        assert_eq!([0, 2, 3, 5].map(|step| PLACE.magnitude_max_in(step) >> 40), [1, 3, 4, 4]);
    }
}
