//! TernGrad: a scale and -1, 0 or 1 for each value.
//!
//! With the scale `s = max |v|` of a section a value becomes `s * sign(v)` with probability `|v| / s` and 0 otherwise
//! (Wen et al. 2017, arXiv 1705.07878, equations 1 and 2), so that the mean is kept:
//! `E|sent - v|^2 = s * sum |v| - sum v^2`. Of a 2NN's delta 3 to 5 % of the values are sent, and averaging over the
//! cohort takes the noise away.
//!
//! A section is one byte that says which of these follow:
//!
//! | byte | then | bytes |
//! |---|---|---|
//! | 0 | nothing: all zeros | 0 |
//! | 1 | scale (f32), seed of the dither, row length (24 bits), rating of the mean level, [levels](super::super::coding::levels) | 12 + levels |
//! | 2 | scale (f32), five values in a byte, each a digit 0, 1 or 2 less 1 to base 3, the first the lowest | 4 + n / 5 |
//!
//! The writer takes what is shortest, so that no delta needs more than 1.6 bits per value and 5 bytes.

use serde::{Deserialize, Serialize};

use super::super::Properties;
use super::super::coding::fields::{magnitude_max, sum, take, take_magnitude, take_row_values};
use super::super::coding::levels::{Dither, LevelModel, rating_of, round};
use super::super::coding::range_coder::{RangeDecoder, RangeEncoder};
use super::super::frame::{self, Section, SectionCodec, SectionError};
use super::BadSetting;
use crate::model::ParameterList;
use crate::seed::Stream;

const ZERO: u8 = 0;
const CODED: u8 = 1;
const PACKED: u8 = 2;
/// Values in a byte when packed: 3^5 = 243.
const PACK: usize = 5;

/// Settings of `ternary`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ternary {
    /// Values are clipped at so many standard deviations of their section (the paper: 2.5); 0 for none, which alone is
    /// unbiased.
    pub clip: f32,
    /// The scale in largest magnitudes, 1 to 1024. Twice the scale sends half as many values with about twice the noise,
    /// still unbiased: for cohorts so large that the noise does not matter.
    pub scale: f32,
}

impl Default for Ternary {
    fn default() -> Self {
        Self { clip: 0.0, scale: 1.0 }
    }
}

impl Ternary {
    pub(in super::super) fn properties(&self) -> Properties {
        // A third of a parameter of 100 values is its scale: these are for parameters of 1,000 values or more.
        Properties { unbiased: self.clip == 0.0, feedback: false, bits_per_value_max: 1.65, relative_error_max: None }
    }

    pub(in super::super) fn check(&self) -> Result<(), BadSetting> {
        // NaN is in no range.
        match (self.clip == 0.0 || (0.5..=100.0).contains(&self.clip), (1.0..=1024.0).contains(&self.scale)) {
            (false, _) => Err(("clip", "0 or 0.5 to 100")),
            (_, false) => Err(("scale", "1 to 1024")),
            _ => Ok(()),
        }
    }

    pub(in super::super) fn encode(&self, delta: &[f32], parameters: &ParameterList, stream: &mut Stream) -> Vec<u8> {
        frame::write(parameters, |range, section| {
            let row_values = frame::row_values(parameters, &range);
            self.encode_section(&delta[range], row_values, stream, section);
        })
    }

    fn encode_section(&self, values: &[f32], row_values: usize, stream: &mut Stream, out: &mut Vec<u8>) {
        let cut = self.cut(values);
        // A product that becomes infinite is no scale.
        let scale = (cut * self.scale).min(f32::MAX);
        if scale == 0.0 {
            return out.push(ZERO);
        }
        let seed = (stream.next_u64() as u32).to_le_bytes();
        let mean = sum(values, f64::abs) / values.len() as f64 / f64::from(scale);
        let rating = rating_of(mean);
        out.push(CODED);
        out.extend_from_slice(&scale.to_le_bytes());
        out.extend_from_slice(&seed);
        out.extend_from_slice(&(row_values as u32).to_le_bytes()[..3]);
        out.extend_from_slice(&rating.to_le_bytes());

        let mut levels = vec![0; values.len()];
        let mut dither = Dither::new(seed);
        let mut dithers = vec![0; row_values];
        let mut model = LevelModel::new(row_values, 1, rating);
        let mut coder = RangeEncoder::new(out);
        for (values, levels) in values.chunks(row_values).zip(levels.chunks_mut(row_values)) {
            let dithers = &mut dithers[..values.len()];
            dither.fill(dithers);
            for ((value, level), dither) in values.iter().zip(levels.iter_mut()).zip(&*dithers) {
                // A quotient may round to 1 at most, since no magnitude is above the scale.
                let sent = round(value.abs().min(cut) / scale, *dither, stream) as i32;
                *level = if *value < 0.0 { -sent } else { sent };
            }
            model.row(&mut coder, levels, dithers);
        }
        coder.finish();

        if out.len() > packed_bytes(values.len()) {
            out.truncate(1 + size_of::<f32>());
            out[0] = PACKED;
            out.extend(
                levels.chunks(PACK).map(|five| five.iter().rev().fold(0, |byte, level| byte * 3 + (level + 1) as u8)),
            );
        }
    }

    /// The largest magnitude that is not cut off.
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
    let mut dither = Dither::new(take(&mut bytes)?);
    let row_values = take_row_values(&mut bytes, count)?;
    let [rating] = take(&mut bytes)?;

    let mut model = LevelModel::new(row_values, 1, rating.cast_signed());
    let mut coder = RangeDecoder::new(bytes);
    let (mut levels, mut dithers) = (vec![0; row_values], vec![0; row_values]);
    while out.len() < count {
        let length = row_values.min(count - out.len());
        let (levels, dithers) = (&mut levels[..length], &mut dithers[..length]);
        dither.fill(dithers);
        model.row(&mut coder, levels, dithers);
        out.extend(levels.iter().map(|level| scale * *level as f32));
    }
    coder.finish()
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
