//! The server's half of `int8` and `int4`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::layout::{Blocks, SCALE_BYTES, all_specs, from_bf16, values_bytes};
use crate::cpu::Cpu;
use crate::for_each_cpu;
use crate::model::ParameterList;
use crate::safetensors::{Header, match_tensors};
use crate::update::error::{SectionError, UpdateError};
use crate::update::frame::{Part, Section, SectionCodec, require_bytes, values};
use crate::update::sink::BLOCK_VALUES_MAX;

/// The bits of bf16's infinity. Higher bit patterns are NaNs and negative numbers, none of which is a scale.
const INFINITE_BITS: u16 = 0x7F80;

/// Decodes the tensors of a file as their bytes come.
///
/// It holds the scales of the parameters whose values have not come yet: with the default block, 2 bytes for 64 values.
#[derive(Debug)]
pub(in crate::update) struct BlocksReader {
    parameters: Arc<ParameterList>,
    bits: u32,
    blocks: Blocks,
    /// The tensors in the order of the file.
    roles: Vec<Role>,
    /// Scales by parameter, until its values have come.
    scales: BTreeMap<usize, Vec<u16>>,
}

/// The content of a tensor, with the index of its parameter.
#[derive(Clone, Copy, Debug)]
enum Role {
    Scales(usize),
    Values(usize),
}

impl BlocksReader {
    pub(in crate::update) fn new(parameters: Arc<ParameterList>, bits: u32, blocks: Blocks) -> Self {
        Self { parameters, bits, blocks, roles: Vec::new(), scales: BTreeMap::new() }
    }

    /// Checks that the file has exactly the expected tensors, and each parameter's scales before its values.
    pub(in crate::update) fn header(&mut self, header: &Header) -> Result<(), UpdateError> {
        let specs = all_specs(&self.parameters, self.bits, self.blocks);
        let mut scales_came = vec![false; self.parameters.specs().len()];
        for place in match_tensors(header, &specs)? {
            let parameter = place / 2;
            if place.is_multiple_of(2) {
                scales_came[parameter] = true;
                self.roles.push(Role::Scales(parameter));
            } else if scales_came[parameter] {
                self.roles.push(Role::Values(parameter));
            } else {
                let [after, tensor] = [place - 1, place].map(|place| specs[place].name.clone());
                return Err(UpdateError::OutOfOrder { tensor, after });
            }
        }
        Ok(())
    }

    /// Takes the next elements of a tensor, and passes decoded values to `accept` with their index in the flat vector.
    pub(in crate::update) fn block(
        &mut self,
        tensor: usize,
        element: usize,
        bytes: &[u8],
        accept: &mut impl FnMut(usize, &[f32]) -> Result<(), UpdateError>,
    ) -> Result<(), UpdateError> {
        match self.roles[tensor] {
            Role::Scales(parameter) => self.take_scales(parameter, bytes),
            Role::Values(parameter) => self.take_values(parameter, element, bytes, accept),
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

    /// Reads 1 or 1/2 byte per value and writes 4 that stay in the first-level cache.
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

    fn name(&self, parameter: usize, suffix: &str) -> String {
        format!("{}.{suffix}", self.parameters.specs()[parameter].name)
    }
}

/// A section of the values of one parameter that begins with a block: the scales of its blocks, then its numbers.
#[derive(Debug)]
pub(in crate::update) struct BlockSections {
    pub(in crate::update) bits: u32,
    pub(in crate::update) blocks: Blocks,
}

impl SectionCodec for BlockSections {
    fn section_bytes_max(&self, parts: &[Part]) -> usize {
        let values = values(parts);
        SCALE_BYTES * self.blocks.scales(values) + values_bytes(values, self.bits)
    }

    fn decode(&self, bytes: &[u8], parts: &[Part], out: &mut Section) -> Result<(), SectionError> {
        require_bytes(bytes, self.section_bytes_max(parts))?;
        let (section, values) = (out.dense(), values(parts));
        section.resize(values, 0.0);
        let (scales, numbers) = bytes.split_at(SCALE_BYTES * self.blocks.scales(values));
        let scales: Vec<u16> = scales.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect();
        if scales.iter().any(|bits| *bits >= INFINITE_BITS) {
            return Err(SectionError::BadNumber("scale"));
        }
        let decode = if self.bits == 8 { decode_8 } else { decode_4 };
        match decode(Cpu::best(), numbers, section, 0, usize::from(self.blocks.block), &scales) {
            true => Ok(()),
            false => Err(SectionError::BadCode),
        }
    }
}

for_each_cpu! {
    /// Multiplies 8-bit numbers by the scales of their blocks. The first number is the parameter's `at`th. Returns
    /// false if a number is the unused -128.
    pub(super) fn decode_8(bytes: &[u8], values: &mut [f32], at: usize, block: usize, scales: &[u16]) -> bool {
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
    /// The same for 4-bit numbers, two in a byte; `at` and `block` are even. Returns false if a number is the unused
    /// -8, or if the padding of the last byte is not zero.
    pub(super) fn decode_4(bytes: &[u8], values: &mut [f32], at: usize, block: usize, scales: &[u16]) -> bool {
        // A shift up and an arithmetic shift down extend the sign.
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
