//! The section that sparse codecs share: which values are sent, as Rice-coded gaps, and what they are, in few bits.
//!
//! | part | bytes | there when |
//! |---|---|---|
//! | count of values sent | LEB128, at most 3 | always; 0 ends the section |
//! | parameter of the gaps | 1 | the count is below the section's length |
//! | scale | `f16`: 1 (a power of two), `int8` and `sign`: 4 (an f32), `f32`: none | the count is not 0 |
//! | gaps | [Rice codes](super::super::coding::rice), filled up to a byte with zeros | as the parameter |
//! | values | 4, 2 or 1 each, or one bit each, filled up to a byte | the count is not 0 |
//!
//! Zeros are never sent, but where gaps would be longer than they: then the count is the section's length and all values
//! follow. A scale for each section and nothing else per value: at density 1 % half precision takes 16 + 8.1 bits for each
//! value sent, 0.24 bits for each of the delta.
//!
//! Decoding reads those bytes once and writes 8 (an index and a value) for each value sent. What limits it is the chain
//! through the bit reader, from one code's end to the next one's beginning (a third of the time), and then whoever adds
//! the values: each meets another cache line.

use half::f16;
use half::slice::HalfFloatSliceExt;
use serde::{Deserialize, Serialize};

use super::super::coding::bits::{BitReader, BitWriter};
use super::super::coding::rice;
use super::super::frame::{Section, SectionError, read_length, write_length};
use super::plain;
use crate::safetensors::Dtype;
use crate::seed::Stream;

/// How the values of a sparse codec are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SparseValues {
    /// Half precision times a power of two for each section: 11 bits of precision for what is within 2^-28 of the
    /// section's largest value, whatever the deltas' range.
    #[default]
    F16,
    /// 8-bit numbers times a scale for each section, its largest value over 127.
    Int8,
    /// Signs times one magnitude for each section, the mean of those that are sent.
    Sign,
    /// As they are.
    F32,
}

/// Where a value goes that lies between two that can be written.
pub(super) enum Rounding<'a> {
    /// To the nearer one: the smaller error, for codecs that make good for it the next time.
    Nearest,
    /// To either, by chance, so that the mean is right. Takes 24 bits for each value that lies between two.
    Stochastic(&'a mut Stream),
}

/// What a section sends.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// Ascending places in the section.
    pub(super) indices: Vec<u32>,
    /// The values there, finite and not zero.
    pub(super) values: Vec<f32>,
}

impl Chosen {
    pub(super) fn clear(&mut self) {
        self.indices.clear();
        self.values.clear();
    }

    pub(super) fn push(&mut self, index: usize, value: f32) {
        self.indices.push(index as u32);
        self.values.push(value);
    }
}

/// Largest and smallest exponent of the power of two by which half precision is multiplied: those at which both it and
/// its inverse are normal numbers, every f32 has a place, and the largest f32 fits.
const EXPONENTS: std::ops::RangeInclusive<i32> = -126..=113;
/// The largest value of a section is scaled to [2^14, 2^15): below the end of half precision, even rounded up.
const F16_TOP_EXPONENT: i32 = 14;
/// The largest half-precision number below 2^15.
const F16_BELOW_TOP: u16 = 0x77FF;

const INT8_MAX: f64 = 127.0;

/// Bits of a section that are not gaps or values, at most: its length in the frame, count, parameter, scale and padding.
const SECTION_BITS: f64 = 8.0 * (3 + 3 + 1 + 4 + 2) as f64;
/// Values of a section for which [`bits_per_value_max`] is true.
const SECTION_VALUES: f64 = 4096.0;

impl SparseValues {
    fn value_bits(self) -> usize {
        match self {
            Self::F32 => 32,
            Self::F16 => 16,
            Self::Int8 => 8,
            Self::Sign => 1,
        }
    }

    fn payload_bytes(self, count: usize) -> usize {
        (count * self.value_bits()).div_ceil(8)
    }

    fn scale_bytes(self) -> usize {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Int8 | Self::Sign => 4,
        }
    }

    /// Whether a value that is sent can be zero.
    fn has_zero(self) -> bool {
        self != Self::Sign
    }
}

/// Most bits for each value of a delta of which so much is sent, wherever that is, when sections have 4,096 values on
/// average or more.
///
/// Gaps of k values among n with parameter b take at most k (b + 1) + (n - k) / 2^b bits. The least of these over b is
/// concave in k and n together, so splitting both over sections makes no more of it.
pub(super) fn bits_per_value_max(values: SparseValues, density: f64) -> f64 {
    let gaps = |parameter: u8| {
        let divisor = f64::from(1u32 << parameter);
        density * f64::from(parameter + 1) + (1.0 - density) / divisor
    };
    let gaps = (0..=rice::PARAMETER_MAX).map(gaps).fold(f64::INFINITY, f64::min);
    let value_bits = values.value_bits() as f64;
    let sparse = gaps + density * value_bits;
    let all = if values.has_zero() { sparse.min(value_bits) } else { sparse };
    all + SECTION_BITS / SECTION_VALUES
}

/// Longest section of so many values, whichever of them are sent.
pub(super) fn section_bytes_max(values: SparseValues, section_values: usize) -> usize {
    let whole = length_bytes(section_values) + values.scale_bytes() + values.payload_bytes(section_values);
    if values.has_zero() {
        return whole;
    }
    // Signs of all values but one: a bitmap (gaps with parameter 0) and as many signs.
    whole + 1 + section_values.div_ceil(8)
}

/// Bytes of a LEB128 number.
fn length_bytes(number: usize) -> usize {
    (number.max(1).ilog2() as usize / 7) + 1
}

/// Appends a section of `section_values` values to `out`.
pub(super) fn write(
    values: SparseValues,
    section_values: usize,
    chosen: &Chosen,
    rounding: &mut Rounding<'_>,
    out: &mut Vec<u8>,
) {
    let Quantised { scale, mut codes } = quantise(values, &chosen.values, rounding);
    let mut indices = chosen.indices.clone();
    // What has become zero need not be sent.
    let mut kept = codes.iter().map(|code| !is_zero(values, *code));
    indices.retain(|_| kept.next().unwrap_or_default());
    codes.retain(|code| !is_zero(values, *code));
    if codes.is_empty() {
        write_length(0, out);
        return;
    }
    let gaps = rice::gaps(&indices);
    let (parameter, gap_bits) = rice::best_parameter(&gaps);
    let sparse_bytes = length_bytes(codes.len()) + 1 + gap_bits.div_ceil(8) + values.payload_bytes(codes.len());
    let whole_bytes = length_bytes(section_values) + values.payload_bytes(section_values);
    let whole = codes.len() == section_values || (values.has_zero() && whole_bytes <= sparse_bytes);
    if whole {
        let mut all = vec![0; section_values];
        for (index, code) in indices.iter().zip(&codes) {
            all[*index as usize] = *code;
        }
        codes = all;
    }
    write_length(codes.len(), out);
    if !whole {
        out.push(parameter);
    }
    out.extend_from_slice(&scale.to_le_bytes()[..values.scale_bytes()]);
    if !whole {
        rice::write(&gaps, parameter, out);
    }
    match values {
        SparseValues::F32 => out.extend(codes.iter().flat_map(|code| code.to_le_bytes())),
        SparseValues::F16 => out.extend(codes.iter().flat_map(|code| (*code as u16).to_le_bytes())),
        SparseValues::Int8 => out.extend(codes.iter().map(|code| *code as u8)),
        SparseValues::Sign => {
            let mut writer = BitWriter::new(out);
            codes.iter().for_each(|code| writer.push(*code, 1));
            writer.finish();
        }
    }
}

/// Values as the numbers that are written for them.
struct Quantised {
    /// The bits of the section's scale.
    scale: u32,
    /// The bits of each value; zero for a zero.
    codes: Vec<u32>,
}

fn is_zero(values: SparseValues, code: u32) -> bool {
    match values {
        SparseValues::F32 => code << 1 == 0,
        SparseValues::F16 => code & 0x7FFF == 0,
        SparseValues::Int8 => code == 0,
        SparseValues::Sign => false,
    }
}

/// The codes of values that are finite and not zero.
fn quantise(kind: SparseValues, values: &[f32], rounding: &mut Rounding<'_>) -> Quantised {
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

/// The exponent e for which the largest value lies in [2^(e+14), 2^(e+15)), or the smallest that there is.
fn f16_exponent(magnitude_max: f32) -> i32 {
    let exponent = (magnitude_max.to_bits() >> 23) as i32 - 127;
    (exponent - F16_TOP_EXPONENT).max(*EXPONENTS.start())
}

/// 2 to a power from -126 to 127.
fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

/// For each magnitude below 2^15 one of the two numbers of half precision around it, such that the mean is the magnitude.
fn f16_either(magnitudes: &[f32], stream: &mut Stream, halves: &mut [f16]) {
    halves.convert_from_f32_slice(magnitudes);
    let mut nearest = vec![0.0; magnitudes.len()];
    halves.convert_to_f32_slice(&mut nearest);
    for ((half, nearest), magnitude) in halves.iter_mut().zip(nearest).zip(magnitudes) {
        // Most are what they are sent as, and need no draw.
        if nearest == *magnitude {
            continue;
        }
        let below = if nearest > *magnitude { f16::from_bits(half.to_bits() - 1) } else { *half };
        let above = f16::from_bits(below.to_bits() + 1);
        // Neighbours are a power of two apart and share their exponent with the magnitude: all of this is exact.
        let share = (magnitude - below.to_f32()) / (above.to_f32() - below.to_f32());
        *half = if unit_24(stream) < f64::from(share) { above } else { below };
    }
}

/// A 127th of the largest value, rounded up, so that no value is beyond 127; unless that would be beyond every f32.
fn int8_scale(magnitude_max: f32) -> f32 {
    let exact = f64::from(magnitude_max) / INT8_MAX;
    let scale = exact as f32;
    let above = if f64::from(scale) < exact { scale.next_up() } else { scale };
    if (above * INT8_MAX as f32).is_finite() { above } else { above.next_down() }
}

/// Uniform in [0, 1) with 24 bits: few enough that adding it to a number up to 127 is exact.
fn unit_24(stream: &mut Stream) -> f64 {
    (stream.next_u64() >> 40) as f64 * (1.0 / f64::from(1 << 24))
}

/// Reads a section of `section_values` values.
///
/// # Errors
/// [`SectionError`] for bytes that [`write`] does not write.
pub(super) fn read(
    values: SparseValues,
    mut bytes: &[u8],
    section_values: usize,
    out: &mut Section,
) -> Result<(), SectionError> {
    let count = read_length(&mut (0, 0), &mut bytes)?.ok_or(SectionError::Truncated)?;
    if count > section_values as u64 {
        return Err(SectionError::TooMany);
    }
    let count = count as usize;
    if count == 0 {
        out.sparse();
        return if bytes.is_empty() { Ok(()) } else { Err(SectionError::TrailingBytes) };
    }
    let whole = count == section_values;
    let parameter = if whole { 0 } else { take::<1>(&mut bytes)?[0] };
    let scale = read_scale(values, &mut bytes)?;
    // Only now is the count believed: its values are here.
    let gap_bytes = bytes.len().checked_sub(values.payload_bytes(count)).ok_or(SectionError::Truncated)?;
    let (gaps, payload) = bytes.split_at(gap_bytes);
    let decoded = if whole {
        if !gaps.is_empty() {
            return Err(SectionError::TrailingBytes);
        }
        out.dense()
    } else {
        let (indices, decoded) = out.sparse();
        indices.resize(count, 0);
        rice::read(gaps, parameter, section_values, indices)?;
        decoded
    };
    decoded.resize(count, 0.0);
    read_values(values, payload, scale, whole, decoded)
}

/// Splits bytes off the front.
fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], SectionError> {
    let (front, rest) = bytes.split_first_chunk().ok_or(SectionError::Truncated)?;
    *bytes = rest;
    Ok(*front)
}

/// By what the numbers of a section are to be multiplied.
fn read_scale(values: SparseValues, bytes: &mut &[u8]) -> Result<f32, SectionError> {
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
            // A NaN is not above zero.
            if !(scale > 0.0 && scale < f32::INFINITY) {
                return Err(SectionError::BadNumber("scale"));
            }
            Ok(scale)
        }
    }
}

/// Values from bytes that are as many as they need. Without `zeros`, none of them may be zero.
fn read_values(
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
            // Beyond the largest number that is written.
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

/// What the tests of sparse codecs share.
#[cfg(test)]
pub(super) mod testing {
    use super::super::super::frame::{FrameReader, Section, SectionCodec};
    use super::super::super::{DeltaSink, UpdateError};
    use crate::model::{ParameterList, ParameterSpec};
    use crate::seed::Seed;

    /// Parameters of these lengths.
    pub(in super::super) fn parameters(lengths: &[usize]) -> ParameterList {
        let spec = |(index, length): (usize, &usize)| ParameterSpec::new(format!("p{index}"), [*length]);
        ParameterList::new(lengths.iter().enumerate().map(spec).collect()).unwrap()
    }

    /// Standard normal values (Box and Muller 1958).
    pub(in super::super) fn normal(count: usize, seed: u64) -> Vec<f32> {
        let mut stream = Seed(seed).stream();
        let mut value = || {
            let (radius, angle) = ((-2.0 * (1.0 - stream.unit()).ln()).sqrt(), std::f64::consts::TAU * stream.unit());
            (radius * angle.cos()) as f32
        };
        (0..count).map(|_| value()).collect()
    }

    /// The delta of a frame that comes in two pieces.
    pub(in super::super) fn decoded_frame(
        frame: &[u8],
        parameters: &ParameterList,
        codec: impl SectionCodec + 'static,
    ) -> Result<Vec<f32>, UpdateError> {
        let mut delta = vec![0.0; parameters.total()];
        let mut reader = FrameReader::new(parameters, Box::new(codec));
        let accept = &mut |first: usize, section: &Section| {
            match section.sparse {
                true => delta.sparse(first, &section.indices, &section.values),
                false => delta.dense(first, &section.values),
            }
            Ok(())
        };
        let (front, back) = frame.split_at(frame.len() / 2);
        reader.push(front, accept)?;
        reader.push(back, accept)?;
        reader.finish()?;
        Ok(delta)
    }

    /// |decoded - delta|^2 / |delta|^2.
    pub(in super::super) fn error(decoded: &[f32], delta: &[f32]) -> f64 {
        let square = |value: f64| value * value;
        let lost: f64 =
            decoded.iter().zip(delta).map(|(decoded, value)| square(f64::from(*decoded) - f64::from(*value))).sum();
        lost / delta.iter().map(|value| square(f64::from(*value))).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::frame::SECTION_VALUES_MAX;
    use super::testing::normal;
    use super::*;
    use crate::seed::Seed;

    const ALL: [SparseValues; 4] = [SparseValues::F32, SparseValues::F16, SparseValues::Int8, SparseValues::Sign];

    /// A section in which every value is sent that is not zero.
    fn section(kind: SparseValues, values: &[f32]) -> Vec<u8> {
        let mut chosen = Chosen::default();
        let sent = values.iter().enumerate().filter(|(_, value)| **value != 0.0);
        sent.for_each(|(index, value)| chosen.push(index, *value));
        let mut bytes = Vec::new();
        write(kind, values.len(), &chosen, &mut Rounding::Nearest, &mut bytes);
        bytes
    }

    fn decoded(kind: SparseValues, bytes: &[u8], values: usize) -> Result<Vec<f32>, SectionError> {
        let mut section = Section::default();
        read(kind, bytes, values, &mut section)?;
        if !section.sparse {
            return Ok(section.values);
        }
        let mut all = vec![0.0; values];
        section.indices.iter().zip(&section.values).for_each(|(index, value)| all[*index as usize] = *value);
        Ok(all)
    }

    fn came_back(kind: SparseValues, values: &[f32]) -> Vec<f32> {
        let bytes = section(kind, values);
        assert!(bytes.len() <= section_bytes_max(kind, values.len()), "{kind:?}");
        decoded(kind, &bytes, values.len()).unwrap()
    }

    proptest! {
        #[test]
        fn a_section_is_never_longer_than_its_bound_and_comes_back_as_near_as_it_can(
            values in prop::collection::vec(prop_oneof![Just(0.0f32), -4.0f32..4.0, -1e-6f32..1e-6], 1..400),
        ) {
            let largest = values.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
            prop_assert_eq!(came_back(SparseValues::F32, &values), values.clone());
            for (value, half) in values.iter().zip(came_back(SparseValues::F16, &values)) {
                prop_assert!((value - half).abs() <= value.abs() / 2048.0 + largest * 2f32.powi(-38));
            }
            for (value, byte) in values.iter().zip(came_back(SparseValues::Int8, &values)) {
                prop_assert!((value - byte).abs() <= largest / 253.9);
            }
            for (value, sign) in values.iter().zip(came_back(SparseValues::Sign, &values)) {
                prop_assert_eq!(value.partial_cmp(&0.0), sign.partial_cmp(&0.0));
            }
        }

        #[test]
        fn any_bytes_give_finite_indices_in_range_or_an_error(
            kind in prop::sample::select(ALL.to_vec()),
            bytes in prop::collection::vec(any::<u8>(), 0..64),
            values in 1usize..300,
        ) {
            let mut section = Section::default();
            if read(kind, &bytes, values, &mut section).is_ok() {
                prop_assert!(section.indices.is_sorted_by(|a, b| a < b));
                prop_assert!(section.indices.iter().all(|index| (*index as usize) < values));
                prop_assert_eq!(section.values.len(), if section.sparse { section.indices.len() } else { values });
            }
        }

        #[test]
        fn flipped_cut_and_drawn_out_sections_never_panic(
            kind in prop::sample::select(ALL.to_vec()),
            seed in any::<u64>(),
            flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut values = normal(200, seed);
            values.iter_mut().filter(|value| value.abs() < 1.5).for_each(|value| *value = 0.0);
            let mut bytes = section(kind, &values);
            prop_assert!(decoded(kind, &bytes[..cut.index(bytes.len())], 200).is_err());
            bytes.push(0);
            prop_assert!(decoded(kind, &bytes, 200).is_err());
            bytes.pop();
            for (index, flip) in flips {
                let at = index.index(bytes.len());
                bytes[at] ^= flip;
            }
            let _ = decoded(kind, &bytes, 200);
        }
    }

    #[test]
    fn nothing_to_send_is_one_byte() {
        for kind in ALL {
            assert_eq!(section(kind, &[0.0; 1000]), [0]);
            assert_eq!(came_back(kind, &[0.0, -0.0]), [0.0, 0.0]);
        }
    }

    #[test]
    fn the_format_is_what_it_was() {
        let values = [0.0, 0.0, -1.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.75, 0.0, 0.0, 0.0];
        // Count 2, parameter 1, a scale, and the gaps 2 and 5 as 01 0, 001 1 from the lowest bit up.
        assert_eq!(section(SparseValues::F16, &values), [2, 1, 0xF2, 0b0110_0010, 0x00, 0xF6, 0x00, 0x72]);
        assert_eq!(
            section(SparseValues::F32, &values),
            [2, 1, 0b0110_0010, 0x00, 0x00, 0xC0, 0xBF, 0x00, 0x00, 0x40, 0x3F]
        );
        assert_eq!(section(SparseValues::Int8, &values), [2, 1, 0x07, 0x83, 0x41, 0x3C, 0b0110_0010, 0x81, 0x3F]);
        assert_eq!(section(SparseValues::Sign, &values), [2, 1, 0x00, 0x00, 0x90, 0x3F, 0b0110_0010, 0b01]);
        // All values, where their places would be longer.
        assert_eq!(section(SparseValues::Int8, &[127.0, 0.0, -3.0]), [3, 0x00, 0x00, 0x80, 0x3F, 0x7F, 0x00, 0xFD]);
        assert_eq!(section(SparseValues::Sign, &[2.0, -2.0, 2.0]), [3, 0x00, 0x00, 0x00, 0x40, 0b010]);
    }

    #[test]
    fn values_of_any_size_have_a_place() {
        let (tiny, huge) = (f32::from_bits(1), f32::MAX);
        for kind in ALL {
            for values in [[tiny, 0.0, -tiny], [huge, 0.0, -huge], [huge, 0.0, tiny], [1e-40, 0.0, -3e-42]] {
                let back = came_back(kind, &values);
                assert!(back.iter().all(|value| value.is_finite()), "{kind:?} {values:?} {back:?}");
                assert_eq!(back[1], 0.0);
                let expected = if kind == SparseValues::Sign { back[0] } else { values[0] };
                assert!((back[0] / 2.0 - expected / 2.0).abs() <= values[0] / 2000.0, "{kind:?} {values:?} {back:?}");
            }
            for length in [1, 2, 3, 7, 8, 9, 127, 128, 129] {
                assert_eq!(came_back(kind, &vec![-127.0; length]), vec![-127.0; length]);
            }
        }
        assert_eq!(came_back(SparseValues::F16, &[tiny, 0.0]), [tiny, 0.0]);
        assert_eq!(came_back(SparseValues::Int8, &[tiny, 0.0]), [tiny, 0.0]);
    }

    #[test]
    fn the_longest_section_is_read() {
        for kind in ALL {
            let mut values = vec![127.0; SECTION_VALUES_MAX];
            assert!(came_back(kind, &values) == values, "{kind:?}");
            values[SECTION_VALUES_MAX / 2] = 0.0;
            assert!(came_back(kind, &values) == values, "{kind:?}");
            values.fill(0.0);
            values[SECTION_VALUES_MAX - 1] = -1.0;
            assert!(section(kind, &values).len() < 16);
            assert!((came_back(kind, &values)[SECTION_VALUES_MAX - 1] + 1.0).abs() < 1e-6, "{kind:?}");
        }
    }

    #[test]
    fn rounding_by_chance_is_right_on_average() {
        const DRAWS: u32 = 10_000;
        // The first sets the scale; the others lie between what can be written.
        let values = [1000.0f32, 0.1, -0.3, 3.7, -999.3, 1e-9, 4e-7];
        let mut chosen = Chosen::default();
        values.iter().enumerate().for_each(|(index, value)| chosen.push(index, *value));
        let mut stream = Seed(9).stream();
        for kind in [SparseValues::F16, SparseValues::Int8] {
            let (mut sums, mut squares) = ([0.0f64; 7], [0.0f64; 7]);
            for _ in 0..DRAWS {
                let mut bytes = Vec::new();
                write(kind, values.len(), &chosen, &mut Rounding::Stochastic(&mut stream), &mut bytes);
                let back = decoded(kind, &bytes, values.len()).unwrap();
                for (index, value) in back.iter().enumerate() {
                    sums[index] += f64::from(*value);
                    squares[index] += f64::from(*value).powi(2);
                }
            }
            let draws = f64::from(DRAWS);
            for (index, value) in values.iter().enumerate() {
                let mean = sums[index] / draws;
                let deviation = ((squares[index] / draws - mean * mean).max(0.0) / draws).sqrt();
                let off = (mean - f64::from(*value)).abs();
                assert!(off <= 5.0 * deviation + 1e-6 * f64::from(value.abs()) + 1e-5, "{kind:?} {value}: {mean}");
            }
        }
    }

    #[test]
    fn what_no_writer_writes_is_refused() {
        let refusal = |kind, bytes: &[u8], values| decoded(kind, bytes, values).unwrap_err();
        use SparseValues::{F16, Int8, Sign};
        assert_eq!(refusal(F16, &[], 4), SectionError::Truncated);
        assert_eq!(refusal(F16, &[0x82], 4), SectionError::Truncated);
        assert_eq!(refusal(F16, &[0x82, 0], 4), SectionError::BadLength);
        assert_eq!(refusal(F16, &[0, 0], 4), SectionError::TrailingBytes);
        assert_eq!(refusal(F16, &[5], 4), SectionError::TooMany);
        assert_eq!(refusal(F16, &[0xFF, 0xFF, 0xFF, 0xFF, 0x7F], 4), SectionError::TooMany);
        assert_eq!(refusal(F16, &[1, 0, 0, 1], 4), SectionError::Truncated, "no room for the value");
        assert_eq!(refusal(F16, &[1, 0, 0, 0b10000, 0, 0x3C], 4), SectionError::BadIndex);
        assert_eq!(refusal(F16, &[1, 19, 0, 1, 0, 0, 0x3C], 4), SectionError::BadCode, "no such parameter");
        assert_eq!(refusal(F16, &[1, 0, 0x81, 1, 0, 0x3C], 4), SectionError::BadNumber("exponent"));
        assert_eq!(refusal(F16, &[1, 0, 114, 1, 0, 0x3C], 4), SectionError::BadNumber("exponent"));
        assert_eq!(refusal(F16, &[1, 0, 0, 1, 0, 0x80], 4), SectionError::BadCode, "a zero is not sent");
        assert_eq!(refusal(F16, &[1, 0, 0, 0, 0x3C], 1), SectionError::TrailingBytes);
        for scale in [f32::NAN, f32::INFINITY, 0.0, -0.0, -1.0] {
            let [a, b, c, d] = scale.to_le_bytes();
            for kind in [Int8, Sign] {
                assert_eq!(refusal(kind, &[1, 0, a, b, c, d, 1, 1], 4), SectionError::BadNumber("scale"), "{scale}");
            }
        }
        let [a, b, c, d] = 1.0f32.to_le_bytes();
        assert_eq!(refusal(Int8, &[1, 0, a, b, c, d, 1, 0x80], 4), SectionError::BadCode, "-128 is not used");
        assert_eq!(refusal(Int8, &[2, a, b, c, d, 1, 0x80], 2), SectionError::BadCode, "-128 is not used");
        assert_eq!(refusal(Int8, &[1, 0, a, b, c, d, 1, 0], 4), SectionError::BadCode, "a zero is not sent");
        assert_eq!(refusal(Sign, &[1, 0, a, b, c, d, 1, 0b10], 4), SectionError::BadCode, "padding that is not zero");
        assert_eq!(refusal(Sign, &[1, 0, a, b, c, d, 0b11, 0], 4), SectionError::BadCode, "padding that is not zero");
    }
}
