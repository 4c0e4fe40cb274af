//! TernGrad: a scale per section, and -1, 0 or 1 for each value.
//!
//! With the scale `s = max |v|` of a section a value is sent as `s * sign(v)` with probability `|v| / s`, and as 0
//! otherwise (Wen et al. 2017, arXiv:1705.07878, equations 1 and 2). The expectation is the value, and the noise is
//! `E|sent - v|^2 = s * sum |v| - sum v^2`. In deltas of McMahan's 2NN 3 to 5 % of the values are not 0, and the mean
//! over the cohort averages the noise out.
//!
//! A section is one byte for its kind, and:
//!
//! | kind | content | bytes |
//! |---|---|---|
//! | 0 | nothing: all values are zero | 0 |
//! | 1 | scale (f32), [levels](super::super::coding::levels) | 4 + levels |
//! | 2 | scale (f32), five values in a byte to base 3: the digits 0, 1, 2 are -1, 0, 1, the first value is the lowest digit | 4 + n / 5 |
//!
//! The encoder chooses the shortest kind, so a section takes at most 1.6 bits per value and 5 bytes.

use serde::{Deserialize, Serialize};

use super::properties::Properties;
use super::settings::BadSetting;
use crate::model::ParameterList;
use crate::seed::Stream;
use crate::update::coding::fields::{magnitude_max, sum, take, take_magnitude};
use crate::update::coding::levels;
use crate::update::error::SectionError;
use crate::update::frame::{self, Section, SectionCodec};

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
    /// Values are clipped at this number of standard deviations of their section, 0.5 to 100 (the paper uses 2.5). 0
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
        frame::write(parameters, |range, section| {
            let row_values = frame::row_values(parameters, &range);
            self.encode_section(&delta[range], row_values, stream, section);
        })
    }

    fn encode_section(&self, values: &[f32], row_values: usize, stream: &mut Stream, out: &mut Vec<u8>) {
        let cut = self.cut(values);
        // The product may overflow; a scale is finite.
        let scale = (cut * self.scale).min(f32::MAX);
        if scale == 0.0 {
            return out.push(ZERO);
        }
        out.push(CODED);
        out.extend_from_slice(&scale.to_le_bytes());
        // No quotient exceeds 1, since no magnitude exceeds the scale.
        let most = cut / scale;
        let numbers: Vec<f32> = values.iter().map(|value| (value / scale).clamp(-most, most)).collect();
        let levels = levels::encode(&numbers, row_values, 1, stream, out);
        if out.len() > packed_bytes(values.len()) {
            out.truncate(1 + size_of::<f32>());
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

fn packed_bytes(values: usize) -> usize {
    1 + size_of::<f32>() + values.div_ceil(PACK)
}

impl SectionCodec for Ternary {
    fn section_bytes_max(&self, values: usize) -> usize {
        packed_bytes(values)
    }

    fn decode(&self, mut bytes: &[u8], values: usize, out: &mut Section) -> Result<(), SectionError> {
        let out = out.dense();
        match take::<1>(&mut bytes)?[0] {
            ZERO => {
                out.resize(values, 0.0);
                if bytes.is_empty() { Ok(()) } else { Err(SectionError::TrailingBytes) }
            }
            CODED => decode_coded(bytes, values, out),
            PACKED => decode_packed(bytes, values, out),
            _ => Err(SectionError::BadCode),
        }
    }
}

fn decode_coded(mut bytes: &[u8], count: usize, out: &mut Vec<f32>) -> Result<(), SectionError> {
    let scale = take_magnitude(&mut bytes, "scale")?;
    levels::decode(bytes, count, 1, |levels| out.extend(levels.iter().map(|level| scale * *level as f32)))
}

fn decode_packed(mut bytes: &[u8], count: usize, out: &mut Vec<f32>) -> Result<(), SectionError> {
    let scale = take_magnitude(&mut bytes, "scale")?;
    match bytes.len().cmp(&count.div_ceil(PACK)) {
        std::cmp::Ordering::Less => return Err(SectionError::Truncated),
        std::cmp::Ordering::Greater => return Err(SectionError::TrailingBytes),
        std::cmp::Ordering::Equal => {}
    }
    let values = [-scale, 0.0, scale];
    for (number, byte) in bytes.iter().enumerate() {
        let mut digits = *byte;
        for _ in 0..PACK.min(count - number * PACK) {
            out.push(values[usize::from(digits % 3)]);
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
        assert_unbiased, cases, damage, decode, hex, normal, relative_error, survives,
    };
    use crate::update::frame::FrameReader;

    fn encode(ternary: Ternary, values: &[f32], row_values: usize, stream: &mut Stream) -> Vec<u8> {
        let mut bytes = Vec::new();
        ternary.encode_section(values, row_values.min(values.len()), stream, &mut bytes);
        assert!(bytes.len() <= ternary.section_bytes_max(values.len()));
        bytes
    }

    /// The plain form of a section, which small ones have.
    fn packed(scale: f32, bytes: &[u8]) -> Vec<u8> {
        [&[PACKED][..], &scale.to_le_bytes(), bytes].concat()
    }

    #[test]
    fn every_value_comes_back_as_zero_or_the_scale() {
        for (number, values) in cases(64).into_iter().enumerate() {
            for row_values in [1, 64, 1 << 18] {
                let bytes = encode(Ternary::default(), &values, row_values, &mut Seed(1).stream());
                let decoded = decode(&Ternary::default(), &bytes, values.len()).unwrap();
                let scale = magnitude_max(&values);
                for (value, got) in values.iter().zip(&decoded) {
                    assert!(*got == 0.0 || *got == scale.copysign(*value), "case {number}: {value} became {got}");
                    assert!(*value != 0.0 || *got == 0.0, "zeros stay zero");
                    assert!(value.abs() != scale || got == value, "the largest always arrives");
                }
            }
        }
    }

    #[test]
    fn a_section_of_zeros_is_one_byte() {
        assert_eq!(encode(Ternary::default(), &[0.0; 1000], 10, &mut Seed(1).stream()), [ZERO]);
        assert_eq!(decode(&Ternary::default(), &[ZERO, 0], 10), Err(SectionError::TrailingBytes));
        assert_eq!(decode(&Ternary::default(), &[], 10), Err(SectionError::Truncated));
        assert_eq!(decode(&Ternary::default(), &[3, 0, 0, 0, 0, 0], 10), Err(SectionError::BadCode));
    }

    #[test]
    fn the_mean_is_kept() {
        let values = normal(40, 5);
        for ternary in [Ternary::default(), Ternary { scale: 3.0, ..Ternary::default() }] {
            assert!(ternary.properties().unbiased);
            assert_unbiased(&values, |stream| decode(&ternary, &encode(ternary, &values, 8, stream), 40).unwrap());
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
            let decoded =
                decode(&ternary, &encode(ternary, &values, 200, &mut Seed(2).stream()), values.len()).unwrap();
            let (error, expected) = (relative_error(&values, &decoded), expected(largest * f64::from(scale)));
            assert!((error / expected - 1.0).abs() < 0.1, "{error} {expected}");
        }
    }

    #[test]
    fn clipping_lowers_the_error_and_is_said_to_be_biased() {
        let values = normal(20_000, 7);
        let clipped = Ternary { clip: 2.5, ..Ternary::default() };
        assert!(!clipped.properties().unbiased);
        let error = |ternary: Ternary| {
            let bytes = encode(ternary, &values, 200, &mut Seed(3).stream());
            relative_error(&values, &decode(&ternary, &bytes, values.len()).unwrap())
        };
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
        let bytes = encode(ternary, &values, columns, &mut Seed(4).stream());
        let decoded = decode(&ternary, &bytes, values.len()).unwrap();
        let sent = decoded.iter().filter(|value| **value != 0.0).count() as f64 / values.len() as f64;
        let entropy = -sent * sent.log2() - (1.0 - sent) * (1.0 - sent).log2() + sent;
        let bits = 8.0 * bytes.len() as f64 / values.len() as f64;
        assert!(bits < 0.2 && bits < 0.6 * entropy, "{bits} of {entropy} for a share of {sent}");
    }

    #[test]
    fn normal_values_take_what_is_declared() {
        let values = normal(100_000, 11);
        let bytes = encode(Ternary::default(), &values, 1000, &mut Seed(5).stream());
        let bits = 8.0 * bytes.len() as f64 / values.len() as f64;
        assert!(bits < 0.7 && bits < Ternary::default().properties().bits_per_value_max, "{bits}");
        let longest = Ternary::default().section_bytes_max(1000) as f64 * 8.0 / 1000.0;
        assert!(longest <= Ternary::default().properties().bits_per_value_max, "{longest}");
    }

    #[test]
    fn five_values_are_packed_into_a_byte() {
        // 1 + 3 * 2 + 9 * 0 + 27 * 1 + 81 * 2 = 196: 0, 1, -1, 0, 1; then 0 + 3 * 1: -1, 0.
        let section = packed(2.0, &[196, 3]);
        assert_eq!(decode(&Ternary::default(), &section, 7), Ok(vec![0.0, 2.0, -2.0, 0.0, 2.0, -2.0, 0.0]));
        assert_eq!(
            encode(Ternary::default(), &[0.0, 2.0, -2.0, 0.0, 2.0, -2.0, 0.0], 7, &mut Seed(1).stream()),
            section
        );
        assert_eq!(decode(&Ternary::default(), &section, 5), Err(SectionError::TrailingBytes));
        assert_eq!(decode(&Ternary::default(), &section, 11), Err(SectionError::Truncated));
        // Digits beyond the last value, and a byte that no five digits make.
        assert_eq!(decode(&Ternary::default(), &section, 6), Err(SectionError::BadCode));
        assert_eq!(decode(&Ternary::default(), &packed(2.0, &[243]), 5), Err(SectionError::BadCode));
    }

    #[test]
    fn a_scale_or_a_row_that_makes_no_sense_is_refused() {
        for scale in [f32::NAN, f32::INFINITY, -1.0, -0.0] {
            let refused = decode(&Ternary::default(), &packed(scale, &[0]), 5);
            assert_eq!(refused, Err(SectionError::BadNumber("scale")), "{scale}");
        }
        let section = encode(Ternary::default(), &normal(400, 12), 20, &mut Seed(6).stream());
        assert_eq!(section[0], CODED);
        for row_values in [0u32, 401, 0xFF_FFFF] {
            let mut section = section.clone();
            section[9..12].copy_from_slice(&row_values.to_le_bytes()[..3]);
            assert_eq!(decode(&Ternary::default(), &section, 400), Err(SectionError::BadLength), "{row_values}");
        }
    }

    #[test]
    fn the_bytes_of_a_delta_never_change() {
        let cubes = (0..400).map(|at: i32| (at * 37 % 64 - 32).pow(3) * (at % 20 % 3));
        let values: Vec<f32> = cubes.map(|cube| cube as f32 / 64.0).collect();
        let bytes = encode(Ternary::default(), &values, 20, &mut Seed(7).stream());
        assert_eq!(
            hex(&bytes),
            "0100008044bb43d723140000f3097de2a93922575523447a01303cab44dc5befa107797c7bc6ffd1db47d609630c62cb"
        );
        assert_eq!(hex(&encode(Ternary::default(), &values[..7], 7, &mut Seed(7).stream())), "020024f4437005");
    }

    #[test]
    fn a_row_is_what_one_output_takes() {
        let shapes: [&[usize]; 5] = [&[], &[5], &[3, 4], &[2, 3, 3, 3], &[2, 1 << 18]];
        let specs = shapes.iter().enumerate().map(|(at, shape)| ParameterSpec::new(at.to_string(), *shape)).collect();
        let parameters = ParameterList::new(specs).unwrap();
        let rows: Vec<_> = frame::sections(&parameters).map(|range| frame::row_values(&parameters, &range)).collect();
        assert_eq!(rows, [1, 5, 4, 27, 1 << 18, 1 << 18]);
        // And a frame of all of them comes back.
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
        assert_eq!(firsts, frame::sections(&parameters).map(|range| range.start).collect::<Vec<_>>());
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
            length in 1usize..300, row_values in 1usize..300, zeros in 0usize..4, damage in damage(),
        ) {
            let mut values = normal(length, 13);
            values.iter_mut().filter(|value| (value.abs() * 100.0) as usize % 4 < zeros).for_each(|value| *value = 0.0);
            let bytes = encode(Ternary::default(), &values, row_values, &mut Seed(8).stream());
            survives(&Ternary::default(), &bytes, length, &damage);
        }
    }
}
