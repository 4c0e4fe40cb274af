//! Whole numbers of 8 or 4 bits and one scale for each block of values.
//!
//! For a block x of at most [`Blocks::block`] values and Q = 2^(bits - 1) - 1 (127 or 7):
//!
//! ```text
//! s = max |x_i| / Q, rounded up to bf16;   q_i = x_i / s, rounded to one of the two whole numbers beside it;   x_i' = s q_i
//! ```
//!
//! where the upper one is taken with the probability of the fraction, so that x' is x on average. That is stochastic
//! rounding (QSGD, Alistarh et al. 2017, arXiv 1610.02132, section 3.1) with the largest value in the place of the norm,
//! as in TernGrad (Wen et al. 2017, arXiv 1705.07878, equation 3). Rounding to nearest would halve the squared error of
//! one client (a twelfth of s^2 instead of a sixth), but not average out over several.
//!
//! The scale is rounded up so that nothing is ever clipped; s Q then has at most 15 bits and every product s q is exact.
//! It is bf16 and not f16, though that has three more bits: scales below 6e-5 have fewer and fewer bits in f16, and none
//! below 6e-8. For normal deltas of deviation 1e-3, 1e-5 and 1e-6 the squared error of 8 bits is 7.2e-5, 9.4e-5 and 59e-5
//! of the delta's with f16 and always 7.2e-5 with bf16 (7.1e-5 if scales were not rounded at all).
//!
//! In the file each parameter `NAME` has two tensors: `NAME.scales` (BF16, one for each block, row by row, blocks begin
//! anew with the parameter) and, after it, `NAME.values`: I8 of the parameter's shape for 8 bits; for 4 bits U8 with two
//! numbers in a byte, the first in the lower half, and zero in the upper half of the last byte if their count is odd.
//! -128 and -8 stand for nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::coding::fields::magnitude_max;
use super::super::decoder::BLOCK_VALUES_MAX;
use super::super::{EncodeError, Properties, UpdateError};
use super::BadSetting;
use crate::cpu::Cpu;
use crate::for_each_cpu;
use crate::model::{ParameterList, ParameterSpec};
use crate::safetensors::{Data, Dtype, Header, Tensor, TensorSpec, match_tensors, write};
use crate::seed::Stream;

/// Longest block: far beyond where a scale costs anything.
const BLOCK_MAX: u16 = 4096;
/// Blocks are whole numbers of so many values: whole bytes, and whole registers of most CPUs.
const BLOCK_STEP: u16 = 8;
/// The bits of bf16's infinity; above are NaNs, then everything with a sign.
const INFINITE_BITS: u16 = 0x7F80;

/// Settings of `int8` and `int4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Blocks {
    /// Values that share a scale, a multiple of 8 from 8 to 4096; blocks begin anew with each parameter.
    pub block: u16,
}

impl Default for Blocks {
    fn default() -> Self {
        Self { block: 64 }
    }
}

impl Blocks {
    pub(in super::super) fn properties(&self, bits: u32) -> Properties {
        let block = f64::from(self.block);
        // Stochastic rounding of k + f steps errs by f (1 - f) steps squared on average. Most of it, compared with the
        // block, comes from one value of Q steps (at least; the scale is up to 2^-7 too large) and all others of f: the
        // largest of (n - 1) f (1 - f) / (Q^2 + (n - 1) f^2), whose derivative is zero at the f below. The one value
        // of Q steps itself errs by a quarter at most.
        let (others, largest) = (block - 1.0, f64::from(levels(bits)) / (1.0 + 1.0 / 128.0));
        let largest = largest * largest;
        let fraction = ((largest * largest + others * largest).sqrt() - largest) / others;
        let worst = (others * fraction * (1.0 - fraction) + 0.25) / (largest + others * fraction * fraction);
        Properties {
            unbiased: true,
            feedback: false,
            bits_per_value_max: f64::from(bits) + 16.0 / block,
            relative_error_max: Some(worst),
        }
    }

    pub(in super::super) fn check(&self) -> Result<(), BadSetting> {
        if (BLOCK_STEP..=BLOCK_MAX).contains(&self.block) && self.block.is_multiple_of(BLOCK_STEP) {
            return Ok(());
        }
        Err(("block", "a multiple of 8 from 8 to 4096"))
    }

    fn scales(&self, values: usize) -> usize {
        values.div_ceil(usize::from(self.block))
    }
}

/// The largest whole number of so many bits whose negative exists too.
fn levels(bits: u32) -> u16 {
    (1 << (bits - 1)) - 1
}

/// Bytes that so many numbers take.
fn values_bytes(values: usize, bits: u32) -> usize {
    (values * bits as usize).div_ceil(8)
}

/// The tensors of a parameter.
fn specs(spec: &ParameterSpec, values: usize, bits: u32, blocks: Blocks) -> [TensorSpec; 2] {
    let named = |part, dtype, shape| TensorSpec { name: format!("{}.{part}", spec.name), dtype, shape };
    let numbers = match bits {
        8 => named("values", Dtype::I8, spec.shape.clone()),
        _ => named("values", Dtype::U8, vec![values_bytes(values, bits)]),
    };
    [named("scales", Dtype::Bf16, vec![blocks.scales(values)]), numbers]
}

/// The tensors of all parameters: scales and values of the first, then those of the second, ...
pub(in super::super) fn all_specs(parameters: &ParameterList, bits: u32, blocks: Blocks) -> Vec<TensorSpec> {
    let both = |(index, spec)| specs(spec, parameters.range(index).len(), bits, blocks);
    parameters.specs().iter().enumerate().flat_map(both).collect()
}

/// Bytes of the file's data.
pub(in super::super) fn data_bytes(parameters: &ParameterList, bits: u32, blocks: Blocks) -> u64 {
    let bytes = |values: usize| (2 * blocks.scales(values) + values_bytes(values, bits)) as u64;
    (0..parameters.specs().len()).map(|parameter| bytes(parameters.range(parameter).len())).sum()
}

/// The update's file.
///
/// # Errors
/// [`EncodeError::TooLarge`] for a value that its block's scale cannot reach: above 127 / 128 of what f32 can.
pub(in super::super) fn encode(
    delta: &[f32],
    parameters: &ParameterList,
    bits: u32,
    blocks: Blocks,
    stream: &mut Stream,
    metadata: &BTreeMap<String, String>,
) -> Result<Vec<u8>, EncodeError> {
    let specs = all_specs(parameters, bits, blocks);
    let mut parts: Vec<Vec<u8>> = Vec::with_capacity(specs.len());
    for parameter in 0..parameters.specs().len() {
        let range = parameters.range(parameter);
        let mut scales = Vec::with_capacity(2 * blocks.scales(range.len()));
        let mut numbers = Vec::with_capacity(values_bytes(range.len(), bits));
        for (block, values) in delta[range.clone()].chunks(usize::from(blocks.block)).enumerate() {
            let largest = magnitude_max(values);
            let scale = scale_for(largest, levels(bits)).ok_or_else(|| {
                let first = range.start + block * usize::from(blocks.block);
                let index = values.iter().position(|value| value.abs() == largest).unwrap_or_default();
                EncodeError::TooLarge { index: first + index, value: values[index] }
            })?;
            scales.extend_from_slice(&scale.to_le_bytes());
            encode_block(values, from_bf16(scale), bits, stream, &mut numbers);
        }
        parts.extend([scales, numbers]);
    }
    let both = specs.iter().zip(&parts);
    let tensors =
        both.map(|(spec, bytes)| Tensor { name: &spec.name, shape: &spec.shape, data: Data::Bytes(spec.dtype, bytes) });
    Ok(write(&tensors.collect::<Vec<_>>(), metadata))
}

/// The largest absolute value; of finite numbers, whose bits are in the same order. Whole numbers have no order of
/// summation to keep, so it vectorises.
pub(super) fn largest_magnitude(values: &[f32]) -> f32 {
    let bits = values.iter().fold(0, |largest: i32, value| largest.max(value.abs().to_bits() as i32));
    f32::from_bits(bits as u32)
}

#[inline(always)]
pub(super) fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The bits of the smallest bf16 number of which `levels` make at least `largest`; none if that is beyond f32.
pub(super) fn scale_for(largest: f32, levels: u16) -> Option<u16> {
    let levels = f32::from(levels);
    // Cut to bf16 it is too small by less than two of bf16's steps. Products have 15 bits, so comparing is exact.
    let mut bits = ((largest / levels).to_bits() >> 16) as u16;
    while from_bf16(bits) * levels < largest {
        bits += 1;
    }
    (from_bf16(bits) * levels).is_finite().then_some(bits)
}

/// Values that are encoded at a time: their whole numbers and draws stay in registers and the first-level cache.
const RUN: usize = 64;
/// Bits of the fraction that decide between two whole numbers: all that an f32 above 1 has, so the bias of smaller ones
/// is below 2^-24 steps.
const FRACTION_BITS: u32 = 24;
/// How many of them are drawn for every value: four draws in a number of the stream. The others are drawn only for those
/// values, one in 65,536, for which these do not decide.
const DRAWN_BITS: u32 = 16;
const UNDRAWN_BITS: u32 = FRACTION_BITS - DRAWN_BITS;
/// The drawn bits of a sum; all of them set where the others could carry.
const DRAWN: i32 = (1 << DRAWN_BITS) - 1;

/// Appends one block's numbers.
///
/// Reads 4 bytes a value and writes 1 or a half; bound by the draws (2 bytes a value) and one division a value.
fn encode_block(values: &[f32], scale: f32, bits: u32, stream: &mut Stream, out: &mut Vec<u8>) {
    if scale == 0.0 {
        out.resize(out.len() + values_bytes(values.len(), bits), 0);
        return;
    }
    for run in values.chunks(RUN) {
        let mut numbers = [0; RUN];
        round(run, scale, stream, &mut numbers);
        let numbers = &numbers[..run.len()];
        if bits == 8 {
            out.extend(numbers.iter().map(|number| *number as u8));
        } else {
            let (pairs, odd) = numbers.as_chunks::<2>();
            out.extend(pairs.iter().map(|[low, high]| (*low & 0xF) as u8 | (*high << 4) as u8));
            out.extend(odd.iter().map(|low| (*low & 0xF) as u8));
        }
    }
}

/// Rounds `value / scale` to one of the whole numbers beside it, as the stream decides. At most [`RUN`] values.
fn round(values: &[f32], scale: f32, stream: &mut Stream, numbers: &mut [i8; RUN]) {
    let mut draws = [0u16; RUN];
    for draws in draws[..values.len().next_multiple_of(4)].as_chunks_mut::<4>().0 {
        let word = stream.next_u64();
        *draws = [word as u16, (word >> 16) as u16, (word >> 32) as u16, (word >> 48) as u16];
    }
    let cpu = Cpu::best();
    let (fixed, mut sums, undecided) = in_steps(cpu, values, scale, &draws);
    if undecided {
        // The bits that were not drawn could carry into those that were.
        for (sum, fixed) in sums[..values.len()].iter_mut().zip(&fixed).filter(|(sum, _)| **sum & DRAWN == DRAWN) {
            const UNDRAWN: i32 = (1 << UNDRAWN_BITS) - 1;
            *sum += ((*fixed & UNDRAWN) + (stream.next_u64() as i32 & UNDRAWN)) >> UNDRAWN_BITS;
        }
    }
    whole(cpu, values, &sums, numbers);
}

for_each_cpu! {
    /// The magnitudes in units of 2^-24 steps, which are at most 127 x 2^24, so that an i32 holds them; those in units of
    /// 2^-16 steps with a uniform fraction added, which rounds up with the probability of the magnitude's own fraction once
    /// the sum is cut; and whether one of them might still be carried into.
    fn in_steps(values: &[f32], scale: f32, draws: &[u16; RUN]) -> ([i32; RUN], [i32; RUN], bool) {
        let (mut fixed, mut sums, mut undecided) = ([0i32; RUN], [0i32; RUN], false);
        for (((fixed, sum), value), draw) in fixed.iter_mut().zip(&mut sums).zip(values).zip(draws) {
            let steps = value.abs() / scale * (1 << FRACTION_BITS) as f32;
            *fixed = steps as i32;
            *sum = (*fixed >> UNDRAWN_BITS) + i32::from(*draw);
            undecided |= *sum & DRAWN == DRAWN;
        }
        (fixed, sums, undecided)
    }
}

for_each_cpu! {
    /// The whole steps, with the signs of the values.
    fn whole(values: &[f32], sums: &[i32; RUN], numbers: &mut [i8; RUN]) {
        for ((number, sum), value) in numbers.iter_mut().zip(sums).zip(values) {
            // All ones for a negative value: x ^ -1 is -x - 1.
            let sign = value.to_bits() as i32 >> 31;
            *number = (((*sum >> DRAWN_BITS) ^ sign) - sign) as i8;
        }
    }
}

/// The server's half.
///
/// It keeps the scales of those parameters whose values have not come, one in 64 values.
#[derive(Debug)]
pub(in super::super) struct BlocksReader {
    parameters: Arc<ParameterList>,
    bits: u32,
    blocks: Blocks,
    /// For each tensor of the file, what it is.
    parts: Vec<Part>,
    /// By parameter, as they come.
    scales: BTreeMap<usize, Vec<u16>>,
}

/// What a tensor is, and of which parameter.
#[derive(Clone, Copy, Debug)]
enum Part {
    Scales(usize),
    Values(usize),
}

impl BlocksReader {
    pub(in super::super) fn new(parameters: Arc<ParameterList>, bits: u32, blocks: Blocks) -> Self {
        Self { parameters, bits, blocks, parts: Vec::new(), scales: BTreeMap::new() }
    }

    /// Checks that the file has the right tensors, each parameter's scales before its values.
    pub(in super::super) fn header(&mut self, header: &Header) -> Result<(), UpdateError> {
        let specs = all_specs(&self.parameters, self.bits, self.blocks);
        let mut scales_came = vec![false; self.parameters.specs().len()];
        for place in match_tensors(header, &specs)? {
            let parameter = place / 2;
            if place.is_multiple_of(2) {
                scales_came[parameter] = true;
                self.parts.push(Part::Scales(parameter));
            } else if scales_came[parameter] {
                self.parts.push(Part::Values(parameter));
            } else {
                let [after, tensor] = [place - 1, place].map(|place| specs[place].name.clone());
                return Err(UpdateError::OutOfOrder { tensor, after });
            }
        }
        Ok(())
    }

    /// Takes elements of a tensor and hands out, as (place in the flat vector, values), what they give.
    pub(in super::super) fn block(
        &mut self,
        tensor: usize,
        element: usize,
        bytes: &[u8],
        accept: &mut impl FnMut(usize, &[f32]) -> Result<(), UpdateError>,
    ) -> Result<(), UpdateError> {
        match self.parts[tensor] {
            Part::Scales(parameter) => self.take_scales(parameter, bytes),
            Part::Values(parameter) => self.take_values(parameter, element, bytes, accept),
        }
    }

    fn take_scales(&mut self, parameter: usize, bytes: &[u8]) -> Result<(), UpdateError> {
        let scales = self.scales.entry(parameter).or_default();
        for bytes in bytes.as_chunks().0 {
            let bits = u16::from_le_bytes(*bytes);
            if bits >= INFINITE_BITS {
                return Err(UpdateError::BadScale { tensor: self.name(parameter, "scales"), scale: from_bf16(bits) });
            }
            scales.push(bits);
        }
        Ok(())
    }

    /// Reads 1 or a half byte a value and writes 4 that stay in the first-level cache.
    fn take_values(
        &mut self,
        parameter: usize,
        element: usize,
        bytes: &[u8],
        accept: &mut impl FnMut(usize, &[f32]) -> Result<(), UpdateError>,
    ) -> Result<(), UpdateError> {
        let range = self.parameters.range(parameter);
        let scales = self.scales.get(&parameter).expect("the header was refused unless scales come before values");
        let per_byte = (8 / self.bits) as usize;
        let mut at = element * per_byte;
        let mut values = [0.0; BLOCK_VALUES_MAX];
        for bytes in bytes.chunks(BLOCK_VALUES_MAX / per_byte) {
            let values = &mut values[..(bytes.len() * per_byte).min(range.len() - at)];
            let decode = if per_byte == 1 { decode_8 } else { decode_4 };
            if !decode(Cpu::best(), bytes, values, at, usize::from(self.blocks.block), scales) {
                return Err(UpdateError::BadCode { tensor: self.name(parameter, "values") });
            }
            accept(range.start + at, values)?;
            at += values.len();
        }
        if at == range.len() {
            self.scales.remove(&parameter);
        }
        Ok(())
    }

    fn name(&self, parameter: usize, part: &str) -> String {
        format!("{}.{part}", self.parameters.specs()[parameter].name)
    }
}

for_each_cpu! {
    /// Numbers of 8 bits, the first of which is the parameter's `at`th, times the scales of their blocks; false if one of
    /// them stands for nothing.
    fn decode_8(bytes: &[u8], values: &mut [f32], at: usize, block: usize, scales: &[u16]) -> bool {
        let (mut left, mut from) = (values, 0);
        while !left.is_empty() {
            let (same, rest) = left.split_at_mut((block - (at + from) % block).min(left.len()));
            let scale = from_bf16(scales[(at + from) / block]);
            for (value, byte) in same.iter_mut().zip(&bytes[from..]) {
                *value = f32::from(*byte as i8) * scale;
            }
            from += same.len();
            left = rest;
        }
        !bytes.iter().fold(false, |bad, byte| bad | (*byte == 0x80))
    }
}

for_each_cpu! {
    /// The same for numbers of 4 bits, two in a byte, `at` and `block` being even; false too if what fills the last byte
    /// is not zero.
    fn decode_4(bytes: &[u8], values: &mut [f32], at: usize, block: usize, scales: &[u16]) -> bool {
        // Shifted up and down again as wide as they will be: that takes their sign along.
        let low = |byte: u8| (i32::from(byte) << 28 >> 28) as f32;
        let high = |byte: u8| (i32::from(byte) << 24 >> 28) as f32;
        let (mut left, mut from, mut bad) = (values, 0, false);
        while !left.is_empty() {
            let (same, rest) = left.split_at_mut((block - (at + from) % block).min(left.len()));
            let scale = from_bf16(scales[(at + from) / block]);
            let (pairs, odd) = same.as_chunks_mut::<2>();
            for (pair, byte) in pairs.iter_mut().zip(&bytes[from / 2..]) {
                *pair = [low(*byte) * scale, high(*byte) * scale];
            }
            if let ([value], Some(last)) = (odd, bytes.last()) {
                *value = low(*last) * scale;
                bad |= last & 0xF0 != 0;
            }
            from += same.len();
            left = rest;
        }
        !bytes.iter().fold(bad, |bad, byte| bad | (byte & 0x0F == 0x08) | (byte & 0xF0 == 0x80))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;
    use crate::update::{Codec, UpdateDecoder, UpdateHeader, UpdateLimits};

    const BITS: [u32; 2] = [8, 4];

    /// Two parameters, so that blocks begin anew.
    fn parameters(first: usize, second: usize) -> Arc<ParameterList> {
        let specs = vec![ParameterSpec::new("w", [first]), ParameterSpec::new("b", [second])];
        Arc::new(ParameterList::new(specs).unwrap())
    }

    fn header(bits: u32) -> UpdateHeader {
        let codec = if bits == 8 { Codec::Int8(Blocks::default()) } else { Codec::Int4(Blocks::default()) };
        UpdateHeader { codec, job: "job_1".into(), base_version: 3 }
    }

    fn encoded(delta: &[f32], parameters: &ParameterList, bits: u32, seed: Seed) -> Vec<u8> {
        crate::update::encode(delta, parameters, &header(bits), 1, seed).unwrap()
    }

    fn decode(file: &[u8], parameters: &Arc<ParameterList>, bits: u32, piece: usize) -> Result<Vec<f32>, UpdateError> {
        let limits = UpdateLimits { magnitude_max: f32::INFINITY };
        let mut decoder = UpdateDecoder::new(Arc::clone(parameters), header(bits), limits);
        let mut delta = vec![f32::NAN; parameters.total()];
        for piece in file.chunks(piece) {
            decoder.push(piece, &mut delta)?;
        }
        decoder.finish()?;
        Ok(delta)
    }

    fn round_trip(delta: &[f32], bits: u32, seed: Seed) -> Vec<f32> {
        let parameters = parameters(delta.len() - 1, 1);
        decode(&encoded(delta, &parameters, bits, seed), &parameters, bits, 1 << 16).unwrap()
    }

    /// About normal: the sum of twelve uniform numbers.
    fn normal(count: usize, seed: Seed) -> Vec<f32> {
        let mut stream = seed.stream();
        (0..count).map(|_| ((0..12).map(|_| stream.unit()).sum::<f64>() - 6.0) as f32).collect()
    }

    fn relative_error(delta: &[f32], decoded: &[f32]) -> f64 {
        let square = |value: f32| f64::from(value) * f64::from(value);
        let error: f64 = delta.iter().zip(decoded).map(|(value, decoded)| square(decoded - value)).sum();
        error / delta.iter().map(|value| square(*value)).sum::<f64>()
    }

    #[test]
    fn a_scale_is_the_smallest_that_clips_nothing() {
        assert_eq!(scale_for(0.0, 127), Some(0));
        assert_eq!(scale_for(127.0, 127), Some(0x3F80));
        assert_eq!(scale_for(127.0f32.next_up(), 127), Some(0x3F81));
        assert_eq!(scale_for(f32::from_bits(1), 127), Some(1));
        assert_eq!(scale_for(f32::MAX, 127), None);
        let mut stream = Seed(1).stream();
        for levels in [127, 7] {
            for _ in 0..10_000 {
                let largest = f32::from_bits((stream.below(0x7F00_0000)) as u32);
                let bits = scale_for(largest, levels).unwrap();
                let reach = |bits| from_bf16(bits) * f32::from(levels);
                assert!(reach(bits) >= largest && (bits == 0 || reach(bits - 1) < largest), "{largest}");
                assert!(largest / from_bf16(bits) <= f32::from(levels) || bits == 0);
            }
        }
    }

    #[test]
    fn values_between_two_numbers_become_one_of_them() {
        for bits in BITS {
            for count in [2, 63, 64, 65, 66, 128, 1000] {
                let delta = normal(count, Seed(count as u64));
                let decoded = round_trip(&delta, bits, Seed(7));
                for (values, decoded) in delta[..count - 1].chunks(64).zip(decoded[..count - 1].chunks(64)) {
                    let scale = from_bf16(scale_for(magnitude_max(values), levels(bits)).unwrap());
                    for (value, decoded) in values.iter().zip(decoded) {
                        assert!((value - decoded).abs() < scale && (decoded / scale).fract() == 0.0);
                    }
                }
            }
        }
    }

    #[test]
    fn every_cpu_writes_and_reads_the_same() {
        let mut draws = [0; RUN];
        let mut stream = Seed(3).stream();
        let bytes: Vec<u8> = (0..1024).map(|_| stream.next_u64() as u8).collect();
        let scales: Vec<u16> = (0..80).map(|_| stream.below(0x7F80) as u16).collect();
        for values in normal(20 * RUN, Seed(2)).chunks(RUN - 1) {
            draws.fill_with(|| stream.next_u64() as u16);
            let written = |cpu| {
                let (fixed, sums, undecided) = in_steps(cpu, values, 0.05, &draws);
                let mut numbers = [0; RUN];
                whole(cpu, values, &sums, &mut numbers);
                (fixed, sums, undecided, numbers)
            };
            Cpu::all().into_iter().for_each(|cpu| assert_eq!(written(cpu), written(Cpu::portable()), "{cpu:?}"));
        }
        for (at, block, count) in [(0, 64, 1024), (1000, 64, 1001), (8, 8, 500), (40, 4096, 1023)] {
            let (portable, mut values) = (Cpu::portable(), vec![0.0; count]);
            for cpu in Cpu::all() {
                let mut expected = vec![0.0; count];
                let good = decode_8(portable, &bytes[..count], &mut expected, at, block, &scales_for(&scales, block));
                assert_eq!(decode_8(cpu, &bytes[..count], &mut values, at, block, &scales_for(&scales, block)), good);
                assert_eq!(values, expected, "{cpu:?}, 8 bits");
                let half = &bytes[..count.div_ceil(2)];
                let good = decode_4(portable, half, &mut expected, at, block, &scales_for(&scales, block));
                assert_eq!(decode_4(cpu, half, &mut values, at, block, &scales_for(&scales, block)), good);
                assert_eq!(values, expected, "{cpu:?}, 4 bits");
            }
        }
    }

    /// Enough scales for 3,000 values.
    fn scales_for(scales: &[u16], block: usize) -> Vec<u16> {
        scales.iter().copied().cycle().take(3000 / block + 1).collect()
    }

    #[test]
    fn on_average_it_is_the_delta() {
        const DRAWS: u32 = 10_000;
        for bits in BITS {
            let delta = normal(70, Seed(5));
            let (mut sums, mut squares) = (vec![0.0; 70], vec![0.0; 70]);
            for draw in 0..DRAWS {
                for (index, decoded) in round_trip(&delta, bits, Seed(u64::from(draw))).into_iter().enumerate() {
                    let error = f64::from(decoded) - f64::from(delta[index]);
                    sums[index] += error;
                    squares[index] += error * error;
                }
            }
            for (sum, square) in sums.iter().zip(&squares) {
                let mean: f64 = sum / f64::from(DRAWS);
                let standard_error = (square / f64::from(DRAWS)).sqrt() / f64::from(DRAWS).sqrt();
                assert!(mean.abs() <= 5.0 * standard_error, "{bits} bits: {mean} of {standard_error}");
            }
        }
    }

    #[test]
    fn fractions_near_nothing_and_near_one_are_not_lost() {
        let step = 1.0 / (1 << FRACTION_BITS) as f32;
        let mut stream = Seed(2).stream();
        let mut numbers = [0; RUN];
        let values: Vec<f32> = (0..RUN).map(|index| [1.0 - step, step, -1.0, 0.0][index % 4]).collect();
        for _ in 0..5000 {
            round(&values, 1.0, &mut stream, &mut numbers);
            assert!(numbers.chunks(4).all(|numbers| numbers == [1, 0, -1, 0]));
        }
    }

    #[test]
    fn the_error_on_normal_data_is_that_of_the_books() {
        let delta = normal(1 << 16, Seed(9));
        // A sixth of a step squared: E max^2 of 64 normal values is 5.7, so 5.7 / 127^2 / 6 and 5.7 / 7^2 / 6, and a
        // little more for the scale's rounding up.
        for (bits, expected) in [(8, 5.9e-5), (4, 0.0195)] {
            let error = relative_error(&delta, &round_trip(&delta, bits, Seed(1)));
            assert!((0.9..1.25).contains(&(error / expected)), "{bits} bits: {error}");
        }
    }

    #[test]
    fn no_block_errs_by_more_than_is_declared() {
        for bits in BITS {
            let declared = Blocks::default().properties(bits).relative_error_max.unwrap();
            let mut worst: f64 = 0.0;
            for fraction in 1..20 {
                let mut delta = [fraction as f32 / 20.0; 65];
                (delta[0], delta[64]) = (f32::from(levels(bits)), 0.0);
                let draws = 400;
                let errors = (0..draws).map(|draw| relative_error(&delta, &round_trip(&delta, bits, Seed(draw))));
                worst = worst.max(errors.sum::<f64>() / draws as f64);
            }
            assert!((0.85..1.0).contains(&(worst / declared)), "{bits} bits: {worst} of {declared}");
        }
    }

    #[test]
    fn zeros_stay_zero_and_a_zero_block_has_no_division() {
        for bits in BITS {
            let mut delta = vec![0.0; 200];
            delta[150] = 3.0;
            delta[151] = -0.0;
            let decoded = round_trip(&delta, bits, Seed(1));
            let zero = |index: usize| decoded[index].to_bits() == 0;
            assert!((0..200).all(|index| index == 150 || zero(index)));
            assert!((decoded[150] - 3.0).abs() < 0.5);
        }
    }

    #[test]
    fn denormal_and_huge_values_are_kept_as_far_as_f32_goes() {
        for bits in BITS {
            let denormal = round_trip(&[1e-40, -1e-42, 0.0, f32::from_bits(1)], bits, Seed(1));
            assert!(denormal.iter().all(|value| value.abs() < 2e-40), "{denormal:?}");
            let huge = round_trip(&[3e38, 1.0, -1e36, 1.0], bits, Seed(1));
            assert!((huge[0] / 3e38 - 1.0).abs() < 0.15 && huge.iter().all(|value| value.is_finite()));
            let refusal = crate::update::encode(&[1.0, -f32::MAX], &parameters(1, 1), &header(bits), 1, Seed(1));
            assert_eq!(refusal, Err(EncodeError::TooLarge { index: 1, value: -f32::MAX }));
        }
    }

    #[test]
    fn the_bytes_of_a_delta_never_change() {
        let delta = [0.5, -0.3, 0.0, 1.0, 1e-3, -0.9, 0.77, 0.1, -0.6];
        let data = |bits| {
            let file = encoded(&delta, &parameters(7, 2), bits, Seed(3));
            file[file.len() - data_bytes(&parameters(7, 2), bits, Blocks::default()) as usize..].to_vec()
        };
        assert_eq!(data(8), GOLDEN_8);
        assert_eq!(data(4), GOLDEN_4);
    }

    /// Scale and seven numbers, scale and two.
    const GOLDEN_8: [u8; 13] = [2, 60, 63, 219, 0, 126, 1, 142, 97, 155, 59, 21, 129];
    const GOLDEN_4: [u8; 9] = [19, 62, 228, 112, 160, 5, 176, 61, 145];

    /// A file of tensors with the expected metadata.
    fn file(bits: u32, tensors: &[(&str, Dtype, &[usize], &[u8])]) -> Vec<u8> {
        let tensors: Vec<_> = tensors
            .iter()
            .map(|(name, dtype, shape, bytes)| Tensor { name, shape, data: Data::Bytes(*dtype, bytes) })
            .collect();
        write(&tensors, &header(bits).metadata())
    }

    #[test]
    fn tensors_may_come_in_any_order_that_has_scales_before_their_values() {
        let (ws, wv) =
            (("w.scales", Dtype::Bf16, &[1][..], &[0x80, 0x3F][..]), ("w.values", Dtype::I8, &[2][..], &[1, 255][..]));
        let (bs, bv) =
            (("b.scales", Dtype::Bf16, &[1][..], &[0, 0x40][..]), ("b.values", Dtype::I8, &[1][..], &[3][..]));
        for tensors in [[ws, wv, bs, bv], [bs, bv, ws, wv], [ws, bs, wv, bv], [ws, bs, bv, wv]] {
            for piece in [1, 1000] {
                assert_eq!(decode(&file(8, &tensors), &parameters(2, 1), 8, piece), Ok(vec![1.0, -1.0, 6.0]));
            }
        }
        let late = UpdateError::OutOfOrder { tensor: "b.values".into(), after: "b.scales".into() };
        assert_eq!(decode(&file(8, &[ws, wv, bv, bs]), &parameters(2, 1), 8, 1000), Err(late));
    }

    #[test]
    fn scales_and_numbers_that_stand_for_nothing_are_refused() {
        let with = |bits: u32, scale: u16, values: &[u8]| {
            let dtype = if bits == 8 { Dtype::I8 } else { Dtype::U8 };
            let scale = scale.to_le_bytes();
            let w = [("w.scales", Dtype::Bf16, &[1][..], &scale[..]), ("w.values", dtype, &[values.len()][..], values)];
            let one = [("b.scales", Dtype::Bf16, &[1][..], &[0, 0][..]), ("b.values", dtype, &[1][..], &[0][..])];
            decode(&file(bits, &[w[0], w[1], one[0], one[1]]), &parameters(3, 1), bits, 1000)
        };
        assert_eq!(with(8, 0x3F80, &[1, 0x81, 0x7F]), Ok(vec![1.0, -127.0, 127.0, 0.0]));
        assert_eq!(with(4, 0x3F80, &[0x97, 0x01]), Ok(vec![7.0, -7.0, 1.0, 0.0]));
        let bad_code = || Err(UpdateError::BadCode { tensor: "w.values".into() });
        assert_eq!(with(8, 0x3F80, &[1, 0x80, 0]), bad_code());
        for values in [[0x08, 0], [0x80, 0], [0, 0x08], [0, 0x10]] {
            assert_eq!(with(4, 0x3F80, &values), bad_code());
        }
        // Infinity, NaN, -1, minus zero.
        for scale in [0x7F80, 0x7FC0, 0xBF80, 0x8000] {
            let refusal = with(8, scale, &[0; 3]).unwrap_err();
            assert!(matches!(&refusal, UpdateError::BadScale { tensor, .. } if tensor == "w.scales"), "{refusal}");
        }
        // 127 of the largest scale are beyond f32.
        assert!(matches!(with(8, 0x7F7F, &[0, 127, 0]), Err(UpdateError::NotFinite { index: 1, .. })));
    }

    #[test]
    fn any_number_of_bytes_may_come_at_a_time() {
        let parameters = parameters(3001, 77);
        let delta = normal(3078, Seed(4));
        for bits in BITS {
            let file = encoded(&delta, &parameters, bits, Seed(1));
            let whole = decode(&file, &parameters, bits, file.len()).unwrap();
            for piece in [1, 2, 3, 31, 64, 1000] {
                assert_eq!(decode(&file, &parameters, bits, piece).unwrap(), whole);
            }
        }
    }

    #[test]
    fn blocks_have_sensible_lengths() {
        for block in [8, 64, 128, 4096] {
            assert_eq!(Blocks { block }.check(), Ok(()));
        }
        for block in [0, 4, 12, 65, 4104, u16::MAX] {
            assert!(Blocks { block }.check().is_err(), "{block}");
        }
    }
}
