//! Frames from a neighbour.

use tokio::io::{AsyncRead, AsyncReadExt};
use tributary_protocol::group::{Abort, FRAME_HEADER_BYTES, FrameHeader, FrameKind};

use crate::error::{Fault, Mistake};
use crate::place::RingPlace;
use crate::timer::Timer;

/// What a neighbour sent.
#[derive(Debug)]
pub(crate) enum Received {
    /// It lives, and has taken so many frames of values.
    Alive { taken: u32 },
    /// Packed blocks: a whole frame with its header.
    Sum(FrameHeader, Vec<u8>),
    /// Exponents of a chunk: a whole frame with its header.
    Maxima(FrameHeader, Vec<u8>),
    /// A part of a model: a whole frame with its header.
    Values(FrameHeader, Vec<u8>),
    /// The attempt has failed.
    Abort(Abort),
}

/// The reader of one link. It holds at most one frame.
#[derive(Debug)]
pub(crate) struct FrameReader<R> {
    stream: R,
    place: RingPlace,
    /// Rank of the neighbour.
    from: u16,
    /// The frame so far, with room for what is missing of its header or body.
    frame: Vec<u8>,
    filled: usize,
    /// The header, once it is whole.
    header: Option<FrameHeader>,
    /// Bytes that were read.
    pub(crate) received: u64,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(crate) fn new(stream: R, place: &RingPlace, from: u16) -> Self {
        Self { stream, place: *place, from, frame: vec![0; FRAME_HEADER_BYTES], filled: 0, header: None, received: 0 }
    }

    /// The next frame of the neighbour.
    ///
    /// # Errors
    /// [`Fault`], also when no byte comes in the time of a frame.
    pub(crate) async fn next(&mut self, timer: &impl Timer) -> Result<Received, Fault> {
        loop {
            if self.filled < self.frame.len() {
                let read = tokio::select! {
                    biased;
                    read = self.stream.read(&mut self.frame[self.filled..]) => read,
                    () = timer.sleep(self.place.frame_ms) => return Err(Fault::Silent),
                };
                match read {
                    Ok(0) | Err(_) => return Err(Fault::Closed),
                    Ok(bytes) => self.filled += bytes,
                }
            } else if let Some(header) = self.header.take() {
                self.filled = 0;
                let frame = std::mem::replace(&mut self.frame, vec![0; FRAME_HEADER_BYTES]);
                self.received += frame.len() as u64;
                return self.understand(header, frame).map_err(Fault::Wrong);
            } else {
                let bytes = self.frame.first_chunk().expect("the header is whole");
                let header = FrameHeader::decode(bytes, self.place.frame_bytes).map_err(Mistake::from)?;
                self.frame.resize(FRAME_HEADER_BYTES + header.length as usize, 0);
                self.header = Some(header);
            }
        }
    }

    /// Reads until the neighbour ends the link, so that what it was sent is not lost with unread bytes of its own.
    pub(crate) async fn drain(&mut self) {
        let mut bytes = [0; 4096];
        while self.stream.read(&mut bytes).await.is_ok_and(|bytes| bytes > 0) {}
    }

    fn understand(&self, header: FrameHeader, frame: Vec<u8>) -> Result<Received, Mistake> {
        if header.from != self.from {
            return Err(Mistake::From(header.from));
        }
        if header.attempt != self.place.attempt {
            return Err(Mistake::Attempt(header.attempt));
        }
        match header.kind {
            FrameKind::Hello => Err(Mistake::Kind),
            FrameKind::Alive => Ok(Received::Alive { taken: header.part }),
            FrameKind::Sum => Ok(Received::Sum(header, frame)),
            FrameKind::Maxima => Ok(Received::Maxima(header, frame)),
            FrameKind::Values => Ok(Received::Values(header, frame)),
            FrameKind::Abort => {
                let body = frame.last_chunk().expect("an abort has a body of fixed length");
                let abort = Abort::decode(body)?;
                if abort.rank < self.place.members {
                    Ok(Received::Abort(abort))
                } else {
                    Err(Mistake::Rank(abort.rank))
                }
            }
        }
    }
}
