//! Reads and writes the fields of messages.

use crate::hash::Sha256Hash;

/// Bytes that are no message of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The message ends within a field.
    #[error("the message ends too early")]
    Truncated,
    /// Bytes follow the last field.
    #[error("there are bytes after the message")]
    TrailingBytes,
    /// A number of things is outside its limits.
    #[error("the number of {what} is {given}, and not {least} to {most}")]
    Count {
        /// What is counted.
        what: &'static str,
        /// The number in the message.
        given: u64,
        /// The fewest that are allowed.
        least: u64,
        /// The most that are allowed.
        most: u64,
    },
    /// The suite of algorithms is another one.
    #[error("suite {0} is unknown")]
    Suite(u8),
    /// The kind of a share is none.
    #[error("{0} is no kind of share")]
    Kind(u8),
    /// The indexes of members in a list do not rise.
    #[error("the members of a list are not in rising order")]
    Order,
    /// Bits of a bitmap beyond the last member are set.
    #[error("the bitmap names members that do not exist")]
    StrayBits,
}

/// The fields of a message that are not read yet.
#[derive(Debug)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (field, rest) = self.0.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*field)
    }

    pub(super) fn bytes(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (field, rest) = self.0.split_at_checked(length).ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(field)
    }

    pub(super) fn hash(&mut self) -> Result<Sha256Hash, DecodeError> {
        self.array().map(Sha256Hash)
    }

    pub(super) fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    /// A u16 that counts something, within limits.
    pub(super) fn count(&mut self, what: &'static str, least: u16, most: u16) -> Result<u16, DecodeError> {
        let count = self.u16()?;
        within(what, u64::from(count), u64::from(least), u64::from(most)).map(|()| count)
    }

    /// A list of at most `most` things, after their number. Each is read by `read`, which gives its member's index;
    /// indexes rise, so none is there twice.
    pub(super) fn list<T>(
        &mut self,
        what: &'static str,
        most: u16,
        index: impl Fn(&T) -> u16,
        read: impl Fn(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let count = self.count(what, 0, most)?;
        let mut list: Vec<T> = Vec::new();
        for _ in 0..count {
            let next = read(self)?;
            if list.last().is_some_and(|last| index(last) >= index(&next)) {
                return Err(DecodeError::Order);
            }
            list.push(next);
        }
        Ok(list)
    }

    pub(super) fn finish(self) -> Result<(), DecodeError> {
        if self.0.is_empty() { Ok(()) } else { Err(DecodeError::TrailingBytes) }
    }
}

/// Checks a number of things.
pub(super) fn within(what: &'static str, given: u64, least: u64, most: u64) -> Result<(), DecodeError> {
    match (least..=most).contains(&given) {
        true => Ok(()),
        false => Err(DecodeError::Count { what, given, least, most }),
    }
}

/// Writes the number of things in a list.
///
/// # Panics
/// If there are more than 65,535.
pub(super) fn push_count(out: &mut Vec<u8>, count: usize) {
    let count = u16::try_from(count).expect("lists of a group are bounded by its members");
    out.extend_from_slice(&count.to_le_bytes());
}
