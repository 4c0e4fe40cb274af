//! What the futures of one member tell each other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use tokio::sync::Notify;
use tributary_protocol::group::{Abort, FRAMES_QUEUED_MAX};

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
    /// Frames of exponents that came, before any of values.
    pub(super) agreed: AtomicU64,
    /// Wakes whoever needs all of them, or none if members have no grid.
    pub(super) agrees: Notify,
    /// Frames of values that were taken from the left neighbour.
    pub(super) taken: AtomicU64,
    /// Wakes whoever tells it.
    pub(super) took: Notify,
    /// Frames of values for the right neighbour, on the link or in its queue.
    pub(super) queued: AtomicU64,
    /// Frames of values that the right neighbour has taken.
    pub(super) granted: AtomicU64,
    /// Wakes whoever waits for that.
    pub(super) grants: Notify,
    /// Bytes of packed values that the right neighbour was sent.
    pub(super) sent_value_bytes: AtomicU64,
    /// All frames of the left neighbour came.
    pub(super) has_received: AtomicBool,
    /// The stream to the right neighbour has all frames.
    pub(super) has_sent: AtomicBool,
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

    /// Frames that may still be queued for the right neighbour.
    pub(super) fn free(&self) -> u64 {
        u64::from(FRAMES_QUEUED_MAX) + self.granted.load(Relaxed) - self.queued.load(Relaxed)
    }

    /// Ends when no frame has moved for so many waits in a row; never, where there is no such number.
    pub(super) async fn stalls(&self, waits: Option<u32>, wait_ms: u64, timer: &impl Timer) {
        let (mut before, mut still) = (0, 0);
        while waits.is_none_or(|waits| still < waits) {
            timer.sleep(wait_ms).await;
            let moved = self.agreed.load(Relaxed) + self.taken.load(Relaxed) + self.granted.load(Relaxed);
            still = if moved == before { still + 1 } else { 0 };
            before = moved;
        }
    }
}
