//! The coordinator's encoder for the format of `int8`: rounds to nearest, and never holds the whole vector.
//!
//! Clients round stochastically, since the errors of many updates then average out. The coordinator sends one file to
//! all clients, so nothing averages: rounding to nearest halves the squared error, and the file does not depend on a
//! seed. Ties go to even, as in IEEE 754.
//!
//! The scales of a parameter precede its numbers in the file, so encoding makes two passes. [`Scales`] is the first and
//! keeps 2 bytes per block of 64 values; [`BlockWriter`] is the second.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::Blocks;
use super::blocks::{all_specs, from_bf16, scale_for};
use crate::model::ParameterList;
use crate::safetensors::beginning_of;
use crate::update::coding::fields::magnitude_max;

/// The largest 8-bit number in use.
const LEVELS: u16 = 127;

/// The bits of the largest scale whose product with [`LEVELS`] is finite.
fn scale_bits_max() -> u16 {
    ((f32::MAX / f32::from(LEVELS)).to_bits() >> 16) as u16
}

/// A position in the flat vector, with its parameter and block.
#[derive(Clone, Debug)]
struct Cursor {
    parameters: Arc<ParameterList>,
    block_values: usize,
    at: usize,
    parameter: usize,
    /// Number of the block, over all parameters.
    block: usize,
}

impl Cursor {
    fn new(parameters: Arc<ParameterList>, blocks: Blocks) -> Self {
        Self { parameters, block_values: usize::from(blocks.block), at: 0, parameter: 0, block: 0 }
    }

    fn range(&self) -> Range<usize> {
        self.parameters.range(self.parameter)
    }

    /// Number of values up to the end of the block.
    fn left(&self) -> usize {
        let Range { start, end } = self.range();
        let block_end = start + ((self.at - start) / self.block_values + 1) * self.block_values;
        block_end.min(end) - self.at
    }

    /// Advances within the block. Returns whether the block has ended.
    fn advance(&mut self, values: usize) -> bool {
        let ended = values == self.left();
        self.at += values;
        self.block += usize::from(ended);
        self.parameter += usize::from(self.at == self.range().end);
        ended
    }
}

/// First pass: the scales of a vector whose values come in order.
#[derive(Clone, Debug)]
pub(crate) struct Scales {
    cursor: Cursor,
    blocks: Blocks,
    /// Largest magnitude of the block so far.
    largest: f32,
    scales: Vec<u16>,
}

impl Scales {
    pub(crate) fn new(parameters: Arc<ParameterList>, blocks: Blocks) -> Self {
        Self { cursor: Cursor::new(parameters, blocks), blocks, largest: 0.0, scales: Vec::new() }
    }

    /// Number of values so far.
    pub(crate) fn values(&self) -> usize {
        self.cursor.at
    }

    /// Takes the next values, which must be finite.
    pub(crate) fn look(&mut self, mut values: &[f32]) {
        while !values.is_empty() {
            let (now, later) = values.split_at(values.len().min(self.cursor.left()));
            self.largest = self.largest.max(magnitude_max(now));
            if self.cursor.advance(now.len()) {
                self.scales.push(scale_for(self.largest, LEVELS).unwrap_or_else(scale_bits_max));
                self.largest = 0.0;
            }
            values = later;
        }
    }
}

/// Second pass: writes the scales and numbers of the same values.
#[derive(Debug)]
pub(crate) struct BlockWriter {
    cursor: Cursor,
    blocks: Blocks,
    scales: Vec<u16>,
}

impl BlockWriter {
    /// # Panics
    /// If the first pass has not seen all values, a mistake of the caller.
    pub(crate) fn new(scales: Scales) -> Self {
        let Scales { cursor, blocks, scales, .. } = scales;
        assert_eq!(cursor.at, cursor.parameters.total(), "every value was looked at");
        Self { cursor: Cursor::new(cursor.parameters, blocks), blocks, scales }
    }

    /// The bytes of the file before the first tensor.
    pub(crate) fn beginning(&self, metadata: &BTreeMap<String, String>) -> Vec<u8> {
        beginning_of(&all_specs(&self.cursor.parameters, 8, self.blocks), metadata)
    }

    /// Number of values written so far.
    pub(crate) fn values(&self) -> usize {
        self.cursor.at
    }

    /// Appends the next values to the file in `out`, and replaces them by the rounded ones that a reader decodes.
    pub(crate) fn write(&mut self, mut values: &mut [f32], out: &mut Vec<u8>) {
        while !values.is_empty() {
            if self.cursor.at == self.cursor.range().start {
                let blocks = self.cursor.range().len().div_ceil(self.cursor.block_values);
                let scales = &self.scales[self.cursor.block..][..blocks];
                out.extend(scales.iter().flat_map(|scale| scale.to_le_bytes()));
            }
            let (now, later) = values.split_at_mut(self.cursor.left().min(values.len()));
            round_to_nearest(now, from_bf16(self.scales[self.cursor.block]), out);
            self.cursor.advance(now.len());
            values = later;
        }
    }
}

fn round_to_nearest(values: &mut [f32], scale: f32, out: &mut Vec<u8>) {
    for value in values {
        // A block with the scale zero has only zeros; 0 / 0 is avoided. The clamp matters only for the largest scale,
        // which is rounded down.
        let limit = f32::from(LEVELS);
        let number = if scale == 0.0 { 0.0 } else { (*value / scale).round_ties_even().clamp(-limit, limit) };
        let number = number as i8;
        out.push(number as u8);
        *value = f32::from(number) * scale;
    }
}
