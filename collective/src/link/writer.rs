//! Frames to a neighbour.

use std::io;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tributary_protocol::group::FrameHeader;

/// A frame with this header and body.
pub(crate) fn frame(header: &FrameHeader, body: &[u8]) -> Vec<u8> {
    [&header.encode()[..], body].concat()
}

/// The writer of one link. It holds at most one frame.
#[derive(Debug)]
pub(crate) struct FrameWriter<W> {
    stream: W,
    frame: Vec<u8>,
    written: usize,
    is_flushed: bool,
    /// Whether the link was ended, by this side or by an error.
    is_ended: bool,
    /// Bytes of all frames that were begun.
    pub(crate) sent: u64,
}

impl<W: AsyncWrite + Unpin> FrameWriter<W> {
    pub(crate) fn new(stream: W) -> Self {
        Self { stream, frame: Vec::new(), written: 0, is_flushed: true, is_ended: false, sent: 0 }
    }

    /// Begins a frame. The one before is written.
    pub(crate) fn begin(&mut self, frame: Vec<u8>) {
        debug_assert!(self.is_written(), "frames are written one after the other");
        self.sent += frame.len() as u64;
        (self.frame, self.written, self.is_flushed) = (frame, 0, false);
    }

    /// Whether the stream has all bytes of the frame.
    pub(crate) fn is_written(&self) -> bool {
        self.written == self.frame.len()
    }

    /// Whether the stream has also passed them on.
    pub(crate) fn is_flushed(&self) -> bool {
        self.is_flushed
    }

    /// Gives the stream the next bytes of the frame, or makes it pass them on.
    ///
    /// # Errors
    /// When the link ended.
    pub(crate) async fn advance(&mut self) -> io::Result<()> {
        let advanced = if self.is_written() {
            self.stream.flush().await.map(|()| self.is_flushed = true)
        } else {
            match self.stream.write(&self.frame[self.written..]).await {
                Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => {
                    self.written += bytes;
                    Ok(())
                }
                Err(error) => Err(error),
            }
        };
        advanced.inspect_err(|_| self.is_ended = true)
    }

    /// Ends the link after a last frame, if it is not ended. An error does not matter any more.
    pub(crate) async fn end(&mut self, last: Option<Vec<u8>>) {
        let mut last = last;
        while !self.is_ended {
            if !self.is_flushed {
                // An error ends the link.
                let _ = self.advance().await;
            } else if let Some(frame) = last.take() {
                self.begin(frame);
            } else {
                self.is_ended = true;
                let _ = self.stream.shutdown().await;
            }
        }
    }
}
