//! The ring of maxima: members agree on the exponents of their grid before they add up.
//!
//! The steps are those of the sums. Where a sum is added to, the larger exponent is kept, so all members end with the
//! largest of each block. Exponents are one hundredth of the bytes of a sum, so a chunk is sent on when it is whole.

use std::sync::atomic::Ordering::Relaxed;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tributary_protocol::group::{FrameHeader, FrameKind, Hop, chunk_range, schedule};

use super::ends::Ends;
use super::shared::{Failure, Side};
use crate::addend::Scale;
use crate::error::Mistake;
use crate::link::{FrameReader, FrameWriter, Received, frame};
use crate::timer::Timer;

/// Chunks that wait for the link to the right neighbour.
pub(super) type Chunks = mpsc::UnboundedSender<Vec<u8>>;

impl<T: Timer> Ends<'_, T> {
    /// Hears the chunks of the left neighbour, and gives those to `chunks` that the right one is owed. Then members
    /// agree; at once if they have no grid.
    pub(super) async fn hear_maxima(
        &self,
        left: &mut FrameReader<impl AsyncRead + Unpin>,
        scale: Option<&Scale>,
        chunks: Chunks,
    ) -> Result<(), Failure> {
        if let Some(scale) = scale {
            let exponents = self.largest(left, scale, chunks).await?;
            scale.agreed.set(exponents).expect("members agree once");
        }
        self.shared.agrees.notify_one();
        Ok(())
    }

    async fn largest(
        &self,
        left: &mut FrameReader<impl AsyncRead + Unpin>,
        scale: &Scale,
        chunks: Chunks,
    ) -> Result<Vec<u8>, Failure> {
        let mut exponents = scale.own.clone();
        let range = |chunk| chunk_range(scale.own.len(), self.place.members, chunk);
        // The receiver is there as long as this member is.
        let give = |chunk: &[u8]| drop(chunks.send(chunk.to_vec()));
        give(&exponents[range(self.place.rank)]);
        let hops: Vec<Hop> = schedule(self.place.rank, self.place.members).collect();
        for (hop, more) in hops.iter().zip((0..hops.len()).rev()) {
            let chunk = &mut exponents[range(hop.receive)];
            let frame_bytes = self.place.frame_bytes as usize;
            for part in 0..chunk.len().div_ceil(frame_bytes).max(1) {
                let end = chunk.len().min((part + 1) * frame_bytes);
                let places = &mut chunk[part * frame_bytes..end];
                let theirs = self.exponents(left, hop, (part as u32, places.len())).await?;
                if let Some(beyond) = theirs.iter().find(|exponent| **exponent > scale.most) {
                    let mistake = Mistake::Exponent { got: *beyond, most: scale.most };
                    return Err(Failure::wrong(Side::Left, mistake));
                }
                for (exponent, theirs) in places.iter_mut().zip(theirs) {
                    *exponent = if hop.adds { theirs.max(*exponent) } else { theirs };
                }
            }
            if more > 0 {
                give(chunk);
            }
        }
        Ok(exponents)
    }

    /// The next frame of exponents, which has this number in its chunk, and so many of them.
    async fn exponents(
        &self,
        left: &mut FrameReader<impl AsyncRead + Unpin>,
        hop: &Hop,
        (part, count): (u32, usize),
    ) -> Result<Vec<u8>, Failure> {
        self.shared.awaited.set(hop.step, part);
        let (header, mut frame) = loop {
            match left.next(self.timer).await {
                Ok(Received::Alive { .. }) => {}
                Ok(Received::Maxima(header, frame)) => break (header, frame),
                Ok(Received::Sum(..) | Received::Values(..)) => {
                    return Err(Failure::wrong(Side::Left, Mistake::Kind));
                }
                Ok(Received::Abort(abort)) => return Err(Failure::Aborted(Side::Left, abort)),
                Err(fault) => return Err(Failure::Neighbour(Side::Left, fault)),
            }
        };
        let FrameHeader { step, place, part: came, length, .. } = header;
        if (step, place, came, length as usize) != (hop.step, hop.receive.into(), part, count) {
            return Err(Failure::wrong(Side::Left, Mistake::Order { step, place, part: came }));
        }
        self.shared.agreed.fetch_add(1, Relaxed);
        Ok(frame.split_off(frame.len() - count))
    }

    /// Sends the chunks of all steps to the right neighbour, and signs of life while it waits for one. Nothing is sent
    /// if members have no grid.
    pub(super) async fn tell_maxima(
        &self,
        right: &mut FrameWriter<impl AsyncWrite + Unpin>,
        scale: Option<&Scale>,
        mut chunks: mpsc::UnboundedReceiver<Vec<u8>>,
    ) -> Result<(), Failure> {
        for hop in scale.iter().flat_map(|_| schedule(self.place.rank, self.place.members)) {
            let chunk = loop {
                tokio::select! {
                    biased;
                    chunk = chunks.recv() => break chunk.expect("there is a chunk for each step"),
                    () = self.timer.sleep(self.place.alive_ms()) => {}
                }
                right.begin(self.alive(0));
                self.write(right, Side::Right, false).await?;
            };
            let frame_bytes = self.place.frame_bytes as usize;
            for part in 0..chunk.len().div_ceil(frame_bytes).max(1) {
                let body = &chunk[part * frame_bytes..chunk.len().min((part + 1) * frame_bytes)];
                let (step, place, part, length) = (hop.step, hop.send.into(), part as u32, body.len() as u32);
                self.shared.sending.set(step, part);
                let of_kind = self.place.header(FrameKind::Maxima);
                right.begin(frame(&FrameHeader { step, place, part, length, ..of_kind }, body));
                self.write(right, Side::Right, false).await?;
            }
        }
        Ok(())
    }
}
