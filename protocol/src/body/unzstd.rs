//! Frames that are decompressed in Rust, for builds without C: browsers.
//!
//! A header or a block is decoded once all of it is there, one at a time: a block of a few bytes may yield 128 KiB, and
//! the limit of the file must hold before the next one.

use std::fmt;

use ruzstd::decoding::errors::FrameDecoderError;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use ruzstd::io::Read;

use super::{MAGIC, UnpackError, WINDOW_LOG_MAX};

/// Longest content of a block (RFC 8878, section 3.1.1.2.4).
const BLOCK_BYTES_MAX: usize = 128 << 10;
/// Bytes that are handed on at once.
const STEP_BYTES: usize = 16 << 10;
/// Length of a block's header, and of the checksum behind the last block.
const BLOCK_HEADER_BYTES: usize = 3;
const CHECKSUM_BYTES: usize = 4;

pub(super) struct Frame {
    decoder: FrameDecoder,
    /// The beginning of the header or block that comes next.
    pending: Vec<u8>,
    /// Whether the header was decoded, and whether a checksum follows the last block.
    header: Option<bool>,
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Frame")
    }
}

impl Frame {
    /// Begins a frame whose magic number has arrived.
    pub(super) fn begin() -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(1 << WINDOW_LOG_MAX);
        Self { decoder, pending: MAGIC.to_vec(), header: None }
    }

    /// Decompresses until the piece is used up or the frame ends. Returns whether it ended.
    pub(super) fn step<E: From<UnpackError>>(
        &mut self,
        piece: &mut &[u8],
        accept: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        loop {
            let missing = self.needed()?.saturating_sub(self.pending.len());
            if missing > 0 {
                if piece.is_empty() {
                    return Ok(false);
                }
                let (taken, rest) = piece.split_at(missing.min(piece.len()));
                self.pending.extend_from_slice(taken);
                *piece = rest;
                continue;
            }
            if self.header.is_none() {
                self.decoder.reset(&self.pending[..]).map_err(damaged)?;
                self.header = Some(self.pending[MAGIC.len()] & 0b100 != 0);
            } else {
                self.decoder.decode_blocks(&self.pending[..], BlockDecodingStrategy::UptoBlocks(1)).map_err(damaged)?;
                self.hand_on(accept)?;
            }
            self.pending.clear();
            if self.header.is_some() && self.decoder.is_finished() {
                return Ok(true);
            }
        }
    }

    /// What the decoder gives away: all but the window, and at the end the rest.
    fn hand_on<E: From<UnpackError>>(&mut self, accept: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut bytes = [0; STEP_BYTES];
        while self.decoder.can_collect() > 0 {
            let read = self.decoder.read(&mut bytes).map_err(|_| UnpackError::Damaged("it cannot be read"))?;
            accept(&bytes[..read])?;
        }
        Ok(())
    }

    /// Bytes of the next header or block, as far as its beginning tells.
    fn needed(&self) -> Result<usize, UnpackError> {
        match self.header {
            None => Ok(frame_header_bytes(&self.pending)),
            Some(has_checksum) => block_bytes(&self.pending, has_checksum),
        }
    }
}

/// Length of a frame's header with its magic number (RFC 8878, section 3.1.1.1).
fn frame_header_bytes(beginning: &[u8]) -> usize {
    let Some(descriptor) = beginning.get(MAGIC.len()) else { return MAGIC.len() + 1 };
    let is_single_segment = descriptor & 0b10_0000 != 0;
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 0b11)];
    let content = match descriptor >> 6 {
        0 => usize::from(is_single_segment),
        flag => 1 << flag,
    };
    MAGIC.len() + 1 + usize::from(!is_single_segment) + dictionary + content
}

/// Length of a block with its header, and with the checksum behind the last one (RFC 8878, section 3.1.1.2).
fn block_bytes(beginning: &[u8], has_checksum: bool) -> Result<usize, UnpackError> {
    let Some(header) = beginning.first_chunk::<BLOCK_HEADER_BYTES>() else { return Ok(BLOCK_HEADER_BYTES) };
    let header = u32::from_le_bytes([header[0], header[1], header[2], 0]);
    let (is_last, kind, size) = (header & 1 == 1, header >> 1 & 0b11, (header >> 3) as usize);
    // A block of the kind 1 is one byte that is repeated.
    let content = if kind == 1 { 1 } else { size };
    if size > BLOCK_BYTES_MAX {
        return Err(UnpackError::Damaged("a block is too long"));
    }
    let checksum = if is_last && has_checksum { CHECKSUM_BYTES } else { 0 };
    Ok(BLOCK_HEADER_BYTES + content + checksum)
}

fn damaged(error: FrameDecoderError) -> UnpackError {
    UnpackError::Damaged(match error {
        FrameDecoderError::WindowSizeTooBig { .. } => "its window is too long",
        FrameDecoderError::ReadFrameHeaderError(_) | FrameDecoderError::FrameHeaderError(_) => "its header is wrong",
        FrameDecoderError::DictNotProvided { .. } => "it needs a dictionary",
        _ => "a block is wrong",
    })
}
