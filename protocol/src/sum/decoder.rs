//! Reads and checks a sum, piece by piece.

use super::block::{BLOCK_BYTES_MAX, BLOCK_VALUES, HEAD_BYTES, Shape};
use super::error::SumError;
use super::header::{HEADER_BYTES, Header};
use super::packed::PackedReader;
use crate::fixed::{Contribution, SumCaps};

/// Receives the integers of a sum as they are decoded. Places are indices of the flat vector of all parameters.
pub trait IntegerSink {
    /// Receives the integers of the places `first..first + values.len()`.
    fn integers(&mut self, first: usize, values: &[i64]);
}

/// The values of a vector become those of the sum.
impl IntegerSink for Vec<i64> {
    fn integers(&mut self, first: usize, values: &[i64]) {
        self[first..first + values.len()].copy_from_slice(values);
    }
}

/// What a reader knows of a sum beforehand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// The [`tag`](super::tag()).
    pub tag: [u8; 8],
    /// Number of values.
    pub values: u32,
    /// Limits of each update in the sum.
    pub caps: SumCaps,
    /// The sum's binary point, which the caps allow ([`SumCaps::check_binary_point`]).
    pub binary_point: u32,
    /// Most updates of the sum.
    pub updates_max: u32,
}

/// The reader of a sum. It holds at most one block of bytes that are not decoded yet.
///
/// Blocks go to the sink as they are decoded. If a later byte is refused, the caller subtracts them again.
#[derive(Clone, Debug)]
pub struct SumDecoder {
    expected: Expected,
    /// Bytes of a header or block that is not whole yet.
    waiting: Vec<u8>,
    /// Bytes that were read.
    read: u64,
    /// What comes after the waiting bytes.
    next: Next,
    contribution: Option<Contribution>,
    /// The blocks, with the largest magnitude of a value from the header on.
    blocks: PackedReader,
    refused: Option<SumError>,
}

/// What is read next.
#[derive(Clone, Copy, Debug)]
enum Next {
    Header,
    /// Width and shift of a block.
    Head,
    /// The rest of a block.
    Block(Shape),
    End,
}

impl SumDecoder {
    /// A reader of the expected sum.
    pub fn new(expected: Expected) -> Self {
        Self {
            expected,
            waiting: Vec::with_capacity(BLOCK_BYTES_MAX),
            read: 0,
            next: Next::Header,
            contribution: None,
            blocks: PackedReader::new(0..expected.values as usize, 0),
            refused: None,
        }
    }

    /// Reads the next bytes. Pieces of any size give the sink the same blocks.
    ///
    /// # Errors
    /// [`SumError`] if the bytes cannot be those of the expected sum. The same error answers all later calls.
    pub fn read(&mut self, bytes: &[u8], sink: &mut (impl IntegerSink + ?Sized)) -> Result<(), SumError> {
        if let Some(error) = self.refused {
            return Err(error);
        }
        self.advance(bytes, sink).inspect_err(|error| self.refused = Some(*error))
    }

    /// The weight and number of the updates in the sum, once the header was read.
    pub fn contribution(&self) -> Option<Contribution> {
        self.contribution
    }

    /// Ends the sum.
    ///
    /// # Errors
    /// What [`Self::read`] refused, or [`SumError::Truncated`] if bytes are missing.
    pub fn finish(&self) -> Result<Contribution, SumError> {
        match (self.refused, self.next, self.contribution) {
            (Some(error), ..) => Err(error),
            (None, Next::End, Some(contribution)) => Ok(contribution),
            _ => Err(SumError::Truncated(self.read)),
        }
    }

    fn advance(&mut self, mut bytes: &[u8], sink: &mut (impl IntegerSink + ?Sized)) -> Result<(), SumError> {
        loop {
            let wanted = match self.next {
                Next::Header => HEADER_BYTES,
                Next::Head => HEAD_BYTES,
                Next::Block(shape) => shape.packed_bytes(self.blocks.block_values()),
                Next::End if bytes.is_empty() => return Ok(()),
                Next::End => return Err(SumError::TooLong),
            };
            let (now, later) = bytes.split_at(bytes.len().min(wanted - self.waiting.len()));
            self.waiting.extend_from_slice(now);
            self.read += now.len() as u64;
            bytes = later;
            if self.waiting.len() < wanted {
                return Ok(());
            }
            self.next = self.decode(sink)?;
            self.waiting.clear();
        }
    }

    /// Decodes the waiting bytes, which are whole.
    fn decode(&mut self, sink: &mut (impl IntegerSink + ?Sized)) -> Result<Next, SumError> {
        match self.next {
            Next::Header => {
                let bytes = self.waiting.first_chunk().expect("the header is whole");
                self.begin(Header::of_bytes(bytes))?;
            }
            Next::Head => {
                let head = self.waiting.first_chunk().expect("the head of the block is whole");
                return self.blocks.shape(*head).map(Next::Block);
            }
            Next::Block(shape) => {
                let mut block = [0; BLOCK_VALUES];
                // Checked before the sink gets any of them.
                let (first, values) = self.blocks.values(shape, &self.waiting, &mut block)?;
                sink.integers(first, values);
            }
            Next::End => {}
        }
        Ok(if self.blocks.is_whole() { Next::End } else { Next::Head })
    }

    fn begin(&mut self, Header { tag, contribution, values }: Header) -> Result<(), SumError> {
        let Expected { caps, updates_max, .. } = self.expected;
        let Contribution { weight, updates } = contribution;
        // No product means that every weight is below it.
        let weight_max = caps.weight_max.checked_times(updates);
        if tag != self.expected.tag {
            return Err(SumError::Tag);
        }
        if updates == 0 {
            return Err(SumError::NoUpdates);
        }
        if updates > updates_max {
            return Err(SumError::TooManyUpdates { got: updates, updates_max });
        }
        if weight.is_zero() {
            return Err(SumError::ZeroWeight);
        }
        if let Some(weight_max) = weight_max.filter(|weight_max| weight > *weight_max) {
            return Err(SumError::WeightTooLarge { got: weight, weight_max });
        }
        if values != self.expected.values {
            return Err(SumError::Values { got: values.into(), expected: self.expected.values });
        }
        // Saturated it is beyond every i64, as the product would be.
        let value_max = caps.value_max(self.expected.binary_point).unsigned_abs();
        let magnitude_max = value_max.saturating_mul(updates.into());
        self.blocks = PackedReader::new(0..values as usize, magnitude_max);
        self.contribution = Some(contribution);
        Ok(())
    }
}
