//! The end of a member that failed: it tells its neighbours.

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tributary_protocol::group::{Abort, AbortReason, FrameKind};

use super::shared::{Failure, Side};
use crate::link::{FrameReader, FrameWriter, frame};
use crate::place::RingPlace;
use crate::timer::Timer;

/// A link to a neighbour.
pub(super) struct Link<'a, R, W> {
    pub(super) from: &'a mut FrameReader<R>,
    pub(super) to: &'a mut FrameWriter<W>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Link<'_, R, W> {
    /// Sends the frame that was begun, then the last one, and ends the link. With `waits` the neighbour ends it first:
    /// it may still send, and its bytes unread would take the abort with them.
    async fn end(self, last: Option<Vec<u8>>, waits: bool) {
        self.to.end(last).await;
        if waits {
            self.from.drain().await;
        }
    }
}

/// Ends a link before the ring began, because the member cannot reach its other neighbour, `blamed`: whoever is on this
/// one learns that, and does not blame this member.
pub async fn give_up<L>(place: &RingPlace, blamed: u16, link: L, timer: &impl Timer)
where
    L: AsyncRead + AsyncWrite + Send,
{
    let (mut from, mut to) = tokio::io::split(link);
    let abort = Abort { rank: blamed, step: 0, reason: AbortReason::Silent };
    let last = frame(&place.header(FrameKind::Abort), &abort.encode());
    let told = async {
        to.write_all(&last).await?;
        to.shutdown().await?;
        // It may still send, and its bytes unread would take the abort with them.
        tokio::io::copy(&mut from, &mut tokio::io::sink()).await
    };
    tokio::select! {
        biased;
        _ = told => {}
        () = timer.sleep(place.alive_ms()) => {}
    }
}

/// Sends the abort to both neighbours, but not back to the one that it came from, and ends both links. Whoever is to
/// blame is told, and not waited for.
pub(super) async fn farewell<RL, WL, RR, WR>(
    place: &RingPlace,
    timer: &impl Timer,
    failure: &Failure,
    abort: Abort,
    (left, right): (Link<'_, RL, WL>, Link<'_, RR, WR>),
) where
    RL: AsyncRead + Unpin,
    WL: AsyncWrite + Unpin,
    RR: AsyncRead + Unpin,
    WR: AsyncWrite + Unpin,
{
    let mut header = place.header(FrameKind::Abort);
    header.step = abort.step;
    let last = |side| match failure {
        Failure::Aborted(from, _) if *from == side => None,
        _ => Some(frame(&header, &abort.encode())),
    };
    let waits = |side| !matches!(failure, Failure::Neighbour(blamed, _) if *blamed == side);
    let both = async {
        tokio::join!(left.end(last(Side::Left), waits(Side::Left)), right.end(last(Side::Right), waits(Side::Right)),)
    };
    tokio::select! {
        biased;
        _ = both => {}
        () = timer.sleep(place.alive_ms()) => {}
    }
}
