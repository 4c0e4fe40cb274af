//! One neighbour of a member that mixes: the link to it, and the flow from it.

use std::sync::PoisonError;

use tokio::io::{AsyncRead, AsyncWrite, ReadHalf, WriteHalf, split};
use tributary_protocol::group::{Abort, AbortReason, FRAME_HEADER_BYTES, FrameHeader, FrameKind};

use super::codec::read;
use super::mix::Mix;
use crate::average::fixed;
use crate::error::{Fault, Mistake, RingError};
use crate::link::{FrameReader, FrameWriter, Received, frame};
use crate::place::RingPlace;
use crate::timer::Timer;

/// The link to a neighbour.
#[derive(Debug)]
pub(super) struct Edge<L> {
    rank: u16,
    /// The share of the difference that flows.
    weight: f64,
    from: FrameReader<ReadHalf<L>>,
    to: FrameWriter<WriteHalf<L>>,
}

impl<L: AsyncRead + AsyncWrite + Send> Edge<L> {
    pub(super) fn new(place: &RingPlace, rank: u16, weight: f64, link: L) -> Self {
        let (from, to) = split(link);
        Self { rank, weight, from: FrameReader::new(from, place, rank), to: FrameWriter::new(to) }
    }

    /// Bytes that were sent.
    pub(super) fn sent(&self) -> u64 {
        self.to.sent
    }

    /// Bytes that were received.
    pub(super) fn received(&self) -> u64 {
        self.from.received
    }

    /// Sends the member's model, and adds what flows from the neighbour's.
    pub(super) async fn mix(&mut self, mix: &Mix<'_>, timer: &impl Timer) -> Result<(), RingError> {
        let Self { rank, weight, from, to } = self;
        let (rank, flows) = (*rank, mix.share(*weight));
        let blames = |what: Fault, part: u32| RingError::Neighbour { rank, what, step: mix.number, frame: part };
        let sends = async {
            for (part, body) in (0u32..).zip(&mix.frames) {
                let header = mix.place.header(FrameKind::Values);
                let length = body.len() as u32;
                write(to, frame(&FrameHeader { step: mix.number, part, length, ..header }, body)).await;
            }
            // Others may be late, and this neighbour may be ahead already.
            tokio::select! {
                biased;
                () = mix.has_all() => {}
                () = tells(to, mix.place, timer) => {}
            }
            Ok(())
        };
        let receives = async {
            let mut part = 0;
            while (part as usize) < mix.frames.len() {
                match from.next(timer).await.map_err(|fault| blames(fault, part))? {
                    Received::Alive { .. } => {}
                    Received::Abort(Abort { rank, step, reason }) => {
                        return Err(RingError::Aborted { rank, step, reason });
                    }
                    Received::Sum(..) | Received::Maxima(..) => {
                        return Err(blames(Mistake::Kind.into(), part));
                    }
                    Received::Values(header, frame) => {
                        flows.take(&header, part, &frame).map_err(|mistake| blames(mistake.into(), part))?;
                        part += 1;
                    }
                }
            }
            mix.has_one();
            Ok(())
        };
        tokio::try_join!(biased; receives, sends).map(|_| ())
    }

    /// Tells the neighbour again and again that the member lives.
    pub(super) async fn keep_alive(&mut self, place: &RingPlace, timer: &impl Timer) {
        tells(&mut self.to, place, timer).await;
    }

    /// Tells the neighbour who is to blame, and ends the link.
    pub(super) async fn give_up(&mut self, place: &RingPlace, error: &RingError) {
        let abort = match error {
            RingError::Neighbour { rank, what, step, .. } => Abort { rank: *rank, step: *step, reason: what.reason() },
            RingError::Aborted { rank, step, reason } => Abort { rank: *rank, step: *step, reason: *reason },
            RingError::Own { .. } | RingError::Stalled { .. } | RingError::Place(_) => {
                Abort { rank: place.rank, step: 0, reason: AbortReason::Wrong }
            }
        };
        self.to.end(Some(frame(&place.header(FrameKind::Abort), &abort.encode()))).await;
        self.from.drain().await;
    }
}

/// Says again and again that the member lives.
async fn tells<W: AsyncWrite + Unpin>(to: &mut FrameWriter<W>, place: &RingPlace, timer: &impl Timer) {
    loop {
        timer.sleep(place.alive_ms()).await;
        write(to, frame(&place.header(FrameKind::Alive), &[])).await;
    }
}

/// Writes a frame after the one that may be on its way. What cannot be written is left out: the reader of the link
/// notices its end, unless the neighbour needs no more.
async fn write<W: AsyncWrite + Unpin>(to: &mut FrameWriter<W>, frame: Vec<u8>) {
    let mut next = Some(frame);
    loop {
        if to.is_flushed() {
            let Some(frame) = next.take() else { return };
            to.begin(frame);
        }
        if to.advance().await.is_err() {
            return;
        }
    }
}

/// What flows over one edge in one mix.
pub(super) struct Flows<'a> {
    mix: &'a Mix<'a>,
    weight: f64,
}

impl<'a> Mix<'a> {
    fn share(&'a self, weight: f64) -> Flows<'a> {
        Flows { mix: self, weight }
    }
}

impl Flows<'_> {
    /// Adds what flows with the next frame.
    fn take(&self, header: &FrameHeader, due: u32, frame: &[u8]) -> Result<(), Mistake> {
        let Self { mix, weight } = self;
        let FrameHeader { step, place, part, .. } = *header;
        if step != mix.number || part != due || place != 0 {
            return Err(Mistake::Order { step, place, part });
        }
        let first = due as usize * mix.frame_values;
        let own = &mix.values[first..mix.values.len().min(first + mix.frame_values)];
        let mut others = vec![0f32; own.len()];
        read(mix.codec, &frame[FRAME_HEADER_BYTES..], &mut others).ok_or(Mistake::Values(first))?;
        // Rounding to f32 may exceed the limit of the integers by a little.
        let most = mix.place.magnitude_max as f64 * (1.0 + 1e-6);
        if !others.iter().all(|other| f64::from(other.abs()) * mix.scale <= most) {
            return Err(Mistake::Values(first));
        }
        let mut flow = mix.flow.lock().unwrap_or_else(PoisonError::into_inner);
        for ((flow, own), other) in flow[first..].iter_mut().zip(own).zip(&others) {
            *flow += fixed(weight * (f64::from(*other) - f64::from(*own)) * mix.scale);
        }
        Ok(())
    }
}
