//! A packed block: up to 256 integers in as few bits each as hold all of them.
//!
//! The integers are shifted right by the zero bits that all of them end with, and written without gaps as two's
//! complement, low bits first. Both numbers follow from the integers, so a block has one encoding. The reader checks
//! that it got that one.

use super::error::SumError;

/// Values of a block. The last block of a run may have fewer.
pub const BLOCK_VALUES: usize = 256;
/// Bytes before the packed integers: width and shift.
pub(super) const HEAD_BYTES: usize = 2;
/// Zeros that [`unpack`] needs behind the packed integers, since it loads up to 16 bytes at a time.
const PADDING_BYTES: usize = 16;
/// The widest integers that 8 bytes hold from any bit of the first one on.
const WIDTH_OF_WORD: u32 = 57;
/// Most bytes of a block.
pub const BLOCK_BYTES_MAX: usize = HEAD_BYTES + 8 * BLOCK_VALUES;

/// How the integers of a block are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Bits of an integer, 0 to 64.
    width: u32,
    /// Low zero bits that are left out, 0 to 63.
    shift: u32,
}

impl Shape {
    /// The shape of these values.
    fn of(values: &[i64]) -> Self {
        let all = values.iter().fold(0, |all, value| all | value);
        if all == 0 {
            return Self { width: 0, shift: 0 };
        }
        let shift = all.trailing_zeros();
        Self { width: width(values) - shift, shift }
    }

    /// The shape at the beginning of block number `block`.
    ///
    /// # Errors
    /// When no block has it.
    pub(super) fn read(head: [u8; HEAD_BYTES], block: u32) -> Result<Self, SumError> {
        let [width, shift] = head;
        // An integer and its zeros have at most 64 bits together.
        let is_possible = u32::from(width) + u32::from(shift) <= 64 && (width > 0 || shift == 0);
        let shape = Self { width: width.into(), shift: shift.into() };
        is_possible.then_some(shape).ok_or(SumError::Shape { block, width, shift })
    }

    /// The largest magnitude that such an integer can have.
    pub(super) fn magnitude_max(self) -> u64 {
        // The lowest integer of two's complement.
        1u64.checked_shl((self.width + self.shift).saturating_sub(1)).unwrap_or(u64::MAX)
    }

    /// Bytes of so many packed integers.
    pub(super) fn packed_bytes(self, values: usize) -> usize {
        (values * self.width as usize).div_ceil(8)
    }
}

/// The fewest bits of two's complement that hold each value: a sign, and as many bits as the largest of the values
/// needs, or of the complements of the negative ones.
fn width(values: &[i64]) -> u32 {
    65 - values.iter().fold(0, |all, value| all | (value ^ (value >> 63))).leading_zeros()
}

/// Appends a block.
///
/// 8 bytes are read per value and `width / 8` written. The chain of 128-bit shifts is the limit, not memory: 3.5 ns per
/// value of 41 bits on one core.
pub(super) fn pack(values: &[i64], out: &mut Vec<u8>) {
    let shape = Shape::of(values);
    out.extend_from_slice(&[shape.width as u8, shape.shift as u8]);
    out.reserve(shape.packed_bytes(values.len()));
    let lowest = u64::MAX.checked_shr(64 - shape.width).unwrap_or(0);
    let (mut word, mut filled) = (0u128, 0);
    for value in values {
        word |= u128::from((value >> shape.shift).cast_unsigned() & lowest) << filled;
        filled += shape.width;
        if filled >= 64 {
            out.extend_from_slice(&(word as u64).to_le_bytes());
            word >>= 64;
            filled -= 64;
        }
    }
    out.extend_from_slice(&word.to_le_bytes()[..filled.div_ceil(8) as usize]);
}

/// Unpacks block number `block` into `values`, whose length is that of the block.
///
/// `width / 8` bytes are read per value and 8 written. No value waits for the one before; shifts are the limit, not
/// memory.
///
/// # Errors
/// When the values would be written otherwise.
pub(super) fn unpack(shape: Shape, packed: &[u8], block: u32, values: &mut [i64]) -> Result<(), SumError> {
    let Shape { width: bits, shift } = shape;
    if bits == 0 {
        values.fill(0);
        return Ok(());
    }
    let mut padded = [0; 8 * BLOCK_VALUES + PADDING_BYTES];
    padded[..packed.len()].copy_from_slice(packed);
    // The value's bits to the top, and back with copies of its sign.
    let signed = |word: u64| (word.cast_signed() << (64 - bits)) >> (64 - bits);
    for (index, value) in values.iter_mut().enumerate() {
        let at = index * bits as usize;
        let (bytes, cut) = (&padded[at / 8..], at % 8);
        *value = signed(match bits {
            ..=WIDTH_OF_WORD => u64::from_le_bytes(first(bytes)) >> cut,
            _ => (u128::from_le_bytes(first(bytes)) >> cut) as u64,
        });
    }
    let used = values.len() * bits as usize % 8;
    if used > 0 && packed.last().is_some_and(|last| last >> used != 0) {
        return Err(SumError::StrayBits { block });
    }
    let all = values.iter().fold(0, |all, value| all | value);
    if all == 0 || width(values) != bits {
        return Err(SumError::Width { block });
    }
    if all.trailing_zeros() > 0 {
        return Err(SumError::Shift { block });
    }
    values.iter_mut().for_each(|value| *value <<= shift);
    Ok(())
}

fn first<const N: usize>(padded: &[u8]) -> [u8; N] {
    *padded.first_chunk().expect("the padding lies behind the last value")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packed(values: &[i64]) -> Vec<u8> {
        let mut out = Vec::new();
        pack(values, &mut out);
        out
    }

    fn unpacked(bytes: &[u8], count: usize) -> Result<Vec<i64>, SumError> {
        let (head, rest) = bytes.split_first_chunk().unwrap();
        let shape = Shape::read(*head, 7)?;
        assert_eq!(rest.len(), shape.packed_bytes(count));
        let mut values = vec![1; count];
        unpack(shape, rest, 7, &mut values).map(|()| values)
    }

    #[test]
    fn blocks_are_as_narrow_as_their_values() {
        let cases: [(&[i64], &[u8]); 11] = [
            (&[0, 0, 0], &[0, 0]),
            (&[-1, 0, -1], &[1, 0, 0b101]),
            (&[1, 0, -1], &[2, 0, 0b11_00_01]),
            (&[-2, 1], &[2, 0, 0b01_10]),
            (&[4, -4, 0], &[2, 2, 0b00_11_01]),
            (&[12, -8], &[3, 2, 0b110_011]),
            (&[i64::MIN], &[1, 63, 1]),
            (&[i64::MIN, 0], &[1, 63, 1]),
            (&[1 << 62], &[2, 62, 1]),
            (&[i64::MAX], &[64, 0, 255, 255, 255, 255, 255, 255, 255, 127]),
            (&[300, -3], &[10, 0, 0x2c, 0xf5, 0x0f]),
        ];
        for (values, bytes) in cases {
            assert_eq!(packed(values), bytes, "{values:?}");
            assert_eq!(unpacked(bytes, values.len()).as_deref(), Ok(values));
        }
    }

    #[test]
    fn another_encoding_of_the_same_values_is_refused() {
        let shape = |width, shift| Err(SumError::Shape { block: 7, width, shift });
        for (width, shift) in [(65, 0), (1, 64), (64, 1), (2, 63), (0, 1), (255, 255)] {
            assert_eq!(Shape::read([width, shift], 7).map(drop), shape(width, shift));
        }
        let refused = |bytes: &[u8], count| unpacked(bytes, count).unwrap_err();
        assert_eq!(refused(&[1, 0, 0], 3), SumError::Width { block: 7 }, "all values are zero");
        assert_eq!(refused(&[3, 0, 0b000_001], 2), SumError::Width { block: 7 }, "two bits hold 1 and 0");
        assert_eq!(refused(&[3, 0, 0b111_110], 2), SumError::Width { block: 7 }, "two bits hold -1 and -2");
        assert_eq!(refused(&[3, 0, 0b010_110], 2), SumError::Shift { block: 7 }, "both values are even");
        assert_eq!(refused(&[2, 0, 0b100_0001], 3), SumError::StrayBits { block: 7 });
    }

    proptest! {
        #[test]
        fn every_block_is_read_as_it_was(
            values in prop::collection::vec(any::<i64>(), 1..=BLOCK_VALUES), narrow in 0u32..64, shift in 0u32..64,
        ) {
            let values: Vec<i64> = values.iter().map(|value| value >> narrow << shift).collect();
            let bytes = packed(&values);
            prop_assert!(bytes.len() <= BLOCK_BYTES_MAX);
            prop_assert_eq!(unpacked(&bytes, values.len()), Ok(values));
        }
    }
}
