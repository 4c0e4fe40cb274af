//! Reads a tag and the frame after it.

use crate::update::error::UpdateError;
use crate::update::frame::{FrameReader, Section};
use crate::update::header::{TAG_BYTES, UpdateHeader};

/// A frame that must begin with the tag of one update.
#[derive(Debug)]
pub(super) struct TaggedFrame {
    expected: UpdateHeader,
    tag: [u8; TAG_BYTES],
    /// Number of bytes of the tag that came.
    seen: usize,
    frame: FrameReader,
}

impl TaggedFrame {
    /// `tag` is that of the whole update or of a part of it.
    pub(super) fn new(expected: UpdateHeader, tag: [u8; TAG_BYTES], frame: FrameReader) -> Self {
        Self { tag, expected, seen: 0, frame }
    }

    /// Takes the next bytes. The caller passes no more after an error.
    pub(super) fn push(
        &mut self,
        piece: &[u8],
        accept: &mut impl FnMut(usize, &Section) -> Result<(), UpdateError>,
    ) -> Result<(), UpdateError> {
        let (of_tag, of_frame) = piece.split_at(piece.len().min(TAG_BYTES - self.seen));
        if !self.tag[self.seen..].starts_with(of_tag) {
            return Err(self.wrong_tag());
        }
        self.seen += of_tag.len();
        self.frame.push(of_frame, accept)
    }

    /// Ends the frame.
    pub(super) fn finish(&self) -> Result<(), UpdateError> {
        if self.seen < TAG_BYTES { Err(self.wrong_tag()) } else { self.frame.finish() }
    }

    fn wrong_tag(&self) -> UpdateError {
        let UpdateHeader { codec, job, base_version } = &self.expected;
        UpdateError::WrongTag { codec: codec.to_string(), job: job.clone(), base_version: *base_version }
    }
}
