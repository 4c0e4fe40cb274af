//! Groups: clients that add up among themselves, over links from member to member, instead of at the coordinator.
//!
//! Everything here is pure. The crate `tributary-collective` moves the bytes.
//!
//! | part | contents |
//! |---|---|
//! | [`schedule`], [`chunk_range`] | ring all-reduce: who sends and receives which chunk in which step |
//! | [`grid`] | powers of two that members round to, so that sums have few bits |
//! | [`messages`] | what a member and the coordinator say to each other |
//! | [`FrameHeader`], [`Hello`], [`Abort`] | what a link carries. Integers are little-endian |

mod frame;
pub mod grid;
pub mod messages;
mod ring;

pub use frame::{
    ABORT_BYTES, Abort, AbortReason, FRAME_BYTES, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, FRAMES_QUEUED_MAX, FrameError,
    FrameHeader, FrameKind, HELLO_BYTES, Hello,
};
pub use ring::{Hop, chunk_range, schedule};
