//! The first frame of each side of a link.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tributary_protocol::group::{
    FRAME_BYTES, FRAME_HEADER_BYTES, FrameHeader, FrameKind, HELLO_BYTES as BODY_BYTES, Hello as HelloBody,
};

const HELLO_BYTES: usize = FRAME_HEADER_BYTES + BODY_BYTES;

/// Which group a link is for, and which two members it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The id of the group.
    pub group: [u8; 16],
    /// Which attempt of the group. Each attempt has new links.
    pub attempt: u32,
    /// The rank of the member that sends it.
    pub from: u16,
    /// The rank of the member that receives it.
    pub to: u16,
}

/// The first frame does not fit. The link is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HelloError {
    /// Some of its bytes are those of no hello.
    #[error("it is not a hello")]
    Malformed,
    /// It names a group that is not open here.
    #[error("it names another group")]
    Group,
    /// It names an earlier or a later attempt.
    #[error("it names another attempt")]
    Attempt,
    /// It comes from a rank that the key does not have.
    #[error("it comes from a rank that this key does not have")]
    From,
    /// It is meant for a member of another rank.
    #[error("it is meant for a member of another rank")]
    To,
}

impl Hello {
    /// What the receiver sends back.
    #[must_use]
    pub fn answer(self) -> Self {
        Self { from: self.to, to: self.from, ..self }
    }

    /// Whether another hello is this one.
    ///
    /// # Errors
    /// [`HelloError`] names the first difference.
    pub(super) fn expect(self, other: Self) -> Result<(), HelloError> {
        match other {
            _ if other.group != self.group => Err(HelloError::Group),
            _ if other.attempt != self.attempt => Err(HelloError::Attempt),
            _ if other.from != self.from => Err(HelloError::From),
            _ if other.to != self.to => Err(HelloError::To),
            _ => Ok(()),
        }
    }

    /// A frame of its own kind: header and body.
    pub(super) fn to_bytes(self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        let (header, body) = bytes.split_at_mut(FRAME_HEADER_BYTES);
        header.copy_from_slice(&FrameHeader::of(FrameKind::Hello, self.from, self.attempt).encode());
        body.copy_from_slice(&HelloBody { group: self.group, receiver: self.to }.encode());
        bytes
    }

    /// # Errors
    /// [`HelloError::Malformed`] if a byte outside its four fields differs.
    pub(super) fn from_bytes(bytes: &[u8; HELLO_BYTES]) -> Result<Self, HelloError> {
        let (Some(header), Some(body)) = (bytes.first_chunk(), bytes.last_chunk()) else {
            return Err(HelloError::Malformed);
        };
        let header = FrameHeader::decode(header, FRAME_BYTES).map_err(|_| HelloError::Malformed)?;
        let HelloBody { group, receiver } = HelloBody::decode(body);
        let read = Self { group, attempt: header.attempt, from: header.from, to: receiver };
        if read.to_bytes() == *bytes { Ok(read) } else { Err(HelloError::Malformed) }
    }
}

/// Sends one.
///
/// # Errors
/// [`io::Error`] of the connection.
pub(super) async fn send(hello: Hello, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    stream.write_all(&hello.to_bytes()).await?;
    stream.flush().await
}

/// Waits for one, and reads nothing behind it.
///
/// # Errors
/// [`io::Error`] of the connection, and [`HelloError`] if these bytes are none.
pub(super) async fn receive(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Result<Hello, HelloError>> {
    let mut bytes = [0; HELLO_BYTES];
    stream.read_exact(&mut bytes).await?;
    Ok(Hello::from_bytes(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: Hello = Hello { group: [7; 16], attempt: 0x0403_0201, from: 0x0605, to: 0x0807 };

    #[test]
    fn a_hello_is_a_header_in_little_endian_and_its_body() {
        let header = [1, 0, 5, 6, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 18, 0, 0, 0];
        let bytes = HELLO.to_bytes();
        assert_eq!((&bytes[..24], &bytes[24..40], &bytes[40..]), (&header[..], &[7; 16][..], &[7, 8][..]));
        assert_eq!(Hello::from_bytes(&bytes), Ok(HELLO));
    }

    #[test]
    fn every_byte_that_changes_is_noticed() {
        for at in 0..HELLO_BYTES {
            let mut bytes = HELLO.to_bytes();
            bytes[at] ^= 0x40;
            let expected = match at {
                2..4 => HelloError::From,
                4..8 => HelloError::Attempt,
                24..40 => HelloError::Group,
                40.. => HelloError::To,
                _ => HelloError::Malformed,
            };
            let read = Hello::from_bytes(&bytes);
            assert_eq!(read.and_then(|other| HELLO.expect(other)), Err(expected), "byte {at}");
        }
    }
}
