//! Which values are in which frame. It follows from numbers that all members know, so that no frame says it.

use std::ops::Range;

use tributary_protocol::group::{Hop, chunk_range, schedule};
use tributary_protocol::sum::{BLOCK_BYTES_MAX, BLOCK_VALUES};

use crate::place::RingPlace;

/// The cut of a vector into chunks, and of chunks into frames.
///
/// A frame has as many blocks as fit whatever their values are, since values grow on their way. At 5.4 bytes per value
/// a frame is two thirds full.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    values: usize,
    members: u16,
    /// Values of a frame. The last one of a chunk may have fewer.
    frame_values: usize,
    /// The steps of the member.
    hops: Vec<Hop>,
}

impl Layout {
    pub(crate) fn new(place: &RingPlace, values: u32) -> Self {
        let frame_values = place.frame_bytes as usize / BLOCK_BYTES_MAX * BLOCK_VALUES;
        let hops = schedule(place.rank, place.members).collect();
        Self { values: values as usize, members: place.members, frame_values, hops }
    }

    pub(crate) fn values(&self) -> usize {
        self.values
    }

    pub(crate) fn hops(&self) -> &[Hop] {
        &self.hops
    }

    /// Frames of a chunk. An empty one has a frame, too.
    pub(crate) fn frames(&self, chunk: u16) -> u32 {
        self.range(chunk).len().div_ceil(self.frame_values).max(1) as u32
    }

    /// Places of a frame.
    pub(crate) fn places(&self, chunk: u16, frame: u32) -> Range<usize> {
        let chunk = self.range(chunk);
        let start = chunk.start + frame as usize * self.frame_values;
        start..chunk.end.min(start + self.frame_values)
    }

    /// Frames that the member sends in all steps.
    pub(crate) fn frames_sent(&self) -> u64 {
        self.hops.iter().map(|hop| u64::from(self.frames(hop.send))).sum()
    }

    /// Frames that the member receives in all steps.
    pub(crate) fn frames_received(&self) -> u64 {
        self.hops.iter().map(|hop| u64::from(self.frames(hop.receive))).sum()
    }

    fn range(&self, chunk: u16) -> Range<usize> {
        chunk_range(self.values, self.members, chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_all_chunks_have_each_place_once() {
        for (values, frame_bytes) in [(0, 2050), (3, 2050), (256 * 8, 2050), (10_001, 2050), (10_001, 5000)] {
            let place = RingPlace { rank: 1, members: 4, attempt: 0, frame_bytes, frame_ms: 1000, magnitude_max: 1 };
            let layout = Layout::new(&place, values);
            let mut next = 0;
            for chunk in 0..4 {
                for frame in 0..layout.frames(chunk) {
                    let places = layout.places(chunk, frame);
                    assert_eq!(places.start, next);
                    assert!(places.len() <= frame_bytes as usize / 2050 * 256);
                    next = places.end;
                }
            }
            assert_eq!(next, values as usize);
            assert!(layout.frames_sent() >= 6);
        }
    }
}
