//! Signs and one mean magnitude per section, with error feedback.
//!
//! `sent = (|p|_1 / n) * sign(p)`, where `p` is the delta plus the residual (EF-signSGD: Karimireddy et al. 2019,
//! arXiv:1901.09847, algorithm 1). A zero counts as positive. The codec is biased: without error feedback training need
//! not converge.
//!
//! A section is the mean magnitude (f32) and one bit per value, the lowest bit first; 1 is negative. For a section of
//! zeros the mean magnitude is zero and no bits follow.

use super::properties::Properties;
use crate::model::ParameterList;
use crate::update::coding::fields::{sum, take_magnitude};
use crate::update::error::SectionError;
use crate::update::frame::{self, Part, Section, SectionCodec};

/// Decoder of sections.
#[derive(Clone, Copy, Debug)]
pub(in crate::update) struct Sign;

pub(in crate::update) fn properties() -> Properties {
    Properties {
        unbiased: false,
        error_feedback: true,
        // For parameters of 1,000 values or more.
        bits_per_value_max: 1.04,
        // 1 - |v|_1^2 / (n * |v|_2^2).
        relative_error_max: Some(1.0),
    }
}

pub(in crate::update) fn encode(delta: &[f32], parameters: &ParameterList) -> Vec<u8> {
    frame::write(parameters, false, |place, section| encode_section(&delta[place.range], section))
}

fn encode_section(values: &[f32], out: &mut Vec<u8>) {
    let mean = (sum(values, f64::abs) / values.len() as f64) as f32;
    out.extend_from_slice(&mean.to_le_bytes());
    if mean > 0.0 {
        out.extend(values.chunks(8).map(|eight| {
            eight.iter().enumerate().fold(0, |byte, (place, value)| byte | u8::from(*value < 0.0) << place)
        }));
    }
}

impl SectionCodec for Sign {
    fn section_bytes_max(&self, parts: &[Part]) -> usize {
        let values = frame::values(parts);
        size_of::<f32>() + values.div_ceil(8)
    }

    fn decode(&self, mut bytes: &[u8], parts: &[Part], out: &mut Section) -> Result<(), SectionError> {
        let (values, out) = (frame::values(parts), out.dense());
        let mean = take_magnitude(&mut bytes, "mean magnitude")?;
        let bytes_wanted = if mean == 0.0 { 0 } else { values.div_ceil(8) };
        match bytes.len().cmp(&bytes_wanted) {
            std::cmp::Ordering::Less => return Err(SectionError::Truncated),
            std::cmp::Ordering::Greater => return Err(SectionError::TrailingBytes),
            std::cmp::Ordering::Equal => {}
        }
        if mean == 0.0 {
            out.resize(values, 0.0);
            return Ok(());
        }
        let over = 8 * bytes.len() - values;
        if bytes.last().is_some_and(|last| u32::from(*last) >> (8 - over) != 0) {
            return Err(SectionError::BadCode);
        }
        for byte in bytes {
            // The bit becomes the sign bit of the value, without a branch, so that this vectorises.
            let signs: [u32; 8] = std::array::from_fn(|place| u32::from(*byte) >> place << 31);
            out.extend_from_slice(&signs.map(|sign| f32::from_bits(mean.to_bits() | sign)));
        }
        out.truncate(values);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::update::coding::testing::{cases, damage, decode, hex, normal, relative_error, survives};

    fn encode(values: &[f32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_section(values, &mut bytes);
        assert!(bytes.len() <= Sign.section_bytes_max(&[Part::row(values.len())]));
        bytes
    }

    #[test]
    fn every_value_becomes_the_mean_magnitude_with_its_sign() {
        for values in cases(8) {
            let decoded = decode(&Sign, &encode(&values), values.len()).unwrap();
            let mean = (sum(&values, f64::abs) / values.len() as f64) as f32;
            let expected: Vec<_> = values.iter().map(|value| if *value < 0.0 { -mean } else { mean }).collect();
            assert_eq!(decoded, expected);
        }
    }

    #[test]
    fn a_section_is_a_mean_and_bits() {
        let bytes = encode(&[1.0, -2.0, 0.0, 1.0, 3.0, -1.0, -0.0, 0.0, -1.0]);
        assert_eq!(hex(&bytes), "0000803f2201");
        assert_eq!(encode(&[0.0; 100]), [0; 4]);
    }

    #[test]
    fn the_error_on_normal_values_is_that_of_the_formula() {
        let values = normal(100_000, 1);
        let bytes = encode(&values);
        let error = relative_error(&values, &decode(&Sign, &bytes, values.len()).unwrap());
        // 1 - 2 / pi
        assert!((error - 0.3634).abs() < 0.005, "{error}");
        assert!(Sign.section_bytes_max(&[Part::row(1000)]) as f64 * 8.0 / 1000.0 <= properties().bits_per_value_max);
        assert!(error <= properties().relative_error_max.unwrap());
    }

    #[test]
    fn sections_that_nobody_writes_are_refused() {
        let section = encode(&[1.0; 12]);
        assert_eq!(decode(&Sign, &section, 17), Err(SectionError::Truncated));
        assert_eq!(decode(&Sign, &section, 8), Err(SectionError::TrailingBytes));
        assert_eq!(decode(&Sign, &section[..3], 12), Err(SectionError::Truncated));
        assert_eq!(decode(&Sign, &[0, 0, 0, 0, 0], 8), Err(SectionError::TrailingBytes));
        assert_eq!(decode(&Sign, &[&section[..5], &[0x10]].concat(), 12), Err(SectionError::BadCode));
        for mean in [f32::NAN, f32::INFINITY, -1.0, -0.0] {
            let section = [&mean.to_le_bytes()[..], &[0]].concat();
            assert_eq!(decode(&Sign, &section, 8), Err(SectionError::BadNumber("mean magnitude")));
        }
    }

    proptest! {
        #[test]
        fn damaged_sections_are_refused_or_are_other_values(length in 1usize..300, damage in damage()) {
            survives(&Sign, &encode(&normal(length, 13)), &[Part::row(length)], &damage);
        }
    }
}
