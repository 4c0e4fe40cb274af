//! Helpers for the tests of codecs that write sections.

use proptest::prelude::*;

use crate::seed::{Seed, Stream};
use crate::update::error::SectionError;
use crate::update::frame::{self, Part, Section, SectionCodec};

/// Standard normal values (Box and Muller 1958).
pub(in crate::update) fn normal(count: usize, seed: u64) -> Vec<f32> {
    let mut stream = Seed(seed).stream();
    let mut one = || {
        let radius = (-2.0 * (1.0 - stream.unit()).ln()).sqrt();
        (radius * (std::f64::consts::TAU * stream.unit()).cos()) as f32
    };
    (0..count).map(|_| one()).collect()
}

/// Difficult sections. `block` is the length of the codec's blocks or buckets.
pub(in crate::update) fn cases(block: usize) -> Vec<Vec<f32>> {
    let with = |place: usize, value: f32| {
        let mut values = normal(300, 1);
        values[place] = value;
        values
    };
    let mut cases = vec![
        vec![0.0; 300],
        vec![0.0],
        vec![-0.0; 9],
        vec![0.25],
        vec![-3e38],
        vec![f32::from_bits(1)],
        vec![1.0, 0.0, -1.0, 0.0, 0.0, 2.0, -2.0],
        with(7, 1e30),
        with(299, -1e-40),
        normal(300, 2).into_iter().map(|value| value * 1e-41).collect(),
        normal(300, 3).into_iter().map(|value| value * 1e-20).collect(),
        normal(20_000, 4).into_iter().enumerate().map(|(at, value)| if at % 7 < 3 { 0.0 } else { value }).collect(),
    ];
    cases.extend([block - 1, block, block + 1, 2 * block + 3].map(|length| normal(length, length as u64)));
    cases
}

/// Decodes a section of one row.
pub(in crate::update) fn decode(
    codec: &dyn SectionCodec,
    bytes: &[u8],
    values: usize,
) -> Result<Vec<f32>, SectionError> {
    decode_parts(codec, bytes, &[Part::row(values)])
}

/// Decodes into buffers that were used before.
pub(in crate::update) fn decode_parts(
    codec: &dyn SectionCodec,
    bytes: &[u8],
    parts: &[Part],
) -> Result<Vec<f32>, SectionError> {
    let mut section = Section { values: vec![f32::NAN; 5], indices: vec![1, 2], sparse: true };
    codec.decode(bytes, parts, &mut section)?;
    assert!(!section.sparse && section.indices.is_empty());
    assert_eq!(section.values.len(), frame::values(parts));
    Ok(section.values)
}

/// `|decoded - values|^2 / |values|^2`
pub(in crate::update) fn relative_error(values: &[f32], decoded: &[f32]) -> f64 {
    let square = |value: f64| value * value;
    let error: f64 = values.iter().zip(decoded).map(|(value, got)| square(f64::from(*got) - f64::from(*value))).sum();
    error / values.iter().map(|value| square(f64::from(*value))).sum::<f64>()
}

/// Asserts that the mean of 10,000 draws is within 5 standard errors of every value.
pub(in crate::update) fn assert_unbiased(values: &[f32], mut draw: impl FnMut(&mut Stream) -> Vec<f32>) {
    const DRAWS: u32 = 10_000;
    let mut stream = Seed(99).stream();
    let (mut sums, mut squares) = (vec![0.0; values.len()], vec![0.0; values.len()]);
    for _ in 0..DRAWS {
        for (index, got) in draw(&mut stream).into_iter().enumerate() {
            let difference = f64::from(got) - f64::from(values[index]);
            sums[index] += difference;
            squares[index] += difference * difference;
        }
    }
    for (index, (sum, squares)) in sums.iter().zip(squares).enumerate() {
        let mean = sum / f64::from(DRAWS);
        let standard_error = ((squares / f64::from(DRAWS) - mean * mean).max(0.0) / f64::from(DRAWS)).sqrt();
        // A value that is always sent has no deviation, only the rounding of f32.
        let rounding = f64::from(values[index].abs()) * 1e-6;
        assert!(mean.abs() <= 5.0 * standard_error + rounding, "value {index}: {mean} from {}", values[index]);
    }
}

/// A way to damage bytes.
#[derive(Clone, Debug)]
pub(in crate::update) enum Damage {
    Flip(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Extend(Vec<u8>),
    Replace(Vec<u8>),
}

pub(in crate::update) fn damage() -> impl Strategy<Value = Damage> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..60);
    prop_oneof![
        4 => (any::<prop::sample::Index>(), 1..=u8::MAX).prop_map(|(place, bits)| Damage::Flip(place, bits)),
        1 => any::<prop::sample::Index>().prop_map(Damage::Cut),
        1 => bytes().prop_map(Damage::Extend),
        1 => bytes().prop_map(Damage::Replace),
    ]
}

/// Asserts that damaged bytes are refused, or decode to the right number of values. (By chance they may encode other
/// values, even when cut or extended: the length of a section is not in the section.)
pub(in crate::update) fn survives(codec: &dyn SectionCodec, bytes: &[u8], parts: &[Part], damage: &Damage) {
    let mut damaged = bytes.to_vec();
    match damage {
        Damage::Flip(place, bits) => damaged[place.index(bytes.len())] ^= bits,
        Damage::Cut(place) => damaged.truncate(place.index(bytes.len())),
        Damage::Extend(more) => damaged.extend_from_slice(more),
        Damage::Replace(other) => damaged.clone_from(other),
    }
    // `decode` asserts the number of values.
    let _ = decode_parts(codec, &damaged, parts);
}

/// Bytes in hexadecimal, for vectors in tests.
pub(in crate::update) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
