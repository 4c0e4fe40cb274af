//! Frames that are decompressed by zstd itself.

use std::fmt;

use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, get_error_name};

use super::{MAGIC, UnpackError, WINDOW_LOG_MAX};

/// Bytes that are decompressed at once: the longest block of zstd.
const STEP_BYTES: usize = 128 << 10;

pub(super) struct Frame {
    context: DCtx<'static>,
    unpacked: Vec<u8>,
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Frame")
    }
}

impl Frame {
    /// Begins a frame whose magic number has arrived.
    pub(super) fn begin() -> Result<Self, UnpackError> {
        let mut context = DCtx::try_create().ok_or(UnpackError::Damaged("no memory"))?;
        // zstd refuses a frame with a longer window before it allocates anything for it.
        context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).map_err(damaged)?;
        let mut frame = Self { context, unpacked: vec![0; STEP_BYTES] };
        frame.step::<UnpackError>(&mut &MAGIC[..], &mut |_| Ok(()))?;
        Ok(frame)
    }

    /// Decompresses until the piece is used up or the frame ends. Returns whether it ended.
    pub(super) fn step<E: From<UnpackError>>(
        &mut self,
        piece: &mut &[u8],
        accept: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        loop {
            let mut input = InBuffer::around(piece);
            let mut output = OutBuffer::around(self.unpacked.as_mut_slice());
            let wanted = self.context.decompress_stream(&mut output, &mut input).map_err(damaged)?;
            let (used, given) = (input.pos(), output.pos());
            *piece = &piece[used..];
            accept(&self.unpacked[..given])?;
            if wanted == 0 {
                return Ok(true);
            }
            // After a full buffer, bytes that zstd has already read may yield more.
            if piece.is_empty() && given < STEP_BYTES {
                return Ok(false);
            }
        }
    }
}

fn damaged(code: usize) -> UnpackError {
    UnpackError::Damaged(get_error_name(code))
}
