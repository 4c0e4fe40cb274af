//! The rotation of a block: random signs, then a Walsh-Hadamard transform. Its coordinates are nearly normal, alike,
//! whatever the values were.

use super::super::keys::rotation_key;
use super::super::mask::write_keystream;
use crate::cpu::Cpu;
use crate::for_each_cpu;
use crate::hash::Sha256Hash;

/// Rotates a block, whose length is a power of two. `first` is the place of its first coordinate in the delta.
pub(super) fn rotate(block: &mut [f64], first: usize, roster: &Sha256Hash) {
    flip(block, first, roster);
    transform(block);
}

/// Takes a rotation back: the transform is its own inverse.
pub(super) fn rotate_back(block: &mut [f64], first: usize, roster: &Sha256Hash) {
    transform(block);
    flip(block, first, roster);
}

/// Scales a block down to a norm if it is longer.
pub(super) fn bound(block: &mut [f64], norm_max: f64) {
    let norm = block.iter().map(|value| value * value).sum::<f64>().sqrt();
    if norm > norm_max {
        let scale = norm_max / norm;
        block.iter_mut().for_each(|value| *value *= scale);
    }
}

/// The sign of coordinate i is bit i of the keystream, lowest bits first; a set bit is a minus.
fn flip(block: &mut [f64], first: usize, roster: &Sha256Hash) {
    const BITS: usize = 8 * 512;
    let key = rotation_key(roster);
    let mut signs = [0; BITS / 8];
    for (part, values) in block.chunks_mut(BITS).enumerate() {
        // Blocks begin at multiples of 65,536.
        write_keystream(&key, (first + part * BITS) as u64 / 8, &mut signs);
        for (eight, byte) in values.chunks_mut(8).zip(signs) {
            for (value, bit) in eight.iter_mut().zip(0..) {
                *value = f64::from_bits(value.to_bits() ^ u64::from(byte >> bit & 1) << 63);
            }
        }
    }
}

/// The Walsh-Hadamard transform divided by the root of the length.
fn transform(block: &mut [f64]) {
    sums_and_differences(Cpu::best(), block);
    let scale = 1.0 / (block.len() as f64).sqrt();
    block.iter_mut().for_each(|value| *value *= scale);
}

for_each_cpu! {
    /// Sums and differences of values at distances 1, 2, 4, and so on.
    fn sums_and_differences(values: &mut [f64]) {
        let mut apart = 1;
        while apart < values.len() {
            for pair in values.chunks_exact_mut(2 * apart) {
                let (left, right) = pair.split_at_mut(apart);
                for (left, right) in left.iter_mut().zip(right) {
                    (*left, *right) = (*left + *right, *left - *right);
                }
            }
            apart *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::FRAC_1_SQRT_2;

    use super::super::super::vectors::roster;
    use super::*;

    #[test]
    fn signs_and_rotation_are_those_of_the_vectors() {
        let hash = roster().hash();
        let mut signs = [1.0; 8];
        flip(&mut signs, 0, &hash);
        assert_eq!(signs, [1.0, -1.0, -1.0, -1.0, 1.0, 1.0, 1.0, 1.0]);
        let mut values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        rotate(&mut values, 0, &hash);
        let expected = [
            6.363961030679,
            FRAC_1_SQRT_2,
            FRAC_1_SQRT_2,
            FRAC_1_SQRT_2,
            -12.020815280171,
            2.12132034356,
            3.535533905933,
            FRAC_1_SQRT_2,
        ];
        assert!(values.iter().zip(expected).all(|(value, expected): (&f64, f64)| (value - expected).abs() < 1e-11));
        rotate_back(&mut values, 0, &hash);
        assert!(values.iter().zip(1..).all(|(value, expected)| (value - f64::from(expected)).abs() < 1e-12));
    }

    #[test]
    fn every_version_gives_the_same_bits_and_keeps_the_norm() {
        for length in [1, 2, 64, 4096] {
            let values: Vec<f64> = (0..length).map(|value| f64::from(value).sin()).collect();
            let transformed = |cpu| {
                let mut values = values.clone();
                sums_and_differences(cpu, &mut values);
                values
            };
            for cpu in Cpu::all() {
                assert_eq!(transformed(cpu), transformed(Cpu::portable()), "{cpu:?}");
            }
            let squared = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>();
            let (before, after) = (squared(&values), squared(&transformed(Cpu::best())) / f64::from(length));
            assert!((before - after).abs() <= 1e-9 * before);
        }
    }

    /// A later block has other signs: those of its own places.
    #[test]
    fn signs_depend_on_the_place() {
        let hash = roster().hash();
        let mut whole = vec![1.0; 2 * 65_536];
        flip(&mut whole, 0, &hash);
        let mut second = vec![1.0; 65_536];
        flip(&mut second, 65_536, &hash);
        assert_eq!(whole[65_536..], second);
        assert_ne!(whole[..65_536], second);
    }

    #[test]
    fn a_block_is_scaled_down_and_never_up() {
        let mut block = [3.0, 4.0];
        bound(&mut block, 6.0);
        assert_eq!(block, [3.0, 4.0]);
        bound(&mut block, 2.5);
        assert_eq!(block, [1.5, 2.0]);
    }
}
