//! An adaptive binary range coder: a bit takes about -log2 of its predicted probability.
//!
//! The coder keeps an interval of 32-bit numbers. For each bit it divides the interval in proportion to the probability
//! of a one and keeps the side of the bit; leading bytes that both ends share are written (arithmetic coding as in
//! Witten, Neal and Cleary, CACM 30(6), 1987; without carries, as in M. Mahoney's lpaq). The arithmetic is integer, so
//! the bytes are the same on every platform.

use crate::update::error::SectionError;

/// The unit of probabilities: they are integers from 1 to 2^16 - 1, in units of 2^-16.
pub(in crate::update) const ONE: u32 = 1 << 16;

/// An encoder or decoder of bits, so that a model of data is written once for both.
pub(in crate::update) trait Coder {
    /// Codes one bit. An encoder writes and returns `bit`; a decoder ignores it and returns the bit that it reads.
    /// `one` is the probability of a one.
    fn code(&mut self, bit: bool, one: u32) -> bool;
}

/// The adaptive probability of a one in some context: 22 bits of probability and 10 bits that count the bits so far.
///
/// The nth bit moves the estimate by 1/(n + 1.5) of the difference, so it adapts quickly at first; later by about
/// 1/[`MEMORY`].
#[derive(Clone, Copy, Debug)]
pub(in crate::update) struct Adaptive(u32);

/// Largest count: the number of bits over which an estimate averages.
const MEMORY: u32 = 255;
const COUNT_BITS: u32 = 10;
const COUNT_MASK: u32 = (1 << COUNT_BITS) - 1;

/// 2^16 / (count + 1.5).
const SHARES: [u32; MEMORY as usize + 1] = {
    let mut shares = [0; MEMORY as usize + 1];
    let mut count = 0;
    while count < shares.len() {
        shares[count] = (2 << 16) / (2 * count as u32 + 3);
        count += 1;
    }
    shares
};

impl Adaptive {
    /// Starts with the probability `one`.
    pub(in crate::update) const fn new(one: u32) -> Self {
        Self(one << (32 - 16))
    }

    /// The probability of a one.
    #[inline]
    pub(in crate::update) fn one(self) -> u32 {
        (self.0 >> 16).clamp(1, ONE - 1)
    }

    /// Updates the estimate with a bit.
    #[inline]
    pub(in crate::update) fn learn(&mut self, bit: bool) {
        let (estimate, count) = (self.0 >> COUNT_BITS, self.0 & COUNT_MASK);
        let goal = if bit { (1 << 22) - 1 } else { 0 };
        let step = ((i64::from(goal) - i64::from(estimate)) * i64::from(SHARES[count as usize])) >> 16;
        let estimate = (i64::from(estimate) + step) as u32;
        self.0 = estimate << COUNT_BITS | (count + 1).min(MEMORY);
    }

    /// Codes a bit and updates the estimate.
    #[inline]
    pub(in crate::update) fn code(&mut self, coder: &mut impl Coder, bit: bool) -> bool {
        let bit = coder.code(bit, self.one());
        self.learn(bit);
        bit
    }
}

/// The interval of the coder. Between bits its ends differ in their first byte.
#[derive(Clone, Copy, Debug)]
struct Interval {
    low: u32,
    high: u32,
}

impl Interval {
    const ALL: Self = Self { low: 0, high: u32::MAX };

    /// The last number of the side for a one. Both sides have at least one number.
    #[inline]
    fn cut(self, one: u32) -> u32 {
        debug_assert!((1..ONE).contains(&one), "a probability of 0 or 1 leaves no number for the other bit");
        self.low + ((u64::from(self.high - self.low) * u64::from(one)) >> 16) as u32
    }

    #[inline]
    fn keep(&mut self, bit: bool, cut: u32) {
        if bit {
            self.high = cut;
        } else {
            self.low = cut + 1;
        }
    }

    /// Removes the first byte if both ends share it.
    #[inline]
    fn shift(&mut self) -> Option<u8> {
        if (self.low ^ self.high) >> 24 != 0 {
            return None;
        }
        let byte = (self.high >> 24) as u8;
        self.low <<= 8;
        self.high = self.high << 8 | 0xFF;
        Some(byte)
    }

    /// The shortest bytes that, followed by zeros, are a number in the interval; and their count.
    fn end(self) -> ([u8; 4], usize) {
        for bytes in 0..4 {
            let unit = 1u64 << (32 - 8 * bytes);
            let number = u64::from(self.low).next_multiple_of(unit);
            if number <= u64::from(self.high) {
                return ((number as u32).to_be_bytes(), bytes as usize);
            }
        }
        (self.low.to_be_bytes(), 4)
    }
}

/// Encodes bits and appends the bytes.
#[derive(Debug)]
pub(in crate::update) struct RangeEncoder<'a> {
    interval: Interval,
    out: &'a mut Vec<u8>,
}

impl<'a> RangeEncoder<'a> {
    pub(in crate::update) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { interval: Interval::ALL, out }
    }

    /// Writes the bytes that identify the final interval, at most 4.
    pub(in crate::update) fn finish(self) {
        let (bytes, count) = self.interval.end();
        self.out.extend_from_slice(&bytes[..count]);
    }
}

impl Coder for RangeEncoder<'_> {
    #[inline]
    fn code(&mut self, bit: bool, one: u32) -> bool {
        self.interval.keep(bit, self.interval.cut(one));
        while let Some(byte) = self.interval.shift() {
            self.out.push(byte);
        }
        bit
    }
}

/// Decodes bits. Past the end of the bytes it reads zeros; [`Self::finish`] checks whether the bytes were complete.
#[derive(Debug)]
pub(in crate::update) struct RangeDecoder<'a> {
    interval: Interval,
    /// The four bytes from `taken` on.
    window: u32,
    /// Number of bytes that were removed from the interval.
    taken: usize,
    bytes: &'a [u8],
}

impl<'a> RangeDecoder<'a> {
    pub(in crate::update) fn new(bytes: &'a [u8]) -> Self {
        let byte = |place| u32::from(bytes.get(place).copied().unwrap_or(0));
        let window = (0..4).fold(0, |window, place| window << 8 | byte(place));
        Self { interval: Interval::ALL, window, taken: 0, bytes }
    }

    /// Checks that the bytes are not exhausted. Called per row, it bounds the work on a section that claims many values
    /// and has few bytes.
    ///
    /// # Errors
    /// [`SectionError::Truncated`] if they are.
    pub(in crate::update) fn check(&self) -> Result<(), SectionError> {
        if self.taken > self.bytes.len() { Err(SectionError::Truncated) } else { Ok(()) }
    }

    /// Ends the bits. The bytes must be exactly those that an encoder of these bits writes.
    ///
    /// # Errors
    /// [`SectionError::Truncated`] or [`SectionError::TrailingBytes`] for another length, [`SectionError::BadCode`] for
    /// other final bytes.
    pub(in crate::update) fn finish(self) -> Result<(), SectionError> {
        let (end, count) = self.interval.end();
        match self.bytes.len().checked_sub(self.taken + count) {
            None => Err(SectionError::Truncated),
            Some(0) if self.bytes[self.taken..] == end[..count] => Ok(()),
            Some(0) => Err(SectionError::BadCode),
            Some(_) => Err(SectionError::TrailingBytes),
        }
    }
}

impl Coder for RangeDecoder<'_> {
    #[inline]
    fn code(&mut self, _: bool, one: u32) -> bool {
        let cut = self.interval.cut(one);
        let bit = self.window <= cut;
        self.interval.keep(bit, cut);
        while self.interval.shift().is_some() {
            let next = self.bytes.get(self.taken + 4).copied().unwrap_or(0);
            self.window = self.window << 8 | u32::from(next);
            self.taken += 1;
        }
        bit
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn write(bits: &[(bool, u32)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = RangeEncoder::new(&mut bytes);
        for (bit, one) in bits {
            encoder.code(*bit, *one);
        }
        encoder.finish();
        bytes
    }

    fn read(bytes: &[u8], bits: &[(bool, u32)]) -> Result<Vec<bool>, SectionError> {
        let mut decoder = RangeDecoder::new(bytes);
        // What a reader is given must not matter.
        let read = bits.iter().map(|(bit, one)| decoder.code(!bit, *one)).collect();
        decoder.finish().map(|()| read)
    }

    #[test]
    fn bits_cost_what_they_surprise() {
        // 100,000 zeros with probability 1 - 2^-10 and 100 ones: 100 * 10 + 100,000 / (1024 ln 2) bits = 142 bytes.
        let bits: Vec<_> = (0..100_100).map(|index| (index % 1001 == 500, 64)).collect();
        let bytes = write(&bits);
        assert!((143..146).contains(&bytes.len()), "{} bytes", bytes.len());
        assert_eq!(read(&bytes, &bits).map(|read| read.len()), Ok(100_100));
    }

    #[test]
    fn an_estimate_learns_fast_and_then_remembers() {
        let mut estimate = Adaptive::new(ONE / 2);
        estimate.learn(true);
        assert!(estimate.one() > ONE * 4 / 5, "{}", estimate.one());
        (0..4000).for_each(|_| estimate.learn(false));
        assert_eq!(estimate.one(), 1);
        (0..100_000).for_each(|_| estimate.learn(true));
        assert!(estimate.one() > ONE - 300 && estimate.one() < ONE, "{}", estimate.one());
    }

    #[test]
    fn a_reader_past_the_end_is_told_before_the_last_bit() {
        let mut decoder = RangeDecoder::new(&[7, 7]);
        (0..16).for_each(|_| _ = decoder.code(false, ONE / 2));
        assert_eq!(decoder.check(), Ok(()));
        (0..16).for_each(|_| _ = decoder.code(false, ONE / 2));
        assert_eq!(decoder.check(), Err(SectionError::Truncated));
    }

    #[test]
    fn nothing_is_written_for_nothing() {
        assert!(write(&[]).is_empty());
        assert_eq!(read(&[], &[]), Ok(vec![]));
        assert_eq!(read(&[0], &[]), Err(SectionError::TrailingBytes));
    }

    proptest! {
        #[test]
        fn any_bits_at_any_probability_come_back(bits in prop::collection::vec((any::<bool>(), 1..ONE), 0..400)) {
            let bytes = write(&bits);
            let expected: Vec<_> = bits.iter().map(|(bit, _)| *bit).collect();
            prop_assert_eq!(read(&bytes, &bits), Ok(expected));
            if let Some((_, cut)) = bytes.split_last() {
                prop_assert!(read(cut, &bits) != read(&bytes, &bits));
            }
            let mut longer = bytes;
            longer.push(0);
            prop_assert_eq!(read(&longer, &bits), Err(SectionError::TrailingBytes));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..40),
            ones in prop::collection::vec(1..ONE, 0..400),
        ) {
            let bits: Vec<_> = ones.into_iter().map(|one| (false, one)).collect();
            if let Ok(read) = read(&bytes, &bits) {
                // Whatever is accepted is what a writer of these bits writes.
                let bits: Vec<_> = read.into_iter().zip(bits).map(|(bit, (_, one))| (bit, one)).collect();
                prop_assert_eq!(write(&bits), bytes);
            }
        }
    }
}
