//! A connection to the right member.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::TlsStream;

use super::hello::HelloError;
use crate::keys::KeyError;
use crate::transport::Wire;

/// An encrypted connection to a member whose key and rank are those of the roster. Both first frames have been sent.
/// Dropping it closes the connection.
#[derive(Debug)]
pub struct Link {
    stream: TlsStream<Wire>,
    rank: u16,
    /// Its place among the connections of its group; `None` if it was opened from here.
    _place: Option<OwnedSemaphorePermit>,
}

/// Why there is no link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The address has no host, or nothing listens there.
    #[error("the member cannot be reached: {0}")]
    Unreachable(String),
    /// The member closed the connection: the group is not open there, or it accepts no further connections.
    #[error("the member refused the link: {0}")]
    Refused(String),
    /// TLS failed.
    #[error("the handshake with the member failed: {0}")]
    Handshake(String),
    /// The address answered with another key.
    #[error("the key of the member is not the one in the roster")]
    WrongKey,
    /// The member's first frame is not the expected one.
    #[error("the first frame of the member is wrong: {0}")]
    Hello(#[from] HelloError),
    /// It took too long.
    #[error("the member did not answer within {limit_ms} ms")]
    TimedOut {
        /// How long was waited, in milliseconds.
        limit_ms: u64,
    },
    /// The own address is not of this machine, or in use.
    #[error("cannot listen for members: {0}")]
    Listen(String),
    /// Nobody listens on this side any more.
    #[error("the listener has ended")]
    Ended,
    /// The device's key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl LinkError {
    /// What an error of the connection says before there is a link.
    pub(super) fn of(error: &io::Error) -> Self {
        match error.get_ref().and_then(|held| held.downcast_ref()) {
            Some(rustls::Error::InvalidCertificate(rustls::CertificateError::ApplicationVerificationFailure)) => {
                Self::WrongKey
            }
            Some(rustls::Error::AlertReceived(_)) => Self::Refused(error.to_string()),
            Some(_) => Self::Handshake(error.to_string()),
            None if error.kind() == io::ErrorKind::UnexpectedEof => {
                Self::Refused("it closed the connection".to_owned())
            }
            None => Self::Refused(error.to_string()),
        }
    }
}

impl Link {
    pub(super) fn new(stream: TlsStream<Wire>, rank: u16, place: Option<OwnedSemaphorePermit>) -> Self {
        Self { stream, rank, _place: place }
    }

    /// The rank of the member at the other end.
    pub fn rank(&self) -> u16 {
        self.rank
    }
}

impl AsyncRead for Link {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Link {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
