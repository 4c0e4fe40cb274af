//! The three other directions of a member: to the right, back from the right, and back to the left.

use std::sync::atomic::Ordering::Relaxed;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tributary_protocol::group::{FrameHeader, FrameKind, HELD};

use super::shared::{Failure, Shared, Side};
use crate::error::{Fault, Mistake};
use crate::link::{FrameReader, FrameWriter, Received, frame};
use crate::place::{ALIVE_PER_FRAME, RingPlace};
use crate::timer::Timer;

/// What all directions know.
#[derive(Clone, Copy)]
pub(super) struct Ends<'a, T> {
    pub(super) place: &'a RingPlace,
    pub(super) shared: &'a Shared,
    pub(super) timer: &'a T,
}

impl<T: Timer> Ends<'_, T> {
    /// Sends so many frames of the queue to the right neighbour, and signs of life while there is none. Then it ends
    /// this direction.
    pub(super) async fn send_right(
        &self,
        right: &mut FrameWriter<impl AsyncWrite + Unpin>,
        queue: &mut mpsc::Receiver<Vec<u8>>,
        frames: u64,
    ) -> Result<(), Failure> {
        for sent in 1..=frames {
            let next = loop {
                tokio::select! {
                    biased;
                    next = queue.recv() => break next.expect("the sender of the queue is not dropped before it"),
                    () = self.timer.sleep(self.place.alive_ms()) => {}
                }
                right.begin(self.alive(false));
                self.write(right, Side::Right, false).await?;
            };
            let header = next.first_chunk().expect("a frame has a header");
            let header = FrameHeader::decode(header, self.place.frame_bytes).expect("the header is our own");
            self.shared.sending.set(header.step, header.part);
            self.shared.sent_value_bytes.fetch_add(header.length.into(), Relaxed);
            right.begin(next);
            self.write(right, Side::Right, sent == frames).await?;
            self.shared.frame_moved();
        }
        self.end(right).await;
        Ok(())
    }

    /// Sends the left neighbour signs of life until it has sent all frames. Then it ends this direction, which tells
    /// the left neighbour that they came.
    pub(super) async fn send_left(&self, left: &mut FrameWriter<impl AsyncWrite + Unpin>) -> Result<(), Failure> {
        loop {
            tokio::select! {
                biased;
                () = self.shared.received.notified() => break,
                () = self.timer.sleep(self.place.alive_ms()) => {}
            }
            left.begin(self.alive(Shared::is(&self.shared.is_held)));
            self.write(left, Side::Left, false).await?;
        }
        self.end(left).await;
        Ok(())
    }

    /// Listens to the right neighbour until it ends this direction.
    ///
    /// A member that has the sum and has sent all that others need does not fail any more. It waits only because a
    /// link that ends with unread bytes may lose those that are under way.
    pub(super) async fn hear_right(&self, right: &mut FrameReader<'_, impl AsyncRead + Unpin>) -> Result<(), Failure> {
        loop {
            let failure = match right.next(self.timer).await {
                Ok(Received::Alive { held }) => {
                    Shared::set(&self.shared.right_is_held, held);
                    continue;
                }
                Ok(Received::Sum(..)) => Failure::wrong(Side::Right, Mistake::Kind),
                Ok(Received::Abort(abort)) => Failure::Aborted(Side::Right, abort),
                Err(Fault::Closed) if Shared::is(&self.shared.has_sent) && !self.is_broken() => return Ok(()),
                Err(fault) => Failure::Neighbour(Side::Right, fault),
            };
            return if self.shared.is_complete() { Ok(()) } else { Err(failure) };
        }
    }

    /// Writes the frame that was begun. A neighbour that has all frames that it needs may end the link meanwhile.
    ///
    /// A neighbour that takes nothing for the time of a frame is silent, unless it said that it is itself held by its
    /// right neighbour: then somebody further on is to blame, and is blamed by whoever is next to it.
    async fn write(
        &self,
        link: &mut FrameWriter<impl AsyncWrite + Unpin>,
        side: Side,
        is_last: bool,
    ) -> Result<(), Failure> {
        let mut waits = 0;
        while !link.is_flushed() {
            let advanced = tokio::select! {
                biased;
                advanced = link.advance() => Some(advanced),
                () = self.timer.sleep(self.place.alive_ms()) => None,
            };
            if is_last && link.is_written() {
                Shared::set(&self.shared.has_sent, true);
            }
            let (needs_no_more, is_held) = match side {
                Side::Left => (&self.shared.has_received, false),
                Side::Right => (&self.shared.has_sent, Shared::is(&self.shared.right_is_held)),
            };
            match advanced {
                Some(Ok(())) => waits = 0,
                Some(Err(_)) if Shared::is(needs_no_more) => return Ok(()),
                Some(Err(_)) => return Err(self.broken(side).await),
                None if waits + 1 < ALIVE_PER_FRAME || is_held => waits += 1,
                None if Shared::is(needs_no_more) => return Ok(()),
                None => return Err(Failure::Neighbour(side, Fault::Silent)),
            }
        }
        Ok(())
    }

    /// The failure of a link that cannot be written to. The reader of the link has some time to find why: an abort may
    /// have come before the end.
    async fn broken(&self, side: Side) -> Failure {
        if side == Side::Right {
            Shared::set(&self.shared.right_is_broken, true);
        }
        self.timer.sleep(self.place.alive_ms()).await;
        Failure::Neighbour(side, Fault::Closed)
    }

    fn is_broken(&self) -> bool {
        Shared::is(&self.shared.right_is_broken)
    }

    /// Ends a direction. It does not matter if the neighbour has no use for that.
    async fn end(&self, link: &mut FrameWriter<impl AsyncWrite + Unpin>) {
        tokio::select! {
            biased;
            () = link.end(None) => {}
            () = self.timer.sleep(self.place.alive_ms()) => {}
        }
    }

    fn alive(&self, is_held: bool) -> Vec<u8> {
        let flags = if is_held { HELD } else { 0 };
        frame(&FrameHeader { flags, ..self.place.header(FrameKind::Alive) }, &[])
    }
}
