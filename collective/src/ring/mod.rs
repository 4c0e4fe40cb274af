//! Ring all-reduce of one member. Its steps are those of [`schedule`](tributary_protocol::group::schedule).
//!
//! | file | content |
//! |---|---|
//! | [`ends`] | the two directions of each link |
//! | [`maxima`] | before the sums, if members have a grid: they agree on its exponents |
//! | [`pump`] | between them: adds, keeps, sends on |
//! | [`shared`] | what those tell each other |
//! | [`farewell`] | the end of a member that failed: its neighbours are told |

mod ends;
mod farewell;
mod maxima;
mod pump;
mod shared;

use std::sync::atomic::Ordering::Relaxed;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tributary_protocol::group::{Abort, AbortReason, FRAMES_QUEUED_MAX};

use crate::addend::Addend;
use crate::error::RingError;
use crate::layout::Layout;
use crate::link::{FrameReader, FrameWriter, Turns};
use crate::place::{RingPlace, STALL_WAITS};
use crate::reduced::{Reduced, RingTraffic};
use crate::timer::Timer;
use ends::Ends;
pub use farewell::give_up;
use farewell::{Link, farewell};
use pump::Pump;
use shared::{Failure, Shared, Side};

/// Adds up the integers of all members of a ring. The others begin within `frame_ms` of each other.
///
/// `left` is the link to the neighbour that sends to this member, and `right` the one to the neighbour that it sends
/// to. In a ring of two both lead to the same member, and are still two links.
///
/// In memory are the packed sum, and of each neighbour at most nine frames.
///
/// # Errors
/// [`RingError`]. Every wait has an end: the neighbours of a dead member notice it within `frame_ms`, and all others
/// know of it right after. A member that has the sum and has sent all that others need does not fail any more.
pub async fn all_reduce<L, R>(
    place: &RingPlace,
    own: &impl Addend,
    left: L,
    right: R,
    timer: &impl Timer,
) -> Result<Reduced, RingError>
where
    L: AsyncRead + AsyncWrite + Send,
    R: AsyncRead + AsyncWrite + Send,
{
    reduce(place, own, (left, right), timer, Some(STALL_WAITS)).await
}

/// The same over connections that stay: their next turn begins. Members may wait for each other as long as they say
/// that they live ([`keep_alive`](crate::keep_alive)), because one of them may still be at other work.
///
/// # Errors
/// As [`all_reduce`]. The connections are of no use then.
pub async fn all_reduce_in_turn<L, R>(
    place: &RingPlace,
    own: &impl Addend,
    (left, right): (&mut Turns<L>, &mut Turns<R>),
    timer: &impl Timer,
) -> Result<Reduced, RingError>
where
    L: AsyncRead + AsyncWrite + Send + Unpin,
    R: AsyncRead + AsyncWrite + Send + Unpin,
{
    let reduced = reduce(place, own, (&mut *left, &mut *right), timer, None).await?;
    left.next();
    right.next();
    Ok(reduced)
}

/// Adds up. Without `stall_waits`, nothing need move while both neighbours live.
async fn reduce<L, R>(
    place: &RingPlace,
    own: &impl Addend,
    (left, right): (L, R),
    timer: &impl Timer,
    stall_waits: Option<u32>,
) -> Result<Reduced, RingError>
where
    L: AsyncRead + AsyncWrite + Send,
    R: AsyncRead + AsyncWrite + Send,
{
    place.check()?;
    let (from_left, to_left) = tokio::io::split(left);
    let (from_right, to_right) = tokio::io::split(right);
    let (mut from_left, mut to_left) = (FrameReader::new(from_left, place, place.left()), FrameWriter::new(to_left));
    let (mut from_right, mut to_right) =
        (FrameReader::new(from_right, place, place.right()), FrameWriter::new(to_right));

    let layout = Layout::new(place, own.values());
    let shared = Shared::default();
    let (queue, mut queued) = mpsc::channel(FRAMES_QUEUED_MAX as usize);
    let (heard, mut came) = mpsc::channel(FRAMES_QUEUED_MAX as usize);
    let (agreeing, chunks) = mpsc::unbounded_channel();
    let mut pump = Pump::new(place, &layout, &shared, own, &queue);
    let ends = Ends { place, shared: &shared, timer, is_patient: stall_waits.is_none() };
    let ended = tokio::select! {
        biased;
        ended = async {
            tokio::try_join!(
                biased;
                async {
                    ends.hear_maxima(&mut from_left, own.scale(), agreeing).await?;
                    ends.hear_left(&mut from_left, &heard, layout.frames_received()).await
                },
                async {
                    shared.agrees.notified().await;
                    pump.run(&mut came).await
                },
                ends.hear_right(&mut from_right),
                async {
                    ends.tell_maxima(&mut to_right, own.scale(), chunks).await?;
                    ends.send_right(&mut to_right, &mut queued, layout.frames_sent()).await
                },
                ends.send_left(&mut to_left),
            )
        } => ended,
        () = shared.stalls(stall_waits, place.frame_ms, timer) => Err(Failure::Stalled),
    };
    match ended {
        Err(failure) if !shared.is_complete() => {
            let abort = abort(place, &shared, &failure);
            let left = Link { from: &mut from_left, to: &mut to_left };
            let right = Link { from: &mut from_right, to: &mut to_right };
            farewell(place, timer, &failure, abort, (left, right)).await;
            Err(error(place, &shared, failure))
        }
        _ => {
            let traffic = RingTraffic {
                sent_bytes: to_left.sent + to_right.sent,
                received_bytes: from_left.received + from_right.received,
                sent_value_bytes: shared.sent_value_bytes.load(Relaxed),
                received_value_bytes: pump.value_bytes,
            };
            let chunks = pump.chunks;
            Ok(Reduced::new(layout, place.members, chunks, traffic))
        }
    }
}

/// What the neighbours are told.
fn abort(place: &RingPlace, shared: &Shared, failure: &Failure) -> Abort {
    let (step, _) = position(shared, failure);
    match failure {
        Failure::Neighbour(Side::Left, fault) => Abort { rank: place.left(), step, reason: fault.reason() },
        Failure::Neighbour(Side::Right, fault) => Abort { rank: place.right(), step, reason: fault.reason() },
        Failure::Aborted(_, abort) => *abort,
        Failure::Own { .. } => Abort { rank: place.rank, step, reason: AbortReason::Wrong },
        Failure::Stalled => Abort { rank: place.rank, step, reason: AbortReason::Stalled },
    }
}

/// What the caller is told.
fn error(place: &RingPlace, shared: &Shared, failure: Failure) -> RingError {
    let (step, frame) = position(shared, &failure);
    match failure {
        Failure::Neighbour(side, what) => {
            let rank = if side == Side::Left { place.left() } else { place.right() };
            RingError::Neighbour { rank, what, step, frame }
        }
        Failure::Aborted(_, Abort { rank, step, reason }) => RingError::Aborted { rank, step, reason },
        Failure::Own { place: at, got } => RingError::Own { place: at, got, magnitude_max: place.magnitude_max },
        Failure::Stalled => RingError::Stalled { step, frame },
    }
}

/// Step and frame of a failure: what is sent to the right neighbour, or what is owed by the left one.
fn position(shared: &Shared, failure: &Failure) -> (u32, u32) {
    if let Failure::Neighbour(Side::Right, _) = failure { shared.sending.get() } else { shared.awaited.get() }
}
