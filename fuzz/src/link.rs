//! A member of a ring whose left neighbour sends arbitrary bytes: it ends with a sum or a fault, and takes no more memory
//! than its frames.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use tributary_collective::{Reduced, RingError, RingPlace, Timer, all_reduce};
use tributary_protocol::group::{FRAME_HEADER_BYTES, FrameHeader, FrameKind};

/// Values of each member.
pub const VALUES: usize = 700;
/// The attempt of the group.
pub const ATTEMPT: u32 = 2;
/// Looks at a future that waits for time, after which the time is over: all else is in memory, and ready at once.
const LOOKS: u32 = 64;
/// Looks in which a member ends.
const LOOKS_MAX: u32 = 1_000_000;

const PLACE: RingPlace =
    RingPlace { rank: 0, members: 2, attempt: ATTEMPT, frame_bytes: 4_200, frame_ms: 1_000, magnitude_max: 1 << 40 };

/// Time passes with looks.
struct Looks;

impl Timer for Looks {
    fn sleep(&self, _: u64) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let mut looks = 0;
        Box::pin(poll_fn(move |_| {
            looks += 1;
            if looks > LOOKS { Poll::Ready(()) } else { Poll::Pending }
        }))
    }
}

/// Reads `data` as what the left neighbour sends: as it is, and as bodies of frames that have a right header, since a
/// fuzzer rarely finds one.
pub fn link(data: &[u8]) {
    for sent in [data.to_vec(), framed(data)] {
        match reduced(&sent) {
            Ok(sum) => assert!(sum.traffic().received_bytes as usize <= sent.len()),
            Err(RingError::Neighbour { rank, .. } | RingError::Aborted { rank, .. }) => assert!(rank < 2),
            Err(RingError::Stalled { .. }) => {}
            Err(error) => panic!("{error}: the place and the own integers are right"),
        }
    }
}

/// Frames of the left neighbour: of each piece of the data, a byte chooses kind, step and part, and one the length.
fn framed(data: &[u8]) -> Vec<u8> {
    let (mut frames, mut rest) = (Vec::new(), data);
    while let Some(([choice, length], body)) = rest.split_first_chunk() {
        let body = &body[..body.len().min(usize::from(*length) * 8)];
        rest = &rest[2 + body.len()..];
        let kind = [FrameKind::Sum, FrameKind::Sum, FrameKind::Alive, FrameKind::Abort][usize::from(choice & 3)];
        let (step, part) = (u32::from(choice >> 2 & 1), u32::from(choice >> 3 & 3));
        let of_kind = FrameHeader::of(kind, 1, ATTEMPT);
        let header = match kind {
            FrameKind::Sum => FrameHeader { step, place: 1 - step, part, length: body.len() as u32, ..of_kind },
            _ => FrameHeader { part, ..of_kind },
        };
        frames.extend_from_slice(&header.encode());
        frames.extend(body.iter().chain([0; 64].iter()).take(header.length as usize));
    }
    frames
}

/// What the member comes to.
pub fn reduced(sent: &[u8]) -> Result<Reduced, RingError> {
    let own = vec![1i64; VALUES];
    // The right neighbour takes everything and says nothing.
    let (right, _other) = tokio::io::duplex(1 << 20);
    let left = tokio::io::join(sent, tokio::io::sink());
    let mut member = pin!(all_reduce(&PLACE, &own, left, right, &Looks));
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..LOOKS_MAX {
        if let Poll::Ready(reduced) = member.as_mut().poll(&mut context) {
            return reduced;
        }
    }
    panic!("the member never ends");
}

/// A frame of sums of the left neighbour.
#[must_use]
pub fn sum_frame(step: u32, part: u32, body: &[u8]) -> Vec<u8> {
    let of_kind = FrameHeader::of(FrameKind::Sum, 1, ATTEMPT);
    let header = FrameHeader { step, place: 1 - step, part, length: body.len() as u32, ..of_kind };
    let mut frame = Vec::with_capacity(FRAME_HEADER_BYTES + body.len());
    frame.extend_from_slice(&header.encode());
    frame.extend_from_slice(body);
    frame
}
