//! Masks: keystreams that members add to their values and slots, and that cancel in the sum.
//!
//! A mask is the ChaCha20 keystream (RFC 8439, nonce and counter from zero) of a key, read as little-endian words.
//! Values have the words of [`Words::zeros`](super::Words::zeros), and slots words of 64 bits. Whole words are added:
//! the bits of a word above those of a value do not change the bits below, and [`Words`] ignores them.

use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use zeroize::Zeroizing;

use super::keys::SecretBytes;
use super::words::{Word, Words, WordsMut};

/// Bytes of keystream at once: they and the values that they mask stay in the first-level cache.
const BLOCK_BYTES: usize = 4096;
/// Values whose masks are made by one thread at a time: much work beside that of starting a thread.
const PART_VALUES: usize = 1 << 16;

/// Whether a mask is added or subtracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// Added.
    Plus,
    /// Subtracted.
    Minus,
}

impl Sign {
    /// The sign with which a member applies the mask that it has with another one. The other's is the opposite.
    pub fn of(member: u16, other: u16) -> Self {
        if other > member { Self::Plus } else { Self::Minus }
    }

    /// The other sign.
    #[must_use]
    pub fn opposite(self) -> Self {
        match self {
            Self::Plus => Self::Minus,
            Self::Minus => Self::Plus,
        }
    }
}

/// A keystream and its sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    /// The key of the keystream.
    pub key: SecretBytes,
    /// Whether it is added or subtracted.
    pub sign: Sign,
}

/// Masks of a body: for its values, and with other keys for its slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Masks {
    /// For values.
    pub values: Vec<Mask>,
    /// For slots.
    pub slots: Vec<Mask>,
}

impl Masks {
    /// Applies the masks of values to the values from `first` on. Blocks may be masked in any order, on many threads.
    pub fn apply(&self, first: u64, values: &mut WordsMut<'_>) {
        match values {
            WordsMut::U16(words) => apply(&self.values, first, words),
            WordsMut::U32(words) => apply(&self.values, first, words),
            WordsMut::U64(words) => apply(&self.values, first, words),
        }
    }

    /// Applies the masks of values to all of them, on all cores. Keystreams are the limit: each is made once.
    pub fn apply_on_all_cores(&self, values: &mut Words) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut parts: Vec<_> = (0u64..).zip(values.parts_mut(PART_VALUES)).collect();
        let each = parts.len().div_ceil(cores).max(1);
        std::thread::scope(|scope| {
            for parts in parts.chunks_mut(each) {
                scope.spawn(move || {
                    for (part, words) in parts {
                        self.apply(*part * PART_VALUES as u64, words);
                    }
                });
            }
        });
    }

    /// Applies the masks of slots to all slots.
    pub fn apply_to_slots(&self, slots: &mut [u64]) {
        apply(&self.slots, 0, slots);
    }

    /// Appends other masks.
    pub fn extend(&mut self, more: Self) {
        self.values.extend(more.values);
        self.slots.extend(more.slots);
    }
}

/// Adds or subtracts the words of the keystreams, from word `first` on, modulo the size of a word.
///
/// # Panics
/// If a keystream has fewer words: it has 2^38 bytes.
pub fn apply<W: Word>(masks: &[Mask], mut first: u64, mut words: &mut [W]) {
    let mut buffer = Zeroizing::new([0; BLOCK_BYTES]);
    let per_block = BLOCK_BYTES / W::BYTES;
    while !words.is_empty() {
        // The first block ends where a block of the keystream does, so that the others are whole ones.
        let at_once = per_block - (first % per_block as u64) as usize;
        let (block, rest) = words.split_at_mut(at_once.min(words.len()));
        for mask in masks {
            let keystream = &mut buffer[..block.len() * W::BYTES];
            write_keystream(&mask.key, first * W::BYTES as u64, keystream);
            match mask.sign {
                Sign::Plus => W::add(block, keystream),
                Sign::Minus => W::subtract(block, keystream),
            }
        }
        first += block.len() as u64;
        words = rest;
    }
}

/// Writes the keystream of a key from a byte on.
pub(super) fn write_keystream(key: &SecretBytes, first_byte: u64, out: &mut [u8]) {
    let mut cipher = ChaCha20::new(key.expose().into(), &[0; 12].into());
    cipher.seek(first_byte);
    cipher.write_keystream(out);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::keys::{agree, mask_key, mask_slots_key, self_key, self_slots_key};
    use super::super::vectors::{record, roster, secret};
    use super::*;

    fn pair_mask(one: u8, other: u8) -> SecretBytes {
        let shared = agree(&secret("s", one), &record(other).s_pk).unwrap();
        mask_key(&shared, &roster().hash(), one.into(), other.into())
    }

    fn words(key: SecretBytes, bits: u8, count: usize) -> Vec<u64> {
        let mut words = Words::zeros(bits, count);
        Masks { values: vec![Mask { key, sign: Sign::Plus }], slots: Vec::new() }.apply(0, &mut words.as_mut());
        words.values(0..count)
    }

    fn slot(key: SecretBytes) -> u64 {
        let mut slots = [0];
        Masks { values: Vec::new(), slots: vec![Mask { key, sign: Sign::Plus }] }.apply_to_slots(&mut slots);
        slots[0]
    }

    #[test]
    fn words_of_each_length_are_those_of_the_vectors() {
        let key = || pair_mask(0, 1);
        assert_eq!(words(key(), 16, 8), [34904, 62460, 4332, 34158, 24357, 58103, 40866, 16818]);
        assert_eq!(words(key(), 15, 4), [2136, 29692, 4332, 1390]);
        assert_eq!(words(key(), 20, 4), [821_336, 921_836, 483_109, 171_938]);
        assert_eq!(words(key(), 32, 4), [4_093_413_464, 2_238_583_020, 3_807_862_565, 1_102_225_314]);
        assert_eq!(words(key(), 40, 2), [1_017_705_695_320, 699_592_564_517]);
        assert_eq!(words(pair_mask(0, 2), 16, 8), [33111, 13009, 62126, 13908, 26837, 46409, 3447, 29608]);
        assert_eq!(words(pair_mask(2, 1), 16, 8), [58024, 27285, 23576, 6007, 23273, 53455, 58322, 11383]);
        let hash = roster().hash();
        let own = self_key(&secret("b", 0), &hash, 0);
        assert_eq!(words(own, 16, 8), [51960, 262, 39186, 41354, 52127, 32907, 13131, 37963]);
        assert_eq!(slot(self_slots_key(&secret("b", 0), &hash, 0)), 1_801_276_869_788_097_515);
        let shared = agree(&secret("s", 0), &record(1).s_pk).unwrap();
        assert_eq!(slot(mask_slots_key(&shared, &hash, 1, 0)), 14_820_727_130_004_474_382);
    }

    #[test]
    fn masked_values_and_their_sums_are_those_of_the_vectors() {
        let hash = roster().hash();
        let values: [[i64; 8]; 3] =
            [[1, 2, 3, 4, 5, 6, 7, 8], [10, 20, 30, 40, 50, 60, 70, 80], [65535, 65534, 65533, 0, 0, 0, 1, 32768]];
        let masked = [0u8, 1, 2].map(|member| {
            let mut masks = Masks::default();
            let key = self_key(&secret("b", member), &hash, member.into());
            masks.values.push(Mask { key, sign: Sign::Plus });
            for other in (0..3).filter(|other| *other != member) {
                masks.values.push(Mask { key: pair_mask(member, other), sign: Sign::of(member.into(), other.into()) });
            }
            let mut words = Words::of(16, &values[usize::from(member)]);
            masks.apply(0, &mut words.as_mut());
            words.values(0..8)
        });
        assert_eq!(masked[0], [54440, 10197, 40111, 23888, 37790, 6353, 57451, 18861]);
        assert_eq!(masked[1], [33343, 28869, 8516, 43968, 45066, 65477, 55581, 45572]);
        assert_eq!(masked[2], [52717, 2848, 8176, 54436, 31464, 44752, 65401, 52262]);
    }

    #[test]
    fn masks_on_all_cores_are_those_on_one() {
        for values in [0, 1, PART_VALUES, 3 * PART_VALUES + 17] {
            let masks = Masks { values: vec![Mask { key: pair_mask(0, 1), sign: Sign::Minus }], slots: Vec::new() };
            let (mut one, mut all) = (Words::zeros(15, values), Words::zeros(15, values));
            masks.apply(0, &mut one.as_mut());
            masks.apply_on_all_cores(&mut all);
            assert_eq!(one.values(0..values), all.values(0..values), "{values}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Blocks that begin and end anywhere give the words of the whole stream, and a mask takes itself off.
        #[test]
        fn blocks_are_parts_of_the_stream(
            bits in 1u8..=64, length in 1usize..9000, cut in 0usize..9000, seed: [u8; 32]) {
            let mask = |sign| vec![Mask { key: SecretBytes::new(seed), sign }];
            let masks = Masks { values: mask(Sign::Plus), slots: Vec::new() };
            let mut whole = Words::zeros(bits, length);
            masks.apply(0, &mut whole.as_mut());
            let mut parts = Words::zeros(bits, length);
            let cut = cut.clamp(1, length);
            for (part, mut words) in parts.parts_mut(cut).into_iter().enumerate() {
                masks.apply((part * cut) as u64, &mut words);
            }
            prop_assert_eq!(whole.values(0..length), parts.values(0..length));
            Masks { values: mask(Sign::Minus), slots: Vec::new() }.apply(0, &mut whole.as_mut());
            prop_assert_eq!(whole.values(0..length), vec![0; length]);
        }
    }
}
