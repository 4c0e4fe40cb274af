//! `int8` of a vector that is never whole in memory, every number rounded to the nearest: what the coordinator sends.
//!
//! Clients round by chance, so that the mean of many is right. The coordinator sends one file to all: there is nothing to
//! average, rounding to nearest halves the squared error, and the file is the same whoever makes it. A number in the middle
//! becomes the even one, as everywhere in IEEE 754.
//!
//! A parameter's scales stand before its numbers, so it takes two passes: [`Scales`], of which one in 64 values stays in
//! memory in 2 bytes, then [`BlockWriter`].

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::Blocks;
use super::blocks::{all_specs, from_bf16, scale_for};
use crate::model::ParameterList;
use crate::safetensors::beginning_of;
use crate::update::coding::fields::magnitude_max;

/// The largest number.
const LEVELS: u16 = 127;

/// The bits of the largest scale that no number takes beyond f32.
fn scale_bits_max() -> u16 {
    ((f32::MAX / f32::from(LEVELS)).to_bits() >> 16) as u16
}

/// A place in the flat vector, and its block.
#[derive(Clone, Debug)]
struct Cursor {
    parameters: Arc<ParameterList>,
    block_values: usize,
    at: usize,
    parameter: usize,
    /// Blocks before this one.
    block: usize,
}

impl Cursor {
    fn new(parameters: Arc<ParameterList>, blocks: Blocks) -> Self {
        Self { parameters, block_values: usize::from(blocks.block), at: 0, parameter: 0, block: 0 }
    }

    fn range(&self) -> Range<usize> {
        self.parameters.range(self.parameter)
    }

    /// Values from here to the end of the block.
    fn left(&self) -> usize {
        let Range { start, end } = self.range();
        let block_end = start + ((self.at - start) / self.block_values + 1) * self.block_values;
        block_end.min(end) - self.at
    }

    /// Goes on by at most what is left of the block, and says whether that was all of it.
    fn advance(&mut self, values: usize) -> bool {
        let ended = values == self.left();
        self.at += values;
        self.block += usize::from(ended);
        self.parameter += usize::from(self.at == self.range().end);
        ended
    }
}

/// The scales of a vector whose values come in order.
#[derive(Clone, Debug)]
pub(crate) struct Scales {
    cursor: Cursor,
    blocks: Blocks,
    /// Of the block so far.
    largest: f32,
    scales: Vec<u16>,
}

impl Scales {
    pub(crate) fn new(parameters: Arc<ParameterList>, blocks: Blocks) -> Self {
        Self { cursor: Cursor::new(parameters, blocks), blocks, largest: 0.0, scales: Vec::new() }
    }

    /// How many values came.
    pub(crate) fn values(&self) -> usize {
        self.cursor.at
    }

    /// Takes the next values, which are finite.
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

/// Writes the numbers of a vector whose scales are known, and whose values come in order once more.
#[derive(Debug)]
pub(crate) struct BlockWriter {
    cursor: Cursor,
    blocks: Blocks,
    scales: Vec<u16>,
}

impl BlockWriter {
    /// # Panics
    /// If the scales have not seen all values, a mistake of the caller.
    pub(crate) fn new(scales: Scales) -> Self {
        let Scales { cursor, blocks, scales, .. } = scales;
        assert_eq!(cursor.at, cursor.parameters.total(), "every value was looked at");
        Self { cursor: Cursor::new(cursor.parameters, blocks), blocks, scales }
    }

    /// What stands in the file before all that is written.
    pub(crate) fn beginning(&self, metadata: &BTreeMap<String, String>) -> Vec<u8> {
        beginning_of(&all_specs(&self.cursor.parameters, 8, self.blocks), metadata)
    }

    /// How many values were written.
    pub(crate) fn values(&self) -> usize {
        self.cursor.at
    }

    /// Appends the file's bytes of the next values, which become what a reader will decode.
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
        // A scale of zero has only zeros, which are no quotient. Only with the largest scale of all can one be beyond
        // the largest number.
        let limit = f32::from(LEVELS);
        let number = if scale == 0.0 { 0.0 } else { (*value / scale).round_ties_even().clamp(-limit, limit) };
        let number = number as i8;
        out.push(number as u8);
        *value = f32::from(number) * scale;
    }
}
