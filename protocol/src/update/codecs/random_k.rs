//! Unbiased sparsification: a value is sent with some probability, divided by that probability.
//!
//! Wangni, Wang, Liu and Zhang 2018 (arXiv:1710.09854). A value g is sent as g/p with probability p, else not at all.
//! For a given density the variance is least with p = min(|g|/m, 1) (equation 5 with m = 1/lambda): values below m are
//! sent as m or -m, the others unchanged. Their algorithm 3 (greedy) finds m for a density.
//!
//! The whole delta has one m. It is rounded up to 11 bits, which half precision represents, and larger values are
//! rounded stochastically, so the expectation of the decoded delta is the delta. Each value's draw has 32 bits; the
//! rounding of p to a multiple of 2^-32 moves the mean by less than 2^-32 m.
//!
//! Encoding reads the delta four times (4 bytes per value) and draws four random bytes per value. The draws are the
//! limit: 3 to 5 ns per value.

use serde::{Deserialize, Serialize};

use super::properties::Properties;
use super::settings::{BadSetting, check_density};
use super::sparse::{self, Chosen, Rounding, SparseValues};
use crate::model::ParameterList;
use crate::seed::Stream;
use crate::update::error::SectionError;
use crate::update::frame::{self, Part, Place, Section, SectionCodec};

/// Settings of `random_k`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RandomK {
    /// Expected share of the values that is sent, above 0 and at most 1. Default: 0.1.
    pub density: f64,
    /// Encoding of the values that are sent: `f16`, `int8` or `f32`. Signs alone would be biased. Default: `f16`.
    pub values: SparseValues,
}

impl Default for RandomK {
    fn default() -> Self {
        Self { density: 0.1, values: SparseValues::F16 }
    }
}

impl RandomK {
    pub(in crate::update) fn properties(&self) -> Properties {
        /// Margin for more values than expected: five standard deviations of 50,000 draws at density 10 %.
        const MORE: f64 = 1.0 + 1.0 / 16.0;
        /// Margin for rounding m up to 11 bits, and for rounding larger values.
        const ROUNDING: f64 = 1.0 + 1.0 / 512.0;
        Properties {
            unbiased: true,
            error_feedback: false,
            bits_per_value_max: sparse::bits_per_value_max(self.values, (self.density * MORE).min(1.0)),
            // m is at most sum |g| / (density n), so the expected error, the sum of |g| m - g^2, is at most
            // (sum |g|)^2 / (density n), which is at most sum g^2 / density. The error of 8-bit numbers depends on the
            // section's largest value, so `int8` has no bound.
            relative_error_max: (self.values != SparseValues::Int8).then_some(ROUNDING / self.density),
        }
    }

    pub(in crate::update) fn check(&self) -> Result<(), BadSetting> {
        if self.values == SparseValues::Sign {
            return Err(("values", "\"f16\", \"int8\" or \"f32\": signs alone would be biased"));
        }
        check_density(self.density)
    }

    pub(in crate::update) fn encode(&self, delta: &[f32], parameters: &ParameterList, stream: &mut Stream) -> Vec<u8> {
        let sent_as = rounded_up(magnitude_for_density(delta, self.density));
        let mut chosen = Chosen::default();
        frame::write(parameters, false, |Place { range, .. }, out| {
            chosen.clear();
            choose(&delta[range.clone()], sent_as, stream, &mut chosen);
            sparse::write(self.values, range.len(), &chosen, &mut Rounding::Stochastic(stream), out);
        })
    }
}

impl SectionCodec for RandomK {
    fn section_bytes_max(&self, parts: &[Part]) -> usize {
        // All values of a section may be drawn.
        sparse::section_bytes_max(self.values, frame::values(parts))
    }

    fn decode(&self, bytes: &[u8], parts: &[Part], out: &mut Section) -> Result<(), SectionError> {
        sparse::read(self.values, bytes, frame::values(parts), out)
    }
}

/// The m for which the sum of all p is about `density` times the number of values (algorithm 3); 0 for a delta of
/// zeros.
///
/// It starts from p = density n |g| / sum |g|. Where that exceeds 1 it is capped, and the excess is redistributed among
/// the other values, twice.
fn magnitude_for_density(delta: &[f32], density: f64) -> f64 {
    const CORRECTIONS: usize = 2;
    let (_, sum) = below(delta, f64::INFINITY);
    if sum == 0.0 {
        return 0.0;
    }
    let total = delta.len() as f64;
    let mut sent_as = sum / (density * total);
    for _ in 0..CORRECTIONS {
        let (count, sum) = below(delta, sent_as);
        let factor = (density * total - total + count as f64) * sent_as / sum;
        // False for NaN and infinity too: if no value is below m, the factor is 0/0 or a number over 0.
        if !(factor > 1.0 && factor < f64::INFINITY) {
            break;
        }
        sent_as /= factor;
    }
    sent_as
}

/// The number of values below a magnitude, and the sum of their magnitudes.
fn below(delta: &[f32], magnitude: f64) -> (usize, f64) {
    // Eight sums, each in the order of the vector: this vectorises, and the result is the same on every CPU.
    const LANES: usize = 8;
    let (mut counts, mut sums) = ([0usize; LANES], [0.0f64; LANES]);
    for values in delta.chunks(LANES) {
        for ((count, sum), value) in counts.iter_mut().zip(&mut sums).zip(values) {
            let value = f64::from(value.abs());
            let below = value < magnitude;
            *count += usize::from(below);
            *sum += if below { value } else { 0.0 };
        }
    }
    (counts.iter().sum(), sums.iter().sum())
}

/// Rounds up to an f32 whose last 13 bits are zero, which half precision represents. At most the largest such number.
fn rounded_up(magnitude: f64) -> f32 {
    const DROPPED: u32 = (1 << 13) - 1;
    let nearest = magnitude.min(f64::from(f32::MAX)) as f32;
    let above = if f64::from(nearest) < magnitude { nearest.next_up() } else { nearest };
    let above = above.min(f32::MAX);
    // Denormal numbers are evenly spaced and need no rounding.
    if above < f32::MIN_POSITIVE {
        return above;
    }
    let bits = (above.to_bits() + DROPPED) & !DROPPED;
    f32::from_bits(bits.min(f32::MAX.to_bits() & !DROPPED))
}

/// Draws which values of a section are sent, and as what.
fn choose(section: &[f32], sent_as: f32, stream: &mut Stream, chosen: &mut Chosen) {
    if sent_as == 0.0 {
        return;
    }
    let draws = f64::from(1u32 << 31) * 2.0 / f64::from(sent_as);
    for (pair, values) in section.chunks(2).enumerate() {
        let mut random = stream.next_u64();
        for (index, value) in values.iter().enumerate() {
            let kept = f64::from(random as u32);
            random >>= 32;
            // Of the 2^32 possible draws, a share of p sends the value: none for a zero, all from m on.
            if kept + 0.5 < f64::from(value.abs()) * draws {
                chosen.push(2 * pair + index, value.abs().max(sent_as).copysign(*value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;
    use crate::update::codecs::sparse::testing::{decoded_frame, error, normal, parameters};

    const DELTA: [f32; 8] = [3.0, -1.0, 0.5, 0.25, -0.125, 0.0625, 2.0, -0.75];

    /// p of the paper: `|value| / sent_as`, at most 1.
    fn probability(value: f32, sent_as: f64) -> f64 {
        (f64::from(value.abs()) / sent_as).min(1.0)
    }

    fn assert_near(probabilities: impl Iterator<Item = f64>, expected: &[f64]) {
        for (probability, expected) in probabilities.zip(expected) {
            assert!((probability - expected).abs() < 1e-9, "{probability} instead of {expected}");
        }
    }

    #[test]
    fn the_greedy_form_meets_the_density() {
        let sent_as = magnitude_for_density(&DELTA, 0.5);
        let probabilities: Vec<f64> = DELTA.iter().map(|value| probability(*value, sent_as)).collect();
        let expected = [1.0, 0.7441860465, 0.3720930233, 0.1860465116, 0.0930232558, 0.0465116279, 1.0, 0.5581395349];
        assert_near(probabilities.iter().copied(), &expected);
        assert!((probabilities.iter().sum::<f64>() - 4.0).abs() < 1e-12);
    }

    #[test]
    fn the_error_that_it_promises_is_that_of_the_density() {
        let bound = |density, values| RandomK { density, values }.properties().relative_error_max;
        // 1 / density (Wangni et al. 2018), and 1/512 of it for rounding.
        assert_eq!(bound(0.25, SparseValues::F16), Some(4.0 + 4.0 / 512.0));
        assert_eq!(bound(0.25, SparseValues::Int8), None);
    }

    #[test]
    fn zeros_need_no_division_and_are_never_sent() {
        assert_eq!(magnitude_for_density(&[0.0, -0.0], 0.1), 0.0);
        let parameters = parameters(&[3, 5000]);
        let frame = RandomK::default().encode(&[0.0; 5003], &parameters, &mut Seed(1).stream());
        assert_eq!(frame, [1, 0, 1, 0]);
        // Fewer than are to be sent: each of them is, as it is.
        let mut delta = [0.0; 5003];
        (delta[7], delta[5000]) = (-2.0, 1e-30);
        let frame = RandomK::default().encode(&delta, &parameters, &mut Seed(1).stream());
        assert_eq!(decoded_frame(&frame, &parameters, RandomK::default()).unwrap()[7], -2.0);
    }

    #[test]
    fn what_is_decoded_is_on_average_the_delta() {
        const DRAWS: u32 = 10_000;
        let mut delta = normal(61, 5);
        delta.extend([0.0, 40.0, -1e-6]);
        let parameters = parameters(&[64]);
        for values in [SparseValues::F16, SparseValues::Int8, SparseValues::F32] {
            let random_k = RandomK { density: 0.1, values };
            let (mut sums, mut squares) = (vec![0.0f64; 64], vec![0.0f64; 64]);
            let mut stream = Seed(17).stream();
            for _ in 0..DRAWS {
                let frame = random_k.encode(&delta, &parameters, &mut stream);
                let decoded = decoded_frame(&frame, &parameters, random_k).unwrap();
                for (index, value) in decoded.iter().enumerate() {
                    sums[index] += f64::from(*value);
                    squares[index] += f64::from(*value).powi(2);
                }
            }
            let draws = f64::from(DRAWS);
            for (index, expected) in delta.iter().enumerate() {
                let mean = sums[index] / draws;
                let deviation = ((squares[index] / draws - mean * mean).max(0.0) / draws).sqrt();
                let off = (mean - f64::from(*expected)).abs();
                // A value that hardly ever is sent may not have been in 10,000 draws.
                assert!(off <= 5.0 * deviation + 1e-5, "{values:?} {index}: {mean} instead of {expected}");
            }
        }
    }

    #[test]
    fn on_normal_values_density_error_and_length_are_as_declared() {
        let delta = normal(200_000, 23);
        let parameters = parameters(&[200_000]);
        for (density, values) in [(0.1, SparseValues::F16), (0.01, SparseValues::F16), (0.1, SparseValues::Int8)] {
            let random_k = RandomK { density, values };
            let frame = random_k.encode(&delta, &parameters, &mut Seed(2).stream());
            let decoded = decoded_frame(&frame, &parameters, random_k).unwrap();
            let sent = decoded.iter().filter(|value| **value != 0.0).count() as f64 / 200_000.0;
            assert!((sent / density - 1.0).abs() < 0.1, "{random_k:?}: {sent}");
            let bits = 8.0 * frame.len() as f64 / 200_000.0;
            let properties = random_k.properties();
            assert!(bits <= properties.bits_per_value_max, "{random_k:?}: {bits}");
            // With m = E|g| / density for all values: (E|g|)^2 / density - 1 = 2 / (pi density) - 1.
            let error = error(&decoded, &delta);
            let expected = 2.0 / (std::f64::consts::PI * density) - 1.0;
            assert!((error / expected - 1.0).abs() < 0.05, "{random_k:?}: {error} instead of {expected}");
            assert!(error <= properties.relative_error_max.unwrap_or(f64::INFINITY));
        }
    }

    #[test]
    fn the_magnitude_that_is_sent_fits_half_precision_and_is_finite() {
        assert_eq!(rounded_up(1.0), 1.0);
        assert_eq!(rounded_up(1.0 + 1e-12), 1.0 + 1.0 / 1024.0);
        assert_eq!(rounded_up(f64::from(1e-44f32)), 1e-44);
        assert_eq!(rounded_up(0.0), 0.0);
        for huge in [f64::from(f32::MAX), 1e300] {
            assert!(rounded_up(huge).is_finite());
        }
        let parameters = parameters(&[4]);
        let delta = [f32::MAX, -f32::MAX, f32::MAX, 1e-45];
        for seed in 0..50 {
            let random_k = RandomK { density: 0.01, values: SparseValues::F16 };
            let frame = random_k.encode(&delta, &parameters, &mut Seed(seed).stream());
            let decoded = decoded_frame(&frame, &parameters, random_k).unwrap();
            assert!(decoded.iter().all(|value| value.is_finite()));
        }
    }

    #[test]
    fn the_frame_is_what_it_was() {
        let parameters = parameters(&[6, 2]);
        let random_k = RandomK { density: 0.5, values: SparseValues::F16 };
        let frame = random_k.encode(&DELTA, &parameters, &mut Seed(1).stream());
        // Kept are 3, -1, 0.25, 2 and -0.75; those below m = 1.34375 as m.
        let (first, second) =
            ([10, 3, 0, 243, 0b1011, 0x00, 0x76, 0x60, 0xF1, 0x60, 0x71], [6, 2, 243, 0, 0x74, 0x60, 0xF1]);
        assert_eq!(frame, [&first[..], &second].concat());
    }

    #[test]
    fn signs_are_refused() {
        assert!(RandomK { values: SparseValues::Sign, ..RandomK::default() }.check().is_err());
        assert!(RandomK { density: 0.0, ..RandomK::default() }.check().is_err());
        assert_eq!(RandomK::default().check(), Ok(()));
    }
}
