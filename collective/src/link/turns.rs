//! One connection for many sums: each sum is a turn, and the end of a turn does not end the connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of the length before each piece. A length of 0 ends a turn.
const LENGTH_BYTES: usize = 4;
/// Most bytes of a piece. A longer one is refused.
const PIECE_BYTES_MAX: usize = 1 << 16;

/// A connection to a neighbour with which a member adds up again and again. Within a turn it is a stream with an end,
/// as [`all_reduce`](crate::all_reduce) needs it; both sides begin the next one with [`Turns::next`].
#[derive(Debug)]
pub struct Turns<L> {
    link: L,
    /// Pieces on their way out, and how many of their bytes the connection has taken.
    out: Vec<u8>,
    written: usize,
    /// Whether this side has ended its turn.
    has_ended: bool,
    /// What has come of the length of the next piece.
    length: [u8; LENGTH_BYTES],
    length_filled: usize,
    /// Bytes that are missing of the piece that is being read.
    missing: usize,
    /// Turns whose end has come, and turns that were begun.
    ended: u64,
    begun: u64,
}

impl<L> Turns<L> {
    /// Begins the first turn.
    pub fn new(link: L) -> Self {
        let length = [0; LENGTH_BYTES];
        Self {
            link,
            out: Vec::new(),
            written: 0,
            has_ended: false,
            length,
            length_filled: 0,
            missing: 0,
            ended: 0,
            begun: 1,
        }
    }

    /// Ends this side of the turn, if it is not ended yet, and begins the next one. What the neighbour still sends in
    /// the old turn is left out.
    pub fn next(&mut self) {
        self.end();
        self.has_ended = false;
        self.begun += 1;
    }

    /// Whether the connection has taken all that it was given.
    pub(crate) fn is_flushed(&self) -> bool {
        self.written == self.out.len()
    }

    /// Takes bytes that are sent with the next flush.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.is_flushed() {
            self.out.clear();
            self.written = 0;
        }
        self.out.extend((bytes.len() as u32).to_le_bytes());
        self.out.extend(bytes);
    }

    fn end(&mut self) {
        if !self.has_ended {
            self.has_ended = true;
            self.push(&[]);
        }
    }
}

impl<L: AsyncWrite + Unpin> Turns<L> {
    fn poll_out(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.is_flushed() {
            match ready!(Pin::new(&mut self.link).poll_write(context, &self.out[self.written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                bytes => self.written += bytes,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<L: AsyncWrite + Unpin> AsyncWrite for Turns<L> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_out(context))?;
        let taken = bytes.len().min(PIECE_BYTES_MAX);
        if taken > 0 {
            self.push(&bytes[..taken]);
        }
        // What the connection does not take now leaves with the next write or flush.
        match self.poll_out(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(taken)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_out(context))?;
        Pin::new(&mut self.link).poll_flush(context)
    }

    /// Ends this side of the turn. The connection stays.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.end();
        self.poll_flush(context)
    }
}

impl<L: AsyncRead + Unpin> Turns<L> {
    /// Reads the length of the next piece. False when the connection has ended.
    fn poll_length(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        while self.length_filled < LENGTH_BYTES {
            let mut length = ReadBuf::new(&mut self.length[self.length_filled..]);
            ready!(Pin::new(&mut self.link).poll_read(context, &mut length))?;
            match length.filled().len() {
                0 => return Poll::Ready(Ok(false)),
                read => self.length_filled += read,
            }
        }
        self.length_filled = 0;
        match u32::from_le_bytes(self.length) as usize {
            0 => self.ended += 1,
            length if length > PIECE_BYTES_MAX => return Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
            length => self.missing = length,
        }
        Poll::Ready(Ok(true))
    }

    /// Reads bytes of the piece. Returns how many; none when the connection has ended.
    fn poll_piece(&mut self, context: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let most = into.len().min(self.missing);
        let mut bytes = ReadBuf::new(&mut into[..most]);
        ready!(Pin::new(&mut self.link).poll_read(context, &mut bytes))?;
        let read = bytes.filled().len();
        self.missing -= read;
        Poll::Ready(Ok(read))
    }
}

impl<L: AsyncRead + Unpin> AsyncRead for Turns<L> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.ended < self.begun {
            if self.missing == 0 {
                match ready!(self.poll_length(context))? {
                    true => continue,
                    false => break,
                }
            }
            if self.ended + 1 == self.begun {
                let read = ready!(self.poll_piece(context, into.initialize_unfilled()))?;
                into.advance(read);
                break;
            }
            let mut of_an_old_turn = [0; 1024];
            if ready!(self.poll_piece(context, &mut of_an_old_turn))? == 0 {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }
}
