//! `f32`, `f16` and `bf16`: the values in 32 or 16 bits, one tensor for each parameter, of its name and shape.
//!
//! `f16` is IEEE 754 half precision. It has 11 bits of precision, fewer below 6e-5; magnitudes below 3e-8 become zero,
//! and those above 65,504 would become infinite and are refused. `bf16` is the upper half of an f32: 8 bits of
//! precision with the range of f32. Both round to nearest, ties to even, like the instructions of CPUs, so the bytes
//! are the same on every CPU.

use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use half::{bf16, f16};

use super::properties::Properties;
use crate::cpu::Cpu;
use crate::for_each_cpu;
use crate::safetensors::Dtype;
use crate::update::error::{EncodeError, SectionError};
use crate::update::frame::{Part, Section, SectionCodec, require_bytes, values};

pub(in crate::update) fn properties(bits: f64, relative_error_max: Option<f64>) -> Properties {
    // Rounding to nearest does not favour a direction.
    Properties { unbiased: true, error_feedback: false, bits_per_value_max: bits, relative_error_max }
}

/// Encodes values as little-endian `Dtype::F16` or `Dtype::Bf16`.
///
/// # Errors
/// [`EncodeError::TooLarge`] for a value that would become infinite.
pub(in crate::update) fn encode_16(values: &[f32], dtype: Dtype) -> Result<Vec<u8>, EncodeError> {
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
    let mut bytes = vec![0; 2 * bits.len()];
    for (bytes, bits) in bytes.as_chunks_mut().0.iter_mut().zip(&bits) {
        *bytes = bits.to_le_bytes();
    }
    Ok(bytes)
}

/// Decodes little-endian elements into as many values.
///
/// Reads 2 or 4 bytes per value and writes 4 that stay in the first-level cache.
pub(in crate::update) fn decode(bytes: &[u8], dtype: Dtype, values: &mut [f32]) {
    match dtype {
        Dtype::F32 => {
            // Compiles to a copy.
            for (value, bytes) in values.iter_mut().zip(bytes.as_chunks().0) {
                *value = f32::from_le_bytes(*bytes);
            }
        }
        Dtype::Bf16 => decode_bf16(Cpu::best(), bytes, values),
        _ => decode_f16(Cpu::best(), bytes, values),
    }
}

/// The values of a section as they lie in a file.
#[derive(Debug)]
pub(in crate::update) struct PlainSections(pub(in crate::update) Dtype);

impl SectionCodec for PlainSections {
    fn section_bytes_max(&self, parts: &[Part]) -> usize {
        values(parts) * self.0.bytes()
    }

    fn decode(&self, bytes: &[u8], parts: &[Part], out: &mut Section) -> Result<(), SectionError> {
        require_bytes(bytes, self.section_bytes_max(parts))?;
        let section = out.dense();
        section.resize(values(parts), 0.0);
        decode(bytes, self.0, section);
        Ok(())
    }
}

for_each_cpu! {
    fn decode_f16(bytes: &[u8], values: &mut [f32]) {
        for (value, bytes) in values.iter_mut().zip(bytes.as_chunks().0) {
            *value = from_f16(u16::from_le_bytes(*bytes));
        }
    }
}

/// Converts half precision to f32 without a branch, so that the compiler vectorises it. Three times as fast as calls of
/// the CPU's instruction for eight values at a time.
#[inline(always)]
fn from_f16(half: u16) -> f32 {
    const EXPONENT: u16 = 0x7C00;
    /// The difference of the exponents' biases, 127 - 15, at the position of f32's exponent.
    const REBIAS: u32 = 112 << 23;
    /// 2^-24. Denormal halves, those below 2^-14, are multiples of it.
    const SMALLEST: f32 = 1.0 / (1 << 24) as f32;
    let magnitude = half & 0x7FFF;
    let normal = (u32::from(magnitude) << 13) + REBIAS;
    let denormal = (f32::from(magnitude) * SMALLEST).to_bits();
    let not_finite = if magnitude >= EXPONENT { f32::INFINITY.to_bits() } else { 0 };
    let bits = if magnitude & EXPONENT == 0 { denormal } else { normal | not_finite };
    f32::from_bits(bits | u32::from(half & 0x8000) << 16)
}

for_each_cpu! {
    fn decode_bf16(bytes: &[u8], values: &mut [f32]) {
        for (value, bytes) in values.iter_mut().zip(bytes.as_chunks().0) {
            *value = f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    fn round_trip(values: &[f32], dtype: Dtype) -> Vec<f32> {
        let bytes = encode_16(values, dtype).unwrap();
        let mut decoded = vec![f32::NAN; values.len()];
        decode(&bytes, dtype, &mut decoded);
        decoded
    }

    #[test]
    fn the_cpus_instructions_and_the_portable_code_agree() {
        let mut stream = Seed(1).stream();
        let mut values: Vec<f32> = (0..100_000).map(|_| f32::from_bits(stream.next_u64() as u32)).collect();
        // Ties, denormals and the edges of the range among them.
        values.extend((0..=u16::MAX).map(|bits| f16::from_bits(bits).to_f32_const()));
        values.extend((0..0x7C00).map(|bits| f16::from_bits(bits).to_f32_const() * (1.0 + 1.0 / 4096.0)));
        values.extend([65_504.0, 65_519.996, 65_520.0, 2.98e-8, 2.99e-8, 1e-40]);
        values.retain(|value| f16::from_f32_const(*value).is_finite());
        let bytes = encode_16(&values, Dtype::F16).unwrap();
        for (value, bytes) in values.iter().zip(bytes.as_chunks().0) {
            assert_eq!(u16::from_le_bytes(*bytes), f16::from_f32_const(*value).to_bits(), "{value}");
        }
        let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let mut decoded = vec![0.0; 1 << 16];
        decode(&all, Dtype::F16, &mut decoded);
        for (bits, value) in (0..=u16::MAX).zip(&decoded) {
            let expected = f16::from_bits(bits).to_f32_const();
            assert!(value.to_bits() == expected.to_bits() || value.is_nan() && expected.is_nan(), "{bits:x}");
        }
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        for cpu in Cpu::all() {
            let mut values = vec![0.0; 1 << 16];
            decode_f16(cpu, &all, &mut values);
            assert!(bits(&values) == bits(&decoded), "{cpu:?}");
            decode_bf16(cpu, &all, &mut values);
            assert!((0..=u16::MAX).zip(&values).all(|(bits, value)| value.to_bits() == u32::from(bits) << 16));
        }
    }

    #[test]
    fn bf16_is_the_upper_half_rounded_to_nearest_and_even() {
        let cases = [
            (1.0, 0x3F80),
            (1.0 + 1.0 / 256.0, 0x3F80),
            (1.0 + 3.0 / 256.0, 0x3F82),
            ((1.0f32 + 1.0 / 256.0).next_up(), 0x3F81),
            (-0.0, 0x8000),
            (f32::from_bits(1), 0),
        ];
        for (value, bits) in cases {
            assert_eq!(encode_16(&[value], Dtype::Bf16).unwrap(), u16::to_le_bytes(bits), "{value}");
        }
    }

    #[test]
    fn the_error_is_half_a_unit_in_the_last_place() {
        let mut stream = Seed(2).stream();
        let values: Vec<f32> = (0..10_000).map(|_| stream.uniform(-2.0, 2.0)).collect();
        for (dtype, half_unit) in [(Dtype::F16, 1.0 / 2048.0), (Dtype::Bf16, 1.0 / 256.0)] {
            let decoded = round_trip(&values, dtype);
            let errors = values.iter().zip(&decoded).map(|(value, decoded)| ((decoded - value) / value).abs());
            let worst = errors.filter(|error| error.is_finite()).fold(0.0, f32::max);
            assert!(worst > 0.9 * half_unit && worst <= half_unit, "{dtype}: {worst}");
        }
        assert_eq!(round_trip(&[0.0, 65_504.0, -2.5], Dtype::F16), [0.0, 65_504.0, -2.5]);
        assert_eq!(round_trip(&[0.0, 3e38, -2.5], Dtype::Bf16)[2], -2.5);
    }

    #[test]
    fn what_would_become_infinite_is_refused() {
        let too_large = |index, value| Err(EncodeError::TooLarge { index, value });
        assert_eq!(encode_16(&[1.0, -65_520.0], Dtype::F16), too_large(1, -65_520.0));
        assert_eq!(encode_16(&[f32::MAX], Dtype::Bf16), too_large(0, f32::MAX));
        assert!(encode_16(&[65_519.0], Dtype::F16).is_ok());
    }
}
