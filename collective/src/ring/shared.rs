//! What the futures of one member tell each other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use tokio::sync::Notify;
use tributary_protocol::group::Abort;

use crate::error::{Fault, Mistake};
use crate::timer::Timer;

/// The end of a side of the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The neighbour that sends.
    Left,
    /// The neighbour that receives.
    Right,
}

/// Why a member stops.
#[derive(Debug)]
pub(super) enum Failure {
    /// A neighbour is to blame.
    Neighbour(Side, Fault),
    /// A neighbour says that somebody is.
    Aborted(Side, Abort),
    /// The member's own value at a place is beyond the limit.
    Own { place: usize, got: i64 },
    /// Nothing moves.
    Stalled,
}

impl Failure {
    pub(super) fn wrong(side: Side, mistake: impl Into<Mistake>) -> Self {
        Self::Neighbour(side, Fault::Wrong(mistake.into()))
    }
}

/// A frame of a step, as one number that a future can set and others read.
#[derive(Debug, Default)]
pub(super) struct Position(AtomicU64);

impl Position {
    pub(super) fn set(&self, step: u32, frame: u32) {
        self.0.store(u64::from(step) << 32 | u64::from(frame), Relaxed);
    }

    pub(super) fn get(&self) -> (u32, u32) {
        let both = self.0.load(Relaxed);
        ((both >> 32) as u32, both as u32)
    }
}

/// What the futures share. They are polled by one task, so the order of memory does not matter.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The first frame that the left neighbour owes.
    pub(super) awaited: Position,
    /// The frame that is sent to the right neighbour.
    pub(super) sending: Position,
    /// Frames of values that came and went, to see whether anything moves.
    pub(super) moved: AtomicU64,
    /// Bytes of packed values that the right neighbour was sent.
    pub(super) sent_value_bytes: AtomicU64,
    /// All frames of the left neighbour came.
    pub(super) has_received: AtomicBool,
    /// Wakes whoever waits for that.
    pub(super) received: Notify,
    /// The stream to the right neighbour has all frames.
    pub(super) has_sent: AtomicBool,
    /// The queue to the right neighbour is full, so nothing is taken from the left one.
    pub(super) is_held: AtomicBool,
    /// The right neighbour said that its own right neighbour takes nothing.
    pub(super) right_is_held: AtomicBool,
    /// Writing to the right neighbour failed.
    pub(super) right_is_broken: AtomicBool,
}

impl Shared {
    pub(super) fn is(flag: &AtomicBool) -> bool {
        flag.load(Relaxed)
    }

    pub(super) fn set(flag: &AtomicBool, value: bool) {
        flag.store(value, Relaxed);
    }

    /// Whether the member has the sum, and has sent all that others need of it.
    pub(super) fn is_complete(&self) -> bool {
        Self::is(&self.has_received) && Self::is(&self.has_sent)
    }

    pub(super) fn frame_moved(&self) {
        self.moved.fetch_add(1, Relaxed);
    }

    /// Ends when no frame has moved for so many waits in a row.
    pub(super) async fn stalls(&self, waits: u32, wait_ms: u64, timer: &impl Timer) {
        let (mut before, mut still) = (0, 0);
        while still < waits {
            timer.sleep(wait_ms).await;
            let moved = self.moved.load(Relaxed);
            still = if moved == before { still + 1 } else { 0 };
            before = moved;
        }
    }
}
