//! Members with links between them, and links that tamper.

use std::cell::Cell;
use std::rc::Rc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::sync::watch;
use tributary_collective::{Addend, Reduced, RingError, RingPlace, all_reduce};
use tributary_protocol::group::{FRAME_HEADER_BYTES, FrameHeader, FrameKind};
use tributary_protocol::seed::Seed;

use super::runner::{Clock, Task, run};

pub(super) const FRAME_MS: u64 = 3000;
pub(super) const MAGNITUDE_MAX: u64 = 1 << 40;

pub(super) type Ended = Result<Reduced, RingError>;

pub(super) fn place(rank: u16, members: u16) -> RingPlace {
    RingPlace { rank, members, attempt: 2, frame_bytes: 5000, frame_ms: FRAME_MS, magnitude_max: MAGNITUDE_MAX }
}

/// Integers of a member, as hard to guess as those of an update.
pub(super) fn addend(member: u16, values: usize) -> Vec<i64> {
    let mut stream = Seed(u64::from(member) + 77).stream();
    (0..values).map(|_| (stream.next_u64() as i64) >> 25).collect()
}

pub(super) fn direct_sum(addends: &[Vec<i64>]) -> Vec<i64> {
    (0..addends[0].len()).map(|at| addends.iter().map(|addend| addend[at]).sum()).collect()
}

/// The links of a ring: of each member, the one to its left neighbour and the one to its right neighbour.
pub(super) fn links(members: u16, buffer: usize) -> Vec<(DuplexStream, DuplexStream)> {
    let (rights, mut lefts): (Vec<_>, Vec<_>) = (0..members).map(|_| duplex(buffer)).unzip();
    // The link from member p to its right neighbour is the left link of member p + 1.
    lefts.rotate_right(1);
    lefts.into_iter().zip(rights).collect()
}

/// Runs a ring of honest members.
pub(super) fn honest(places: &[RingPlace], addends: &[impl Addend], buffer: usize, seed: u64) -> Vec<Ended> {
    let clock = Clock::default();
    let links = links(places.len() as u16, buffer);
    let members = places.iter().zip(addends).zip(links);
    let tasks = members.map(|((place, own), (left, right))| -> Task<'_, Ended> {
        Box::pin(all_reduce(place, own, left, right, &clock))
    });
    let ended = run(&clock, seed, tasks.collect(), places.len());
    assert_eq!(clock.now_ms(), 0, "nobody waits for a time that passes");
    ended
}

/// What a tampering link does with a frame.
pub(super) enum Act {
    Pass,
    /// Sends these bytes instead.
    Replace(Vec<u8>),
    /// The member is dead: its links end.
    Die,
    /// The member stops: its links stay, and nothing moves.
    Stop,
}

#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Lives,
    Dies,
    Stops,
}

/// Runs a ring in which each frame of values or exponents of the `culprit` is shown to `act` before it goes to the
/// right. Returns how the members ended, and when all of them had.
pub(super) fn tampered(
    addends: &[impl Addend],
    culprit: u16,
    (buffer, seed): (usize, u64),
    mut act: impl FnMut(&FrameHeader, &[u8]) -> Act,
) -> (Vec<Ended>, u64) {
    let clock = Clock::default();
    let members = addends.len() as u16;
    let places: Vec<RingPlace> = (0..members).map(|rank| place(rank, members)).collect();
    let mut links = links(members, buffer);
    let (fate, _) = watch::channel(Fate::Lives);
    let fate = Rc::new(fate);
    // Between the culprit and each neighbour are two streams and a task that carries frames from one to the other.
    let ((own_left, inner_left), (own_right, inner_right)) = (duplex(buffer), duplex(buffer));
    let (left, right) = std::mem::replace(&mut links[usize::from(culprit)], (own_left, own_right));
    let tasks = places.iter().zip(addends).zip(links).map(|((place, own), (left, right))| -> Task<'_, Ended> {
        Box::pin(all_reduce(place, own, left, right, &clock))
    });
    let mut tasks: Vec<Task<'_, Ended>> = tasks.collect();
    let (to_right, to_left) = (
        carry(inner_right, right, fate.clone(), move |header, frame| {
            let is_shown = matches!(header.kind, FrameKind::Sum | FrameKind::Maxima);
            if is_shown { act(header, frame) } else { Act::Pass }
        }),
        carry(inner_left, left, fate, |_, _| Act::Pass),
    );
    tasks.push(Box::pin(to_right));
    tasks.push(Box::pin(to_left));
    let ended = run(&clock, seed, tasks, addends.len());
    (ended, clock.now_ms())
}

/// Carries the frames of a member to its neighbour, as `act` says, and the bytes of the neighbour back.
async fn carry(
    member: DuplexStream,
    neighbour: DuplexStream,
    fate: Rc<watch::Sender<Fate>>,
    mut act: impl FnMut(&FrameHeader, &[u8]) -> Act,
) -> Ended {
    let ((mut from_member, mut to_member), (mut from_neighbour, mut to_neighbour)) = (split(member), split(neighbour));
    let mut changed = fate.subscribe();
    let is_open = Cell::new(true);
    let out = async {
        while let Some((header, frame)) = next_frame(&mut from_member).await {
            let frame = match act(&header, &frame) {
                Act::Pass => frame,
                Act::Replace(frame) => frame,
                Act::Die => return fate.send(Fate::Dies).unwrap_or_default(),
                Act::Stop => return fate.send(Fate::Stops).unwrap_or_default(),
            };
            if to_neighbour.write_all(&frame).await.is_err() {
                break;
            }
        }
        is_open.set(false);
        let _ = to_neighbour.shutdown().await;
    };
    let back = copy(&mut from_neighbour, &mut to_member);
    tokio::select! {
        biased;
        fate = changed.wait_for(|fate| *fate != Fate::Lives) => {
            if fate.is_ok_and(|fate| *fate == Fate::Dies) {
                drop((from_member, to_member, from_neighbour, to_neighbour));
                return std::future::pending().await;
            }
        }
        _ = async { tokio::join!(out, back) } => {}
    }
    // The streams stay open.
    let ended = std::future::pending().await;
    drop((from_member, to_member, from_neighbour, to_neighbour));
    ended
}

async fn next_frame(from: &mut ReadHalf<DuplexStream>) -> Option<(FrameHeader, Vec<u8>)> {
    let mut frame = vec![0; FRAME_HEADER_BYTES];
    from.read_exact(&mut frame).await.ok()?;
    let header = FrameHeader::decode(frame.first_chunk().unwrap(), u32::MAX).expect("members send frames");
    frame.resize(FRAME_HEADER_BYTES + header.length as usize, 0);
    from.read_exact(&mut frame[FRAME_HEADER_BYTES..]).await.ok()?;
    Some((header, frame))
}

async fn copy(from: &mut ReadHalf<DuplexStream>, to: &mut WriteHalf<DuplexStream>) {
    let mut bytes = [0; 4096];
    while let Ok(count) = from.read(&mut bytes).await
        && count > 0
        && to.write_all(&bytes[..count]).await.is_ok()
    {}
    let _ = to.shutdown().await;
}
