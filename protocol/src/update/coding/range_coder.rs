//! An adaptive range coder: a symbol takes about -log2 of its predicted probability.
//!
//! The coder keeps an interval of 64-bit numbers. For each symbol it divides the interval in proportion to the
//! probabilities and keeps the part of the symbol; when less than 32 bits of its length are left, it writes the leading
//! four bytes of its lower end (G. N. N. Martin 1979). Adding to the lower end may carry into bytes that were written.
//! The arithmetic is integer, so the bytes are the same on every platform.

use crate::update::error::SectionError;

/// The unit of probabilities: they are integers from 1 to 2^16 - 1, in units of 2^-16.
pub(in crate::update) const ONE: u32 = 1 << 16;

/// An encoder or decoder, so that a model of data is written once for both.
pub(in crate::update) trait Coder {
    /// Whether the symbols are known before they are coded.
    const WRITES: bool;

    /// Codes one bit. An encoder writes and returns `bit`; a decoder ignores it and returns the bit that it reads.
    /// `one` is the probability of a one.
    fn code(&mut self, bit: bool, one: u32) -> bool;

    /// Codes one of the symbols 0 to `last`, as [`Self::code`] does a bit. `below` is the probability of all symbols
    /// below one from 1 to `last`; it rises with each, and from 0 to 1 exclusively.
    fn symbol(&mut self, symbol: usize, last: usize, below: impl Fn(usize) -> u32) -> usize;
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

/// The interval of the coder. Between symbols its length is at least 2^32.
#[derive(Clone, Copy, Debug)]
struct Interval {
    low: u64,
    length: u64,
}

impl Interval {
    const ALL: Self = Self { low: 0, length: u64::MAX };

    /// The length of the part that has this probability.
    #[inline]
    fn part(self, probability: u32) -> u64 {
        debug_assert!((1..ONE).contains(&probability), "a probability of 0 or 1 leaves no number for the rest");
        (self.length >> 16) * u64::from(probability)
    }

    /// Keeps the numbers from `from` to `to` of the interval. Returns whether the lower end overflowed.
    #[inline]
    fn keep(&mut self, from: u64, to: u64) -> bool {
        let (low, carry) = self.low.overflowing_add(from);
        (self.low, self.length) = (low, to - from);
        carry
    }

    /// Removes the leading four bytes if less than 32 bits of the length are left. Probabilities of 2^-16 leave 2^16 of
    /// 2^32, so once is enough.
    #[inline]
    fn shift(&mut self) -> Option<u32> {
        if self.length >> 32 != 0 {
            return None;
        }
        let bytes = (self.low >> 32) as u32;
        self.low <<= 32;
        self.length <<= 32;
        Some(bytes)
    }

    /// The shortest bytes that, followed by zeros, are a number in the interval; their count, and whether the number
    /// overflowed.
    fn end(self) -> ([u8; 8], usize, bool) {
        for bytes in 0..8 {
            let unit = 1u128 << (64 - 8 * bytes);
            let number = u128::from(self.low).next_multiple_of(unit);
            if number - u128::from(self.low) < u128::from(self.length) {
                return ((number as u64).to_be_bytes(), bytes as usize, number >> 64 != 0);
            }
        }
        (self.low.to_be_bytes(), 8, false)
    }
}

/// Encodes symbols and appends the bytes.
#[derive(Debug)]
pub(in crate::update) struct RangeEncoder<'a> {
    interval: Interval,
    out: &'a mut Vec<u8>,
}

impl<'a> RangeEncoder<'a> {
    pub(in crate::update) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { interval: Interval::ALL, out }
    }

    /// Writes the bytes that identify the final interval, at most 8.
    pub(in crate::update) fn finish(mut self) {
        let (bytes, count, carry) = self.interval.end();
        self.carry(carry);
        self.out.extend_from_slice(&bytes[..count]);
    }

    #[inline]
    fn keep(&mut self, from: u64, to: u64) {
        let carry = self.interval.keep(from, to);
        self.carry(carry);
        if let Some(bytes) = self.interval.shift() {
            self.out.extend_from_slice(&bytes.to_be_bytes());
        }
    }

    /// Adds one to the number that the written bytes are. All numbers of all intervals are below 1, so the carry ends
    /// within the bytes of this coder.
    #[inline]
    fn carry(&mut self, carry: bool) {
        if carry {
            for byte in self.out.iter_mut().rev() {
                *byte = byte.wrapping_add(1);
                if *byte != 0 {
                    break;
                }
            }
        }
    }
}

impl Coder for RangeEncoder<'_> {
    const WRITES: bool = true;

    #[inline]
    fn code(&mut self, bit: bool, one: u32) -> bool {
        let cut = self.interval.part(one);
        if bit {
            self.keep(0, cut);
        } else {
            self.keep(cut, self.interval.length);
        }
        bit
    }

    #[inline]
    fn symbol(&mut self, symbol: usize, last: usize, below: impl Fn(usize) -> u32) -> usize {
        let from = if symbol == 0 { 0 } else { self.interval.part(below(symbol)) };
        let to = if symbol == last { self.interval.length } else { self.interval.part(below(symbol + 1)) };
        self.keep(from, to);
        symbol
    }
}

/// Decodes symbols. Past the end of the bytes it reads zeros; [`Self::finish`] checks whether the bytes were complete.
#[derive(Debug)]
pub(in crate::update) struct RangeDecoder<'a> {
    interval: Interval,
    /// The number of the eight bytes from `taken` on, above the lower end of the interval.
    above: u64,
    /// Number of bytes that were removed from the interval.
    taken: usize,
    bytes: &'a [u8],
}

impl<'a> RangeDecoder<'a> {
    pub(in crate::update) fn new(bytes: &'a [u8]) -> Self {
        let mut decoder = Self { interval: Interval::ALL, above: 0, taken: 0, bytes };
        decoder.above = u64::from(decoder.next(0)) << 32 | u64::from(decoder.next(4));
        decoder
    }

    /// Checks that the bytes are not exhausted. Called per row, it bounds the work on a section that claims many values
    /// and has few bytes.
    ///
    /// # Errors
    /// [`SectionError::Truncated`] if they are.
    pub(in crate::update) fn check(&self) -> Result<(), SectionError> {
        if self.taken > self.bytes.len() { Err(SectionError::Truncated) } else { Ok(()) }
    }

    /// Ends the symbols. The bytes must be exactly those that an encoder of these symbols writes.
    ///
    /// # Errors
    /// [`SectionError::Truncated`] or [`SectionError::TrailingBytes`] for another length, [`SectionError::BadCode`] for
    /// other final bytes.
    pub(in crate::update) fn finish(self) -> Result<(), SectionError> {
        let (end, count, _) = self.interval.end();
        match self.bytes.len().checked_sub(self.taken + count) {
            None => Err(SectionError::Truncated),
            Some(0) if self.interval.low.wrapping_add(self.above) == u64::from_be_bytes(end) => Ok(()),
            Some(0) => Err(SectionError::BadCode),
            Some(_) => Err(SectionError::TrailingBytes),
        }
    }

    /// The four bytes from a place on.
    #[inline]
    fn next(&self, place: usize) -> u32 {
        match self.bytes.get(place..).and_then(|bytes| bytes.first_chunk()) {
            Some(four) => u32::from_be_bytes(*four),
            None => (0..4).fold(0, |number, byte| {
                number << 8 | u32::from(self.bytes.get(place.saturating_add(byte)).copied().unwrap_or(0))
            }),
        }
    }

    #[inline]
    fn keep(&mut self, from: u64, to: u64) {
        self.above -= from;
        self.interval.keep(from, to);
        if self.interval.shift().is_some() {
            self.above = self.above << 32 | u64::from(self.next(self.taken + 8));
            self.taken += 4;
        }
    }
}

impl Coder for RangeDecoder<'_> {
    const WRITES: bool = false;

    #[inline]
    fn code(&mut self, _: bool, one: u32) -> bool {
        let cut = self.interval.part(one);
        let bit = self.above < cut;
        if bit {
            self.keep(0, cut);
        } else {
            self.keep(cut, self.interval.length);
        }
        bit
    }

    #[inline]
    fn symbol(&mut self, _: usize, last: usize, below: impl Fn(usize) -> u32) -> usize {
        // The last symbol is the likely one where this coding pays.
        let end = self.interval.part(below(last));
        if self.above >= end {
            self.keep(end, self.interval.length);
            return last;
        }
        // The parts from `low` to `high` of the interval hold the number, and belong to the symbols `first` to `past`.
        let (mut first, mut past, mut low, mut high) = (0, last, 0, end);
        while past - first > 1 {
            let middle = first.midpoint(past);
            let cut = self.interval.part(below(middle));
            let lower = self.above < cut;
            (first, low) = if lower { (first, low) } else { (middle, cut) };
            (past, high) = if lower { (middle, cut) } else { (past, high) };
        }
        self.keep(low, high);
        first
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
        (0..17).for_each(|_| _ = decoder.code(false, ONE / 2));
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
