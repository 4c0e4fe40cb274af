//! The largest values of the whole delta, with error feedback for the others.
//!
//! Aji and Heafield 2017 (arXiv:1704.05021); Stich, Cordonnier and Jaggi 2018 (arXiv:1809.07599, algorithm 1). With the
//! delta g and the residual e, the device sends the k values of p = g + e that are largest in magnitude. The new
//! residual is p minus what was sent ([`super::super::residual`]).
//!
//! The codec is for clients that take part in most rounds. On MNIST with 10 of 100 clients per round, 1 % of the values
//! with error feedback did not reach in 150 rounds the accuracy that unbiased codecs reach in 61: a residual that is
//! ten rounds old belongs to a model that has moved on.
//!
//! Encoding reads the delta three times (4 bytes per value) and writes only what it sends. The histogram is the limit:
//! one increment of a counter per value.

use serde::{Deserialize, Serialize};

use super::properties::Properties;
use super::settings::{BadSetting, RESIDUAL_AGE_ROUNDS_MAX, check_density};
use super::sparse::{self, Chosen, Rounding, SparseValues};
use crate::model::ParameterList;
use crate::update::error::SectionError;
use crate::update::frame::{self, Part, Place, Section, SectionCodec};

/// Settings of `top_k`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct TopK {
    /// Share of the values that is sent, above 0 and at most 1; the number of values is rounded up. Default: 0.01.
    pub density: f64,
    /// Encoding of the values that are sent. Default: `f16`.
    pub values: SparseValues,
    /// Age in rounds after which a device drops its residual. Default: 100.
    pub residual_age_rounds_max: u32,
}

impl Default for TopK {
    fn default() -> Self {
        Self { density: 0.01, values: SparseValues::F16, residual_age_rounds_max: RESIDUAL_AGE_ROUNDS_MAX }
    }
}

impl TopK {
    pub(in crate::update) fn properties(&self) -> Properties {
        properties(self.density, self.density, self.values)
    }

    pub(in crate::update) fn check(&self) -> Result<(), BadSetting> {
        check_density(self.density)
    }

    pub(in crate::update) fn encode(&self, delta: &[f32], parameters: &ParameterList) -> Vec<u8> {
        encode_largest(delta, parameters, self.density, self.values)
    }
}

impl SectionCodec for TopK {
    fn section_bytes_max(&self, parts: &[Part]) -> usize {
        // All of the largest values may be in one section.
        sparse::section_bytes_max(self.values, frame::values(parts))
    }

    fn decode(&self, bytes: &[u8], parts: &[Part], out: &mut Section) -> Result<(), SectionError> {
        sparse::read(self.values, bytes, frame::values(parts), out)
    }
}

/// The properties of sending the largest values, for the least and the greatest density.
pub(super) fn properties(density_min: f64, density_max: f64, values: SparseValues) -> Properties {
    /// The square of half a unit in the last of 11 bits, with a margin for values far below the largest.
    const F16_ERROR: f64 = 1.0 / (1 << 20) as f64;
    Properties {
        unbiased: false,
        error_feedback: true,
        bits_per_value_max: sparse::bits_per_value_max(values, density_max),
        relative_error_max: Some(match values {
            // The k largest of n values have at least k/n of the sum of squares.
            SparseValues::F32 => 1.0 - density_min,
            SparseValues::F16 => 1.0 - density_min + F16_ERROR,
            // Rounding to nearest or to a mean magnitude errs no more than sending zeros would.
            SparseValues::Int8 | SparseValues::Sign => 1.0,
        }),
    }
}

/// Encodes the largest values as a frame.
pub(super) fn encode_largest(delta: &[f32], parameters: &ParameterList, density: f64, values: SparseValues) -> Vec<u8> {
    let count = (density * delta.len() as f64).ceil() as usize;
    let mut largest = Largest::of(delta, count);
    let mut chosen = Chosen::default();
    frame::write(parameters, false, |Place { range, .. }, out| {
        chosen.clear();
        for (index, value) in delta[range.clone()].iter().enumerate() {
            if largest.has(*value) {
                chosen.push(index, *value);
            }
        }
        sparse::write(values, range.len(), &chosen, &mut Rounding::Nearest, out);
    })
}

/// Selects the `count` values that are largest in magnitude. Among equal magnitudes the first are selected; zeros never
/// are.
#[derive(Debug)]
struct Largest {
    /// The bits of the smallest selected magnitude.
    threshold: u32,
    /// Number of values of exactly this magnitude that are still to be selected.
    ties: usize,
}

impl Largest {
    /// Finds the threshold in two passes of counting. Magnitudes have the order of their bits, so the first pass finds
    /// the upper 16 bits of the threshold, and the second, among the values that share them, the lower 16 bits.
    fn of(values: &[f32], count: usize) -> Self {
        let upper = |value: &f32| (magnitude_bits(*value) >> 16) as u16;
        let (upper_half, left) = nth_largest(values.iter().map(upper), count);
        let sharing = values.iter().filter(|value| upper(value) == upper_half);
        let (lower_half, ties) = nth_largest(sharing.map(|value| magnitude_bits(*value) as u16), left);
        Self { threshold: u32::from(upper_half) << 16 | u32::from(lower_half), ties }
    }

    /// Whether a value is selected. It must be called once for each value, in order.
    fn has(&mut self, value: f32) -> bool {
        let magnitude = magnitude_bits(value);
        if magnitude < self.threshold || magnitude == 0 {
            return false;
        }
        if magnitude == self.threshold {
            let taken = self.ties > 0;
            self.ties -= usize::from(taken);
            return taken;
        }
        true
    }
}

/// The bits of a magnitude: they have the order of the magnitudes.
fn magnitude_bits(value: f32) -> u32 {
    value.abs().to_bits()
}

/// The `count`th largest of the numbers, and how many numbers equal to it are among the `count` largest.
fn nth_largest(numbers: impl Iterator<Item = u16>, count: usize) -> (u16, usize) {
    let mut histogram = vec![0usize; 1 << 16];
    numbers.for_each(|number| histogram[usize::from(number)] += 1);
    let mut left = count;
    for number in (1..=u16::MAX).rev() {
        let equal = histogram[usize::from(number)];
        if equal >= left {
            return (number, left);
        }
        left -= equal;
    }
    (0, left)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::update::codecs::sparse::testing::{decoded_frame, error, normal, parameters};

    fn largest(values: &[f32], count: usize) -> Vec<usize> {
        let mut largest = Largest::of(values, count);
        values.iter().enumerate().filter(|(_, value)| largest.has(**value)).map(|(index, _)| index).collect()
    }

    proptest! {
        #[test]
        fn the_largest_are_those_that_sorting_puts_first(
            values in prop::collection::vec(
                prop_oneof![any::<i8>().prop_map(f32::from), -1e-3f32..1e-3, Just(0.0), Just(-0.0)],
                1..300,
            ),
            count in 1usize..300,
        ) {
            let count = count.min(values.len());
            let mut order: Vec<usize> = (0..values.len()).filter(|index| values[*index] != 0.0).collect();
            order.sort_by(|a, b| values[*b].abs().total_cmp(&values[*a].abs()));
            order.truncate(count);
            order.sort_unstable();
            prop_assert_eq!(largest(&values, count), order);
        }
    }

    #[test]
    fn of_equal_values_the_first_are_sent() {
        assert_eq!(largest(&[1.0, -2.0, 1.0, -1.0, 1.0], 3), [0, 1, 2]);
        assert_eq!(largest(&[0.0, 1e-45, 0.0], 2), [1]);
        assert_eq!(largest(&[f32::MAX, f32::MIN, 1.0], 1), [0]);
    }

    #[test]
    fn the_share_sent_is_that_of_the_whole_delta_and_rounded_up() {
        // Two parameters; all that is large is in the second.
        let delta: Vec<f32> = (0u8..250).map(|index| if index < 200 { 0.5 } else { f32::from(index) }).collect();
        let parameters = parameters(&[200, 50]);
        let top_k = TopK { density: 0.1001, values: SparseValues::F32, ..TopK::default() };
        let frame = top_k.encode(&delta, &parameters);
        // The first section sends nothing: its length and one byte.
        assert_eq!(frame[..2], [1, 0]);
        let decoded = decoded_frame(&frame, &parameters, top_k).unwrap();
        let expected: Vec<f32> = (0u8..250).map(|index| if index < 224 { 0.0 } else { f32::from(index) }).collect();
        assert_eq!(decoded, expected);
    }

    #[test]
    fn on_normal_values_the_error_and_the_length_are_what_the_theory_says() {
        let delta = normal(200_000, 11);
        let parameters = parameters(&[200_000]);
        // Of a normal distribution the k/n largest hold 2 (z phi(z) + Q(z)) of the squares, with Q(z) = k/2n.
        for (density, expected_error, expected_bits) in [(0.1, 0.5608, 2.076), (0.01, 0.9155, 0.2411)] {
            for (values, value_bits) in [
                (SparseValues::F16, 16.0),
                (SparseValues::Int8, 8.0),
                (SparseValues::Sign, 1.0),
                (SparseValues::F32, 32.0),
            ] {
                let top_k = TopK { density, values, ..TopK::default() };
                let frame = top_k.encode(&delta, &parameters);
                let bits = 8.0 * frame.len() as f64 / delta.len() as f64;
                let properties = top_k.properties();
                assert!(bits <= properties.bits_per_value_max, "{top_k:?}: {bits} bits");
                let expected_bits = expected_bits + density * (value_bits - 16.0);
                assert!((bits / expected_bits - 1.0).abs() < 0.02, "{top_k:?}: {bits} bits");
                let decoded = decoded_frame(&frame, &parameters, top_k).unwrap();
                let error = error(&decoded, &delta);
                assert!(error <= properties.relative_error_max.unwrap(), "{top_k:?}: {error}");
                let near = if values == SparseValues::Sign { 0.05 } else { 0.01 };
                assert!((error - expected_error).abs() < near, "{top_k:?}: {error}");
            }
        }
    }

    #[test]
    fn the_frame_is_what_it_was() {
        let delta = [0.0, 0.25, -3.0, 1.0, 0.0, -0.125, 2.0, 0.5, 0.0, 0.75];
        let parameters = parameters(&[6, 4]);
        let top_k = TopK { density: 0.3, ..TopK::default() };
        let frame = top_k.encode(&delta, &parameters);
        // Half precision times 2^-13: -3 and 1 are -0x1.8p14 and 0x1p13.
        assert_eq!(frame, [8, 2, 0, 243, 0b1100, 0x00, 0xF6, 0x00, 0x70, 6, 1, 0, 243, 1, 0x00, 0x74]);
    }

    #[test]
    fn everything_is_sent_at_density_1() {
        let delta = normal(1000, 3);
        let parameters = parameters(&[999, 1]);
        let top_k = TopK { density: 1.0, values: SparseValues::F32, ..TopK::default() };
        let frame = top_k.encode(&delta, &parameters);
        assert_eq!(decoded_frame(&frame, &parameters, top_k).unwrap(), delta);
        assert_eq!(frame.len(), 2 + 2 + 4 * 999 + 1 + 1 + 4);
        assert_eq!(top_k.properties().relative_error_max, Some(0.0));
    }

    #[test]
    fn a_density_that_is_none_is_refused() {
        for density in [0.0, -0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(TopK { density, ..TopK::default() }.check().is_err(), "{density}");
        }
        assert_eq!(TopK { density: 1.0, ..TopK::default() }.check(), Ok(()));
    }
}
