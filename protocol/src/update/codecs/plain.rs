//! Values as they are, in 32 or 16 bits: one tensor for each parameter, of its name and shape.
//!
//! `f16` is IEEE 754 half precision: values below 6e-8 vanish, above 65,504 they would become infinite and are refused.
//! `bf16` is the upper half of an f32: the same range with 8 bits of precision.

use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use half::{bf16, f16};

use super::super::{EncodeError, Properties};
use crate::safetensors::Dtype;

pub(in super::super) fn properties(bits: f64, relative_error_max: f64) -> Properties {
    Properties {
        // Rounding to nearest has no direction of its own.
        unbiased: true,
        feedback: false,
        bits_per_value_max: bits,
        relative_error_max: Some(relative_error_max),
    }
}

/// The values as little-endian bytes of `Dtype::F16` or `Dtype::Bf16`.
///
/// # Errors
/// [`EncodeError::TooLarge`] for a value that would become infinite.
pub(in super::super) fn encode_16(values: &[f32], dtype: Dtype) -> Result<Vec<u8>, EncodeError> {
    let mut bits = vec![0u16; values.len()];
    let infinite = match dtype {
        Dtype::Bf16 => {
            bits.reinterpret_cast_mut::<bf16>().convert_from_f32_slice(values);
            bf16::INFINITY.to_bits()
        }
        _ => {
            bits.reinterpret_cast_mut::<f16>().convert_from_f32_slice(values);
            f16::INFINITY.to_bits()
        }
    };
    const SIGN: u16 = 1 << 15;
    if let Some(index) = bits.iter().position(|bits| bits & !SIGN == infinite) {
        return Err(EncodeError::TooLarge { index, value: values[index] });
    }
    Ok(bits.iter().flat_map(|bits| bits.to_le_bytes()).collect())
}

/// Decodes little-endian elements into as many values.
pub(in super::super) fn decode(bytes: &[u8], dtype: Dtype, values: &mut [f32]) {
    match dtype {
        Dtype::F32 => {
            for (value, bytes) in values.iter_mut().zip(bytes.as_chunks().0) {
                *value = f32::from_le_bytes(*bytes);
            }
        }
        Dtype::Bf16 => {
            for (value, bytes) in values.iter_mut().zip(bytes.as_chunks().0) {
                *value = f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16);
            }
        }
        _ => {
            const BLOCK: usize = 64;
            let elements = bytes.as_chunks::<2>().0;
            for (values, elements) in values.chunks_mut(BLOCK).zip(elements.chunks(BLOCK)) {
                let mut halves = [f16::ZERO; BLOCK];
                for (half, bytes) in halves.iter_mut().zip(elements) {
                    *half = f16::from_le_bytes(*bytes);
                }
                halves[..elements.len()].convert_to_f32_slice(values);
            }
        }
    }
}
