//! Quantisation of the values that a sparse codec sends.

use half::f16;
use half::slice::HalfFloatSliceExt;
use serde::{Deserialize, Serialize};

use crate::safetensors::Dtype;
use crate::seed::Stream;
use crate::update::codecs::plain;
use crate::update::coding::bits::BitReader;
use crate::update::coding::fields::take;
use crate::update::error::SectionError;

/// How the values of a sparse codec are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SparseValues {
    /// Half precision times a power of two per section: 11 bits of precision for every value within a factor of 2^-28
    /// of the section's largest one.
    #[default]
    F16,
    /// 8-bit integers times one scale per section, its largest magnitude / 127.
    Int8,
    /// Signs times one magnitude per section, the mean of the magnitudes that are sent.
    Sign,
    /// 32-bit values, unchanged.
    F32,
}

/// How a value between two representable ones is rounded.
pub(in crate::update::codecs) enum Rounding<'a> {
    /// To the nearer one: the smaller error, for codecs whose error feedback sends it later.
    Nearest,
    /// To either one at random, so that the expectation is the value. Draws 24 bits for each such value.
    Stochastic(&'a mut Stream),
}

/// Exponents of the power of two that scales half precision. In this range the power and its inverse are normal f32
/// numbers, and every f32 from the smallest to the largest can be written.
const EXPONENTS: std::ops::RangeInclusive<i32> = -126..=113;
/// The largest magnitude of a section is scaled to [2^14, 2^15): within half precision even when rounded up.
const F16_TOP_EXPONENT: i32 = 14;
/// The largest half-precision number below 2^15.
const F16_BELOW_TOP: u16 = 0x77FF;

const INT8_MAX: f64 = 127.0;

impl SparseValues {
    pub(super) fn value_bits(self) -> usize {
        match self {
            Self::F32 => 32,
            Self::F16 => 16,
            Self::Int8 => 8,
            Self::Sign => 1,
        }
    }

    pub(super) fn payload_bytes(self, count: usize) -> usize {
        (count * self.value_bits()).div_ceil(8)
    }

    pub(super) fn scale_bytes(self) -> usize {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Int8 | Self::Sign => 4,
        }
    }

    /// Whether a zero can be written.
    pub(super) fn has_zero(self) -> bool {
        self != Self::Sign
    }
}

/// A section's values as they are written.
pub(super) struct Quantised {
    /// The bits of the section's scale.
    pub(super) scale: u32,
    /// The bits of each value.
    pub(super) codes: Vec<u32>,
}

pub(super) fn is_zero(values: SparseValues, code: u32) -> bool {
    match values {
        SparseValues::F32 => code << 1 == 0,
        SparseValues::F16 => code & 0x7FFF == 0,
        SparseValues::Int8 => code == 0,
        SparseValues::Sign => false,
    }
}

/// Quantises values that are finite and not zero.
pub(super) fn quantise(kind: SparseValues, values: &[f32], rounding: &mut Rounding<'_>) -> Quantised {
    let magnitude_max = values.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
    match kind {
        SparseValues::F32 => Quantised { scale: 0, codes: values.iter().map(|value| value.to_bits()).collect() },
        SparseValues::F16 => {
            let exponent = f16_exponent(magnitude_max);
            let inverse = power_of_two(-exponent);
            let top = if exponent == *EXPONENTS.end() { F16_BELOW_TOP } else { f16::MAX.to_bits() };
            let scaled: Vec<f32> = values.iter().map(|value| value.abs() * inverse).collect();
            let mut halves = vec![f16::ZERO; values.len()];
            match rounding {
                Rounding::Nearest => halves.convert_from_f32_slice(&scaled),
                Rounding::Stochastic(stream) => f16_either(&scaled, stream, &mut halves),
            }
            let code =
                |(half, value): (&f16, &f32)| u32::from(half.to_bits().min(top)) | value.to_bits() >> 16 & 0x8000;
            Quantised { scale: exponent as u32, codes: halves.iter().zip(values).map(code).collect() }
        }
        SparseValues::Int8 => {
            let scale = int8_scale(magnitude_max);
            let code = |value: &f32| {
                let steps = f64::from(*value) / f64::from(scale);
                let steps = match rounding {
                    Rounding::Nearest => steps.round(),
                    Rounding::Stochastic(stream) => (steps + unit_24(stream)).floor(),
                };
                u32::from(steps.clamp(-INT8_MAX, INT8_MAX) as i8 as u8)
            };
            Quantised { scale: scale.to_bits(), codes: values.iter().map(code).collect() }
        }
        SparseValues::Sign => {
            let sum: f64 = values.iter().map(|value| f64::from(value.abs())).sum();
            let mean = (sum / values.len().max(1) as f64) as f32;
            let codes = values.iter().map(|value| u32::from(value.is_sign_negative())).collect();
            Quantised { scale: mean.to_bits(), codes }
        }
    }
}

/// The exponent e with which the largest magnitude lies in [2^(e+14), 2^(e+15)), or the smallest exponent.
fn f16_exponent(magnitude_max: f32) -> i32 {
    let exponent = (magnitude_max.to_bits() >> 23) as i32 - 127;
    (exponent - F16_TOP_EXPONENT).max(*EXPONENTS.start())
}

/// 2 to a power from -126 to 127.
fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

/// Rounds magnitudes below 2^15 stochastically to one of the two adjacent half-precision numbers.
fn f16_either(magnitudes: &[f32], stream: &mut Stream, halves: &mut [f16]) {
    halves.convert_from_f32_slice(magnitudes);
    let mut nearest = vec![0.0; magnitudes.len()];
    halves.convert_to_f32_slice(&mut nearest);
    for ((half, nearest), magnitude) in halves.iter_mut().zip(nearest).zip(magnitudes) {
        // `random_k` sends most values as a magnitude that half precision represents: no draw is needed.
        if nearest == *magnitude {
            continue;
        }
        let below = if nearest > *magnitude { f16::from_bits(half.to_bits() - 1) } else { *half };
        let above = f16::from_bits(below.to_bits() + 1);
        // Adjacent numbers are a power of two apart and share their exponent with the magnitude, so this is exact.
        let share = (magnitude - below.to_f32()) / (above.to_f32() - below.to_f32());
        *half = if unit_24(stream) < f64::from(share) { above } else { below };
    }
}

/// 1/127 of the largest magnitude, rounded up so that no quotient exceeds 127, or down where 127 times it would
/// overflow.
fn int8_scale(magnitude_max: f32) -> f32 {
    let exact = f64::from(magnitude_max) / INT8_MAX;
    let scale = exact as f32;
    let above = if f64::from(scale) < exact { scale.next_up() } else { scale };
    if (above * INT8_MAX as f32).is_finite() { above } else { above.next_down() }
}

/// Uniform in [0, 1) with 24 bits: few enough that the sum with a number up to 127 is exact.
fn unit_24(stream: &mut Stream) -> f64 {
    (stream.next_u64() >> 40) as f64 * (1.0 / f64::from(1 << 24))
}

/// Reads the factor of a section's numbers.
pub(super) fn read_scale(values: SparseValues, bytes: &mut &[u8]) -> Result<f32, SectionError> {
    match values {
        SparseValues::F32 => Ok(1.0),
        SparseValues::F16 => {
            let exponent = i32::from(i8::from_le_bytes(take(bytes)?));
            if !EXPONENTS.contains(&exponent) {
                return Err(SectionError::BadNumber("exponent"));
            }
            Ok(power_of_two(exponent))
        }
        SparseValues::Int8 | SparseValues::Sign => {
            let scale = f32::from_le_bytes(take(bytes)?);
            // False for a NaN too.
            if !(scale > 0.0 && scale < f32::INFINITY) {
                return Err(SectionError::BadNumber("scale"));
            }
            Ok(scale)
        }
    }
}

/// Decodes `out.len()` values from exactly the bytes that they take. Without `zeros`, a zero is an error.
pub(super) fn read_values(
    values: SparseValues,
    payload: &[u8],
    scale: f32,
    zeros: bool,
    out: &mut [f32],
) -> Result<(), SectionError> {
    match values {
        SparseValues::F32 => plain::decode(payload, Dtype::F32, out),
        SparseValues::F16 => {
            plain::decode(payload, Dtype::F16, out);
            out.iter_mut().for_each(|value| *value *= scale);
        }
        SparseValues::Int8 => {
            for (value, byte) in out.iter_mut().zip(payload) {
                *value = f32::from(*byte as i8) * scale;
            }
            // -128 is not used.
            if payload.iter().fold(false, |found, byte| found | (*byte as i8 == i8::MIN)) {
                return Err(SectionError::BadCode);
            }
        }
        SparseValues::Sign => {
            let mut reader = BitReader::new(payload);
            for value in out.iter_mut() {
                *value = f32::from_bits(scale.to_bits() | reader.take(1)? << 31);
            }
            reader.finish()?;
        }
    }
    if !zeros && out.iter().fold(false, |found, value| found | (*value == 0.0)) {
        return Err(SectionError::BadCode);
    }
    Ok(())
}
