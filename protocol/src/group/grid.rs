//! The grid of a group: powers of two that all members round their integers to, one for each block of places, so that
//! sums have few bits and stay exact.
//!
//! | step | who |
//! |---|---|
//! | [`exponent`] of each block of its own integers | a member |
//! | the largest exponent of each block over all members | a ring of maxima |
//! | [`round`] of its own integers to multiples of 2^exponent | a member |
//!
//! A rounded integer has at most `bits` bits above the zeros that its block ends with, and a sum of m members at most
//! `bits + log2 m`: packed blocks of a [`sum`](crate::sum) write no more of them.
//!
//! Blocks are shorter than packed blocks: with one exponent for 256 values, bytes are the same, and the error is larger
//! by a tenth for normal deltas and by a third for Laplace ones (16 members, 8 bits).

use crate::seed::Seed;

/// Places of a block, which has one exponent. The last block may have fewer.
pub const GRID_BLOCK: usize = 64;
/// Fewest bits of a rounded integer. With 4 bits, the error of a mean is a third of its norm.
pub const GRID_BITS_MIN: u32 = 6;
/// Most bits of a rounded integer.
pub const GRID_BITS_MAX: u32 = 16;

/// The smallest exponent e with `|integer| <= (2^(bits - 1) - 1) 2^e` for all integers of a block.
pub fn exponent(integers: &[i64], bits: u32) -> u8 {
    let most = (1u64 << (bits - 1)) - 1;
    let magnitude = integers.iter().map(|integer| integer.unsigned_abs()).max().unwrap_or(0);
    magnitude.div_ceil(most).next_power_of_two().ilog2() as u8
}

/// Rounds the integers of the places `first..` to multiples of 2^e, e the exponent of their block: up or down at
/// random, so that the expected value is the integer. One whose multiple would be beyond `magnitude_max` is rounded
/// towards 0.
///
/// A place has the same random number whenever it is asked for.
pub fn round(integers: &mut [i64], first: usize, exponents: &[u8], magnitude_max: u64, seed: Seed) {
    let (mut place, mut rest) = (first, integers);
    while !rest.is_empty() {
        let (block, within) = (place / GRID_BLOCK, place % GRID_BLOCK);
        let (head, tail) = rest.split_at_mut(rest.len().min(GRID_BLOCK - within));
        let exponent = exponents[block];
        if exponent > 0 {
            let mut stream = seed.derive("grid", block as u64).stream();
            let randoms = std::iter::repeat_with(|| stream.next_u64()).skip(within);
            for (integer, random) in head.iter_mut().zip(randoms) {
                *integer = rounded(*integer, exponent, magnitude_max, random);
            }
        }
        place += head.len();
        rest = tail;
    }
}

/// One integer. Only the low bits of the random number count.
fn rounded(integer: i64, exponent: u8, magnitude_max: u64, random: u64) -> i64 {
    let below = (1u64 << exponent) - 1;
    let magnitude = integer.unsigned_abs();
    let multiple = (magnitude + (random & below)) & !below;
    let multiple = if multiple > magnitude_max { magnitude & !below } else { multiple };
    integer.signum() * multiple.cast_signed()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_exponent_is_the_smallest_that_is_enough() {
        let cases: [(&[i64], u32, u8); 8] = [
            (&[], 8, 0),
            (&[0, 0], 8, 0),
            (&[127, -127], 8, 0),
            (&[128], 8, 1),
            (&[-254], 8, 1),
            (&[255], 8, 2),
            (&[31], 6, 0),
            (&[i64::MIN + 1], 16, 49),
        ];
        for (integers, bits, expected) in cases {
            assert_eq!(exponent(integers, bits), expected, "{integers:?} in {bits} bits");
        }
    }

    #[test]
    fn rounding_goes_to_both_neighbours_and_keeps_the_limit() {
        // 21 lies between 16 and 24, 5 steps of 8 above 16.
        let rounded_up = (0..8).filter(|random| rounded(21, 3, 100, *random) == 24).count();
        let rounded_down = (0..8).filter(|random| rounded(-21, 3, 100, *random) == -16).count();
        assert_eq!((rounded_up, rounded_down), (5, 3));
        assert_eq!(rounded(21, 3, 23, 7), 16, "24 is beyond the limit");
        assert_eq!(rounded(24, 3, 24, 7), 24, "a multiple stays");
    }

    #[test]
    fn a_place_is_rounded_alike_however_it_is_asked_for() {
        let own: Vec<i64> = (0..1000i64).map(|place| (place * 7919 - 4_000_000) * 1_000_003).collect();
        let exponents: Vec<u8> = own.chunks(GRID_BLOCK).map(|block| exponent(block, 8)).collect();
        let mut whole = own.clone();
        round(&mut whole, 0, &exponents, u64::MAX >> 1, Seed(1));
        let mut parts = own.clone();
        for (part, first) in parts.chunks_mut(100).zip((0..).step_by(100)) {
            round(part, first, &exponents, u64::MAX >> 1, Seed(1));
        }
        assert_eq!(whole, parts);
        assert_ne!(whole, own);
        let mut other = own.clone();
        round(&mut other, 0, &exponents, u64::MAX >> 1, Seed(2));
        assert_ne!(other, whole);
    }

    proptest! {
        #[test]
        fn a_rounded_block_has_few_bits_and_lies_within_one_step(
            own in proptest::collection::vec(-(1i64 << 62)..(1 << 62), 1..65), bits in GRID_BITS_MIN..=GRID_BITS_MAX,
            larger in 0u8..3, seed in 0u64..1000,
        ) {
            let exponent = exponent(&own, bits) + larger;
            let mut rounded = own.clone();
            round(&mut rounded, 0, &[exponent], u64::MAX >> 1, Seed(seed));
            for (before, after) in own.iter().zip(&rounded) {
                let steps = after >> exponent;
                prop_assert_eq!(steps << exponent, *after);
                prop_assert!(steps.unsigned_abs() < 1 << (bits - 1));
                prop_assert!(before.abs_diff(*after) < 1 << exponent);
            }
        }
    }
}
