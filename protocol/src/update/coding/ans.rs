//! Asymmetric numeral systems: a symbol takes about -log2 of its predicted probability.
//!
//! The coder keeps one number of 64 bits. A symbol whose part of the numbers below 2^16 is `from..from + size` turns
//! `x` into `x / size * 2^16 + x % size + from`; the reader finds the symbol in the lowest 16 bits and turns the number
//! back (Duda 2013, arXiv:1311.2540). Four bytes at a time leave a number that grows too large. The writer takes the
//! symbols in reverse order, so that the reader gets them in theirs: it keeps them until the end.
//!
//! A reader divides nothing, and needs no more than a product and a sum from one symbol to the next. The arithmetic is
//! integer, so the bytes are the same on every platform.

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
    /// below one from 1 to `last`; it rises with each, and from 0 to 1 exclusively. `guess` is the symbol whose part
    /// probably contains a number; any other is found too, but later.
    fn symbol(
        &mut self,
        symbol: usize,
        last: usize,
        below: impl Fn(usize) -> u32,
        guess: impl Fn(u32) -> usize,
    ) -> usize;
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
    #[inline(always)]
    pub(in crate::update) fn one(self) -> u32 {
        (self.0 >> 16).clamp(1, ONE - 1)
    }

    /// Updates the estimate with a bit.
    #[inline(always)]
    pub(in crate::update) fn learn(&mut self, bit: bool) {
        let (estimate, count) = (self.0 >> COUNT_BITS, self.0 & COUNT_MASK);
        let goal = i64::from(bit).wrapping_neg() & ((1 << 22) - 1);
        let step = ((goal - i64::from(estimate)) * i64::from(SHARES[count as usize])) >> 16;
        let estimate = (i64::from(estimate) + step) as u32;
        self.0 = estimate << COUNT_BITS | (count + 1).min(MEMORY);
    }

    /// Codes a bit and updates the estimate.
    #[inline(always)]
    pub(in crate::update) fn code(&mut self, coder: &mut impl Coder, bit: bool) -> bool {
        let bit = coder.code(bit, self.one());
        self.learn(bit);
        bit
    }
}

/// The number before the first symbol, and the least one between symbols. A reader that meets a lower one has read more
/// symbols than were written.
const STATE_MIN: u64 = 1 << 16;
/// A number below this takes in four further bytes, if there are any.
const STATE_REFILL: u64 = 1 << 32;

/// Collects symbols, and writes them when it has all of them.
#[derive(Debug, Default)]
pub(in crate::update) struct Encoder {
    /// `from` in the upper half, `size - 1` in the lower one.
    symbols: Vec<u32>,
}

impl Encoder {
    /// Appends the bytes of the symbols: the final number without leading zeros, then the bytes that left it, the last
    /// ones first.
    pub(in crate::update) fn finish(self, out: &mut Vec<u8>) {
        let (mut state, mut words) = (STATE_MIN, Vec::new());
        for symbol in self.symbols.iter().rev() {
            let (from, size) = (u64::from(symbol >> 16), u64::from(symbol & 0xFFFF) + 1);
            if state >> 48 >= size {
                words.push(state as u32);
                state >>= 32;
            }
            state = ((state / size) << 16) + state % size + from;
        }
        out.extend_from_slice(&state.to_be_bytes()[state.leading_zeros() as usize / 8..]);
        out.extend(words.iter().rev().flat_map(|word| word.to_be_bytes()));
    }

    #[inline(always)]
    fn keep(&mut self, from: u32, to: u32) {
        debug_assert!(from < to && to <= ONE, "a probability of 0 leaves no number for the symbol");
        self.symbols.push(from << 16 | (to - from - 1));
    }
}

impl Coder for Encoder {
    const WRITES: bool = true;

    #[inline(always)]
    fn code(&mut self, bit: bool, one: u32) -> bool {
        if bit {
            self.keep(0, one);
        } else {
            self.keep(one, ONE);
        }
        bit
    }

    #[inline(always)]
    fn symbol(&mut self, symbol: usize, last: usize, below: impl Fn(usize) -> u32, _: impl Fn(u32) -> usize) -> usize {
        let from = if symbol == 0 { 0 } else { below(symbol) };
        let to = if symbol == last { ONE } else { below(symbol + 1) };
        self.keep(from, to);
        symbol
    }
}

/// Decodes symbols. Any bytes give symbols without end; [`Self::finish`] checks whether the bytes were complete.
#[derive(Debug)]
pub(in crate::update) struct Decoder<'a> {
    state: u64,
    words: std::slice::Iter<'a, [u8; 4]>,
}

impl<'a> Decoder<'a> {
    /// # Errors
    /// [`SectionError::Truncated`] if the bytes are fewer than those of no symbols, [`SectionError::BadCode`] if they
    /// begin with a zero.
    pub(in crate::update) fn new(bytes: &'a [u8]) -> Result<Self, SectionError> {
        /// Bytes of the least number, and of the least one that other bytes have left.
        const BYTES_MIN: usize = 3;
        const BYTES_MIN_LEFT: usize = 5;
        let count = match bytes.len() {
            0..BYTES_MIN => return Err(SectionError::Truncated),
            whole @ ..=8 => whole,
            more => (more - BYTES_MIN_LEFT) % 4 + BYTES_MIN_LEFT,
        };
        let (number, words) = bytes.split_at(count);
        if number[0] == 0 {
            return Err(SectionError::BadCode);
        }
        let state = number.iter().fold(0, |state, byte| state << 8 | u64::from(*byte));
        Ok(Self { state, words: words.as_chunks().0.iter() })
    }

    /// Checks that the bytes are not exhausted. Called per row, it bounds the work on a section that claims many values
    /// and has few bytes.
    ///
    /// # Errors
    /// [`SectionError::Truncated`] if they are.
    pub(in crate::update) fn check(&self) -> Result<(), SectionError> {
        if self.state < STATE_MIN { Err(SectionError::Truncated) } else { Ok(()) }
    }

    /// Ends the symbols. The bytes must be exactly those that an encoder of these symbols writes.
    ///
    /// # Errors
    /// [`SectionError::Truncated`] or [`SectionError::TrailingBytes`] for another length, [`SectionError::BadCode`] for
    /// a number that no encoder begins with.
    pub(in crate::update) fn finish(self) -> Result<(), SectionError> {
        self.check()?;
        match (self.words.len(), self.state) {
            (0, STATE_MIN) => Ok(()),
            (0, _) => Err(SectionError::BadCode),
            _ => Err(SectionError::TrailingBytes),
        }
    }

    /// The number that decides about the next symbol.
    #[inline(always)]
    fn slot(&self) -> u32 {
        (self.state & 0xFFFF) as u32
    }

    #[inline(always)]
    fn keep(&mut self, from: u32, to: u32) {
        self.state = u64::from(to - from) * (self.state >> 16) + u64::from(self.slot() - from);
        if self.state < STATE_REFILL
            && let Some(word) = self.words.next()
        {
            self.state = self.state << 32 | u64::from(u32::from_be_bytes(*word));
        }
    }
}

impl Coder for Decoder<'_> {
    const WRITES: bool = false;

    #[inline(always)]
    fn code(&mut self, _: bool, one: u32) -> bool {
        let bit = self.slot() < one;
        // Without a branch, which would be mispredicted as often as the bit is.
        let mask = u32::from(bit).wrapping_neg();
        let from = one & !mask;
        self.keep(from, from + ((one & mask) | ((ONE - one) & !mask)));
        bit
    }

    #[inline(always)]
    fn symbol(&mut self, _: usize, last: usize, below: impl Fn(usize) -> u32, guess: impl Fn(u32) -> usize) -> usize {
        let slot = self.slot();
        // The last symbol is the likely one where this coding pays.
        let end = below(last);
        if slot >= end {
            self.keep(end, ONE);
            return last;
        }
        let mut symbol = guess(slot).min(last - 1);
        let begin = |symbol: usize| if symbol == 0 { 0 } else { below(symbol) };
        let (mut from, mut to) = (begin(symbol), below(symbol + 1));
        while slot < from {
            symbol -= 1;
            (from, to) = (begin(symbol), from);
        }
        while slot >= to {
            symbol += 1;
            (from, to) = (to, below(symbol + 1));
        }
        self.keep(from, to);
        symbol
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn write(bits: &[(bool, u32)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::default();
        for (bit, one) in bits {
            encoder.code(*bit, *one);
        }
        encoder.finish(&mut bytes);
        bytes
    }

    fn read(bytes: &[u8], bits: &[(bool, u32)]) -> Result<Vec<bool>, SectionError> {
        let mut decoder = Decoder::new(bytes)?;
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
    fn a_reader_past_the_end_is_told() {
        let mut decoder = Decoder::new(&[7, 7, 7]).unwrap();
        (0..2).for_each(|_| _ = decoder.code(false, ONE / 2));
        assert_eq!(decoder.check(), Ok(()));
        (0..1).for_each(|_| _ = decoder.code(false, ONE / 2));
        assert_eq!(decoder.check(), Err(SectionError::Truncated));
        // And stays told, whatever it reads.
        (0..1000).for_each(|at| _ = decoder.code(false, at * 65 + 1));
        assert_eq!(decoder.finish(), Err(SectionError::Truncated));
    }

    #[test]
    fn nothing_is_the_first_number() {
        assert_eq!(write(&[]), [1, 0, 0]);
        assert_eq!(read(&[1, 0, 0], &[]), Ok(vec![]));
        assert_eq!(read(&[1, 0], &[]), Err(SectionError::Truncated));
        assert_eq!(read(&[1, 0, 1], &[]), Err(SectionError::BadCode));
        assert_eq!(read(&[0, 1, 0, 0], &[]), Err(SectionError::BadCode));
        assert_eq!(read(&[1; 9], &[]), Err(SectionError::TrailingBytes));
    }

    #[test]
    fn a_symbol_is_found_whatever_the_guess() {
        let below = |symbol: usize| [0, 1, 2, 3, 40_000, 40_001, 65_535][symbol];
        let symbols = [6, 0, 3, 5, 1, 6, 2, 4, 3, 3, 0];
        let (mut bytes, mut encoder) = (Vec::new(), Encoder::default());
        symbols.iter().for_each(|symbol| _ = encoder.symbol(*symbol, 6, below, |_| 0));
        encoder.finish(&mut bytes);
        for guess in [0, 3, 5, 100] {
            let mut decoder = Decoder::new(&bytes).unwrap();
            let read = symbols.map(|_| decoder.symbol(9, 6, below, |_| guess));
            assert_eq!((read, decoder.finish()), (symbols, Ok(())));
        }
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
            prop_assert!(read(&longer, &bits) != read(&longer[..longer.len() - 1], &bits));
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
