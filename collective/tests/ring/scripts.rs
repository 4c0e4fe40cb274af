//! A member of a ring of three that keeps to a script, next to two honest ones.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, split};
use tributary_collective::{Fault, Mistake, RingError, Timer, all_reduce};
use tributary_protocol::group::{
    ABORT_BYTES, Abort, AbortReason, FRAME_HEADER_BYTES, FRAMES_QUEUED_MAX, FrameHeader, FrameKind,
};
use tributary_protocol::sum::pack_run;

use super::ring::{Ended, FRAME_MS, addend, links, place};
use super::runner::{Clock, Task, run};

const VALUES: usize = 30_000;
/// The member with a script. It sends to member 0, and receives from member 1.
const ACTOR: u16 = 2;

/// Runs two honest members beside the one that `act` plays, with its links to the left and to the right. Returns how
/// the honest ones ended, and when.
fn beside<'a>(
    buffer: usize,
    clock: &'a Clock,
    act: impl FnOnce(DuplexStream, DuplexStream) -> Task<'a, Ended>,
) -> (Vec<Ended>, Duration) {
    let addends = [addend(0, VALUES), addend(1, VALUES)];
    let places = [place(0, 3), place(1, 3)];
    let mut links = links(3, buffer);
    let (left, right) = links.remove(2);
    let honest = places.iter().zip(&addends).zip(links).map(|((place, own), (left, right))| {
        Box::pin(async move { all_reduce(place, own, left, right, clock).await }) as Task<'_, Ended>
    });
    let tasks: Vec<Task<'_, Ended>> = honest.chain([act(left, right)]).collect();
    let ended = run(clock, 3, tasks, 2);
    (ended, Duration::from_millis(clock.now_ms()))
}

fn header(kind: FrameKind) -> FrameHeader {
    FrameHeader::of(kind, ACTOR, place(ACTOR, 3).attempt)
}

/// Says that it lives, for ever. With `reads` it also reads what comes from the left.
async fn live(left: DuplexStream, right: DuplexStream, clock: &Clock, reads: bool) -> Ended {
    let ((mut from_left, mut to_left), (mut from_right, mut to_right)) = (split(left), split(right));
    let says = async {
        let alive = header(FrameKind::Alive).encode();
        while to_left.write_all(&alive).await.is_ok() | to_right.write_all(&alive).await.is_ok() {
            clock.sleep(FRAME_MS / 3).await;
        }
    };
    let (mut bytes, mut more) = ([0; 1000], [0; 1000]);
    let hears_left = async { while reads && from_left.read(&mut bytes).await.is_ok_and(|bytes| bytes > 0) {} };
    let hears_right = async { while from_right.read(&mut more).await.is_ok_and(|bytes| bytes > 0) {} };
    tokio::join!(says, hears_left, hears_right);
    std::future::pending().await
}

#[test]
fn a_member_that_lives_and_takes_nothing_is_silent_to_its_left_neighbour() {
    let clock = Clock::default();
    let (ended, time) = beside(64, &clock, |left, right| Box::pin(live(left, right, &clock, false)));
    let Err(RingError::Neighbour { rank: ACTOR, what: Fault::Silent, step: 0, frame: 0 }) = ended[1] else {
        panic!("{:?}", ended[1])
    };
    assert!(
        matches!(ended[0], Err(RingError::Aborted { rank: ACTOR, reason: AbortReason::Silent, .. })),
        "{:?}",
        ended[0]
    );
    assert!(time.as_millis() <= u128::from(2 * FRAME_MS), "{time:?}");
}

#[test]
fn a_member_that_lives_and_does_nothing_ends_the_ring_without_blame() {
    let clock = Clock::default();
    let (ended, time) = beside(64, &clock, |left, right| Box::pin(live(left, right, &clock, true)));
    let is_stalled = |ended: &Ended| {
        matches!(ended, Err(RingError::Stalled { .. } | RingError::Aborted { reason: AbortReason::Stalled, .. }))
    };
    assert!(ended.iter().all(is_stalled), "{ended:?}");
    assert!(time.as_millis() <= u128::from(8 * FRAME_MS), "{time:?}");
}

#[test]
fn an_abort_is_passed_on_once_and_not_back() {
    let clock = Clock::default();
    let abort = Abort { rank: 1, step: 3, reason: AbortReason::Closed };
    let (ended, _) = beside(1 << 20, &clock, |left, right| {
        Box::pin(async move {
            let (mut left, mut right) = (left, right);
            right.write_all(&[&header(FrameKind::Abort).encode()[..], &abort.encode()].concat()).await.unwrap();
            let (mut from_left, mut from_right) = (Vec::new(), Vec::new());
            left.read_to_end(&mut from_left).await.unwrap();
            right.read_to_end(&mut from_right).await.unwrap();
            let aborts = |bytes: &[u8]| {
                let (mut rest, mut found) = (bytes, Vec::new());
                while let Some((bytes, after)) = rest.split_first_chunk::<FRAME_HEADER_BYTES>() {
                    let header = FrameHeader::decode(bytes, u32::MAX).unwrap();
                    let (body, after) = after.split_at(header.length as usize);
                    if header.kind == FrameKind::Abort {
                        found.push(Abort::decode(body.first_chunk::<ABORT_BYTES>().unwrap()).unwrap());
                    }
                    rest = after;
                }
                assert!(rest.is_empty(), "frames are whole");
                found
            };
            assert_eq!((aborts(&from_left), aborts(&from_right)), (vec![abort], vec![]));
            // The links stay until the others have ended.
            std::future::pending::<()>().await;
            drop((left, right));
            Err(RingError::Stalled { step: 0, frame: 0 })
        })
    });
    for ended in ended {
        assert_eq!(ended.unwrap_err(), RingError::Aborted { rank: 1, step: 3, reason: AbortReason::Closed });
    }
}

/// Sends these bytes to the right and to the left, and nothing more. Returns what the right neighbour finds wrong, and
/// what the left one does.
fn found(to_right: Vec<u8>, to_left: Vec<u8>) -> [Option<Mistake>; 2] {
    let clock = Clock::default();
    let (ended, _) = beside(1 << 20, &clock, |left, right| {
        Box::pin(async move {
            let (mut left, mut right) = (left, right);
            right.write_all(&to_right).await.unwrap();
            left.write_all(&to_left).await.unwrap();
            std::future::pending::<()>().await;
            drop((left, right));
            Err(RingError::Stalled { step: 0, frame: 0 })
        })
    });
    let mistake = |ended: Ended| match ended.unwrap_err() {
        RingError::Neighbour { rank: ACTOR, what: Fault::Wrong(mistake), .. } => Some(mistake),
        RingError::Aborted { rank: ACTOR, reason: AbortReason::Wrong, .. } => None,
        other => panic!("{other:?}"),
    };
    ended.into_iter().map(mistake).collect::<Vec<_>>().try_into().unwrap()
}

#[test]
fn the_right_neighbour_sends_no_values_and_takes_none_that_were_not_sent() {
    let sum = FrameHeader { step: 0, place: 2, ..header(FrameKind::Sum) }.encode().to_vec();
    assert_eq!(found(Vec::new(), sum), [None, Some(Mistake::Kind)]);
    for taken in [FRAMES_QUEUED_MAX + 1, u32::MAX] {
        let alive = FrameHeader { part: taken, ..header(FrameKind::Alive) }.encode().to_vec();
        assert_eq!(found(Vec::new(), alive), [None, Some(Mistake::Window)]);
    }
}

#[test]
fn no_more_frames_are_received_than_were_granted() {
    // Each of the frames is right, and member 0 cannot send on more than the actor takes, which is none.
    let frames = (0..3 * FRAMES_QUEUED_MAX).flat_map(|part| {
        let mut body = Vec::new();
        pack_run(&[1; 512], &mut body);
        let header = FrameHeader { place: 2, part, length: body.len() as u32, ..header(FrameKind::Sum) };
        [&header.encode()[..], &body].concat()
    });
    assert_eq!(found(frames.collect(), Vec::new()), [Some(Mistake::Window), None]);
}

#[test]
fn an_abort_because_of_nobody_is_wrong() {
    let abort = Abort { rank: 3, step: 0, reason: AbortReason::Silent };
    let bytes = [&header(FrameKind::Abort).encode()[..], &abort.encode()].concat();
    assert_eq!(found(bytes.clone(), Vec::new()), [Some(Mistake::Rank(3)), None]);
    assert_eq!(found(Vec::new(), bytes), [None, Some(Mistake::Rank(3))]);
}
