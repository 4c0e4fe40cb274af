//! EDEN and DRIVE: a random rotation, then one to four bits per value.
//!
//! After a random rotation the values y of a chunk are nearly normal, whatever they were before. Each is replaced by
//! the nearest of the 2^b centroids that are optimal for the normal distribution (Lloyd 1982, Max 1960), and the scale
//! `S = |y|^2 / <y, q>` makes the result unbiased (Vargaftik et al. 2021, arXiv:2105.08339, section 3 for one bit:
//! DRIVE; 2022, arXiv:2108.08842, section 3 for more: EDEN). The relative error does not depend on the delta: pi/2 - 1
//! = 0.571 with one bit; 0.133, 0.036 and 0.0096 with two to four.
//!
//! The rotation is a Walsh-Hadamard transform after random signs, done twice. Once is not enough for a chunk with few
//! values other than zero: of two values a and b it makes only a + b and a - b, and the quantisation then loses the
//! smaller one.
//!
//! The lengths of chunks are powers of 2: first as many chunks of [`CHUNK_MAX`] values as possible, then shorter ones
//! down to [`CHUNK_MIN`], so that there is little padding. Of n values that are left, the next chunk has the power of 2
//! from n on (at least 64) if that is at most 128 or pads at most 96 bits, else half of it: 650 values with one bit are
//! 512, 128 and 64.
//!
//! The signs are the words of ChaCha with 8 rounds, seeded with the section's seed as `seed_from_u64` of the crate
//! `rand_core` does it. Each word of 64 bits has the signs of 64 values, the first in bit 0; a set bit is a minus. A
//! chunk takes its words for the signs before the first transform, then those before the second one, also if it is all
//! zeros.
//!
//! A section is the seed of the signs (4 bytes), then for each chunk its scale (f32) and its codes, b bits per value
//! from the lowest bit on: the index of the centroid's magnitude, and above it the sign. A section of zeros is one
//! byte, 0.
//!
//! Encoding and decoding take 2 * log2(chunk) additions per value in the first-level cache, which is the limit.

use serde::{Deserialize, Serialize};

use super::properties::Properties;
use super::settings::BadSetting;
use crate::cpu::Cpu;
use crate::for_each_cpu;
use crate::model::ParameterList;
use crate::seed::{Seed, Stream};
use crate::update::coding::fields::{magnitude_max, sum, take, take_magnitude};
use crate::update::error::SectionError;
use crate::update::frame::{self, Part, Section, SectionCodec};

/// Longest chunk: 16 KiB, which stay in the first-level cache.
const CHUNK_MAX: usize = 4096;
/// Shortest chunk. The end of a section is padded with zeros to this length.
const CHUNK_MIN: usize = 64;
/// Up to this number of bits, padding takes less than the scales of several shorter chunks.
const PADDING_BITS_MAX: usize = 96;

/// Magnitudes of the centroids. Those for b bits begin at index `2^(b - 1) - 1`.
const CENTROIDS: [f32; 15] = [
    0.797_885, //
    0.452_780, 1.510_418, //
    0.245_094, 0.756_005, 1.343_909, 2.151_946, //
    0.128_395, 0.388_048, 0.656_759, 0.942_340, 1.256_231, 1.618_046, 2.069_017, 2.732_59,
];

/// Settings of `eden`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Eden {
    /// Bits per value, 1 to 4. Default: 1.
    pub bits: u8,
}

impl Default for Eden {
    fn default() -> Self {
        Self { bits: 1 }
    }
}

impl Eden {
    pub(in crate::update) fn properties(&self) -> Properties {
        let relative_error_max = match self.bits {
            1 => 0.60,
            2 => 0.14,
            3 => 0.038,
            _ => 0.0105,
        };
        Properties {
            unbiased: true,
            error_feedback: false,
            // For parameters of 1,000 values or more. Large ones take 0.01 bits more than `bits`.
            bits_per_value_max: f64::from(self.bits) + 0.3,
            relative_error_max: Some(relative_error_max),
        }
    }

    pub(in crate::update) fn check(&self) -> Result<(), BadSetting> {
        if (1..=4).contains(&self.bits) { Ok(()) } else { Err(("bits", "1 to 4")) }
    }

    pub(in crate::update) fn encode(&self, delta: &[f32], parameters: &ParameterList, stream: &mut Stream) -> Vec<u8> {
        frame::write(parameters, false, |place, section| self.encode_section(&delta[place.range], stream, section))
    }

    fn encode_section(&self, values: &[f32], stream: &mut Stream, out: &mut Vec<u8>) {
        if magnitude_max(values) == 0.0 {
            return out.push(0);
        }
        let seed = (stream.next_u64() as u32).to_le_bytes();
        out.extend_from_slice(&seed);
        let mut signs = sign_stream(seed);
        let mut buffer = [0.0; CHUNK_MAX];
        let mut rest = values;
        while !rest.is_empty() {
            let padded = self.chunk(rest.len());
            let (chunk, after) = rest.split_at(padded.min(rest.len()));
            let rotated = &mut buffer[..padded];
            rotated.fill(0.0);
            rotated[..chunk.len()].copy_from_slice(chunk);
            self.encode_chunk(rotated, &mut signs, out);
            rest = after;
        }
    }

    fn encode_chunk(&self, values: &mut [f32], signs: &mut Stream, out: &mut Vec<u8>) {
        let unit = power_of_two_below(magnitude_max(values));
        if unit == 0.0 {
            skip_signs(values.len(), signs);
            return out.resize(out.len() + size_of::<f32>() + self.code_bytes(values.len()), 0);
        }
        // Dividing by a power of two rounds nothing, and the sums of the transforms stay far from infinity.
        for value in values.iter_mut() {
            *value = (f64::from(*value) / unit) as f32;
        }
        flip(values, signs);
        hadamard(Cpu::best(), values);
        flip(values, signs);
        hadamard(Cpu::best(), values);

        // The two unnormalised transforms multiply the norm by the number of values n.
        let length_squared = sum(values, |value| value * value);
        let deviation = (length_squared / values.len() as f64).sqrt() as f32;
        let centroids = self.centroids();
        let mut codes = [0; CHUNK_MAX];
        let codes = &mut codes[..values.len()];
        quantise(Cpu::best(), values, deviation, centroids, codes);
        let mut aligned = [0.0; CHUNK_MAX];
        let aligned = &mut aligned[..values.len()];
        for ((aligned, value), code) in aligned.iter_mut().zip(&*values).zip(&*codes) {
            *aligned = value.abs() * centroids[usize::from(*code) & (centroids.len() - 1)];
        }
        let n_squared = (values.len() * values.len()) as f64;
        let scale = length_squared / sum(aligned, |product| product) / n_squared * unit;
        // An infinite scale would be refused by the reader.
        out.extend_from_slice(&(scale as f32).min(f32::MAX).to_le_bytes());
        self.pack(codes, out);
    }

    fn decode_chunk(&self, values: &mut [f32], scale: f32, codes: &[u8], signs: &mut Stream) {
        let blocks = values.len() / 64;
        let mut first = [0; CHUNK_MAX / 64];
        let mut second = [0; CHUNK_MAX / 64];
        first[..blocks].fill_with(|| signs.next_u64());
        second[..blocks].fill_with(|| signs.next_u64());
        self.unpack(codes, values);
        hadamard(Cpu::best(), values);
        flip_by(values, &second);
        hadamard(Cpu::best(), values);
        flip_by(values, &first);
        for value in values {
            *value *= scale;
        }
    }

    /// Length of the next chunk when `left` values are left.
    fn chunk(&self, left: usize) -> usize {
        if left >= CHUNK_MAX {
            return CHUNK_MAX;
        }
        let above = left.next_power_of_two().max(CHUNK_MIN);
        let padding_bits = (above - left) * usize::from(self.bits);
        if above <= 2 * CHUNK_MIN || padding_bits <= PADDING_BITS_MAX { above } else { above / 2 }
    }

    fn code_bytes(&self, values: usize) -> usize {
        values / 8 * usize::from(self.bits)
    }

    fn centroids(&self) -> &'static [f32] {
        let count = 1 << (self.bits - 1);
        &CENTROIDS[count - 1..2 * count - 1]
    }

    /// Appends codes: eight codes of b bits take b bytes.
    fn pack(&self, codes: &[u8], out: &mut Vec<u8>) {
        let width = u32::from(self.bits);
        for eight in codes.as_chunks::<8>().0 {
            let bits = (0..).zip(eight).fold(0, |bits, (place, code)| bits | u32::from(*code) << (place * width));
            out.extend_from_slice(&bits.to_le_bytes()[..usize::from(self.bits)]);
        }
    }

    /// Replaces codes by their centroids.
    fn unpack(&self, bytes: &[u8], values: &mut [f32]) {
        let width = u32::from(self.bits);
        let mut signed = [0.0; 16];
        let count = 1 << (self.bits - 1);
        signed[..count].copy_from_slice(self.centroids());
        for code in 0..count {
            signed[count + code] = -signed[code];
        }
        for (eight, bytes) in values.as_chunks_mut::<8>().0.iter_mut().zip(bytes.chunks_exact(usize::from(self.bits))) {
            let bits = bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u32::from(*byte));
            for (place, value) in (0..).zip(eight) {
                let code = (bits >> (place * width)) & ((1 << width) - 1);
                *value = signed[code as usize];
            }
        }
    }
}

impl SectionCodec for Eden {
    fn section_bytes_max(&self, parts: &[Part]) -> usize {
        let values = frame::values(parts);
        let (mut bytes, mut left) = (size_of::<u32>(), values);
        while left > 0 {
            let padded = self.chunk(left);
            bytes += size_of::<f32>() + self.code_bytes(padded);
            left = left.saturating_sub(padded);
        }
        bytes
    }

    fn decode(&self, mut bytes: &[u8], parts: &[Part], out: &mut Section) -> Result<(), SectionError> {
        let (values, out) = (frame::values(parts), out.dense());
        out.reserve(values + CHUNK_MIN);
        if bytes == [0] {
            out.resize(values, 0.0);
            return Ok(());
        }
        let mut signs = sign_stream(take(&mut bytes)?);
        while out.len() < values {
            let first = out.len();
            let padded = self.chunk(values - first);
            let scale = take_magnitude(&mut bytes, "scale")?;
            let (codes, rest) = bytes.split_at_checked(self.code_bytes(padded)).ok_or(SectionError::Truncated)?;
            bytes = rest;
            out.resize(first + padded, 0.0);
            if scale == 0.0 {
                skip_signs(padded, &mut signs);
            } else {
                self.decode_chunk(&mut out[first..], scale, codes, &mut signs);
            }
        }
        out.truncate(values);
        if bytes.is_empty() { Ok(()) } else { Err(SectionError::TrailingBytes) }
    }
}

fn sign_stream(seed: [u8; 4]) -> Stream {
    Seed(u64::from(u32::from_le_bytes(seed))).stream()
}

/// Skips the draws of a chunk of zeros, so that the signs of a chunk do not depend on other chunks.
fn skip_signs(values: usize, signs: &mut Stream) {
    for _ in 0..values / 64 * 2 {
        signs.next_u64();
    }
}

/// The largest power of two that is at most a magnitude; 0 for 0. As f64, where f32 denormals are exact too.
fn power_of_two_below(magnitude: f32) -> f64 {
    const EXPONENT: u64 = 0x7FF << 52;
    f64::from_bits(f64::from(magnitude).to_bits() & EXPONENT)
}

/// Flips the signs of values at random. Each number of the stream decides for 64 values.
fn flip(values: &mut [f32], signs: &mut Stream) {
    for block in values.chunks_mut(64) {
        flip_block(block, signs.next_u64());
    }
}

fn flip_by(values: &mut [f32], signs: &[u64]) {
    for (block, signs) in values.chunks_mut(64).zip(signs) {
        flip_block(block, *signs);
    }
}

fn flip_block(block: &mut [f32], signs: u64) {
    for (eight, place) in block.as_chunks_mut::<8>().0.iter_mut().zip((0..).step_by(8)) {
        let byte = (signs >> place) as u32;
        for (value, place) in eight.iter_mut().zip(0..) {
            *value = f32::from_bits(value.to_bits() ^ (byte >> place << 31));
        }
    }
}

for_each_cpu! {
    /// The unnormalised Walsh-Hadamard transform, in place: sums and differences of values at distances 1, 2, 4, and so
    /// on.
    fn hadamard(values: &mut [f32]) {
        for eight in values.as_chunks_mut::<8>().0 {
            let [a, b, c, d, e, f, g, h] = *eight;
            let (a, b, c, d, e, f, g, h) = (a + b, a - b, c + d, c - d, e + f, e - f, g + h, g - h);
            let (a, b, c, d, e, f, g, h) = (a + c, b + d, a - c, b - d, e + g, f + h, e - g, f - h);
            *eight = [a + e, b + f, c + g, d + h, a - e, b - f, c - g, d - h];
        }
        let mut apart = 8;
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

for_each_cpu! {
    /// The code of each value: the index of the nearest centroid's magnitude and, above it, the sign.
    fn quantise(values: &[f32], deviation: f32, centroids: &[f32], codes: &mut [u8]) {
        let sign = centroids.len() as u8;
        codes.fill(0);
        for pair in centroids.windows(2) {
            let middle = (pair[0] + pair[1]) * 0.5 * deviation;
            for (code, value) in codes.iter_mut().zip(values) {
                *code += u8::from(value.abs() > middle);
            }
        }
        for (code, value) in codes.iter_mut().zip(values) {
            *code |= if value.is_sign_negative() { sign } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::update::coding::testing::{
        assert_unbiased, cases, damage, decode, hex, normal, relative_error, survives,
    };

    fn encode(bits: u8, values: &[f32], stream: &mut Stream) -> Vec<u8> {
        let mut bytes = Vec::new();
        Eden { bits }.encode_section(values, stream, &mut bytes);
        assert!(bytes.len() <= Eden { bits }.section_bytes_max(&[Part::row(values.len())]));
        bytes
    }

    /// The table of normalised squared errors for unbiased scales.
    const ERRORS: [f64; 4] = [0.5712, 0.1334, 0.0358, 0.0096];

    #[test]
    fn the_error_is_that_of_the_paper_whatever_the_values_are() {
        let skewed =
            normal(20_000, 2).into_iter().enumerate().map(|(at, value)| if at % 10 == 0 { value.powi(5) } else { 0.0 });
        for values in [normal(20_000, 1), skewed.collect::<Vec<_>>()] {
            for bits in 1..=4 {
                let decoded =
                    decode(&Eden { bits }, &encode(bits, &values, &mut Seed(1).stream()), values.len()).unwrap();
                let error = relative_error(&values, &decoded);
                let expected = ERRORS[usize::from(bits) - 1];
                assert!((error / expected - 1.0).abs() < 0.05, "{bits} bits: {error} instead of {expected}");
                assert!(error < Eden { bits }.properties().relative_error_max.unwrap());
            }
        }
    }

    #[test]
    fn the_mean_error_of_small_chunks_is_as_declared() {
        for bits in 1..=4 {
            let mut stream = Seed(3).stream();
            let mut error = 0.0;
            for draw in 0..400 {
                let values = normal(CHUNK_MIN, draw);
                let decoded = decode(&Eden { bits }, &encode(bits, &values, &mut stream), values.len()).unwrap();
                error += relative_error(&values, &decoded) / 400.0;
            }
            assert!(error < Eden { bits }.properties().relative_error_max.unwrap(), "{bits} bits: {error}");
        }
    }

    #[test]
    fn the_mean_is_kept() {
        let values = normal(100, 5);
        for bits in [1, 2] {
            assert_unbiased(&values, |stream| decode(&Eden { bits }, &encode(bits, &values, stream), 100).unwrap());
        }
    }

    #[test]
    fn the_mean_is_kept_of_values_that_stand_nearly_alone() {
        let mut values = vec![0.0; 128];
        (values[3], values[77]) = (2.0, 1.0);
        assert_unbiased(&values, |stream| decode(&Eden { bits: 1 }, &encode(1, &values, stream), 128).unwrap());
    }

    #[test]
    fn any_section_comes_back() {
        for bits in 1..=4 {
            for (number, values) in cases(CHUNK_MAX).into_iter().enumerate() {
                let bytes = encode(bits, &values, &mut Seed(1).stream());
                let decoded = decode(&Eden { bits }, &bytes, values.len()).unwrap();
                if magnitude_max(&values) == 0.0 {
                    assert_eq!((bytes, decoded), (vec![0], vec![0.0; values.len()]));
                    continue;
                }
                assert!(decoded.iter().all(|value| value.is_finite()), "case {number}");
                // Below 1e-38 the scale itself is rounded.
                if magnitude_max(&values) > 1e-38 {
                    assert!(relative_error(&values, &decoded) < 1.5, "{bits} bits, case {number}");
                }
            }
        }
    }

    #[test]
    fn a_chunk_of_zeros_decodes_to_exact_zeros_and_changes_no_other() {
        let mut values = normal(3 * CHUNK_MAX, 6);
        let whole = decode(&Eden { bits: 1 }, &encode(1, &values, &mut Seed(2).stream()), values.len()).unwrap();
        values[CHUNK_MAX..2 * CHUNK_MAX].fill(0.0);
        let decoded = decode(&Eden { bits: 1 }, &encode(1, &values, &mut Seed(2).stream()), values.len()).unwrap();
        assert!(decoded[CHUNK_MAX..2 * CHUNK_MAX].iter().all(|value| *value == 0.0));
        assert_eq!(decoded[2 * CHUNK_MAX..], whole[2 * CHUNK_MAX..]);
    }

    #[test]
    fn chunks_pad_little() {
        let chunks = |mut left: usize| {
            let mut chunks = Vec::new();
            while left > 0 {
                chunks.push(Eden { bits: 1 }.chunk(left));
                left = left.saturating_sub(chunks[chunks.len() - 1]);
            }
            chunks
        };
        assert_eq!(chunks(1), [64]);
        assert_eq!(chunks(100), [128]);
        assert_eq!(chunks(200), [256]);
        assert_eq!(chunks(650), [512, 128, 64]);
        assert_eq!(chunks(700), [512, 256]);
        assert_eq!(chunks(4095), [4096]);
        assert_eq!(chunks(10_000), [4096, 4096, 1024, 512, 256, 64]);
        for bits in 1..=4 {
            let eden = Eden { bits };
            for values in [1000, 1100, 5000, 200_000] {
                let bits_per_value = 8.0 * eden.section_bytes_max(&[Part::row(values)]) as f64 / values as f64;
                assert!(bits_per_value <= eden.properties().bits_per_value_max, "{bits} bits, {values} values");
            }
        }
    }

    #[test]
    fn every_cpu_rotates_and_rounds_the_same() {
        let rotated = |cpu| {
            let (mut values, mut codes) = (normal(4096, 9), vec![0; 4096]);
            hadamard(cpu, &mut values);
            quantise(cpu, &values, 64.0, &CENTROIDS[3..7], &mut codes);
            (values, codes)
        };
        Cpu::all().into_iter().for_each(|cpu| assert!(rotated(cpu) == rotated(Cpu::portable()), "{cpu:?}"));
    }

    #[test]
    fn the_transform_is_its_own_inverse_but_for_the_length() {
        let values = normal(1024, 7);
        let mut twice = values.clone();
        hadamard(Cpu::best(), &mut twice);
        // The first sum and one in the middle, by their definition.
        let sign = |row: usize, column: usize| if (row & column).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
        for row in [0, 1, 600] {
            let expected: f64 = values.iter().enumerate().map(|(at, value)| sign(row, at) * f64::from(*value)).sum();
            assert!((f64::from(twice[row]) - expected).abs() < 1e-3);
        }
        hadamard(Cpu::best(), &mut twice);
        assert!(values.iter().zip(&twice).all(|(value, twice)| (value * 1024.0 - twice).abs() < 0.01));
    }

    #[test]
    fn sections_that_nobody_writes_are_refused() {
        let eden = Eden { bits: 2 };
        let section = encode(2, &normal(100, 8), &mut Seed(3).stream());
        assert_eq!(section.len(), 4 + 4 + 32);
        assert_eq!(decode(&eden, &[&section[..], &[0]].concat(), 100), Err(SectionError::TrailingBytes));
        for length in 0..section.len() {
            assert_eq!(decode(&eden, &section[..length], 100), Err(SectionError::Truncated));
        }
        for scale in [f32::NAN, f32::INFINITY, -1.0, -0.0] {
            let mut section = section.clone();
            section[4..8].copy_from_slice(&scale.to_le_bytes());
            assert_eq!(decode(&eden, &section, 100), Err(SectionError::BadNumber("scale")));
        }
    }

    #[test]
    fn the_bytes_of_a_delta_never_change() {
        let values: Vec<f32> = (0..70).map(|at: i32| (at * 37 % 64 - 32) as f32 / 8.0).collect();
        assert_eq!(hex(&encode(1, &values, &mut Seed(7).stream())), "bb43d723908cb03cb4138733bea3d11ef65a0626cd1b99c8");
        assert_eq!(
            hex(&encode(3, &values[..20], &mut Seed(7).stream())),
            "bb43d723a114c63c22021240c800ad0b02254d00c3191f3a365404539a009224"
        );
    }

    #[test]
    fn other_numbers_of_bits_are_refused() {
        assert!([0, 5, 255].iter().all(|bits| Eden { bits: *bits }.check().is_err()));
    }

    proptest! {
        #[test]
        fn damaged_sections_are_refused_or_are_other_values(bits in 1u8..=4, length in 1usize..300, damage in damage()) {
            let bytes = encode(bits, &normal(length, 13), &mut Seed(8).stream());
            survives(&Eden { bits }, &bytes, &[Part::row(length)], &damage);
        }
    }
}
