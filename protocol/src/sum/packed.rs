//! Runs of packed blocks: consecutive places of a sum, as a body or a frame of a ring has them.

use std::ops::Range;

use super::block::{BLOCK_VALUES, HEAD_BYTES, Shape, pack, unpack};
use super::error::SumError;

/// Appends a run of values as blocks of 256 values, the last one shorter. No values are no bytes.
pub fn pack_run(values: &[i64], out: &mut Vec<u8>) {
    values.chunks(BLOCK_VALUES).for_each(|block| pack(block, out));
}

/// The reader of a run. It takes each block in its only encoding, with values up to a magnitude.
#[derive(Clone, Debug)]
pub struct PackedReader {
    places: Range<usize>,
    /// Values that were read.
    read: usize,
    magnitude_max: u64,
}

impl PackedReader {
    /// A reader of the values of these places, each at most `magnitude_max` in magnitude.
    pub fn new(places: Range<usize>, magnitude_max: u64) -> Self {
        Self { places, read: 0, magnitude_max }
    }

    /// Reads the block at the beginning of `bytes` into `block`. Returns its first place, its values and the bytes
    /// after it.
    ///
    /// # Errors
    /// [`SumError::TooLong`] after the last block, [`SumError::Truncated`] with the number of these bytes if the block
    /// is longer than they are, and any other reason why they are no block of the run. Nothing counts as read then.
    pub fn next<'block, 'bytes>(
        &mut self,
        bytes: &'bytes [u8],
        block: &'block mut [i64; BLOCK_VALUES],
    ) -> Result<(usize, &'block mut [i64], &'bytes [u8]), SumError> {
        if self.is_whole() {
            return Err(SumError::TooLong);
        }
        let truncated = SumError::Truncated(bytes.len() as u64);
        let (head, rest) = bytes.split_first_chunk().ok_or(truncated)?;
        let shape = self.shape(*head)?;
        let (packed, rest) = rest.split_at_checked(shape.packed_bytes(self.block_values())).ok_or(truncated)?;
        let (first, values) = self.values(shape, packed, block)?;
        Ok((first, values, rest))
    }

    /// Whether all values were read.
    pub fn is_whole(&self) -> bool {
        self.read == self.places.len()
    }

    /// The shape of the next block.
    pub(super) fn shape(&self, head: [u8; HEAD_BYTES]) -> Result<Shape, SumError> {
        Shape::read(head, self.block())
    }

    /// Values of the next block.
    pub(super) fn block_values(&self) -> usize {
        BLOCK_VALUES.min(self.places.len() - self.read)
    }

    /// Reads the values of the next block, whose first place is returned with them.
    pub(super) fn values<'block>(
        &mut self,
        shape: Shape,
        packed: &[u8],
        block: &'block mut [i64; BLOCK_VALUES],
    ) -> Result<(usize, &'block mut [i64]), SumError> {
        let values = &mut block[..self.block_values()];
        unpack(shape, packed, self.block(), values)?;
        let first = self.places.start + self.read;
        let magnitude_max = self.magnitude_max;
        // Sums are far from the caps as a rule: then the width of the block says that none is beyond them.
        let may_exceed = shape.magnitude_max() > magnitude_max;
        if may_exceed && values.iter().any(|value| value.unsigned_abs() > magnitude_max) {
            let is_too_large = |value: &i64| value.unsigned_abs() > magnitude_max;
            let at = values.iter().position(is_too_large).unwrap_or_default();
            return Err(SumError::ValueTooLarge { place: first + at, got: values[at], magnitude_max });
        }
        self.read += values.len();
        Ok((first, values))
    }

    /// Number of the next block in its run.
    fn block(&self) -> u32 {
        (self.read / BLOCK_VALUES) as u32
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Values of a whole run from place 1000 on, as places and values.
    fn read(bytes: &[u8], values: usize, magnitude_max: u64) -> Result<Vec<(usize, i64)>, SumError> {
        let mut reader = PackedReader::new(1000..1000 + values, magnitude_max);
        let (mut rest, mut block, mut out) = (bytes, [7; BLOCK_VALUES], Vec::new());
        while !reader.is_whole() {
            let (first, values, after) = reader.next(rest, &mut block)?;
            out.extend(values.iter().enumerate().map(|(at, value)| (first + at, *value)));
            rest = after;
        }
        if rest.is_empty() { Ok(out) } else { reader.next(rest, &mut block).map(|_| out) }
    }

    fn packed(values: &[i64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        pack_run(values, &mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn a_run_is_read_as_it_was(values in prop::collection::vec(any::<i64>(), 0..700)) {
            let expected: Vec<_> = (1000..).zip(values.iter().copied()).collect();
            prop_assert_eq!(read(&packed(&values), values.len(), u64::MAX), Ok(expected));
        }
    }

    #[test]
    fn a_run_ends_where_it_should_and_has_no_value_beyond_its_limit() {
        let values: Vec<i64> = (0..300).collect();
        let bytes = packed(&values);
        assert!(read(&bytes, 300, 299).is_ok());
        let error = SumError::ValueTooLarge { place: 1299, got: 299, magnitude_max: 298 };
        assert_eq!(read(&bytes, 300, 298), Err(error));
        assert_eq!(read(&[&bytes[..], &[0]].concat(), 300, 299), Err(SumError::TooLong));
        for cut in 0..bytes.len() {
            assert!(matches!(read(&bytes[..cut], 300, 299), Err(SumError::Truncated(_))), "{cut}");
        }
        assert_eq!(read(&[], 0, 0), Ok(Vec::new()));
    }
}
