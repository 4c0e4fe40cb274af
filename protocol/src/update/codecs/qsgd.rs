//! QSGD: a norm per bucket of values, and integer levels of that norm.
//!
//! In a bucket with the L2 norm `|v|` a value is sent as `|v| * sign(v_i) * l / s`, where the level `l` is
//! `s * |v_i| / |v|`, rounded stochastically so that the expectation is the value (Alistarh et al. 2017,
//! arXiv:1610.02132, section 3.1). For `n` values in a bucket `E|sent - v|^2 <= min(n / s^2, sqrt(n) / s) * |v|^2`, and
//! the expected number of levels other than 0 is at most `s * (s + sqrt(n))` (lemma 3.1).
//!
//! Norms are sent as bf16, rounded up. The encoder divides by the same rounded norm that the decoder multiplies with,
//! so the codec stays unbiased and the error grows by less than 2 %.
//!
//! A section is one byte for its kind, and:
//!
//! | kind | content |
//! |---|---|
//! | 0 | nothing: all values are zero |
//! | 1 | norms (bf16), [levels](super::super::coding::levels) |
//! | 2 | norms (bf16), for each value the level and above it the sign, packed from the lowest bit on |
//!
//! The encoder chooses the shortest kind.

use half::bf16;
use serde::{Deserialize, Serialize};

use super::properties::Properties;
use super::settings::BadSetting;
use crate::model::ParameterList;
use crate::seed::Stream;
use crate::update::coding::fields::{bf16_above, sum, take};
use crate::update::coding::levels;
use crate::update::error::SectionError;
use crate::update::frame::{self, Part, SECTION_VALUES_MAX, Section, SectionCodec};

const ZERO: u8 = 0;
const CODED: u8 = 1;
const PACKED: u8 = 2;

/// Most levels above zero. A packed value then takes 16 bits, as many as in the codec `f16`.
const LEVELS_MAX: u16 = 1 << 14;

/// Settings of `qsgd`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Qsgd {
    /// Number of levels above zero (s in the paper), 1 to 16,384. Doubling it at least halves the noise and costs less
    /// than one bit per value. Default: 4.
    pub levels: u16,
    /// Values per norm, 16 to 262,144. Buckets do not cross parameters. Default: 512.
    pub bucket: u32,
}

impl Default for Qsgd {
    fn default() -> Self {
        Self { levels: 4, bucket: 512 }
    }
}

impl Qsgd {
    pub(in crate::update) fn properties(&self) -> Properties {
        let (levels, bucket) = (f64::from(self.levels), f64::from(self.bucket));
        // Rounding a norm up to 8 bits makes it larger by at most 2^-7.
        let norm_error = 1.0 + 1.0 / 128.0;
        Properties {
            unbiased: true,
            error_feedback: false,
            // For parameters of 1,000 values or more. The margin covers the kind and the norm of the last bucket.
            bits_per_value_max: f64::from(self.packed_bits()) + 16.0 / bucket + 0.05,
            relative_error_max: Some(
                (bucket / (levels * levels)).min(bucket.sqrt() / levels) * norm_error * norm_error,
            ),
        }
    }

    pub(in crate::update) fn check(&self) -> Result<(), BadSetting> {
        if !(1..=LEVELS_MAX).contains(&self.levels) {
            return Err(("levels", "1 to 16384"));
        }
        if !(16..=SECTION_VALUES_MAX).contains(&(self.bucket as usize)) {
            return Err(("bucket", "16 to 262144"));
        }
        Ok(())
    }

    pub(in crate::update) fn encode(&self, delta: &[f32], parameters: &ParameterList, stream: &mut Stream) -> Vec<u8> {
        frame::write(parameters, false, |place, section| {
            self.encode_section(&delta[place.range], &place.parts, stream, section);
        })
    }

    /// Encodes a section into `out`, which is empty.
    fn encode_section(&self, values: &[f32], parts: &[Part], stream: &mut Stream, out: &mut Vec<u8>) {
        let norms: Vec<_> = values.chunks(self.bucket as usize).map(norm_above).collect();
        if norms.iter().all(|norm| *norm == bf16::ZERO) {
            return out.push(ZERO);
        }
        out.push(CODED);
        norms.iter().for_each(|norm| out.extend_from_slice(&norm.to_le_bytes()));
        let head_bytes = out.len();
        let levels = levels::encode(self.scaled(values, &norms).as_slice(), parts, self.levels.into(), stream, out);
        if out.len() > self.section_bytes_max(parts) {
            out.truncate(head_bytes);
            out[0] = PACKED;
            self.pack(&levels, out);
        }
    }

    /// `s * v_i / |v|`, at most s and at least -s.
    fn scaled(&self, values: &[f32], norms: &[bf16]) -> Vec<f32> {
        let most = f32::from(self.levels);
        let mut scaled = vec![0.0; values.len()];
        let bucket = self.bucket as usize;
        for ((scaled, values), norm) in scaled.chunks_mut(bucket).zip(values.chunks(bucket)).zip(norms) {
            let step = self.step(*norm);
            if step > 0.0 {
                for (x, value) in scaled.iter_mut().zip(values) {
                    *x = (value / step).clamp(-most, most);
                }
            }
        }
        scaled
    }

    /// The value of one level.
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

    fn unpack(&self, bytes: &[u8], count: usize, out: &mut Vec<f32>) -> Result<(), SectionError> {
        let width = self.packed_bits();
        let bytes_wanted = (count * width as usize).div_ceil(8);
        match bytes.len().cmp(&bytes_wanted) {
            std::cmp::Ordering::Less => return Err(SectionError::Truncated),
            std::cmp::Ordering::Greater => return Err(SectionError::TrailingBytes),
            std::cmp::Ordering::Equal => {}
        }
        let sign = 1 << (width - 1);
        let (mut bits, mut held) = (0u64, 0);
        let mut bytes = bytes.iter();
        for _ in 0..count {
            while held < width {
                bits |= u64::from(*bytes.next().ok_or(SectionError::Truncated)?) << held;
                held += 8;
            }
            let magnitude = (bits & (sign - 1)) as f32;
            out.push(if bits & sign == 0 { magnitude } else { -magnitude });
            (bits, held) = (bits >> width, held - width);
        }
        // The padding of the last byte.
        if bits == 0 { Ok(()) } else { Err(SectionError::BadCode) }
    }
}

/// The L2 norm, rounded up to a finite bf16.
fn norm_above(values: &[f32]) -> bf16 {
    bf16_above(sum(values, |value| value * value).sqrt() as f32)
}

impl SectionCodec for Qsgd {
    fn section_bytes_max(&self, parts: &[Part]) -> usize {
        let values = frame::values(parts);
        let norms = values.div_ceil(self.bucket as usize) * size_of::<bf16>();
        1 + norms + (values * self.packed_bits() as usize).div_ceil(8)
    }

    fn decode(&self, mut bytes: &[u8], parts: &[Part], out: &mut Section) -> Result<(), SectionError> {
        let (values, out) = (frame::values(parts), out.dense());
        let [kind] = take(&mut bytes)?;
        if kind == ZERO {
            out.resize(values, 0.0);
            return if bytes.is_empty() { Ok(()) } else { Err(SectionError::TrailingBytes) };
        }
        let bucket = self.bucket as usize;
        let norms = values.div_ceil(bucket) * size_of::<bf16>();
        let (norms, rest) = bytes.split_at_checked(norms).ok_or(SectionError::Truncated)?;
        let most = self.levels;
        match kind {
            // Levels have at most 16 bits: exact as f32.
            CODED => levels::decode(rest, parts, most.into(), |_, row| {
                out.extend(row.iter().map(|level| *level as f32));
            }),
            PACKED => self.unpack(rest, values, out),
            _ => Err(SectionError::BadCode),
        }?;
        for (levels, norm) in out.chunks_mut(bucket).zip(norms.as_chunks().0) {
            let norm = bf16::from_le_bytes(*norm);
            if !norm.is_finite() || norm.is_sign_negative() {
                return Err(SectionError::BadNumber("norm"));
            }
            if levels.iter().fold(0.0, |largest: f32, level| largest.max(level.abs())) > f32::from(most) {
                return Err(SectionError::BadCode);
            }
            let step = self.step(norm);
            levels.iter_mut().for_each(|level| *level *= step);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::seed::Seed;
    use crate::update::coding::testing::{
        assert_unbiased, cases, damage, decode, decode_parts, hex, normal, relative_error, survives,
    };

    /// One part.
    fn part(values: usize, row_values: usize) -> [Part; 1] {
        [Part { values, row_values: row_values.min(values) }]
    }

    fn encode(qsgd: Qsgd, values: &[f32], row_values: usize, stream: &mut Stream) -> Vec<u8> {
        let mut bytes = Vec::new();
        let parts = part(values.len(), row_values);
        qsgd.encode_section(values, &parts, stream, &mut bytes);
        assert!(bytes.len() <= qsgd.section_bytes_max(&parts));
        bytes
    }

    /// Encodes and decodes a section of rows of this length.
    fn sent(qsgd: Qsgd, values: &[f32], row_values: usize, stream: &mut Stream) -> Vec<f32> {
        let bytes = encode(qsgd, values, row_values, stream);
        decode_parts(&qsgd, &bytes, &part(values.len(), row_values)).unwrap()
    }

    #[test]
    fn every_value_comes_back_within_a_level() {
        for qsgd in [Qsgd::default(), Qsgd { levels: 1000, bucket: 64 }, Qsgd { levels: 1, bucket: 16 }] {
            for (number, values) in cases(qsgd.bucket as usize).into_iter().enumerate() {
                let decoded = sent(qsgd, &values, 50, &mut Seed(1).stream());
                let bucket = qsgd.bucket as usize;
                for (values, decoded) in values.chunks(bucket).zip(decoded.chunks(bucket)) {
                    let step = qsgd.step(norm_above(values));
                    for (value, got) in values.iter().zip(decoded) {
                        assert!((value - got).abs() <= step * 1.0001, "{qsgd:?}, case {number}: {value} became {got}");
                        assert!(*value != 0.0 || *got == 0.0, "zeros stay zero");
                    }
                }
            }
        }
    }

    /// The table of expected counts and variances for standard normal values, and the paper's bounds (lemma 3.1).
    #[test]
    fn counts_and_errors_are_those_of_the_paper() {
        for (bucket, levels, sent_expected, error_expected) in [
            (1024, 1, 25.6, 24.6),
            (1024, 4, 101.8, 5.37),
            (1024, 16, 398.9, 0.655),
            (1024, 32, 631.5, 0.169),
            (4096, 64, 2619.8, 0.168),
        ] {
            const DRAWS: u32 = 100;
            let qsgd = Qsgd { levels, bucket };
            let (mut count, mut error) = (0.0, 0.0);
            for draw in 0..DRAWS {
                let values = normal(bucket as usize, u64::from(draw));
                let decoded = sent(qsgd, &values, 64, &mut Seed(u64::from(draw)).stream());
                count += decoded.iter().filter(|value| **value != 0.0).count() as f64 / f64::from(DRAWS);
                error += relative_error(&values, &decoded) / f64::from(DRAWS);
            }
            // A norm rounded up makes a percent.
            assert!((count / sent_expected - 1.0).abs() < 0.05, "{qsgd:?}: {count} sent");
            assert!((error / error_expected - 1.0).abs() < 0.06, "{qsgd:?}: error {error}");
            let (n, s) = (f64::from(bucket), f64::from(levels));
            assert!(count <= s * (s + n.sqrt()));
            assert!(error <= qsgd.properties().relative_error_max.unwrap());
        }
    }

    #[test]
    fn the_mean_is_kept() {
        let values = normal(40, 5);
        for qsgd in [Qsgd { levels: 1, bucket: 16 }, Qsgd { levels: 3, bucket: 32 }, Qsgd::default()] {
            assert_unbiased(&values, |stream| sent(qsgd, &values, 8, stream));
        }
    }

    #[test]
    fn normal_values_take_what_is_declared() {
        let values = normal(50_000, 11);
        // Levels with gamma codes take 0.72 bits (4 levels) and 1.59 (16) on a real delta with zeros.
        for (levels, bits_most) in [(1, 0.16), (4, 0.5), (16, 1.7), (64, 3.7), (1000, 7.7), (16_384, 11.8)] {
            let qsgd = Qsgd { levels, bucket: 512 };
            let bits = 8.0 * encode(qsgd, &values, 500, &mut Seed(5).stream()).len() as f64 / values.len() as f64;
            assert!(bits < bits_most, "{levels} levels: {bits}");
            assert!(
                qsgd.section_bytes_max(&[Part::row(1000)]) as f64 * 8.0 / 1000.0
                    <= qsgd.properties().bits_per_value_max
            );
        }
    }

    #[test]
    fn norms_are_rounded_up_and_stay_finite() {
        for values in cases(64) {
            let norm = sum(&values, |value| value * value).sqrt();
            let above = norm_above(&values).to_f64();
            assert!(
                above >= norm * (1.0 - 1e-7) && above <= norm * (1.0 + 1.0 / 128.0) + 2f64.powi(-133),
                "{norm} {above}"
            );
        }
        assert_eq!(norm_above(&[f32::MAX; 9]), bf16::MAX);
    }

    #[test]
    fn values_whose_norm_is_too_large_for_a_float_are_cut_off() {
        let values = [f32::MAX; 32];
        let decoded = sent(Qsgd::default(), &values, 8, &mut Seed(1).stream());
        assert!(decoded.iter().all(|value| value.is_finite()));
    }

    #[test]
    fn a_bucket_of_zeros_has_no_levels_and_a_section_of_zeros_one_byte() {
        let qsgd = Qsgd { levels: 4, bucket: 16 };
        let mut values = normal(64, 3);
        values[16..32].fill(0.0);
        let decoded = sent(qsgd, &values, 8, &mut Seed(1).stream());
        assert_eq!(decoded[16..32], [0.0; 16]);
        assert_eq!(encode(qsgd, &[0.0; 64], 8, &mut Seed(1).stream()), [ZERO]);
        assert_eq!(decode(&qsgd, &[ZERO, ZERO], 64), Err(SectionError::TrailingBytes));
    }

    #[test]
    fn plain_sections_are_levels_and_signs() {
        let qsgd = Qsgd { levels: 4, bucket: 512 };
        let levels = [0, 1, -1, 4, -4, 2, 0];
        let mut section = vec![PACKED];
        section.extend_from_slice(&bf16::from_f32(2.0).to_le_bytes());
        qsgd.pack(&levels, &mut section);
        assert_eq!(section.len(), 3 + 4);
        let expected = levels.map(|level| level as f32 * 0.5).to_vec();
        assert_eq!(decode(&qsgd, &section, 7), Ok(expected));
        assert_eq!(decode(&qsgd, &section[..6], 7), Err(SectionError::Truncated));
        assert_eq!(decode(&qsgd, &section, 3), Err(SectionError::TrailingBytes));
        // A level above the highest, and bits after the last value.
        let with = |place: usize, byte: u8| [&section[..place], &[byte], &section[place + 1..]].concat();
        assert_eq!(decode(&qsgd, &with(3, 5), 7), Err(SectionError::BadCode));
        assert_eq!(decode(&qsgd, &with(6, 0xF0), 7), Err(SectionError::BadCode));
    }

    #[test]
    fn a_norm_that_makes_no_sense_is_refused() {
        let section = encode(Qsgd::default(), &normal(400, 12), 20, &mut Seed(6).stream());
        assert_eq!(section[0], CODED);
        for norm in [bf16::NAN, bf16::INFINITY, bf16::NEG_ONE, bf16::NEG_ZERO] {
            let mut section = section.clone();
            section[1..3].copy_from_slice(&norm.to_le_bytes());
            let refused = decode_parts(&Qsgd::default(), &section, &part(400, 20));
            assert_eq!(refused, Err(SectionError::BadNumber("norm")), "{norm}");
        }
    }

    #[test]
    fn the_bytes_of_a_delta_never_change() {
        let values: Vec<f32> = (0..96).map(|at: i32| (at * 37 % 64 - 32) as f32 / 8.0 * (at % 3) as f32).collect();
        let qsgd = Qsgd { levels: 20, bucket: 32 };
        let bytes = encode(qsgd, &values, 12, &mut Seed(7).stream());
        assert_eq!(
            hex(&bytes),
            "018a4186418c41bb43d72304956eec48d184a6ab10fb61732778ab1f9430ab797c2f55e4ebe2e0e114c53c28d977dfafbf43cabcd0a08bcad643"
        );
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        for (levels, bucket) in [(0, 512), (16_385, 512), (4, 15), (4, 262_145)] {
            assert!(Qsgd { levels, bucket }.check().is_err(), "{levels} {bucket}");
        }
    }

    proptest! {
        #[test]
        fn damaged_sections_are_refused_or_are_other_values(
            length in 1usize..300, row_values in 1usize..300, levels in prop::sample::select(&[1u16, 4, 17, 300, 16_384]),
            damage in damage(),
        ) {
            let qsgd = Qsgd { levels, bucket: 64 };
            let bytes = encode(qsgd, &normal(length, 13), row_values, &mut Seed(8).stream());
            survives(&qsgd, &bytes, &part(length, row_values), &damage);
        }
    }
}
