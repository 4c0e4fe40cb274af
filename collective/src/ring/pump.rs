//! From the left neighbour to the right one: each frame is added to, or kept, and sent on at once.
//!
//! Frames of several steps are under way at once. A link has a few places for frames that its receiver has not taken.
//! A member begins a frame of its own only while several places are free, and sends on with one, so that the frames of
//! all members never fill all places of the ring (bubble flow control: Carrion et al. 1997, HiPC, section 3). Otherwise
//! every member could wait for the next one to take something. Places are counted by what receivers say, because the
//! bytes that a stream holds are no fixed number of frames.

use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::mpsc;
use tributary_protocol::group::{FRAME_HEADER_BYTES, FRAMES_QUEUED_MAX, FrameHeader, FrameKind};
use tributary_protocol::sum::{BLOCK_VALUES, PackedReader, SumError, pack_run};

use super::shared::{Failure, Shared, Side};
use crate::addend::Addend;
use crate::error::Mistake;
use crate::layout::Layout;
use crate::place::RingPlace;

/// Free places for which a member begins a frame of its own.
///
/// With 1 the ring could fill up, and nobody could take anything. With 2 it nearly does: a frame then moves only when
/// the one free place has come round the ring, which takes longer the more members there are.
const BUBBLE: u64 = FRAMES_QUEUED_MAX as u64 / 2;

/// Takes frames, adds, keeps and sends on.
pub(super) struct Pump<'a, A> {
    place: &'a RingPlace,
    layout: &'a Layout,
    shared: &'a Shared,
    own: &'a A,
    queue: &'a mpsc::Sender<Vec<u8>>,
    /// Frames of the own chunk that were begun.
    begun: u32,
    /// Frames that came of each step.
    came: Vec<u32>,
    /// Bytes of packed values that came.
    pub(super) value_bytes: u64,
    /// Packed values of the frames of each whole chunk.
    pub(super) chunks: Vec<Vec<Box<[u8]>>>,
}

impl<'a, A: Addend> Pump<'a, A> {
    pub(super) fn new(
        place: &'a RingPlace,
        layout: &'a Layout,
        shared: &'a Shared,
        own: &'a A,
        queue: &'a mpsc::Sender<Vec<u8>>,
    ) -> Self {
        let came = vec![0; layout.hops().len()];
        let chunks = vec![Vec::new(); usize::from(place.members)];
        Self { place, layout, shared, own, queue, begun: 0, came, value_bytes: 0, chunks }
    }

    /// Runs until all frames came and all own ones were begun.
    pub(super) async fn run(&mut self, came: &mut mpsc::Receiver<(FrameHeader, Vec<u8>)>) -> Result<(), Failure> {
        loop {
            self.begin_own()?;
            let has_begun = self.begun == self.layout.frames(self.place.rank);
            let is_due = self.is_due();
            if has_begun && !is_due {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = self.shared.grants.notified() => {}
                frame = came.recv(), if is_due && self.shared.free() > 0 => {
                    let (header, frame) = frame.expect("the sender of the queue is not dropped before it");
                    self.take(&header, frame)?;
                }
            }
        }
    }

    /// Begins own frames as long as the queue has room for them.
    fn begin_own(&mut self) -> Result<(), Failure> {
        let chunk = self.place.rank;
        while self.begun < self.layout.frames(chunk) && self.shared.free() >= BUBBLE {
            let places = self.layout.places(chunk, self.begun);
            let mut frame = vec![0; FRAME_HEADER_BYTES];
            let mut values = [0; BLOCK_VALUES];
            for first in places.clone().step_by(BLOCK_VALUES) {
                let values = &mut values[..BLOCK_VALUES.min(places.end - first)];
                self.own_integers(first, values)?;
                pack_run(values, &mut frame);
            }
            self.send(frame, 0, chunk, self.begun);
            self.begun += 1;
        }
        Ok(())
    }

    /// Notes the first frame that did not come yet. Returns whether there is one.
    fn is_due(&self) -> bool {
        let mut hops = self.layout.hops().iter().zip(&self.came);
        let due = hops.find(|(hop, came)| **came < self.layout.frames(hop.receive));
        if let Some((hop, came)) = due {
            self.shared.awaited.set(hop.step, *came);
        } else {
            Shared::set(&self.shared.has_received, true);
            self.shared.took.notify_one();
        }
        due.is_some()
    }

    /// Takes a frame: adds, keeps, sends on.
    fn take(&mut self, header: &FrameHeader, frame: Vec<u8>) -> Result<(), Failure> {
        self.value_bytes += u64::from(header.length);
        let FrameHeader { step, place, part, .. } = *header;
        let wrong = || Failure::wrong(Side::Left, Mistake::Order { step, place, part });
        let hop = *self.layout.hops().get(step as usize).ok_or_else(wrong)?;
        let came = &mut self.came[step as usize];
        if u32::from(hop.receive) != place || part != *came || part >= self.layout.frames(hop.receive) {
            return Err(wrong());
        }
        *came += 1;
        let chunk = hop.receive;
        let frame = if hop.adds { self.added(header, chunk, &frame)? } else { self.checked(header, chunk, frame)? };
        // After the last addition, and from then on, the chunk is whole.
        if step + 2 >= self.place.members.into() {
            self.chunks[usize::from(chunk)].push(frame[FRAME_HEADER_BYTES..].into());
        }
        if (step as usize) + 1 < self.layout.hops().len() {
            self.send(frame, step + 1, chunk, part);
        }
        self.shared.taken.fetch_add(1, Relaxed);
        self.shared.took.notify_one();
        Ok(())
    }

    /// The frame of the next step: the own integers added to each value. It has no header yet.
    fn added(&self, header: &FrameHeader, chunk: u16, frame: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut sum = Vec::with_capacity(frame.len() + frame.len() / 16);
        sum.resize(FRAME_HEADER_BYTES, 0);
        let mut own = [0; BLOCK_VALUES];
        self.each_block(header, chunk, frame, |first, values| {
            let own = &mut own[..values.len()];
            self.own_integers(first, own)?;
            values.iter_mut().zip(own).for_each(|(value, own)| *value += *own);
            pack_run(values, &mut sum);
            Ok(())
        })?;
        Ok(sum)
    }

    /// The same frame, whose blocks are those of its values.
    fn checked(&self, header: &FrameHeader, chunk: u16, frame: Vec<u8>) -> Result<Vec<u8>, Failure> {
        self.each_block(header, chunk, &frame, |_, _| Ok(()))?;
        Ok(frame)
    }

    fn each_block(
        &self,
        header: &FrameHeader,
        chunk: u16,
        frame: &[u8],
        mut act: impl FnMut(usize, &mut [i64]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let wrong = |error: SumError| Failure::wrong(Side::Left, error);
        let places = self.layout.places(chunk, header.part);
        let mut blocks = PackedReader::new(places, self.place.magnitude_max_in(header.step));
        let (mut bytes, mut block) = (&frame[FRAME_HEADER_BYTES..], [0; BLOCK_VALUES]);
        while !blocks.is_whole() {
            let (first, values, rest) = blocks.next(bytes, &mut block).map_err(wrong)?;
            act(first, values)?;
            bytes = rest;
        }
        if bytes.is_empty() { Ok(()) } else { Err(wrong(SumError::TooLong)) }
    }

    /// The member's own integers of these places.
    fn own_integers(&self, first: usize, integers: &mut [i64]) -> Result<(), Failure> {
        self.own.integers(first, integers);
        let is_too_large = |integer: &i64| integer.unsigned_abs() > self.place.magnitude_max;
        match integers.iter().position(is_too_large) {
            Some(at) => Err(Failure::Own { place: first + at, got: integers[at] }),
            None => Ok(()),
        }
    }

    /// Writes the header of a frame of values, and queues it. There is a free place.
    fn send(&self, mut frame: Vec<u8>, step: u32, chunk: u16, part: u32) {
        let length = (frame.len() - FRAME_HEADER_BYTES) as u32;
        let header = FrameHeader { step, place: chunk.into(), part, length, ..self.place.header(FrameKind::Sum) };
        frame[..FRAME_HEADER_BYTES].copy_from_slice(&header.encode());
        self.shared.queued.fetch_add(1, Relaxed);
        self.queue.try_send(frame).expect("the queue has all places of the link, and its receiver lives");
    }
}
