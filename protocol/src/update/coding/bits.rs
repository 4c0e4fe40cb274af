//! Writes and reads single bits in bytes: the lowest bit of each byte first, the last byte padded with zeros.

use crate::update::error::SectionError;

/// Most bits of one [`BitWriter::push`] or [`BitReader::take`].
pub(in crate::update) const BITS_AT_ONCE_MAX: u32 = 32;

/// Appends bits to bytes.
#[derive(Debug)]
pub(in crate::update) struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Bits that are not in `out` yet: fewer than 32.
    word: u64,
    bits: u32,
}

impl<'a> BitWriter<'a> {
    pub(in crate::update) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, word: 0, bits: 0 }
    }

    /// Appends the lowest `bits` bits of a value, at most 32. Its other bits must be zero.
    pub(in crate::update) fn push(&mut self, value: u32, bits: u32) {
        debug_assert!(bits <= BITS_AT_ONCE_MAX && u64::from(value) >> bits == 0);
        self.word |= u64::from(value) << self.bits;
        self.bits += bits;
        if self.bits >= BITS_AT_ONCE_MAX {
            self.out.extend_from_slice(&(self.word as u32).to_le_bytes());
            self.word >>= BITS_AT_ONCE_MAX;
            self.bits -= BITS_AT_ONCE_MAX;
        }
    }

    /// Pads the last byte.
    pub(in crate::update) fn finish(self) {
        let bytes = self.bits.div_ceil(8) as usize;
        self.out.extend_from_slice(&self.word.to_le_bytes()[..bytes]);
    }
}

/// Reads bits from bytes, in words of up to eight bytes.
#[derive(Debug)]
pub(in crate::update) struct BitReader<'a> {
    /// The bytes whose bits are not counted in `bits`.
    rest: &'a [u8],
    /// The next bits. Above the lowest `bits` there may be some of the first bits of `rest`.
    word: u64,
    bits: u32,
}

impl<'a> BitReader<'a> {
    pub(in crate::update) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, word: 0, bits: 0 }
    }

    /// Fetches bits until there are at least 56, or all that are left.
    #[inline]
    fn refill(&mut self) {
        if let Some((bytes, _)) = self.rest.split_first_chunk::<8>() {
            // Bits of `rest` that were already in the word are combined with themselves.
            self.word |= u64::from_le_bytes(*bytes) << self.bits;
            let whole = (63 - self.bits) / 8;
            self.rest = &self.rest[whole as usize..];
            self.bits += 8 * whole;
            return;
        }
        while self.bits < 56 {
            let Some((byte, rest)) = self.rest.split_first() else { return };
            self.word |= u64::from(*byte) << self.bits;
            self.rest = rest;
            self.bits += 8;
        }
    }

    /// Drops fetched bits, at most 63.
    #[inline]
    fn drop(&mut self, bits: u32) {
        self.word >>= bits;
        self.bits -= bits;
    }

    /// Takes the next `bits` bits, at most 32.
    ///
    /// # Errors
    /// [`SectionError::Truncated`] if fewer are left.
    #[inline]
    pub(in crate::update) fn take(&mut self, bits: u32) -> Result<u32, SectionError> {
        if self.bits < bits {
            self.refill();
            if self.bits < bits {
                return Err(SectionError::Truncated);
            }
        }
        let value = self.word & ((1 << bits) - 1);
        self.drop(bits);
        Ok(value as u32)
    }

    /// Takes the zeros up to the next one, and that one. Returns the number of zeros.
    ///
    /// # Errors
    /// [`SectionError::BadIndex`] for more than `zeros_max` zeros, [`SectionError::Truncated`] if no one follows.
    fn zeros(&mut self, zeros_max: u32) -> Result<u32, SectionError> {
        let mut seen = 0;
        loop {
            self.refill();
            let zeros = self.word.trailing_zeros();
            let ended = zeros < self.bits;
            seen += zeros.min(self.bits);
            if seen > zeros_max {
                return Err(SectionError::BadIndex);
            }
            if ended {
                self.drop(zeros + 1);
                return Ok(seen);
            }
            if self.bits == 0 {
                return Err(SectionError::Truncated);
            }
            self.drop(self.bits);
        }
    }

    /// Takes a code of zeros, a one and `low_bits` further bits, at most 32. Returns the number of zeros, and the bits.
    ///
    /// # Errors
    /// [`SectionError::BadIndex`] for more than `zeros_max` zeros that do not fit a word, [`SectionError::Truncated`]
    /// if the code is incomplete.
    #[inline]
    pub(in crate::update) fn code(&mut self, zeros_max: u32, low_bits: u32) -> Result<(u32, u32), SectionError> {
        // Not for every code: a refill depends on the length of the code before, and waiting for it takes longer than
        // the code itself.
        if self.bits < BITS_AT_ONCE_MAX {
            self.refill();
        }
        let zeros = self.word.trailing_zeros();
        let bits = zeros + 1 + low_bits;
        if bits > self.bits {
            return Ok((self.zeros(zeros_max)?, self.take(low_bits)?));
        }
        let low = self.word >> (zeros + 1) & ((1 << low_bits) - 1);
        self.drop(bits);
        Ok((zeros, low as u32))
    }

    /// Ends the bits. Only zeros up to the end of the byte may be left.
    ///
    /// # Errors
    /// [`SectionError::TrailingBytes`] or, for padding that is not zero, [`SectionError::BadCode`].
    pub(in crate::update) fn finish(self) -> Result<(), SectionError> {
        if self.bits >= 8 || !self.rest.is_empty() {
            return Err(SectionError::TrailingBytes);
        }
        if self.word != 0 {
            return Err(SectionError::BadCode);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_of_any_width_come_back(numbers in prop::collection::vec((any::<u32>(), 0u32..=32), 0..200)) {
            let narrow = |(number, bits): (u32, u32)| (u64::from(number) & ((1 << bits) - 1)) as u32;
            let mut bytes = Vec::new();
            let mut writer = BitWriter::new(&mut bytes);
            for number in &numbers {
                writer.push(narrow(*number), number.1);
            }
            writer.finish();
            let bits: u32 = numbers.iter().map(|(_, bits)| bits).sum();
            prop_assert_eq!(bytes.len(), bits.div_ceil(8) as usize);
            let mut reader = BitReader::new(&bytes);
            for number in &numbers {
                prop_assert_eq!(reader.take(number.1), Ok(narrow(*number)));
            }
            prop_assert_eq!(reader.finish(), Ok(()));
        }

        #[test]
        fn runs_of_zeros_are_counted_and_bounded(runs in prop::collection::vec(0u32..300, 0..50)) {
            let mut bytes = Vec::new();
            let mut writer = BitWriter::new(&mut bytes);
            for run in &runs {
                (0..*run).for_each(|_| writer.push(0, 1));
                writer.push(1, 1);
            }
            writer.finish();
            let mut reader = BitReader::new(&bytes);
            for run in &runs {
                prop_assert_eq!(reader.zeros(*run), Ok(*run));
            }
            let mut codes = BitReader::new(&bytes);
            for run in &runs {
                prop_assert_eq!(codes.code(*run, 0), Ok((*run, 0)));
            }
            prop_assert_eq!(codes.finish(), Ok(()));
            prop_assert_eq!(reader.finish(), Ok(()));
            if let Some(first) = runs.first().filter(|first| **first > 0) {
                prop_assert_eq!(BitReader::new(&bytes).zeros(first - 1), Err(SectionError::BadIndex));
            }
        }
    }

    #[test]
    fn an_end_that_is_none_is_refused() {
        let mut reader = BitReader::new(&[0b0000_0001]);
        assert_eq!(reader.take(9), Err(SectionError::Truncated));
        assert_eq!(reader.zeros(9), Ok(0));
        assert_eq!(reader.zeros(9), Err(SectionError::Truncated));
        assert_eq!(BitReader::new(&[]).finish(), Ok(()));
        assert_eq!(BitReader::new(&[0]).finish(), Err(SectionError::TrailingBytes));
        let after_one_bit = |bytes: &[u8]| {
            let mut reader = BitReader::new(bytes);
            reader.take(1).unwrap();
            reader.finish()
        };
        assert_eq!(after_one_bit(&[0b0000_0001]), Ok(()));
        assert_eq!(after_one_bit(&[0b1000_0001]), Err(SectionError::BadCode));
        assert_eq!(after_one_bit(&[1, 0]), Err(SectionError::TrailingBytes));
        assert_eq!(after_one_bit(&[1; 20]), Err(SectionError::TrailingBytes));
    }
}
