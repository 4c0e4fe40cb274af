//! The four directions of a member's links: from the left, to the right, and signs of life back from and to them.

use std::sync::atomic::Ordering::Relaxed;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tributary_protocol::group::{FrameHeader, FrameKind};

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
    /// Whether a neighbour that lives may take nothing for any time.
    pub(super) is_patient: bool,
}

impl<T: Timer> Ends<'_, T> {
    /// Receives the frames of values of the left neighbour, until all of them were taken.
    ///
    /// It always reads: a member whose right neighbour takes nothing still hears that the attempt has failed, and no
    /// neighbour needs to tell one that is dead from one that is held up.
    pub(super) async fn hear_left(
        &self,
        left: &mut FrameReader<impl AsyncRead + Unpin>,
        came: &mpsc::Sender<(FrameHeader, Vec<u8>)>,
        frames: u64,
    ) -> Result<(), Failure> {
        let mut heard = 0;
        while heard < frames {
            match left.next(self.timer).await {
                Ok(Received::Alive { .. }) => {}
                Ok(Received::Abort(abort)) => return Err(Failure::Aborted(Side::Left, abort)),
                Ok(Received::Values(..) | Received::Maxima(..)) => {
                    return Err(Failure::wrong(Side::Left, Mistake::Kind));
                }
                Ok(Received::Sum(header, frame)) => {
                    heard += 1;
                    came.try_send((header, frame)).map_err(|_| Failure::wrong(Side::Left, Mistake::Window))?;
                }
                Err(fault) => return Err(Failure::Neighbour(Side::Left, fault)),
            }
        }
        Ok(())
    }

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
                right.begin(self.alive(0));
                self.write(right, Side::Right, false).await?;
            };
            let header = next.first_chunk().expect("a frame has a header");
            let header = FrameHeader::decode(header, self.place.frame_bytes).expect("the header is our own");
            self.shared.sending.set(header.step, header.part);
            self.shared.sent_value_bytes.fetch_add(header.length.into(), Relaxed);
            right.begin(next);
            self.write(right, Side::Right, sent == frames).await?;
        }
        self.end(right).await;
        Ok(())
    }

    /// Tells the left neighbour which frames were taken, and that the member lives. After the last frame it ends this
    /// direction.
    pub(super) async fn send_left(&self, left: &mut FrameWriter<impl AsyncWrite + Unpin>) -> Result<(), Failure> {
        loop {
            tokio::select! {
                biased;
                () = self.shared.took.notified() => {}
                () = self.timer.sleep(self.place.alive_ms()) => {}
            }
            if Shared::is(&self.shared.has_received) {
                break;
            }
            left.begin(self.alive(self.shared.taken.load(Relaxed) as u32));
            self.write(left, Side::Left, false).await?;
        }
        self.end(left).await;
        Ok(())
    }

    /// Listens to the right neighbour until it ends this direction.
    ///
    /// A member that has the sum and has sent all that others need does not fail any more. It waits only because a
    /// link that ends with unread bytes may lose those that are under way.
    pub(super) async fn hear_right(&self, right: &mut FrameReader<impl AsyncRead + Unpin>) -> Result<(), Failure> {
        loop {
            let failure = match right.next(self.timer).await {
                Ok(Received::Alive { taken }) if self.grant(taken) => continue,
                Ok(Received::Alive { .. }) => Failure::wrong(Side::Right, Mistake::Window),
                Ok(Received::Sum(..) | Received::Maxima(..) | Received::Values(..)) => {
                    Failure::wrong(Side::Right, Mistake::Kind)
                }
                Ok(Received::Abort(abort)) => Failure::Aborted(Side::Right, abort),
                Err(Fault::Closed) if Shared::is(&self.shared.has_sent) && !self.is_broken() => {
                    // It has taken all frames, and does not say so of the last ones.
                    self.shared.granted.store(self.shared.queued.load(Relaxed), Relaxed);
                    self.shared.grants.notify_one();
                    return Ok(());
                }
                Err(fault) => Failure::Neighbour(Side::Right, fault),
            };
            return if self.shared.is_complete() { Ok(()) } else { Err(failure) };
        }
    }

    /// Notes how many frames the right neighbour has taken. Returns whether that can be.
    fn grant(&self, taken: u32) -> bool {
        let (granted, queued) = (self.shared.granted.load(Relaxed), self.shared.queued.load(Relaxed));
        // The number has 32 bits, and few frames are under way.
        let more = taken.wrapping_sub(granted as u32);
        let is_possible = granted + u64::from(more) <= queued;
        if is_possible {
            self.shared.granted.store(granted + u64::from(more), Relaxed);
            self.shared.grants.notify_one();
        }
        is_possible
    }

    /// Writes the frame that was begun. A neighbour that takes nothing for the time of a frame is silent. One that has
    /// all frames that it needs may end the link meanwhile.
    pub(super) async fn write(
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
            let needs_no_more = match side {
                Side::Left => &self.shared.has_received,
                Side::Right => &self.shared.has_sent,
            };
            match advanced {
                Some(Ok(())) => waits = 0,
                Some(Err(_)) if Shared::is(needs_no_more) => return Ok(()),
                Some(Err(_)) => return Err(self.broken(side).await),
                // Whoever reads from the neighbour notices its silence.
                None if self.is_patient => {}
                None if waits + 1 < ALIVE_PER_FRAME => waits += 1,
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

    pub(super) fn alive(&self, taken: u32) -> Vec<u8> {
        frame(&FrameHeader { part: taken, ..self.place.header(FrameKind::Alive) }, &[])
    }
}
