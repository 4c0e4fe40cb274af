//! The body of a masked update: values without gaps between their bits, then the slots.
//!
//! | bytes | field |
//! |---|---|
//! | 2 | tag `54 4d` |
//! | 32 | roster |
//! | ceil(length * bits / 8) | value i at bits i * bits to (i + 1) * bits, lowest first; zeros up to the byte |
//! | 8 each | slots |

use super::SLOTS_MAX;
use super::words::{Words, lowest};
use crate::hash::Sha256Hash;

/// The first bytes of a masked body.
pub const TAG: [u8; 2] = *b"TM";
/// Bytes before the values.
const HEADER_BYTES: usize = 34;
/// Values that are packed or unpacked at once.
const BATCH: usize = 512;

/// Bytes of a body.
pub fn body_bytes(bits: u8, length: u32, slots: usize) -> u64 {
    HEADER_BYTES as u64 + values_bytes(bits, length) + 8 * slots as u64
}

fn values_bytes(bits: u8, length: u32) -> u64 {
    (u64::from(length) * u64::from(bits)).div_ceil(8)
}

/// The body of masked values and slots.
pub fn body(roster: &Sha256Hash, values: &Words, slots: &[u64]) -> Vec<u8> {
    let bits = values.bits();
    let mut out = Vec::with_capacity(body_bytes(bits, values.len() as u32, slots.len()) as usize);
    out.extend_from_slice(&TAG);
    out.extend_from_slice(&roster.0);
    pack(values, &mut out);
    slots.iter().for_each(|slot| out.extend_from_slice(&slot.to_le_bytes()));
    out
}

/// Appends values without gaps.
fn pack(values: &Words, out: &mut Vec<u8>) {
    let bits = u32::from(values.bits());
    let (mut word, mut filled) = (0u128, 0);
    for first in (0..values.len()).step_by(BATCH) {
        for value in values.values(first..values.len().min(first + BATCH)) {
            word |= u128::from(value) << filled;
            filled += bits;
            if filled >= 64 {
                out.extend_from_slice(&(word as u64).to_le_bytes());
                word >>= 64;
                filled -= 64;
            }
        }
    }
    out.extend_from_slice(&word.to_le_bytes()[..filled.div_ceil(8) as usize]);
}

/// A body that is not one of this group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackedError {
    /// It begins with another tag.
    #[error("the body does not begin with the tag of masked values")]
    Tag,
    /// It was masked in another group.
    #[error("the body was masked for another roster")]
    Roster,
    /// It ends too early.
    #[error("the body ends after {0} bytes")]
    Truncated(u64),
    /// It does not end where it should.
    #[error("there are bytes after the last slot")]
    TooLong,
    /// The bits after the last value are not zero.
    #[error("the bits between values and slots are not zero")]
    StrayBits,
}

/// Reads a body in chunks of any size.
#[derive(Clone, Debug)]
pub struct Unpacker {
    roster: Sha256Hash,
    bits: u32,
    slots: usize,
    /// Bytes that were read.
    read: u64,
    /// Where the values end.
    values_end: u64,
    /// Values that are still to come.
    left: u32,
    /// Bits of values that are not whole yet: fewer than 64 and a byte.
    word: u128,
    filled: u32,
    /// Bytes of slots.
    tail: Vec<u8>,
}

impl Unpacker {
    /// A reader of a body with so many values of 1 to 64 bits, and slots.
    ///
    /// # Panics
    /// If there are more than 256 slots.
    pub fn new(roster: Sha256Hash, bits: u8, length: u32, slots: usize) -> Self {
        assert!(slots <= SLOTS_MAX, "a body has at most {SLOTS_MAX} slots");
        let values_end = HEADER_BYTES as u64 + values_bytes(bits, length);
        let tail = Vec::with_capacity(8 * slots);
        Self { roster, bits: bits.into(), slots, read: 0, values_end, left: length, word: 0, filled: 0, tail }
    }

    /// Reads the next bytes. The sink gets whole values, in order: the first ones of a call follow the last ones of the
    /// call before.
    ///
    /// # Errors
    /// [`PackedError`] if the bytes cannot be those of this body. What the sink has got counts for nothing then.
    pub fn read(&mut self, mut chunk: &[u8], mut sink: impl FnMut(&[u64])) -> Result<(), PackedError> {
        while let Some((byte, rest)) = chunk.split_first()
            && self.read < HEADER_BYTES as u64
        {
            let at = self.read as usize;
            match at.checked_sub(TAG.len()) {
                None if *byte != TAG[at] => return Err(PackedError::Tag),
                Some(at) if *byte != self.roster.0[at] => return Err(PackedError::Roster),
                _ => {}
            }
            self.read += 1;
            chunk = rest;
        }
        let of_values = (self.values_end.saturating_sub(self.read.max(HEADER_BYTES as u64))).min(chunk.len() as u64);
        let (packed, slots) = chunk.split_at(of_values as usize);
        self.unpack(packed, &mut sink);
        if !packed.is_empty() && self.read == self.values_end && self.word != 0 {
            return Err(PackedError::StrayBits);
        }
        if self.tail.len() + slots.len() > 8 * self.slots {
            return Err(PackedError::TooLong);
        }
        self.tail.extend_from_slice(slots);
        self.read += slots.len() as u64;
        Ok(())
    }

    /// Ends the body. The result are its slots.
    ///
    /// # Errors
    /// [`PackedError::Truncated`] if bytes are missing.
    pub fn finish(self) -> Result<Vec<u64>, PackedError> {
        if self.read < self.values_end || self.tail.len() < 8 * self.slots {
            return Err(PackedError::Truncated(self.read));
        }
        let (slots, _) = self.tail.as_chunks();
        Ok(slots.iter().map(|slot| u64::from_le_bytes(*slot)).collect())
    }

    fn unpack(&mut self, mut packed: &[u8], sink: &mut impl FnMut(&[u64])) {
        let lowest = lowest(self.bits as u8);
        let mut batch = [0; BATCH];
        let mut count = 0;
        self.read += packed.len() as u64;
        while !packed.is_empty() {
            // At most 63 bits wait, so 64 more fit.
            let (bytes, rest) = match packed.split_first_chunk() {
                Some((bytes, rest)) => (u64::from_le_bytes(*bytes), rest),
                None => (packed.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)), &[][..]),
            };
            self.word |= u128::from(bytes) << self.filled;
            self.filled += 8 * (packed.len() - rest.len()) as u32;
            packed = rest;
            while self.filled >= self.bits && self.left > 0 {
                batch[count] = self.word as u64 & lowest;
                self.word >>= self.bits;
                self.filled -= self.bits;
                self.left -= 1;
                count += 1;
                if count == BATCH {
                    sink(&batch);
                    count = 0;
                }
            }
        }
        if count > 0 {
            sink(&batch[..count]);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::vectors::{hex, roster};
    use super::*;

    fn read(
        body: &[u8],
        bits: u8,
        length: u32,
        slots: usize,
        chunk: usize,
    ) -> Result<(Vec<u64>, Vec<u64>), PackedError> {
        let mut unpacker = Unpacker::new(roster().hash(), bits, length, slots);
        let mut values = Vec::new();
        for chunk in body.chunks(chunk) {
            unpacker.read(chunk, |more| values.extend_from_slice(more))?;
        }
        unpacker.finish().map(|slots| (values, slots))
    }

    #[test]
    fn values_are_packed_as_in_the_vectors() {
        let packed = |bits, values: &[i64]| {
            let mut out = Vec::new();
            pack(&Words::of(bits, values), &mut out);
            hex(out)
        };
        let masked = [54440, 10197, 40111, 23888, 37790, 6353, 57451, 18861];
        assert_eq!(packed(16, &masked), "a8d4d527af9c505d9e93d1186be0ad49");
        assert_eq!(packed(20, &[1, 2, 3, 0xfffff]), "01002000000300f0ffff");
    }

    proptest! {
        #[test]
        fn a_body_is_read_in_chunks_of_any_size(
            bits in 1u8..=64, values in prop::collection::vec(any::<i64>(), 1..1500),
            slots in prop::collection::vec(any::<u64>(), 0..5), chunk in 1usize..3000) {
            let words = Words::of(bits, &values);
            let body = body(&roster().hash(), &words, &slots);
            prop_assert_eq!(body.len() as u64, body_bytes(bits, values.len() as u32, slots.len()));
            let expected = (words.values(0..values.len()), slots.clone());
            prop_assert_eq!(read(&body, bits, values.len() as u32, slots.len(), chunk), Ok(expected));
        }

        #[test]
        fn arbitrary_bytes_are_read_or_refused(
            mut bytes in prop::collection::vec(any::<u8>(), 0..200), known: bool, bits in 1u8..=64, length in 1u32..40,
            chunk in 1usize..200) {
            if known && bytes.len() >= HEADER_BYTES {
                bytes[..2].copy_from_slice(&TAG);
                bytes[2..HEADER_BYTES].copy_from_slice(&roster().hash().0);
            }
            if let Ok((values, slots)) = read(&bytes, bits, length, 1, chunk) {
                prop_assert_eq!((values.len(), slots.len()), (length as usize, 1));
            }
        }
    }

    #[test]
    fn a_body_of_another_group_or_length_is_refused() {
        let words = Words::of(5, &[1, 2, 3]);
        let whole = body(&roster().hash(), &words, &[7]);
        let changed = |at: usize| {
            let mut body = whole.clone();
            body[at] ^= 0x80;
            body
        };
        for chunk in [1, 7, 100] {
            let read = |body: &[u8]| read(body, 5, 3, 1, chunk).map(drop);
            assert_eq!(read(&whole), Ok(()));
            assert_eq!(read(&changed(0)), Err(PackedError::Tag));
            assert_eq!(read(&changed(1)), Err(PackedError::Tag));
            assert_eq!(read(&changed(2)), Err(PackedError::Roster));
            assert_eq!(read(&changed(33)), Err(PackedError::Roster));
            assert_eq!(read(&changed(35)), Err(PackedError::StrayBits), "15 bits have one of padding");
            assert_eq!(read(&[&whole[..], &[0]].concat()), Err(PackedError::TooLong));
            for cut in 0..whole.len() {
                assert_eq!(read(&whole[..cut]), Err(PackedError::Truncated(cut as u64)));
            }
        }
    }
}
