//! The client's half of `int8` and `int4`: scales, and stochastic rounding to integers.

use std::collections::BTreeMap;

use super::layout::{Blocks, SCALE_BYTES, all_specs, data_bytes, from_bf16, levels, scale_for, values_bytes};
use crate::cpu::Cpu;
use crate::for_each_cpu;
use crate::model::ParameterList;
use crate::safetensors::beginning_of;
use crate::seed::Stream;
use crate::update::coding::fields::magnitude_max;
use crate::update::error::EncodeError;

/// Encodes a delta as a file.
///
/// # Errors
/// [`EncodeError::TooLarge`] for a magnitude above 127/128 of f32's largest: rounding its scale up would overflow.
pub(in crate::update) fn encode(
    delta: &[f32],
    parameters: &ParameterList,
    bits: u32,
    blocks: Blocks,
    stream: &mut Stream,
    metadata: &BTreeMap<String, String>,
) -> Result<Vec<u8>, EncodeError> {
    let mut file = beginning_of(&all_specs(parameters, bits, blocks), metadata);
    file.reserve_exact(data_bytes(parameters, bits, blocks) as usize);
    for parameter in 0..parameters.specs().len() {
        let range = parameters.range(parameter);
        // The scales precede the numbers, so their place is filled block by block: no copy of a tensor is made.
        let mut scale_at = file.len();
        file.resize(scale_at + SCALE_BYTES * blocks.scales(range.len()), 0);
        for (block, values) in delta[range.clone()].chunks(usize::from(blocks.block)).enumerate() {
            let largest = magnitude_max(values);
            let scale = scale_for(largest, levels(bits)).ok_or_else(|| {
                let first = range.start + block * usize::from(blocks.block);
                let index = values.iter().position(|value| value.abs() == largest).unwrap_or_default();
                EncodeError::TooLarge { index: first + index, value: values[index] }
            })?;
            file[scale_at..scale_at + SCALE_BYTES].copy_from_slice(&scale.to_le_bytes());
            scale_at += SCALE_BYTES;
            encode_block(values, from_bf16(scale), bits, stream, &mut file);
        }
    }
    Ok(file)
}

/// Values that are encoded at a time: few enough that their numbers and draws stay in registers and the first-level
/// cache.
pub(super) const RUN: usize = 64;
/// Bits of the fraction that decide about rounding up: all that an f32 above 1 has. The bias of smaller values is below
/// 2^-24 of the scale.
pub(super) const FRACTION_BITS: u32 = 24;
/// How many of these bits are drawn for every value: four draws from one number of the stream, since drawing limits the
/// speed. The other bits are drawn only where these do not decide, once in 65,536 values.
const DRAWN_BITS: u32 = 16;
const UNDRAWN_BITS: u32 = FRACTION_BITS - DRAWN_BITS;
/// Mask of the drawn bits in a sum. If all of them are set, the undrawn bits could still carry.
const DRAWN: i32 = (1 << DRAWN_BITS) - 1;

/// Appends one block's numbers.
///
/// Reads 4 bytes per value and writes 1 or 1/2. The limits are the draws (2 random bytes per value) and one division
/// per value, not memory.
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

/// Rounds `value / scale` stochastically to an adjacent integer. At most [`RUN`] values.
pub(super) fn round(values: &[f32], scale: f32, stream: &mut Stream, numbers: &mut [i8; RUN]) {
    let mut draws = [0u16; RUN];
    for draws in draws[..values.len().next_multiple_of(4)].as_chunks_mut::<4>().0 {
        let word = stream.next_u64();
        *draws = [word as u16, (word >> 16) as u16, (word >> 32) as u16, (word >> 48) as u16];
    }
    let cpu = Cpu::best();
    let (fixed, mut sums, undecided) = in_steps(cpu, values, scale, &draws);
    if undecided {
        for (sum, fixed) in sums[..values.len()].iter_mut().zip(&fixed).filter(|(sum, _)| **sum & DRAWN == DRAWN) {
            const UNDRAWN: i32 = (1 << UNDRAWN_BITS) - 1;
            *sum += ((*fixed & UNDRAWN) + (stream.next_u64() as i32 & UNDRAWN)) >> UNDRAWN_BITS;
        }
    }
    whole(cpu, values, &sums, numbers);
}

for_each_cpu! {
    /// Returns the quotients `|value| / scale` three ways.
    ///
    /// First in units of 2^-24: at most 127 * 2^24, so an i32 holds them. Then in units of 2^-16 with a uniform
    /// fraction added: truncating this sum rounds up with the probability of the quotient's fraction. Last, whether the
    /// undrawn bits could carry into any of the sums.
    pub(super) fn in_steps(values: &[f32], scale: f32, draws: &[u16; RUN]) -> ([i32; RUN], [i32; RUN], bool) {
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
    /// Truncates the sums to integers and gives them the signs of the values.
    pub(super) fn whole(values: &[f32], sums: &[i32; RUN], numbers: &mut [i8; RUN]) {
        for ((number, sum), value) in numbers.iter_mut().zip(sums).zip(values) {
            // All ones for a negative value, and (x ^ -1) + 1 is -x: negation without a branch.
            let sign = value.to_bits() as i32 >> 31;
            *number = (((*sum >> DRAWN_BITS) ^ sign) - sign) as i8;
        }
    }
}
