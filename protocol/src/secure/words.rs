//! Values modulo a power of two, in the smallest words that masks have.

use std::ops::Range;

mod sealed {
    pub trait Sealed {
        fn wide(self) -> u64;
    }
}

use sealed::Sealed;

/// A word of a mask.
pub trait Word: Copy + Sealed {
    /// Bytes of a word.
    const BYTES: usize;

    /// Adds the words of a keystream of the same length.
    fn add(words: &mut [Self], keystream: &[u8])
    where
        Self: Sized;

    /// Subtracts the words of a keystream of the same length.
    fn subtract(words: &mut [Self], keystream: &[u8])
    where
        Self: Sized;
}

macro_rules! words {
    ($($word:ty),*) => {$(
        impl Sealed for $word {
            #[inline]
            fn wide(self) -> u64 {
                self.into()
            }
        }

        impl Word for $word {
            const BYTES: usize = size_of::<$word>();

            fn add(words: &mut [Self], keystream: &[u8]) {
                let (masks, _) = keystream.as_chunks();
                for (word, mask) in words.iter_mut().zip(masks) {
                    *word = word.wrapping_add(Self::from_le_bytes(*mask));
                }
            }

            fn subtract(words: &mut [Self], keystream: &[u8]) {
                let (masks, _) = keystream.as_chunks();
                for (word, mask) in words.iter_mut().zip(masks) {
                    *word = word.wrapping_sub(Self::from_le_bytes(*mask));
                }
            }
        }
    )*};
}

words!(u16, u32, u64);

/// Values modulo 2^bits: the masked values of a member, or their sum. A word may have more bits than a value; what they
/// hold is meaningless.
#[derive(Clone, Debug)]
pub struct Words {
    bits: u8,
    words: Vector,
}

#[derive(Clone, Debug)]
enum Vector {
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

/// A part of [`Words`].
#[derive(Debug)]
pub enum WordsMut<'a> {
    /// Of values of up to 16 bits.
    U16(&'a mut [u16]),
    /// Of values of up to 32 bits.
    U32(&'a mut [u32]),
    /// Of longer values.
    U64(&'a mut [u64]),
}

macro_rules! each {
    ($vector:expr, $name:ident, $words:ident => $result:expr) => {
        match $vector {
            $name::U16($words) => $result,
            $name::U32($words) => $result,
            $name::U64($words) => $result,
        }
    };
}

impl Words {
    /// So many zeros of 1 to 64 bits: in words of 2 bytes for up to 16 bits, of 4 for up to 32, of 8 for more.
    pub fn zeros(bits: u8, length: usize) -> Self {
        let words = match bits {
            0..=16 => Vector::U16(vec![0; length]),
            17..=32 => Vector::U32(vec![0; length]),
            _ => Vector::U64(vec![0; length]),
        };
        Self { bits, words }
    }

    /// These numbers modulo 2^bits.
    pub fn of(bits: u8, values: &[i64]) -> Self {
        let mut words = Self::zeros(bits, values.len());
        match &mut words.words {
            Vector::U16(words) => words.iter_mut().zip(values).for_each(|(word, value)| *word = *value as u16),
            Vector::U32(words) => words.iter_mut().zip(values).for_each(|(word, value)| *word = *value as u32),
            Vector::U64(words) => words.iter_mut().zip(values).for_each(|(word, value)| *word = *value as u64),
        }
        words
    }

    /// Bits of a value.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        each!(&self.words, Vector, words => words.len())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All words.
    pub fn as_mut(&mut self) -> WordsMut<'_> {
        match &mut self.words {
            Vector::U16(words) => WordsMut::U16(words),
            Vector::U32(words) => WordsMut::U32(words),
            Vector::U64(words) => WordsMut::U64(words),
        }
    }

    /// Parts of `length` values each, the last one shorter, which may be masked on several threads. Part i begins at
    /// value `i * length`.
    ///
    /// # Panics
    /// If `length` is 0.
    pub fn parts_mut(&mut self, length: usize) -> Vec<WordsMut<'_>> {
        match &mut self.words {
            Vector::U16(words) => words.chunks_mut(length).map(WordsMut::U16).collect(),
            Vector::U32(words) => words.chunks_mut(length).map(WordsMut::U32).collect(),
            Vector::U64(words) => words.chunks_mut(length).map(WordsMut::U64).collect(),
        }
    }

    /// Adds values to those from `first` on.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn add(&mut self, first: usize, values: &[u64]) {
        let range = first..first + values.len();
        each!(&mut self.words, Vector, words => {
            words[range].iter_mut().zip(values).for_each(|(word, value)| *word = word.wrapping_add(*value as _));
        });
    }

    /// Subtracts values from those from `first` on.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn subtract(&mut self, first: usize, values: &[u64]) {
        let range = first..first + values.len();
        each!(&mut self.words, Vector, words => {
            words[range].iter_mut().zip(values).for_each(|(word, value)| *word = word.wrapping_sub(*value as _));
        });
    }

    /// Values from 0 to 2^bits - 1.
    ///
    /// # Panics
    /// If the range is beyond the values.
    pub fn values(&self, range: Range<usize>) -> Vec<u64> {
        let lowest = lowest(self.bits);
        each!(&self.words, Vector, words => words[range].iter().map(|word| word.wide() & lowest).collect())
    }

    /// Values from -2^(bits - 1) to 2^(bits - 1) - 1: of a sum that no wrap has changed, the sum itself.
    ///
    /// # Panics
    /// If the range is beyond the values.
    pub fn signed(&self, range: Range<usize>) -> Vec<i64> {
        let unused = 64 - u32::from(self.bits.max(1));
        let signed = |word: u64| (word << unused) as i64 >> unused;
        each!(&self.words, Vector, words => words[range].iter().map(|word| signed(word.wide())).collect())
    }
}

/// The lowest bits, set.
pub(super) fn lowest(bits: u8) -> u64 {
    u64::MAX >> (64 - u32::from(bits.clamp(1, 64)))
}

impl WordsMut<'_> {
    /// Number of values.
    pub fn len(&self) -> usize {
        each!(self, WordsMut, words => words.len())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_modulo_the_bits_and_signed_around_zero() {
        for bits in 1..=64 {
            let mut words = Words::of(bits, &[-1, 1, i64::MAX, i64::MIN, 0]);
            let top = lowest(bits);
            assert_eq!(words.values(0..2), [top, 1], "{bits}");
            assert_eq!(words.signed(0..1), [-1], "{bits}");
            words.add(0, &[1, top]);
            assert_eq!(words.values(0..2), [0, 0], "{bits}");
            words.subtract(3, &[3, 5]);
            let wrapped = |value: i64| value as u64 & top;
            assert_eq!(words.values(2..5), [i64::MAX, i64::MIN.wrapping_sub(3), -5].map(wrapped), "{bits}");
        }
        assert_eq!(Words::of(9, &[-256, 255, 256]).signed(0..3), [-256, 255, -256]);
    }

    #[test]
    fn parts_are_the_whole() {
        for bits in [16, 17, 40] {
            let mut words = Words::zeros(bits, 10);
            assert_eq!(words.parts_mut(4).iter().map(WordsMut::len).collect::<Vec<_>>(), [4, 4, 2]);
            assert!(!words.is_empty() && words.as_mut().len() == 10);
        }
    }
}
