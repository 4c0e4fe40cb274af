//! The sum of a ring, as it came: packed, in chunks.

use tributary_protocol::fixed::Contribution;
use tributary_protocol::sum::{BLOCK_BYTES_MAX, BLOCK_VALUES, IntegerSink, PackedReader, SumWriter};

use crate::layout::Layout;

/// Bytes that one member moved. The other members of the ring moved about as many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingTraffic {
    /// Bytes that were sent to both neighbours, with headers and signs of life.
    pub sent_bytes: u64,
    /// Bytes that were received from both.
    pub received_bytes: u64,
    /// Bytes of packed values among those that were sent.
    pub sent_value_bytes: u64,
    /// Bytes of packed values among those that were received.
    pub received_value_bytes: u64,
}

/// The sum of all members, some 5.4 bytes per value.
#[derive(Clone, Debug)]
pub struct Reduced {
    layout: Layout,
    members: u16,
    /// Packed values of the frames of each chunk.
    chunks: Vec<Vec<Box<[u8]>>>,
    traffic: RingTraffic,
}

impl Reduced {
    pub(crate) fn new(layout: Layout, members: u16, chunks: Vec<Vec<Box<[u8]>>>, traffic: RingTraffic) -> Self {
        Self { layout, members, chunks, traffic }
    }

    /// Number of values.
    pub fn values(&self) -> u32 {
        self.layout.values() as u32
    }

    /// Bytes that the member moved for it.
    pub fn traffic(&self) -> RingTraffic {
        self.traffic
    }

    /// Bytes of the packed values, which is about what the sum takes in memory.
    pub fn packed_bytes(&self) -> usize {
        self.chunks.iter().flatten().map(|frame| frame.len()).sum()
    }

    /// Gives the sink all values, in order.
    pub fn integers(&self, sink: &mut (impl IntegerSink + ?Sized)) {
        for (chunk, frames) in (0..self.members).zip(&self.chunks) {
            for (frame, packed) in (0..).zip(frames) {
                self.frame_integers(chunk, (frame, packed), sink);
            }
        }
    }

    /// The body `tributary-sum-1` with this [`tag`](tributary_protocol::sum::tag()) and this weight and number of
    /// updates. It has the same bytes for all members, and those of a direct sum. Each frame is dropped once it is
    /// written, so beside the body there is little of the sum at any time.
    pub fn body(mut self, tag: [u8; 8], contribution: Contribution) -> Vec<u8> {
        // The blocks of a body begin at other places than those of frames, so its length is not known exactly. A body
        // that grows by doubling is copied, and touches twice its memory.
        let mut whole = Vec::with_capacity(self.packed_bytes() + self.packed_bytes() / 64 + BLOCK_BYTES_MAX);
        let mut body = Body(SumWriter::new(tag, contribution, self.values()));
        for (chunk, frames) in (0..self.members).zip(std::mem::take(&mut self.chunks)) {
            for (frame, packed) in (0..).zip(frames) {
                self.frame_integers(chunk, (frame, &packed), &mut body);
                whole.append(&mut body.0.take());
            }
        }
        whole.append(&mut body.0.finish().expect("a sum has all of its values"));
        whole
    }

    fn frame_integers(&self, chunk: u16, (frame, packed): (u32, &[u8]), sink: &mut (impl IntegerSink + ?Sized)) {
        // The values were checked when they came.
        let mut blocks = PackedReader::new(self.layout.places(chunk, frame), u64::MAX);
        let (mut bytes, mut block) = (packed, [0; BLOCK_VALUES]);
        while !blocks.is_whole() {
            let (first, values, rest) = blocks.next(bytes, &mut block).expect("what was kept was checked");
            sink.integers(first, values);
            bytes = rest;
        }
    }
}

/// Values that come in order become a body.
struct Body(SumWriter);

impl IntegerSink for Body {
    fn integers(&mut self, _first: usize, values: &[i64]) {
        self.0.push(values);
    }
}
