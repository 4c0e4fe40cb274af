//! QSGD: the norm of a bucket and whole levels of it.
//!
//! In a bucket with the L2 norm `|v|` a value becomes `|v| * sign(v_i) * l / s`, where `l` is `s * |v_i| / |v|` rounded up
//! or down by chance so that the mean is kept (Alistarh et al. 2017, arXiv 1610.02132, section 3.1). For `n` values in a
//! bucket `E|sent - v|^2 <= min(n / s^2, sqrt(n) / s) * |v|^2`, and at most `s * (s + sqrt(n))` levels are not 0 on average
//! (lemma 3.1).
//!
//! Norms are sent as bf16, rounded up: the writer divides by the norm that the reader multiplies with, so the mean is
//! still kept, and the error grows by less than 2 %.
//!
//! A section is one byte that says which of these follow:
//!
//! | byte | then |
//! |---|---|
//! | 0 | nothing: all zeros |
//! | 1 | norms (bf16), seed of the dither (4 bytes), row length (24 bits), rating of the mean level (1 byte), [levels](super::super::coding::levels) |
//! | 2 | norms (bf16), for each value the level and above it the sign, bits from the lowest on |
//!
//! The writer takes what is shortest.

use half::bf16;
use serde::{Deserialize, Serialize};

use super::super::Properties;
use super::super::coding::fields::{sum, take, take_row_values};
use super::super::coding::levels::{Dither, LevelModel, rating_of, round};
use super::super::coding::range_coder::{RangeDecoder, RangeEncoder};
use super::super::frame::{self, SECTION_VALUES_MAX, Section, SectionCodec, SectionError};
use super::BadSetting;
use crate::model::ParameterList;
use crate::seed::Stream;

const ZERO: u8 = 0;
const CODED: u8 = 1;
const PACKED: u8 = 2;

/// Most levels above zero; more would be finer than the norm is wide.
const LEVELS_MAX: u16 = 1 << 14;

/// Settings of `qsgd`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Qsgd {
    /// Levels above zero, s in the paper: 1 to 16,384. Twice the levels halve the noise at least and cost less than one
    /// bit more for each value.
    pub levels: u16,
    /// Values that share a norm: 16 to 262,144; buckets begin anew with each parameter.
    pub bucket: u32,
}

impl Default for Qsgd {
    fn default() -> Self {
        Self { levels: 4, bucket: 512 }
    }
}

impl Qsgd {
    pub(in super::super) fn properties(&self) -> Properties {
        let (levels, bucket) = (f64::from(self.levels), f64::from(self.bucket));
        // A norm that was rounded up to 8 bits is larger by 2^-7 at most.
        let norm_error = 1.0 + 1.0 / 128.0;
        Properties {
            unbiased: true,
            feedback: false,
            // For parameters of 1,000 values or more: a byte, and norms of buckets that are not full.
            bits_per_value_max: f64::from(self.packed_bits()) + 16.0 / bucket + 0.05,
            relative_error_max: Some(
                (bucket / (levels * levels)).min(bucket.sqrt() / levels) * norm_error * norm_error,
            ),
        }
    }

    pub(in super::super) fn check(&self) -> Result<(), BadSetting> {
        if !(1..=LEVELS_MAX).contains(&self.levels) {
            return Err(("levels", "1 to 16384"));
        }
        if !(16..=SECTION_VALUES_MAX).contains(&(self.bucket as usize)) {
            return Err(("bucket", "16 to 262144"));
        }
        Ok(())
    }

    pub(in super::super) fn encode(&self, delta: &[f32], parameters: &ParameterList, stream: &mut Stream) -> Vec<u8> {
        frame::write(parameters, |range, section| {
            let row_values = frame::row_values(parameters, &range);
            self.encode_section(&delta[range], row_values, stream, section);
        })
    }

    /// Appends a section to nothing.
    fn encode_section(&self, values: &[f32], row_values: usize, stream: &mut Stream, out: &mut Vec<u8>) {
        let norms: Vec<_> = values.chunks(self.bucket as usize).map(norm_above).collect();
        if norms.iter().all(|norm| *norm == bf16::ZERO) {
            return out.push(ZERO);
        }
        let scaled = self.scaled(values, &norms);
        let rating = rating_of(sum(&scaled, |x| x) / values.len() as f64);
        let seed = (stream.next_u64() as u32).to_le_bytes();
        out.push(CODED);
        norms.iter().for_each(|norm| out.extend_from_slice(&norm.to_le_bytes()));
        let head_bytes = out.len();
        out.extend_from_slice(&seed);
        out.extend_from_slice(&(row_values as u32).to_le_bytes()[..3]);
        out.extend_from_slice(&rating.to_le_bytes());

        let mut levels = vec![0; values.len()];
        let mut dither = Dither::new(seed);
        let mut dithers = vec![0; row_values];
        let mut model = LevelModel::new(row_values, u32::from(self.levels), rating);
        let mut coder = RangeEncoder::new(out);
        let rows = levels.chunks_mut(row_values).zip(values.chunks(row_values)).zip(scaled.chunks(row_values));
        for ((levels, values), scaled) in rows {
            let dithers = &mut dithers[..levels.len()];
            dither.fill(dithers);
            for (((level, value), x), dither) in levels.iter_mut().zip(values).zip(scaled).zip(&*dithers) {
                let magnitude = round(*x, *dither, stream) as i32;
                *level = if *value < 0.0 { -magnitude } else { magnitude };
            }
            model.row(&mut coder, levels, dithers);
        }
        coder.finish();

        if out.len() > self.section_bytes_max(values.len()) {
            out.truncate(head_bytes);
            out[0] = PACKED;
            self.pack(&levels, out);
        }
    }

    /// `s * |v_i| / |v|`, at most s.
    fn scaled(&self, values: &[f32], norms: &[bf16]) -> Vec<f32> {
        let most = f32::from(self.levels);
        let mut scaled = vec![0.0; values.len()];
        let bucket = self.bucket as usize;
        for ((scaled, values), norm) in scaled.chunks_mut(bucket).zip(values.chunks(bucket)).zip(norms) {
            let step = self.step(*norm);
            if step > 0.0 {
                for (x, value) in scaled.iter_mut().zip(values) {
                    *x = (value.abs() / step).min(most);
                }
            }
        }
        scaled
    }

    /// What one level is worth.
    fn step(&self, norm: bf16) -> f32 {
        norm.to_f32() / f32::from(self.levels)
    }

    /// Bits of a level and a sign.
    fn packed_bits(&self) -> u32 {
        self.levels.ilog2() + 2
    }

    fn pack(&self, levels: &[i32], out: &mut Vec<u8>) {
        let width = self.packed_bits();
        let (mut bits, mut count) = (0u64, 0);
        for level in levels {
            let negative = u64::from(*level < 0) << (width - 1);
            bits |= (u64::from(level.unsigned_abs()) | negative) << count;
            count += width;
            while count >= 8 {
                out.push(bits as u8);
                (bits, count) = (bits >> 8, count - 8);
            }
        }
        if count > 0 {
            out.push(bits as u8);
        }
    }

    fn unpack(&self, bytes: &[u8], levels: &mut [i32]) -> Result<(), SectionError> {
        let width = self.packed_bits();
        let bytes_wanted = (levels.len() * width as usize).div_ceil(8);
        match bytes.len().cmp(&bytes_wanted) {
            std::cmp::Ordering::Less => return Err(SectionError::Truncated),
            std::cmp::Ordering::Greater => return Err(SectionError::TrailingBytes),
            std::cmp::Ordering::Equal => {}
        }
        let sign = 1 << (width - 1);
        let (mut bits, mut count) = (0u64, 0);
        let mut bytes = bytes.iter();
        for level in levels {
            while count < width {
                bits |= u64::from(*bytes.next().ok_or(SectionError::Truncated)?) << count;
                count += 8;
            }
            let magnitude = (bits & (sign - 1)) as i32;
            *level = if bits & sign == 0 { magnitude } else { -magnitude };
            (bits, count) = (bits >> width, count - width);
        }
        // What is left of the last byte.
        if bits == 0 { Ok(()) } else { Err(SectionError::BadCode) }
    }

    fn decode_coded(&self, mut bytes: &[u8], levels: &mut [i32]) -> Result<(), SectionError> {
        let mut dither = Dither::new(take(&mut bytes)?);
        let row_values = take_row_values(&mut bytes, levels.len())?;
        let [rating] = take(&mut bytes)?;
        let mut model = LevelModel::new(row_values, u32::from(self.levels), rating.cast_signed());
        let mut coder = RangeDecoder::new(bytes);
        let mut dithers = vec![0; row_values];
        for row in levels.chunks_mut(row_values) {
            let dithers = &mut dithers[..row.len()];
            dither.fill(dithers);
            model.row(&mut coder, row, dithers);
        }
        coder.finish()
    }
}

/// The L2 norm, rounded up to a finite bf16.
fn norm_above(values: &[f32]) -> bf16 {
    let norm = sum(values, |value| value * value).sqrt() as f32;
    // Magnitudes are ordered as their bits are.
    let up = ((norm.to_bits() + 0xFFFF) >> 16) as u16;
    bf16::from_bits(up.min(bf16::MAX.to_bits()))
}

impl SectionCodec for Qsgd {
    fn section_bytes_max(&self, values: usize) -> usize {
        let norms = values.div_ceil(self.bucket as usize) * size_of::<bf16>();
        1 + norms + (values * self.packed_bits() as usize).div_ceil(8)
    }

    fn decode(&self, mut bytes: &[u8], values: usize, out: &mut Section) -> Result<(), SectionError> {
        let out = out.dense();
        let [kind] = take(&mut bytes)?;
        if kind == ZERO {
            out.resize(values, 0.0);
            return if bytes.is_empty() { Ok(()) } else { Err(SectionError::TrailingBytes) };
        }
        let bucket = self.bucket as usize;
        let norms = values.div_ceil(bucket) * size_of::<bf16>();
        let (norms, rest) = bytes.split_at_checked(norms).ok_or(SectionError::Truncated)?;
        let mut levels = vec![0; values];
        match kind {
            CODED => self.decode_coded(rest, &mut levels)?,
            PACKED => self.unpack(rest, &mut levels)?,
            _ => return Err(SectionError::BadCode),
        }
        for (levels, norm) in levels.chunks(bucket).zip(norms.as_chunks().0) {
            let norm = bf16::from_le_bytes(*norm);
            if !norm.is_finite() || norm.is_sign_negative() {
                return Err(SectionError::BadNumber("norm"));
            }
            if levels.iter().any(|level| level.unsigned_abs() > u32::from(self.levels)) {
                return Err(SectionError::BadCode);
            }
            let step = self.step(norm);
            out.extend(levels.iter().map(|level| step * *level as f32));
        }
        Ok(())
    }
}
