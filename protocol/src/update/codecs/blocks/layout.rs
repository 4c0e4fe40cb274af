//! Settings, tensors and scales of `int8` and `int4`.

use serde::{Deserialize, Serialize};

use crate::model::{ParameterList, ParameterSpec};
use crate::safetensors::{Dtype, TensorSpec};
use crate::update::codecs::properties::Properties;
use crate::update::codecs::settings::BadSetting;

/// Longest block. At 4096 values a scale costs 0.004 bits per value; longer blocks would only raise the error.
const BLOCK_MAX: u16 = 4096;
/// Block lengths are multiples of this: a block of 4-bit numbers then ends at a byte, and
/// a block of f32 fills whole registers of most CPUs.
const BLOCK_STEP: u16 = 8;
/// Bytes of a scale, a bf16.
pub(super) const SCALE_BYTES: usize = 2;

/// Settings of `int8` and `int4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Blocks {
    /// Values per scale: a multiple of 8 from 8 to 4096. A longer block takes fewer bytes and has a larger error.
    /// Blocks do not cross parameters.
    pub block: u16,
}

impl Default for Blocks {
    fn default() -> Self {
        Self { block: 64 }
    }
}

impl Blocks {
    pub(in crate::update) fn properties(&self, bits: u32) -> Properties {
        let block = f64::from(self.block);
        // In units of the scale, stochastic rounding of k + f has the expected squared error f (1 - f). Relative to the
        // block's squared norm it is largest when one value is Q (or less by 2^-7: the scale is rounded up) and all
        // others are f. The maximum over f of (n - 1) f (1 - f) / (Q^2 + (n - 1) f^2) is where its derivative is zero:
        // the f below. The error of the value Q is at most 1/4.
        let (others, largest) = (block - 1.0, f64::from(levels(bits)) / (1.0 + 1.0 / 128.0));
        let largest = largest * largest;
        let fraction = ((largest * largest + others * largest).sqrt() - largest) / others;
        let worst = (others * fraction * (1.0 - fraction) + 0.25) / (largest + others * fraction * fraction);
        Properties {
            unbiased: true,
            error_feedback: false,
            bits_per_value_max: f64::from(bits) + 16.0 / block,
            relative_error_max: Some(worst),
        }
    }

    pub(in crate::update) fn check(&self) -> Result<(), BadSetting> {
        if (BLOCK_STEP..=BLOCK_MAX).contains(&self.block) && self.block.is_multiple_of(BLOCK_STEP) {
            return Ok(());
        }
        Err(("block", "a multiple of 8 from 8 to 4096"))
    }

    pub(super) fn scales(&self, values: usize) -> usize {
        values.div_ceil(usize::from(self.block))
    }
}

/// Q: the largest signed integer of `bits` bits.
pub(super) fn levels(bits: u32) -> u16 {
    (1 << (bits - 1)) - 1
}

/// Bytes of the scales of so many values.
pub(in crate::update) fn scale_bytes(values: usize, blocks: Blocks) -> usize {
    SCALE_BYTES * blocks.scales(values)
}

/// Bytes of packed numbers of `bits` bits.
pub(in crate::update) fn values_bytes(values: usize, bits: u32) -> usize {
    (values * bits as usize).div_ceil(8)
}

/// The two tensors of a parameter, in their order in the file.
fn specs(spec: &ParameterSpec, values: usize, bits: u32, blocks: Blocks) -> [TensorSpec; 2] {
    let named = |suffix, dtype, shape| TensorSpec { name: format!("{}.{suffix}", spec.name), dtype, shape };
    let numbers = match bits {
        8 => named("values", Dtype::I8, spec.shape.clone()),
        _ => named("values", Dtype::U8, vec![values_bytes(values, bits)]),
    };
    [named("scales", Dtype::Bf16, vec![blocks.scales(values)]), numbers]
}

/// The tensors of all parameters: scales and values of the first parameter, then those of the second, and so on.
pub(in crate::update) fn all_specs(parameters: &ParameterList, bits: u32, blocks: Blocks) -> Vec<TensorSpec> {
    let both = |(index, spec)| specs(spec, parameters.range(index).len(), bits, blocks);
    parameters.specs().iter().enumerate().flat_map(both).collect()
}

/// Bytes of the file after its header.
pub(in crate::update) fn data_bytes(parameters: &ParameterList, bits: u32, blocks: Blocks) -> u64 {
    let bytes = |values: usize| (SCALE_BYTES * blocks.scales(values) + values_bytes(values, bits)) as u64;
    (0..parameters.specs().len()).map(|parameter| bytes(parameters.range(parameter).len())).sum()
}

#[inline(always)]
pub(in crate::update::codecs) fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The bits of the smallest bf16 scale with which `levels * scale >= largest`; `None` if that product is beyond f32.
pub(in crate::update::codecs) fn scale_for(largest: f32, levels: u16) -> Option<u16> {
    let levels = f32::from(levels);
    // The truncated quotient is too small by less than two units of bf16. Products have 15 bits, so the comparison is
    // exact.
    let mut bits = ((largest / levels).to_bits() >> 16) as u16;
    while from_bf16(bits) * levels < largest {
        bits += 1;
    }
    (from_bf16(bits) * levels).is_finite().then_some(bits)
}
