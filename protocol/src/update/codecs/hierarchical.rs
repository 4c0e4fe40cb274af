//! Lines for the directions of blocks, and a line for the sizes of neighbouring blocks.
//!
//! The hierarchical quantiser of Du, Yang and Huang 2020 (arXiv:1910.03865): a vector is its length, its blocks'
//! directions, and the vector of the blocks' sizes and signs, the hinge. The direction of a block is coded as the
//! nearest line of a codebook, the one with the largest `|<g, c>|`; its sign becomes that of the block's number in the
//! hinge. The hinge of [`HINGE`] blocks is coded by a codebook of its own, and the length by a uniform quantiser. The
//! product of the three is decoded.
//!
//! Two numbers differ from the paper, so that the product is the nearest one to the vector: the hinge holds the
//! projections of the blocks on their lines and not their norms, and the length is that of the vector's projection on
//! the decoded direction. The codec is biased and needs error feedback.
//!
//! Good codebooks for lines keep them far apart (a packing in the Grassmannian manifold). These are found greedily:
//! each line is, of [`CANDIDATES`] random ones, the one that is farthest from all lines before. The first one is
//! random. A random line has, for each dimension, the sum of four numbers `unit() - 0.5` of the stream of
//! `Seed(dimension).derive("lines", count)` ([`crate::seed`]), and is divided by its length. All is computed in f64 and
//! rounded to f32 at the end.
//!
//! A section is the largest length (f32), and for each group of [`HINGE`] blocks its length in units of 1/255 of the
//! largest (a byte); if that is not 0, the hinge (a byte: its line, and above it the sign), and one byte for the line
//! of each block. A section of zeros is only the largest length, which is 0. Blocks at the end are padded with zeros.
//!
//! Encoding takes 256 products per value and is limited by them. Decoding is one product per value.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::properties::Properties;
use super::settings::BadSetting;
use crate::cpu::Cpu;
use crate::for_each_cpu;
use crate::model::ParameterList;
use crate::seed::Seed;
use crate::update::coding::fields::{magnitude_max, take, take_magnitude};
use crate::update::error::SectionError;
use crate::update::frame::{self, Part, Section, SectionCodec};

/// Lines for blocks: a byte each.
const LINES: usize = 256;
/// Lines for hinges: their byte has a bit for the sign.
const HINGE_LINES: usize = 128;
/// Blocks of a group, which is the dimension of a hinge.
const HINGE: usize = 8;
/// Largest length in units of the quantiser.
const LENGTH_MAX: f32 = 255.0;
/// Random lines of which the best becomes the next one of a codebook.
const CANDIDATES: usize = 16;

/// Settings of `hierarchical`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Hierarchical {
    /// Values per block: 8, 16 or 32, which take 1.25, 0.63 or 0.31 bits each. Default: 16.
    pub block: u8,
}

impl Default for Hierarchical {
    fn default() -> Self {
        Self { block: 16 }
    }
}

/// What is sent of a group of blocks.
struct Group {
    /// Length of the projection on the direction that follows, in the unit of the section.
    length: f32,
    hinge: u8,
    lines: Vec<u8>,
}

impl Hierarchical {
    pub(in crate::update) fn properties(&self) -> Properties {
        Properties {
            unbiased: false,
            error_feedback: true,
            // For parameters of 1,000 values or more.
            bits_per_value_max: 8.0 * (2 + HINGE) as f64 / (HINGE as f64 * f64::from(self.block)) + 0.06,
            // A projection is never farther from a vector than zero is.
            relative_error_max: Some(1.0),
        }
    }

    pub(in crate::update) fn check(&self) -> Result<(), BadSetting> {
        if [8, 16, 32].contains(&self.block) { Ok(()) } else { Err(("block", "8, 16 or 32")) }
    }

    pub(in crate::update) fn encode(&self, delta: &[f32], parameters: &ParameterList) -> Vec<u8> {
        frame::write(parameters, false, |place, section| self.encode_section(&delta[place.range], section))
    }

    fn encode_section(&self, values: &[f32], out: &mut Vec<u8>) {
        let unit = f64::from(magnitude_max(values));
        let groups: Vec<_> = match unit > 0.0 {
            true => values.chunks(HINGE * usize::from(self.block)).map(|group| self.group(group, unit)).collect(),
            false => Vec::new(),
        };
        let largest = groups.iter().fold(0.0, |largest: f32, group| largest.max(group.length));
        let sent = (f64::from(largest) * unit).min(f32::MAX.into()) as f32;
        out.extend_from_slice(&sent.to_le_bytes());
        if sent == 0.0 {
            return;
        }
        for group in groups {
            let length = (group.length / largest * LENGTH_MAX).round() as u8;
            out.push(length);
            if length > 0 {
                out.push(group.hinge);
                out.extend_from_slice(&group.lines);
            }
        }
    }

    /// Codes the blocks of a group, whose values are divided by `unit`.
    fn group(&self, values: &[f32], unit: f64) -> Group {
        let (block, codebook) = (usize::from(self.block), self.codebook());
        let mut projections = [0.0; HINGE];
        let mut lines = Vec::with_capacity(HINGE);
        for (values, projection) in values.chunks(block).zip(&mut projections) {
            let mut scaled = [0.0; 32];
            for (scaled, value) in scaled.iter_mut().zip(values) {
                *scaled = (f64::from(*value) / unit) as f32;
            }
            let line;
            (line, *projection) = codebook.nearest(Cpu::best(), &scaled[..block]);
            lines.push(line as u8);
        }
        let (line, projection) = HINGES.nearest(Cpu::best(), &projections);
        let sign = if projection < 0.0 { HINGE_LINES } else { 0 };
        Group { length: projection.abs(), hinge: (line + sign) as u8, lines }
    }

    fn codebook(&self) -> &'static Codebook {
        match self.block {
            8 => &BLOCKS_OF_8,
            16 => &BLOCKS_OF_16,
            _ => &BLOCKS_OF_32,
        }
    }
}

impl SectionCodec for Hierarchical {
    fn section_bytes_max(&self, parts: &[Part]) -> usize {
        let values = frame::values(parts);
        let block = usize::from(self.block);
        size_of::<f32>() + 2 * values.div_ceil(HINGE * block) + values.div_ceil(block)
    }

    fn decode(&self, mut bytes: &[u8], parts: &[Part], out: &mut Section) -> Result<(), SectionError> {
        let (values, out) = (frame::values(parts), out.dense());
        let (block, codebook) = (usize::from(self.block), self.codebook());
        let step = take_magnitude(&mut bytes, "largest length")?;
        if step == 0.0 {
            out.resize(values, 0.0);
            return if bytes.is_empty() { Ok(()) } else { Err(SectionError::TrailingBytes) };
        }
        let step = step / LENGTH_MAX;
        while out.len() < values {
            let count = (values - out.len()).min(HINGE * block);
            let [length] = take(&mut bytes)?;
            if length == 0 {
                out.resize(out.len() + count, 0.0);
                continue;
            }
            let [hinge] = take(&mut bytes)?;
            let (lines, rest) = bytes.split_at_checked(count.div_ceil(block)).ok_or(SectionError::Truncated)?;
            bytes = rest;
            let hinge = usize::from(hinge);
            let sign = if hinge < HINGE_LINES { 1.0 } else { -1.0 };
            let length = step * f32::from(length) * sign;
            for (line, size) in lines.iter().zip(HINGES.line(hinge % HINGE_LINES)) {
                let scale = length * size;
                out.extend(codebook.line(usize::from(*line)).iter().map(|part| scale * part));
            }
            // The padding of the last block.
            out.truncate(values);
        }
        if bytes.is_empty() { Ok(()) } else { Err(SectionError::TrailingBytes) }
    }
}

static BLOCKS_OF_8: LazyLock<Codebook> = LazyLock::new(|| Codebook::new(8, LINES));
static BLOCKS_OF_16: LazyLock<Codebook> = LazyLock::new(|| Codebook::new(16, LINES));
static BLOCKS_OF_32: LazyLock<Codebook> = LazyLock::new(|| Codebook::new(32, LINES));
static HINGES: LazyLock<Codebook> = LazyLock::new(|| Codebook::new(HINGE, HINGE_LINES));

/// Lines through the origin, each as a vector of length 1. They never change between releases.
struct Codebook {
    dimension: usize,
    /// Vector after vector.
    lines: Vec<f32>,
    /// The first numbers of all vectors, then the second ones, and so on.
    transposed: Vec<f32>,
}

impl Codebook {
    fn new(dimension: usize, count: usize) -> Self {
        let mut stream = Seed(dimension as u64).derive("lines", count as u64).stream();
        // Sums of uniform numbers are nearly normal, so the directions are nearly uniform.
        let mut random = || {
            let mut line: Vec<f64> = (0..dimension).map(|_| (0..4).map(|_| stream.unit() - 0.5).sum::<f64>()).collect();
            let length = line.iter().map(|part| part * part).sum::<f64>().sqrt();
            line.iter_mut().for_each(|part| *part /= length);
            line
        };
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>().abs();
        let mut lines: Vec<Vec<f64>> = vec![random()];
        while lines.len() < count {
            let nearness = |line: &[f64]| lines.iter().fold(0.0, |most: f64, other| most.max(product(line, other)));
            let candidates = (0..CANDIDATES).map(|_| random()).map(|line| (nearness(&line), line));
            let best = candidates.min_by(|(one, _), (other, _)| one.total_cmp(other));
            lines.push(best.expect("there are candidates").1);
        }
        let lines: Vec<f32> = lines.into_iter().flatten().map(|part| part as f32).collect();
        let transposed = (0..dimension).flat_map(|part| lines.iter().skip(part).step_by(dimension)).copied().collect();
        Self { dimension, lines, transposed }
    }

    fn line(&self, index: usize) -> &[f32] {
        &self.lines[index * self.dimension..][..self.dimension]
    }

    /// The line with the largest projection of a vector, and the projection with its sign. The first one of several.
    fn nearest(&self, cpu: Cpu, vector: &[f32]) -> (usize, f32) {
        let mut buffer = [0.0; LINES];
        let products = &mut buffer[..self.transposed.len() / self.dimension];
        let index = nearest(cpu, &self.transposed, vector, products) as usize;
        (index, products[index])
    }
}

for_each_cpu! {
    /// Computes the products of a vector with all lines. Returns the index of the largest magnitude.
    fn nearest(transposed: &[f32], vector: &[f32], products: &mut [f32]) -> u32 {
        let count = products.len();
        for (parts, value) in transposed.chunks_exact(count).zip(vector) {
            for (product, part) in products.iter_mut().zip(parts) {
                *product += part * value;
            }
        }
        // Magnitudes have the order of their bits.
        let largest = products.iter().map(|product| product.abs().to_bits()).fold(0, u32::max);
        let places = (0..).zip(products.iter());
        places.fold(u32::MAX, |first, (place, product)| {
            first.min(if product.abs().to_bits() == largest { place } else { u32::MAX })
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::update::coding::fields::sum;
    use crate::update::coding::testing::{cases, damage, decode, hex, normal, relative_error, survives};

    const BLOCKS: [u8; 3] = [8, 16, 32];

    fn encode(block: u8, values: &[f32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        Hierarchical { block }.encode_section(values, &mut bytes);
        assert!(bytes.len() <= Hierarchical { block }.section_bytes_max(&[Part::row(values.len())]));
        bytes
    }

    #[test]
    fn the_error_on_normal_values_falls_with_shorter_blocks() {
        let values = normal(20_000, 1);
        for (block, error_most) in [(8, 0.5), (16, 0.68), (32, 0.82)] {
            let hierarchical = Hierarchical { block };
            let bytes = encode(block, &values);
            let error = relative_error(&values, &decode(&hierarchical, &bytes, values.len()).unwrap());
            assert!(error < error_most && error > 0.6 * error_most, "{block}: {error}");
            let bits = hierarchical.section_bytes_max(&[Part::row(1000)]) as f64 * 8.0 / 1000.0;
            assert!(bits <= hierarchical.properties().bits_per_value_max, "{block}: {bits}");
        }
    }

    #[test]
    fn any_section_comes_back_no_farther_than_zero() {
        for block in BLOCKS {
            for (number, values) in cases(HINGE * usize::from(block)).into_iter().enumerate() {
                let bytes = encode(block, &values);
                let decoded = decode(&Hierarchical { block }, &bytes, values.len()).unwrap();
                assert!(decoded.iter().all(|value| value.is_finite()), "{block}, case {number}");
                if magnitude_max(&values) == 0.0 {
                    assert_eq!((bytes, decoded), (vec![0; 4], vec![0.0; values.len()]));
                } else if magnitude_max(&values) > 1e-35 {
                    assert!(relative_error(&values, &decoded) <= 1.000_1, "{block}, case {number}");
                }
            }
        }
    }

    #[test]
    fn what_was_decoded_is_coded_as_itself() {
        for block in BLOCKS {
            let hierarchical = Hierarchical { block };
            // Whole blocks: a line loses its end in the last one.
            let decoded = decode(&hierarchical, &encode(block, &normal(3072, 2)), 3072).unwrap();
            let again = decode(&hierarchical, &encode(block, &decoded), 3072).unwrap();
            assert!(relative_error(&decoded, &again) < 1e-4, "{block}");
        }
    }

    #[test]
    fn lines_have_length_one_and_are_apart() {
        for (codebook, nearest_most) in
            [(&HINGES, 0.9), (&BLOCKS_OF_8, 0.95), (&BLOCKS_OF_16, 0.85), (&BLOCKS_OF_32, 0.7)]
        {
            let count = codebook.lines.len() / codebook.dimension;
            for one in 0..count {
                let length = sum(codebook.line(one), |part| part * part);
                assert!((length - 1.0).abs() < 1e-6, "{length}");
                for other in 0..one {
                    let pairs = codebook.line(one).iter().zip(codebook.line(other));
                    let product: f32 = pairs.map(|(one, other)| one * other).sum();
                    assert!(product.abs() < nearest_most, "{} dimensions: {product}", codebook.dimension);
                }
            }
        }
    }

    #[test]
    fn every_cpu_finds_the_same_line() {
        for vector in normal(1600, 3).chunks(16) {
            let found = |cpu| BLOCKS_OF_16.nearest(cpu, vector);
            Cpu::all().into_iter().for_each(|cpu| assert_eq!(found(cpu), found(Cpu::portable()), "{cpu:?}"));
        }
    }

    #[test]
    fn sections_that_nobody_writes_are_refused() {
        let hierarchical = Hierarchical::default();
        let section = encode(16, &normal(140, 4));
        assert_eq!(section.len(), 4 + 2 + 8 + 2 + 1);
        for length in 0..section.len() {
            assert_eq!(decode(&hierarchical, &section[..length], 140), Err(SectionError::Truncated));
        }
        assert_eq!(decode(&hierarchical, &[&section[..], &[0]].concat(), 140), Err(SectionError::TrailingBytes));
        assert_eq!(decode(&hierarchical, &[0; 5], 140), Err(SectionError::TrailingBytes));
        for length in [f32::NAN, f32::INFINITY, -1.0, -0.0] {
            let section = [&length.to_le_bytes()[..], &section[4..]].concat();
            assert_eq!(decode(&hierarchical, &section, 140), Err(SectionError::BadNumber("largest length")));
        }
    }

    #[test]
    fn the_bytes_of_a_delta_never_change() {
        let values: Vec<f32> = (0..70).map(|at: i32| (at * 37 % 64 - 32) as f32 / 8.0).collect();
        assert_eq!(hex(&encode(16, &values)), "7d691d41ff331e0e7c742e");
    }

    #[test]
    fn other_lengths_of_blocks_are_refused() {
        assert!([0, 7, 64].iter().all(|block| Hierarchical { block: *block }.check().is_err()));
    }

    proptest! {
        #[test]
        fn damaged_sections_are_refused_or_are_other_values(
            block in prop::sample::select(&BLOCKS), length in 1usize..600, damage in damage(),
        ) {
            survives(&Hierarchical { block }, &encode(block, &normal(length, 13)), &[Part::row(length)], &damage);
        }
    }
}
