//! Rice codes of the gaps between ascending indices.
//!
//! A gap g is written as g >> b zeros, a one, and the b lowest bits of g: Golomb's code (Golomb, Run-length encodings,
//! 1966) for divisors 2^b (Rice and Plaunt 1971). With one parameter b per section the code is within 1.5 % of the
//! entropy of independent indices at every density below 0.38. b = 0 is a bitmap, so gaps never take more than one bit
//! per value of the section.

use super::bits::{BITS_AT_ONCE_MAX, BitReader, BitWriter};
use crate::update::error::SectionError;
use crate::update::frame::SECTION_VALUES_MAX;

/// Largest b: gaps are below 2^18.
pub(in crate::update) const PARAMETER_MAX: u8 = SECTION_VALUES_MAX.ilog2() as u8;

/// The gaps of ascending indices: the number of values between each index and the one before it.
pub(in crate::update) fn gaps(indices: &[u32]) -> Vec<u32> {
    let mut first = 0;
    let gap = |index: &u32| {
        let gap = index - first;
        first = index + 1;
        gap
    };
    indices.iter().map(gap).collect()
}

/// The parameter with the shortest code for the gaps of a section, and its length in bits.
///
/// Reads the gaps once per candidate. There are few: each gap takes at least b + 1 bits, which rules out the others.
pub(in crate::update) fn best_parameter(gaps: &[u32]) -> (u8, usize) {
    let bits = |parameter: u8| {
        // The gaps of a section sum to less than 2^18.
        let quotients: u32 = gaps.iter().map(|gap| gap >> parameter).sum();
        gaps.len() * (usize::from(parameter) + 1) + quotients as usize
    };
    let mut best = (0, bits(0));
    for parameter in 1..=PARAMETER_MAX {
        if gaps.len() * (usize::from(parameter) + 1) >= best.1 {
            break;
        }
        let bits = bits(parameter);
        if bits < best.1 {
            best = (parameter, bits);
        }
    }
    best
}

/// Appends the gaps of a section.
pub(in crate::update) fn write(gaps: &[u32], parameter: u8, out: &mut Vec<u8>) {
    let parameter = u32::from(parameter);
    let mut writer = BitWriter::new(out);
    for gap in gaps {
        let mut zeros = gap >> parameter;
        while zeros >= BITS_AT_ONCE_MAX {
            writer.push(0, BITS_AT_ONCE_MAX);
            zeros -= BITS_AT_ONCE_MAX;
        }
        writer.push(1 << zeros, zeros + 1);
        writer.push(gap & ((1 << parameter) - 1), parameter);
    }
    writer.finish();
}

/// Reads `indices.len()` indices, all below `values`, from bytes that contain nothing else.
///
/// # Errors
/// [`SectionError`] for an unknown parameter, an index out of range, and missing or surplus bits.
pub(in crate::update) fn read(
    bytes: &[u8],
    parameter: u8,
    values: usize,
    indices: &mut [u32],
) -> Result<(), SectionError> {
    if parameter > PARAMETER_MAX || values > SECTION_VALUES_MAX {
        return Err(SectionError::BadCode);
    }
    let parameter = u32::from(parameter);
    // A section has at most 2^18 values, so they fit.
    let values = values as u32;
    let mut reader = BitReader::new(bytes);
    let mut first = 0;
    for index in indices {
        let left = values - first;
        let (zeros, low) = reader.code(left >> parameter, parameter)?;
        // The zeros are limited by a word or by the largest gap, so this is far below 2^32.
        let gap = zeros << parameter | low;
        if gap >= left {
            return Err(SectionError::BadIndex);
        }
        *index = first + gap;
        first = *index + 1;
    }
    reader.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::seed::Seed;

    fn written(indices: &[u32], parameter: u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&gaps(indices), parameter, &mut bytes);
        bytes
    }

    fn decoded(bytes: &[u8], parameter: u8, values: usize, count: usize) -> Result<Vec<u32>, SectionError> {
        let mut indices = vec![0; count];
        read(bytes, parameter, values, &mut indices).map(|()| indices)
    }

    proptest! {
        #[test]
        fn indices_come_back_with_every_parameter(
            indices in prop::collection::btree_set(0u32..1 << 18, 0..60),
            parameter in 0..=PARAMETER_MAX,
        ) {
            let indices: Vec<u32> = indices.into_iter().collect();
            let bytes = written(&indices, parameter);
            prop_assert_eq!(decoded(&bytes, parameter, 1 << 18, indices.len()), Ok(indices.clone()));
            let (best, bits) = best_parameter(&gaps(&indices));
            prop_assert_eq!(written(&indices, best).len(), bits.div_ceil(8));
            prop_assert!(bits.div_ceil(8) <= bytes.len());
        }

        #[test]
        fn any_bytes_give_ascending_indices_within_the_section_or_an_error(
            bytes in prop::collection::vec(any::<u8>(), 0..40),
            parameter in 0u8..30,
            values in 1usize..2000,
            count in 0usize..40,
        ) {
            if let Ok(indices) = decoded(&bytes, parameter, values, count) {
                prop_assert!(indices.is_sorted_by(|a, b| a < b));
                prop_assert!(indices.iter().all(|index| (*index as usize) < values));
                prop_assert_eq!(written(&indices, parameter), bytes);
            }
        }
    }

    /// Bits for each non-zero of independent places, by density, and the parameter that is best.
    #[test]
    fn the_length_is_what_the_theory_says() {
        for (density, expected, parameter) in
            [(0.25, 3.29, 1), (0.1, 4.76, 3), (0.05, 5.79, 4), (0.01, 8.11, 6), (0.001, 11.49, 9)]
        {
            let mut stream = Seed(63).stream();
            let (mut bits, mut count) = (0, 0);
            while count < 2_500 {
                let indices: Vec<u32> = (0..SECTION_VALUES_MAX as u32).filter(|_| stream.unit() < density).collect();
                let best = best_parameter(&gaps(&indices));
                // At 0.1 % nine and ten are as good.
                assert!((parameter..=parameter + 1).contains(&best.0), "density {density}: {}", best.0);
                bits += best.1;
                count += indices.len();
            }
            let measured = bits as f64 / f64::from(count as u32);
            assert!((measured / expected - 1.0).abs() < 0.02, "density {density}: {measured} bits");
        }
    }

    #[test]
    fn the_code_is_zeros_a_one_and_the_low_bits() {
        // Gaps 5, 0 and 2 with b = 1: 001 1, 1 0, 01 0, from the lowest bit up.
        assert_eq!(written(&[5, 6, 9], 1), [0b1001_1100, 0]);
        assert_eq!(decoded(&[0b1001_1100, 0], 1, 10, 3), Ok(vec![5, 6, 9]));
    }

    #[test]
    fn what_no_writer_writes_is_refused() {
        assert_eq!(decoded(&[0b1001_1100, 0], 1, 9, 3), Err(SectionError::BadIndex), "the last index is the end");
        assert_eq!(decoded(&[0b1001_1100], 1, 10, 3), Err(SectionError::Truncated));
        assert_eq!(decoded(&[0b1001_1100, 2], 1, 10, 3), Err(SectionError::BadCode), "padding that is not zero");
        assert_eq!(decoded(&[0b1001_1100, 0, 0], 1, 10, 3), Err(SectionError::TrailingBytes));
        assert_eq!(decoded(&[0; 4000], 0, 10, 1), Err(SectionError::BadIndex), "more zeros than there are values");
        assert_eq!(decoded(&[0; 1], 0, 1000, 1), Err(SectionError::Truncated));
        assert_eq!(decoded(&[0xFF; 8], PARAMETER_MAX + 1, 1 << 18, 1), Err(SectionError::BadCode));
        assert_eq!(decoded(&[1], 0, 1, 2), Err(SectionError::BadIndex), "more indices than values");
    }
}
