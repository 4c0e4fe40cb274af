//! Frames: what members of a group send each other over a link.
//!
//! | bytes | field |
//! |---|---|
//! | 1 | kind: 1 hello, 2 sum, 3 values, 4 maxima, 6 abort, 7 alive. Other kinds are refused |
//! | 1 | flags: none yet, so 0; others are refused |
//! | 2 | rank of the sender |
//! | 4 | attempt |
//! | 4 | step; of values, the number of the mix |
//! | 4 | place: of sum and maxima, the chunk |
//! | 4 | part: of sum and maxima, the number of the frame in its chunk; of values, its number in the mix; of alive, the frames of sum that the sender has taken |
//! | 4 | bytes of the body, at most those that the group agreed on |
//!
//! The body of hello has 18 bytes (group 16, rank of the receiver 2), that of abort 7 (rank 2, step 4, reason 1), that
//! of alive none. The body of sum is a run of packed blocks ([`sum`](crate::sum)). That of values has a member's model
//! for its neighbour, as the group's codec writes it. That of maxima has an exponent of one byte for each block of a
//! [`grid`](super::grid).
//!
//! A sender has at most [`FRAMES_QUEUED_MAX`] frames of sum on a link that the receiver has not taken. The receiver
//! sends alive for each one that it takes, with their number since the link began.

/// Bytes of a frame before its body.
pub const FRAME_HEADER_BYTES: usize = 24;
/// Most bytes of a frame's body in any group.
pub const FRAME_BYTES_MAX: u32 = 1 << 20;
/// Most bytes of a frame's body, where a group does not say otherwise.
pub const FRAME_BYTES: u32 = 256 << 10;
/// Bytes of the body of hello.
pub const HELLO_BYTES: usize = 18;
/// Bytes of the body of abort.
pub const ABORT_BYTES: usize = 7;
/// Most frames of sum on a link that the receiver has not taken: queued by the sender, on their way, or queued by the
/// receiver.
///
/// More keep longer links busy and take more memory. Eight frames of the usual length are two megabytes: what 200
/// Mbit/s move in a round trip of 80 ms.
pub const FRAMES_QUEUED_MAX: u32 = 8;

/// What a frame is for. Kinds 5 (hash) and 8 (probe) are reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// The first frame of each side of a link.
    Hello = 1,
    /// Packed blocks of a chunk.
    Sum = 2,
    /// A part of a member's model.
    Values = 3,
    /// Exponents of the blocks of a chunk.
    Maxima = 4,
    /// The attempt has failed.
    Abort = 6,
    /// The sender lives, and has taken so many frames of sum.
    Alive = 7,
}

/// Why bytes are no frame of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// No such kind.
    #[error("there is no kind {0} of frames")]
    Kind(u8),
    /// Flags, of which there are none yet.
    #[error("no frame has the flags {0:#04x}")]
    Flags(u8),
    /// The body is longer than the kind or the group allows, or than a kind of fixed length has it.
    #[error("a frame of kind {} has a body of {got} bytes; {expected} were expected at most", *kind as u8)]
    Length {
        /// Kind of the frame.
        kind: FrameKind,
        /// Bytes of the body.
        got: u32,
        /// Most bytes; for a kind of fixed length, exactly so many.
        expected: u32,
    },
    /// No such reason of an abort.
    #[error("there is no reason {0} of an abort")]
    Reason(u8),
}

impl FrameKind {
    fn of(byte: u8) -> Result<Self, FrameError> {
        let kinds = [Self::Hello, Self::Sum, Self::Values, Self::Maxima, Self::Abort, Self::Alive];
        kinds.into_iter().find(|kind| *kind as u8 == byte).ok_or(FrameError::Kind(byte))
    }

    /// Bytes of the body, where the kind fixes them.
    fn length(self) -> Option<u32> {
        match self {
            Self::Hello => Some(HELLO_BYTES as u32),
            Self::Sum | Self::Values | Self::Maxima => None,
            Self::Abort => Some(ABORT_BYTES as u32),
            Self::Alive => Some(0),
        }
    }
}

/// What stands before the body of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// What the frame is for.
    pub kind: FrameKind,
    /// Rank of the sender.
    pub from: u16,
    /// Attempt of the group.
    pub attempt: u32,
    /// Step of the schedule.
    pub step: u32,
    /// Chunk of a sum or of maxima.
    pub place: u32,
    /// Number of the frame in its chunk; of alive, the frames of sum that the sender has taken.
    pub part: u32,
    /// Bytes of the body.
    pub length: u32,
}

impl FrameHeader {
    /// A frame of this kind without a step or a chunk. The length is that of the kind.
    pub fn of(kind: FrameKind, from: u16, attempt: u32) -> Self {
        Self { kind, from, attempt, step: 0, place: 0, part: 0, length: kind.length().unwrap_or(0) }
    }

    /// The bytes of the header.
    pub fn encode(&self) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        bytes[0] = self.kind as u8;
        bytes[2..4].copy_from_slice(&self.from.to_le_bytes());
        let words = [self.attempt, self.step, self.place, self.part, self.length];
        bytes[4..].as_chunks_mut().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        bytes
    }

    /// Reads a header of a group whose frames have bodies of at most `frame_bytes`.
    ///
    /// # Errors
    /// [`FrameError`] if the kind is unknown or has not this length, or if there are flags.
    pub fn decode(bytes: &[u8; FRAME_HEADER_BYTES], frame_bytes: u32) -> Result<Self, FrameError> {
        let ([first, words @ ..], []) = bytes.as_chunks::<4>() else { unreachable!("24 bytes are six times four") };
        let [kind, flags, from @ ..] = *first;
        let kind = FrameKind::of(kind)?;
        let word = |at: usize| u32::from_le_bytes(words[at]);
        let [attempt, step, place, part, length] = [0, 1, 2, 3, 4].map(word);
        if flags != 0 {
            return Err(FrameError::Flags(flags));
        }
        let expected = kind.length().unwrap_or(frame_bytes.min(FRAME_BYTES_MAX));
        if length > expected || kind.length().is_some_and(|fixed| length < fixed) {
            return Err(FrameError::Length { kind, got: length, expected });
        }
        Ok(Self { kind, from: u16::from_le_bytes(from), attempt, step, place, part, length })
    }
}

/// The body of hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Id of the group.
    pub group: [u8; 16],
    /// Rank of the receiver, as the sender believes.
    pub receiver: u16,
}

impl Hello {
    /// The bytes of the body.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..16].copy_from_slice(&self.group);
        bytes[16..].copy_from_slice(&self.receiver.to_le_bytes());
        bytes
    }

    /// Reads a body. All bytes are one.
    pub fn decode(bytes: &[u8; HELLO_BYTES]) -> Self {
        let [group @ .., low, high] = *bytes;
        Self { group, receiver: u16::from_le_bytes([low, high]) }
    }
}

/// Why a member ended an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AbortReason {
    /// The blamed member sent or took nothing.
    Silent = 1,
    /// The link to the blamed member ended.
    Closed = 2,
    /// The blamed member sent what it must not, or its own values are beyond their limit.
    Wrong = 3,
    /// The named member saw no progress, although its neighbours lived. It blames nobody.
    Stalled = 4,
}

/// The body of abort. Whoever gets one passes it on to its other neighbour, and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abort {
    /// Rank of the blamed member; of the one that stalled, if nobody is blamed.
    pub rank: u16,
    /// Step that failed.
    pub step: u32,
    /// Why.
    pub reason: AbortReason,
}

impl Abort {
    /// The bytes of the body.
    pub fn encode(&self) -> [u8; ABORT_BYTES] {
        let ([low, high], [a, b, c, d]) = (self.rank.to_le_bytes(), self.step.to_le_bytes());
        [low, high, a, b, c, d, self.reason as u8]
    }

    /// Reads a body.
    ///
    /// # Errors
    /// [`FrameError::Reason`] if the reason is unknown.
    pub fn decode(bytes: &[u8; ABORT_BYTES]) -> Result<Self, FrameError> {
        let [low, high, a, b, c, d, reason] = *bytes;
        let reasons = [AbortReason::Silent, AbortReason::Closed, AbortReason::Wrong, AbortReason::Stalled];
        let known = reasons.into_iter().find(|known| *known as u8 == reason).ok_or(FrameError::Reason(reason))?;
        Ok(Self { rank: u16::from_le_bytes([low, high]), step: u32::from_le_bytes([a, b, c, d]), reason: known })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SUM: FrameHeader = FrameHeader {
        kind: FrameKind::Sum,
        from: 0x0102,
        attempt: 0x0304_0506,
        step: 7,
        place: 0x0809,
        part: 10,
        length: 0x0002_0001,
    };

    #[test]
    fn frames_have_these_bytes() {
        let bytes = [2, 0, 2, 1, 6, 5, 4, 3, 7, 0, 0, 0, 9, 8, 0, 0, 10, 0, 0, 0, 1, 0, 2, 0];
        assert_eq!(SUM.encode(), bytes);
        assert_eq!(FrameHeader::decode(&bytes, FRAME_BYTES), Ok(SUM));
        let alive = FrameHeader { part: 9, ..FrameHeader::of(FrameKind::Alive, 3, 1) };
        assert_eq!(alive.encode(), [7, 0, 3, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);

        let hello = Hello { group: *b"group of sixteen", receiver: 258 };
        assert_eq!(hello.encode(), *b"group of sixteen\x02\x01");
        assert_eq!(Hello::decode(&hello.encode()), hello);
        let abort = Abort { rank: 258, step: 5, reason: AbortReason::Wrong };
        assert_eq!(abort.encode(), [2, 1, 5, 0, 0, 0, 3]);
        assert_eq!(Abort::decode(&abort.encode()), Ok(abort));
    }

    #[test]
    fn what_no_group_sends_is_refused() {
        let refused = |change: fn(&mut [u8; 24]), header: FrameHeader| {
            let mut bytes = header.encode();
            change(&mut bytes);
            FrameHeader::decode(&bytes, FRAME_BYTES).unwrap_err()
        };
        for (kind, change) in [
            (0, (|bytes| bytes[0] = 0) as fn(&mut [u8; 24])),
            (5, |bytes| bytes[0] = 5),
            (8, |bytes| bytes[0] = 8),
            (255, |bytes| bytes[0] = 255),
        ] {
            assert_eq!(refused(change, SUM), FrameError::Kind(kind));
        }
        assert_eq!(refused(|bytes| bytes[1] = 1, SUM), FrameError::Flags(1));
        let alive = FrameHeader::of(FrameKind::Alive, 0, 0);
        let length = |kind, got, expected| FrameError::Length { kind, got, expected };
        assert_eq!(refused(|bytes| bytes[20] = 1, alive), length(FrameKind::Alive, 1, 0));
        for kind in [FrameKind::Hello, FrameKind::Abort] {
            let header = FrameHeader::of(kind, 0, 0);
            let fixed = header.length;
            assert_eq!(refused(|bytes| bytes[20] -= 1, header), length(kind, fixed - 1, fixed));
            assert_eq!(refused(|bytes| bytes[20] += 1, header), length(kind, fixed + 1, fixed));
        }
        for (frame_bytes, expected) in [(2050, 2050), (FRAME_BYTES_MAX, FRAME_BYTES_MAX), (u32::MAX, FRAME_BYTES_MAX)] {
            let most = FrameHeader { length: expected, ..SUM };
            assert_eq!(FrameHeader::decode(&most.encode(), frame_bytes), Ok(most));
            let more = FrameHeader { length: expected + 1, ..SUM };
            let error = length(FrameKind::Sum, expected + 1, expected);
            assert_eq!(FrameHeader::decode(&more.encode(), frame_bytes), Err(error));
        }
        for reason in [0, 5, 255] {
            assert_eq!(Abort::decode(&[0, 0, 0, 0, 0, 0, reason]), Err(FrameError::Reason(reason)));
        }
    }

    proptest! {
        #[test]
        fn a_header_that_is_read_is_the_one_that_would_be_written(
            kind in 0u8..10, flags in 0u8..3, rest in any::<[u8; 18]>(), length in any::<u16>(), small in 0u16..30,
        ) {
            for length in [length, small] {
                let bytes = [&[kind, flags][..], &rest, &length.to_le_bytes(), &[0, 0]].concat();
                let bytes: [u8; 24] = bytes.try_into().unwrap();
                if let Ok(header) = FrameHeader::decode(&bytes, 50_000) {
                    prop_assert_eq!(header.encode(), bytes);
                    prop_assert!(header.length <= 50_000);
                }
            }
        }

        #[test]
        fn a_header_is_read_as_it_was(
            from: u16, attempt: u32, step: u32, place: u32, part: u32, length in 0..=FRAME_BYTES,
        ) {
            let header = FrameHeader { from, attempt, step, place, part, length, ..SUM };
            prop_assert_eq!(FrameHeader::decode(&header.encode(), FRAME_BYTES), Ok(header));
            let abort = Abort { rank: from, step, reason: AbortReason::Stalled };
            prop_assert_eq!(Abort::decode(&abort.encode()), Ok(abort));
            let hello = Hello { group: [attempt as u8; 16], receiver: from };
            prop_assert_eq!(Hello::decode(&hello.encode()), hello);
        }
    }
}
