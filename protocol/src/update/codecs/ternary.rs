//! TernGrad: a scale per parameter, and -1, 0 or 1 for each value.
//!
//! With the scale `s = max |v|` of a parameter a value is sent as `s * sign(v)` with probability `|v| / s`, and as 0
//! otherwise (Wen et al. 2017, arXiv:1705.07878, equations 1 and 2). The expectation is the value, and the noise is
//! `E|sent - v|^2 = s * sum |v| - sum v^2`. In deltas of McMahan's 2NN 3 to 5 % of the values are not 0, and the mean
//! over the cohort averages the noise out.
//!
//! Scales are sent as bf16, rounded up. The encoder divides by the same rounded scale that the decoder multiplies with,
//! so the codec stays unbiased and the noise grows by less than 1 %.
//!
//! Sections join parameters ([frame](super::super::frame)): a body of McMahan's 2NN has one section instead of six. A
//! section of `n` values in `p` parts is one byte for its kind, and:
//!
//! | kind | content | bytes |
//! |---|---|---|
//! | 0 | nothing: all values are zero | 0 |
//! | 1 | scale of each part (bf16), [levels](super::super::coding::levels) | 2 p + levels |
//! | 2 | scale of each part (bf16), five values in a byte to base 3: the digits 0, 1, 2 are -1, 0, 1, the first value is the lowest digit | 2 p + n / 5 |
//!
//! The encoder chooses the shortest kind, so a section takes at most 1.6 bits per value, 2 bytes per part and 2 bytes.

use half::bf16;
use serde::{Deserialize, Serialize};

use super::properties::Properties;
use super::settings::BadSetting;
use crate::model::ParameterList;
use crate::seed::Stream;
use crate::update::coding::fields::{bf16_above, magnitude_max, sum, take};
use crate::update::coding::levels::{self, Numbers};
use crate::update::error::SectionError;
use crate::update::frame::{self, Part, Section, SectionCodec};

const ZERO: u8 = 0;
const CODED: u8 = 1;
const PACKED: u8 = 2;
/// Values in a byte of kind 2: 3^5 = 243 fits.
const PACK: usize = 5;

/// Settings of `ternary`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Ternary {
    /// Values are clipped at this number of standard deviations of their tensor, 0.5 to 100 (the paper uses 2.5). 0
    /// disables clipping. Only without clipping the codec is unbiased. Default: 0.
    pub clip: f32,
    /// Scale as a multiple of the largest magnitude, 1 to 1024. Twice the scale sends half as many values with about
    /// twice the noise, still unbiased. Large cohorts average that noise out. Default: 1.
    pub scale: f32,
}

impl Default for Ternary {
    fn default() -> Self {
        Self { clip: 0.0, scale: 1.0 }
    }
}

impl Ternary {
    pub(in crate::update) fn properties(&self) -> Properties {
        // For parameters of 1,000 values or more: the scale of a shorter one adds noticeably to it.
        Properties {
            unbiased: self.clip == 0.0,
            error_feedback: false,
            bits_per_value_max: 1.65,
            relative_error_max: None,
        }
    }

    pub(in crate::update) fn check(&self) -> Result<(), BadSetting> {
        // NaN is in no range.
        match (self.clip == 0.0 || (0.5..=100.0).contains(&self.clip), (1.0..=1024.0).contains(&self.scale)) {
            (false, _) => Err(("clip", "0 or 0.5 to 100")),
            (_, false) => Err(("scale", "1 to 1024")),
            _ => Ok(()),
        }
    }

    pub(in crate::update) fn encode(&self, delta: &[f32], parameters: &ParameterList, stream: &mut Stream) -> Vec<u8> {
        frame::write(parameters, self.joins(), |place, section| {
            self.encode_section(&delta[place.range], &place.parts, stream, section);
        })
    }

    /// Encodes a section into `out`, which is empty.
    fn encode_section(&self, values: &[f32], parts: &[Part], stream: &mut Stream, out: &mut Vec<u8>) {
        let (mut scales, mut left) = (Vec::with_capacity(parts.len()), values);
        for part in parts {
            let cut = self.cut(left.split_off(..part.values).expect("every part has its values"));
            // Rounded up, because a value beyond its scale would have a probability above 1.
            scales.push(Scale { cut, scale: bf16_above((cut * self.scale).min(f32::MAX)) });
        }
        if scales.iter().all(|scale| scale.scale == bf16::ZERO) {
            return out.push(ZERO);
        }
        out.push(CODED);
        scales.iter().for_each(|scale| out.extend_from_slice(&scale.scale.to_le_bytes()));
        let head_bytes = out.len();
        let levels = levels::encode(&Quotients { values, scales: &scales }, parts, 1, stream, out);
        // Levels without a pattern may take more bits coded than packed, and the packed length bounds a section.
        if out.len() > packed_bytes(parts) {
            out.truncate(head_bytes);
            out[0] = PACKED;
            out.extend(
                levels.chunks(PACK).map(|five| five.iter().rev().fold(0, |byte, level| byte * 3 + (level + 1) as u8)),
            );
        }
    }

    /// The magnitude at which values are clipped: the largest one if clipping is off.
    fn cut(&self, values: &[f32]) -> f32 {
        let largest = magnitude_max(values);
        if self.clip == 0.0 {
            return largest;
        }
        let deviation = (sum(values, |value| value * value) / values.len() as f64).sqrt();
        largest.min((f64::from(self.clip) * deviation) as f32)
    }
}

/// The scale of a part.
struct Scale {
    /// The magnitude at which values are clipped.
    cut: f32,
    scale: bf16,
}

/// Values divided by the scales of their parts.
struct Quotients<'a> {
    values: &'a [f32],
    scales: &'a [Scale],
}

impl Numbers for Quotients<'_> {
    fn mean(&self, part: usize, first: usize, values: usize) -> f64 {
        let Scale { cut, scale } = &self.scales[part];
        let cut = f64::from(*cut);
        let sum = sum(&self.values[first..first + values], |value| value.abs().min(cut));
        if sum == 0.0 { 0.0 } else { sum / scale.to_f64() / values as f64 }
    }

    fn fill(&self, part: usize, first: usize, row: &mut [f32]) {
        let Scale { cut, scale } = &self.scales[part];
        let scale = scale.to_f32();
        // Only a magnitude beyond the largest bf16 exceeds its scale.
        let most = (cut / scale).min(1.0);
        for (number, value) in row.iter_mut().zip(&self.values[first..]) {
            *number = (value / scale).clamp(-most, most);
        }
    }
}

fn packed_bytes(parts: &[Part]) -> usize {
    1 + size_of::<bf16>() * parts.len() + frame::values(parts).div_ceil(PACK)
}

impl SectionCodec for Ternary {
    fn joins(&self) -> bool {
        true
    }

    fn section_bytes_max(&self, parts: &[Part]) -> usize {
        packed_bytes(parts)
    }

    fn decode(&self, mut bytes: &[u8], parts: &[Part], out: &mut Section) -> Result<(), SectionError> {
        let out = out.dense();
        let [kind] = take(&mut bytes)?;
        if kind == ZERO {
            out.resize(frame::values(parts), 0.0);
            return if bytes.is_empty() { Ok(()) } else { Err(SectionError::TrailingBytes) };
        }
        let scales = parts.iter().map(|_| take_scale(&mut bytes)).collect::<Result<Vec<_>, _>>()?;
        match kind {
            CODED => levels::decode(bytes, parts, 1, |part, levels| {
                let scale = scales[part];
                out.extend(levels.iter().map(|level| scale * *level as f32));
            }),
            PACKED => {
                unpack(bytes, frame::values(parts), out)?;
                let mut left = out.as_mut_slice();
                for (part, scale) in parts.iter().zip(scales) {
                    let values = left.split_off_mut(..part.values).expect("every value was unpacked");
                    values.iter_mut().for_each(|value| *value *= scale);
                }
                Ok(())
            }
            _ => Err(SectionError::BadCode),
        }
    }
}

fn take_scale(bytes: &mut &[u8]) -> Result<f32, SectionError> {
    let scale = bf16::from_le_bytes(take(bytes)?);
    // -0 would be a second encoding of 0.
    match scale.is_finite() && scale.is_sign_positive() {
        true => Ok(scale.to_f32()),
        false => Err(SectionError::BadNumber("scale")),
    }
}

/// Appends the `count` digits in `bytes`, less one.
fn unpack(bytes: &[u8], count: usize, out: &mut Vec<f32>) -> Result<(), SectionError> {
    match bytes.len().cmp(&count.div_ceil(PACK)) {
        std::cmp::Ordering::Less => return Err(SectionError::Truncated),
        std::cmp::Ordering::Greater => return Err(SectionError::TrailingBytes),
        std::cmp::Ordering::Equal => {}
    }
    for (number, byte) in bytes.iter().enumerate() {
        let mut digits = *byte;
        for _ in 0..PACK.min(count - number * PACK) {
            out.push([-1.0, 0.0, 1.0][usize::from(digits % 3)]);
            digits /= 3;
        }
        if digits != 0 {
            return Err(SectionError::BadCode);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::ParameterSpec;
    use crate::seed::Seed;
    use crate::update::coding::testing::{
        assert_unbiased, cases, damage, decode, decode_parts, hex, normal, relative_error, survives,
    };
    use crate::update::frame::{FrameReader, SECTION_VALUES_MAX};

    /// One part.
    fn part(values: usize, row_values: usize) -> [Part; 1] {
        [Part { values, row_values: row_values.min(values) }]
    }

    fn encode(ternary: Ternary, values: &[f32], parts: &[Part], stream: &mut Stream) -> Vec<u8> {
        let mut bytes = Vec::new();
        ternary.encode_section(values, parts, stream, &mut bytes);
        assert!(bytes.len() <= ternary.section_bytes_max(parts));
        bytes
    }

    /// Encodes and decodes a section of rows of this length.
    fn sent(ternary: Ternary, values: &[f32], row_values: usize, stream: &mut Stream) -> Vec<f32> {
        let parts = part(values.len(), row_values);
        decode_parts(&ternary, &encode(ternary, values, &parts, stream), &parts).unwrap()
    }

    /// The plain form of a section, which small ones have.
    fn packed(scale: bf16, bytes: &[u8]) -> Vec<u8> {
        [&[PACKED][..], &scale.to_le_bytes(), bytes].concat()
    }

    #[test]
    fn every_value_comes_back_as_zero_or_the_scale() {
        for (number, values) in cases(64).into_iter().enumerate() {
            for row_values in [1, 64, 1 << 18] {
                let decoded = sent(Ternary::default(), &values, row_values, &mut Seed(1).stream());
                let scale = bf16_above(magnitude_max(&values)).to_f32();
                for (value, got) in values.iter().zip(&decoded) {
                    assert!(*got == 0.0 || *got == scale.copysign(*value), "case {number}: {value} became {got}");
                    assert!(*value != 0.0 || *got == 0.0, "zeros stay zero");
                    assert!(value.abs() != scale || got == value, "the largest arrives if its scale is exact");
                }
            }
        }
    }

    #[test]
    fn a_section_of_zeros_is_one_byte() {
        let parts = [part(600, 10), part(400, 400)].concat();
        assert_eq!(encode(Ternary::default(), &[0.0; 1000], &parts, &mut Seed(1).stream()), [ZERO]);
        assert_eq!(decode_parts(&Ternary::default(), &[ZERO], &parts), Ok(vec![0.0; 1000]));
        assert_eq!(decode(&Ternary::default(), &[ZERO, 0], 10), Err(SectionError::TrailingBytes));
        assert_eq!(decode(&Ternary::default(), &[], 10), Err(SectionError::Truncated));
        assert_eq!(decode(&Ternary::default(), &[3, 0, 0, 0, 0, 0], 10), Err(SectionError::BadCode));
    }

    #[test]
    fn the_mean_is_kept() {
        let values = normal(40, 5);
        for ternary in [Ternary::default(), Ternary { scale: 3.0, ..Ternary::default() }] {
            assert!(ternary.properties().unbiased);
            assert_unbiased(&values, |stream| sent(ternary, &values, 8, stream));
        }
        // And of parts that share a section, of which one is far smaller.
        let values: Vec<f32> = values.iter().enumerate().map(|(at, v)| if at < 24 { *v } else { v * 1e-3 }).collect();
        let parts = [part(24, 4), part(6, 6), part(10, 5)].concat();
        for (ternary, values) in [(Ternary::default(), &values), (Ternary { scale: 2.0, clip: 0.0 }, &normal(40, 6))] {
            assert_unbiased(values, |stream| {
                decode_parts(&ternary, &encode(ternary, values, &parts, stream), &parts).unwrap()
            });
        }
    }

    #[test]
    fn the_error_is_that_of_the_formula() {
        let values = normal(20_000, 6);
        let expected = |scale: f64| {
            let magnitudes: f64 = values.iter().map(|value| f64::from(value.abs())).sum();
            scale * magnitudes / sum(&values, |value| value * value) - 1.0
        };
        let largest = f64::from(magnitude_max(&values));
        for scale in [1.0, 2.0, 8.0] {
            let ternary = Ternary { scale, clip: 0.0 };
            let decoded = sent(ternary, &values, 200, &mut Seed(2).stream());
            let (error, expected) = (relative_error(&values, &decoded), expected(largest * f64::from(scale)));
            assert!((error / expected - 1.0).abs() < 0.1, "{error} {expected}");
        }
    }

    #[test]
    fn clipping_lowers_the_error_and_is_said_to_be_biased() {
        let values = normal(20_000, 7);
        let clipped = Ternary { clip: 2.5, ..Ternary::default() };
        assert!(!clipped.properties().unbiased);
        let error = |ternary: Ternary| relative_error(&values, &sent(ternary, &values, 200, &mut Seed(3).stream()));
        let (with, without) = (error(clipped), error(Ternary::default()));
        assert!(with < 1.1 && without > 2.0, "{with} {without}");
    }

    #[test]
    fn a_sparse_delta_takes_less_than_a_fifth_of_a_bit_per_value() {
        // As the first layer of a network for pictures: a third of the inputs are always 0, inputs and units differ in
        // how much they move, and a unit's weights mostly move the same way.
        let (rows, columns) = (200, 784);
        let (noise, row, column) = (normal(rows * columns, 8), normal(rows, 9), normal(columns, 10));
        let values: Vec<f32> = (0..rows * columns)
            .map(|place| {
                let (row, column_at) = (row[place / columns], place % columns);
                let amount = if column_at % 3 == 0 { 0.0 } else { column[column_at].powi(2) };
                row * amount * (1.0 + 0.5 * noise[place])
            })
            .collect();
        let ternary = Ternary::default();
        let parts = part(values.len(), columns);
        let bytes = encode(ternary, &values, &parts, &mut Seed(4).stream());
        let decoded = decode_parts(&ternary, &bytes, &parts).unwrap();
        let sent = decoded.iter().filter(|value| **value != 0.0).count() as f64 / values.len() as f64;
        let entropy = -sent * sent.log2() - (1.0 - sent) * (1.0 - sent).log2() + sent;
        let bits = 8.0 * bytes.len() as f64 / values.len() as f64;
        assert!(bits < 0.2 && bits < 0.6 * entropy, "{bits} of {entropy} for a share of {sent}");
    }

    #[test]
    fn normal_values_take_what_is_declared() {
        let values = normal(100_000, 11);
        let bytes = encode(Ternary::default(), &values, &part(100_000, 1000), &mut Seed(5).stream());
        let bits = 8.0 * bytes.len() as f64 / values.len() as f64;
        assert!(bits < 0.7 && bits < Ternary::default().properties().bits_per_value_max, "{bits}");
        let longest = Ternary::default().section_bytes_max(&[Part::row(1000)]) as f64 * 8.0 / 1000.0;
        assert!(longest <= Ternary::default().properties().bits_per_value_max, "{longest}");
    }

    #[test]
    fn five_values_are_packed_into_a_byte() {
        // 1 + 3 * 2 + 9 * 0 + 27 * 1 + 81 * 2 = 196: 0, 1, -1, 0, 1; then 0 + 3 * 1: -1, 0.
        let section = packed(bf16::from_f32(2.0), &[196, 3]);
        assert_eq!(decode(&Ternary::default(), &section, 7), Ok(vec![0.0, 2.0, -2.0, 0.0, 2.0, -2.0, 0.0]));
        assert_eq!(
            encode(Ternary::default(), &[0.0, 2.0, -2.0, 0.0, 2.0, -2.0, 0.0], &part(7, 7), &mut Seed(1).stream()),
            section
        );
        // Two parts: their scales, then all digits.
        let two = [&[PACKED][..], &bf16::from_f32(2.0).to_le_bytes(), &bf16::from_f32(0.5).to_le_bytes(), &[196, 3]];
        let decoded = decode_parts(&Ternary::default(), &two.concat(), &[part(4, 2), part(3, 3)].concat());
        assert_eq!(decoded, Ok(vec![0.0, 2.0, -2.0, 0.0, 0.5, -0.5, 0.0]));
        assert_eq!(decode(&Ternary::default(), &section, 5), Err(SectionError::TrailingBytes));
        assert_eq!(decode(&Ternary::default(), &section, 11), Err(SectionError::Truncated));
        // Digits beyond the last value, and a byte that no five digits make.
        assert_eq!(decode(&Ternary::default(), &section, 6), Err(SectionError::BadCode));
        assert_eq!(decode(&Ternary::default(), &packed(bf16::ONE, &[243]), 5), Err(SectionError::BadCode));
    }

    #[test]
    fn a_scale_that_makes_no_sense_is_refused() {
        let parts = [part(400, 20), part(100, 10)].concat();
        let section = encode(Ternary::default(), &normal(500, 12), &parts, &mut Seed(6).stream());
        assert_eq!(section[0], CODED);
        for scale in [bf16::NAN, bf16::INFINITY, bf16::NEG_ONE, bf16::NEG_ZERO] {
            let refused = decode(&Ternary::default(), &packed(scale, &[0]), 5);
            assert_eq!(refused, Err(SectionError::BadNumber("scale")), "{scale}");
            for first in [1, 3] {
                let mut section = section.clone();
                section[first..first + 2].copy_from_slice(&scale.to_le_bytes());
                let refused = decode_parts(&Ternary::default(), &section, &parts);
                assert_eq!(refused, Err(SectionError::BadNumber("scale")), "{scale}");
            }
        }
    }

    #[test]
    fn scales_are_rounded_up_and_stay_finite() {
        let largest = f32::MAX;
        for ternary in [Ternary::default(), Ternary { scale: 1024.0, clip: 0.0 }] {
            let decoded = sent(ternary, &[largest, -largest, 0.0, largest], 2, &mut Seed(3).stream());
            assert!(decoded.iter().all(|value| *value == 0.0 || value.abs() == bf16::MAX.to_f32()), "{decoded:?}");
        }
        assert_eq!(bf16_above(1.0), bf16::ONE);
        assert_eq!(bf16_above(1.0f32.next_up()).to_f32(), 1.0 + 1.0 / 128.0);
    }

    #[test]
    fn the_bytes_of_a_delta_never_change() {
        let cubes = (0..400).map(|at: i32| (at * 37 % 64 - 32).pow(3) * (at % 20 % 3));
        let values: Vec<f32> = cubes.map(|cube| cube as f32 / 64.0).collect();
        let parts = [part(300, 20), part(15, 15), part(85, 15)].concat();
        let bytes = encode(Ternary::default(), &values, &parts, &mut Seed(7).stream());
        assert_eq!(
            hex(&bytes),
            "0180442c446944bb43d723f3f6f4032c374710ae4193e8af11034d89b4f1b405e50e54b46c218e3ba0ffcd12564bd31dea"
        );
        let bytes = encode(Ternary::default(), &values[..7], &part(7, 7), &mut Seed(7).stream());
        assert_eq!(hex(&bytes), "02f5437005");
    }

    #[test]
    fn a_frame_of_parameters_of_all_shapes_comes_back() {
        let shapes: [&[usize]; 6] = [&[], &[5], &[3, 4], &[2, 3, 3, 3], &[2, SECTION_VALUES_MAX], &[9]];
        let specs = shapes.iter().enumerate().map(|(at, shape)| ParameterSpec::new(at.to_string(), *shape)).collect();
        let parameters = ParameterList::new(specs).unwrap();
        let delta = normal(parameters.total(), 14);
        let frame = Ternary::default().encode(&delta, &parameters, &mut Seed(9).stream());
        let mut reader = FrameReader::new(&parameters, Box::new(Ternary::default()));
        let mut firsts = Vec::new();
        reader
            .push(&frame, &mut |first, section| {
                firsts.push(first);
                assert!(section.values.iter().zip(&delta[first..]).all(|(got, value)| got * value >= 0.0));
                Ok(())
            })
            .unwrap();
        assert_eq!(reader.finish(), Ok(()));
        assert_eq!(firsts, [0, 72, 72 + SECTION_VALUES_MAX, 72 + 2 * SECTION_VALUES_MAX]);
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        for (clip, scale) in
            [(f32::NAN, 1.0), (-1.0, 1.0), (0.0, 0.5), (0.0, f32::NAN), (0.0, 1e30), (f32::INFINITY, 1.0)]
        {
            assert!(Ternary { clip, scale }.check().is_err(), "{clip} {scale}");
        }
        assert_eq!(Ternary { clip: 2.5, scale: 4.0 }.check(), Ok(()));
    }

    proptest! {
        #[test]
        fn damaged_sections_are_refused_or_are_other_values(
            first in 1usize..200, second in 0usize..100, row_values in 1usize..300, zeros in 0usize..4,
            damage in damage(),
        ) {
            let mut parts = part(first, row_values).to_vec();
            parts.extend((second > 0).then(|| Part::row(second)));
            let mut values = normal(first + second, 13);
            values.iter_mut().filter(|value| (value.abs() * 100.0) as usize % 4 < zeros).for_each(|value| *value = 0.0);
            let bytes = encode(Ternary::default(), &values, &parts, &mut Seed(8).stream());
            survives(&Ternary::default(), &bytes, &parts, &damage);
        }
    }
}
