use proptest::prelude::*;

use super::testing::normal;
use super::{Chosen, Rounding, SparseValues, read, section_bytes_max, write};
use crate::seed::Seed;
use crate::update::error::SectionError;
use crate::update::frame::{SECTION_VALUES_MAX, Section};

const ALL: [SparseValues; 4] = [SparseValues::F32, SparseValues::F16, SparseValues::Int8, SparseValues::Sign];

/// A section in which every value is sent that is not zero.
fn section(kind: SparseValues, values: &[f32]) -> Vec<u8> {
    let mut chosen = Chosen::default();
    let sent = values.iter().enumerate().filter(|(_, value)| **value != 0.0);
    sent.for_each(|(index, value)| chosen.push(index, *value));
    let mut bytes = Vec::new();
    write(kind, values.len(), &chosen, &mut Rounding::Nearest, &mut bytes);
    bytes
}

fn decoded(kind: SparseValues, bytes: &[u8], values: usize) -> Result<Vec<f32>, SectionError> {
    let mut section = Section::default();
    read(kind, bytes, values, &mut section)?;
    if !section.sparse {
        return Ok(section.values);
    }
    let mut all = vec![0.0; values];
    section.indices.iter().zip(&section.values).for_each(|(index, value)| all[*index as usize] = *value);
    Ok(all)
}

fn came_back(kind: SparseValues, values: &[f32]) -> Vec<f32> {
    let bytes = section(kind, values);
    assert!(bytes.len() <= section_bytes_max(kind, values.len()), "{kind:?}");
    decoded(kind, &bytes, values.len()).unwrap()
}

proptest! {
    #[test]
    fn a_section_is_never_longer_than_its_bound_and_comes_back_as_near_as_it_can(
        values in prop::collection::vec(prop_oneof![Just(0.0f32), -4.0f32..4.0, -1e-6f32..1e-6], 1..400),
    ) {
        let largest = values.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
        prop_assert_eq!(came_back(SparseValues::F32, &values), values.clone());
        for (value, half) in values.iter().zip(came_back(SparseValues::F16, &values)) {
            prop_assert!((value - half).abs() <= value.abs() / 2048.0 + largest * 2f32.powi(-38));
        }
        for (value, byte) in values.iter().zip(came_back(SparseValues::Int8, &values)) {
            prop_assert!((value - byte).abs() <= largest / 253.9);
        }
        for (value, sign) in values.iter().zip(came_back(SparseValues::Sign, &values)) {
            prop_assert_eq!(value.partial_cmp(&0.0), sign.partial_cmp(&0.0));
        }
    }

    #[test]
    fn any_bytes_give_finite_indices_in_range_or_an_error(
        kind in prop::sample::select(ALL.to_vec()),
        bytes in prop::collection::vec(any::<u8>(), 0..64),
        values in 1usize..300,
    ) {
        let mut section = Section::default();
        if read(kind, &bytes, values, &mut section).is_ok() {
            prop_assert!(section.indices.is_sorted_by(|a, b| a < b));
            prop_assert!(section.indices.iter().all(|index| (*index as usize) < values));
            prop_assert_eq!(section.values.len(), if section.sparse { section.indices.len() } else { values });
        }
    }

    #[test]
    fn flipped_cut_and_drawn_out_sections_never_panic(
        kind in prop::sample::select(ALL.to_vec()),
        seed in any::<u64>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut values = normal(200, seed);
        values.iter_mut().filter(|value| value.abs() < 1.5).for_each(|value| *value = 0.0);
        let mut bytes = section(kind, &values);
        prop_assert!(decoded(kind, &bytes[..cut.index(bytes.len())], 200).is_err());
        bytes.push(0);
        prop_assert!(decoded(kind, &bytes, 200).is_err());
        bytes.pop();
        for (index, flip) in flips {
            let at = index.index(bytes.len());
            bytes[at] ^= flip;
        }
        let _ = decoded(kind, &bytes, 200);
    }
}

#[test]
fn nothing_to_send_is_one_byte() {
    for kind in ALL {
        assert_eq!(section(kind, &[0.0; 1000]), [0]);
        assert_eq!(came_back(kind, &[0.0, -0.0]), [0.0, 0.0]);
    }
}

#[test]
fn the_format_is_what_it_was() {
    let values = [0.0, 0.0, -1.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.75, 0.0, 0.0, 0.0];
    // Count 2, parameter 1, a scale, and the gaps 2 and 5 as 01 0, 001 1 from the lowest bit up.
    assert_eq!(section(SparseValues::F16, &values), [2, 1, 0xF2, 0b0110_0010, 0x00, 0xF6, 0x00, 0x72]);
    assert_eq!(
        section(SparseValues::F32, &values),
        [2, 1, 0b0110_0010, 0x00, 0x00, 0xC0, 0xBF, 0x00, 0x00, 0x40, 0x3F]
    );
    assert_eq!(section(SparseValues::Int8, &values), [2, 1, 0x07, 0x83, 0x41, 0x3C, 0b0110_0010, 0x81, 0x3F]);
    assert_eq!(section(SparseValues::Sign, &values), [2, 1, 0x00, 0x00, 0x90, 0x3F, 0b0110_0010, 0b01]);
    // All values, where their places would be longer.
    assert_eq!(section(SparseValues::Int8, &[127.0, 0.0, -3.0]), [3, 0x00, 0x00, 0x80, 0x3F, 0x7F, 0x00, 0xFD]);
    assert_eq!(section(SparseValues::Sign, &[2.0, -2.0, 2.0]), [3, 0x00, 0x00, 0x00, 0x40, 0b010]);
}

#[test]
fn values_of_any_size_have_a_place() {
    let (tiny, huge) = (f32::from_bits(1), f32::MAX);
    for kind in ALL {
        for values in [[tiny, 0.0, -tiny], [huge, 0.0, -huge], [huge, 0.0, tiny], [1e-40, 0.0, -3e-42]] {
            let back = came_back(kind, &values);
            assert!(back.iter().all(|value| value.is_finite()), "{kind:?} {values:?} {back:?}");
            assert_eq!(back[1], 0.0);
            let expected = if kind == SparseValues::Sign { back[0] } else { values[0] };
            assert!((back[0] / 2.0 - expected / 2.0).abs() <= values[0] / 2000.0, "{kind:?} {values:?} {back:?}");
        }
        for length in [1, 2, 3, 7, 8, 9, 127, 128, 129] {
            assert_eq!(came_back(kind, &vec![-127.0; length]), vec![-127.0; length]);
        }
    }
    assert_eq!(came_back(SparseValues::F16, &[tiny, 0.0]), [tiny, 0.0]);
    assert_eq!(came_back(SparseValues::Int8, &[tiny, 0.0]), [tiny, 0.0]);
}

#[test]
fn the_longest_section_is_read() {
    for kind in ALL {
        let mut values = vec![127.0; SECTION_VALUES_MAX];
        assert!(came_back(kind, &values) == values, "{kind:?}");
        values[SECTION_VALUES_MAX / 2] = 0.0;
        assert!(came_back(kind, &values) == values, "{kind:?}");
        values.fill(0.0);
        values[SECTION_VALUES_MAX - 1] = -1.0;
        assert!(section(kind, &values).len() < 16);
        assert!((came_back(kind, &values)[SECTION_VALUES_MAX - 1] + 1.0).abs() < 1e-6, "{kind:?}");
    }
}

#[test]
fn rounding_by_chance_is_right_on_average() {
    const DRAWS: u32 = 10_000;
    // The first sets the scale; the others lie between what can be written.
    let values = [1000.0f32, 0.1, -0.3, 3.7, -999.3, 1e-9, 4e-7];
    let mut chosen = Chosen::default();
    values.iter().enumerate().for_each(|(index, value)| chosen.push(index, *value));
    let mut stream = Seed(9).stream();
    for kind in [SparseValues::F16, SparseValues::Int8] {
        let (mut sums, mut squares) = ([0.0f64; 7], [0.0f64; 7]);
        for _ in 0..DRAWS {
            let mut bytes = Vec::new();
            write(kind, values.len(), &chosen, &mut Rounding::Stochastic(&mut stream), &mut bytes);
            let back = decoded(kind, &bytes, values.len()).unwrap();
            for (index, value) in back.iter().enumerate() {
                sums[index] += f64::from(*value);
                squares[index] += f64::from(*value).powi(2);
            }
        }
        let draws = f64::from(DRAWS);
        for (index, value) in values.iter().enumerate() {
            let mean = sums[index] / draws;
            let deviation = ((squares[index] / draws - mean * mean).max(0.0) / draws).sqrt();
            let off = (mean - f64::from(*value)).abs();
            assert!(off <= 5.0 * deviation + 1e-6 * f64::from(value.abs()) + 1e-5, "{kind:?} {value}: {mean}");
        }
    }
}

#[test]
fn what_no_writer_writes_is_refused() {
    let refusal = |kind, bytes: &[u8], values| decoded(kind, bytes, values).unwrap_err();
    use SparseValues::{F16, Int8, Sign};
    assert_eq!(refusal(F16, &[], 4), SectionError::Truncated);
    assert_eq!(refusal(F16, &[0x82], 4), SectionError::Truncated);
    assert_eq!(refusal(F16, &[0x82, 0], 4), SectionError::BadLength);
    assert_eq!(refusal(F16, &[0, 0], 4), SectionError::TrailingBytes);
    assert_eq!(refusal(F16, &[5], 4), SectionError::TooMany);
    assert_eq!(refusal(F16, &[0xFF, 0xFF, 0xFF, 0xFF, 0x7F], 4), SectionError::TooMany);
    assert_eq!(refusal(F16, &[1, 0, 0, 1], 4), SectionError::Truncated, "no room for the value");
    assert_eq!(refusal(F16, &[1, 0, 0, 0b10000, 0, 0x3C], 4), SectionError::BadIndex);
    assert_eq!(refusal(F16, &[1, 19, 0, 1, 0, 0, 0x3C], 4), SectionError::BadCode, "no such parameter");
    assert_eq!(refusal(F16, &[1, 0, 0x81, 1, 0, 0x3C], 4), SectionError::BadNumber("exponent"));
    assert_eq!(refusal(F16, &[1, 0, 114, 1, 0, 0x3C], 4), SectionError::BadNumber("exponent"));
    assert_eq!(refusal(F16, &[1, 0, 0, 1, 0, 0x80], 4), SectionError::BadCode, "a zero is not sent");
    assert_eq!(refusal(F16, &[1, 0, 0, 0, 0x3C], 1), SectionError::TrailingBytes);
    for scale in [f32::NAN, f32::INFINITY, 0.0, -0.0, -1.0] {
        let [a, b, c, d] = scale.to_le_bytes();
        for kind in [Int8, Sign] {
            assert_eq!(refusal(kind, &[1, 0, a, b, c, d, 1, 1], 4), SectionError::BadNumber("scale"), "{scale}");
        }
    }
    let [a, b, c, d] = 1.0f32.to_le_bytes();
    assert_eq!(refusal(Int8, &[1, 0, a, b, c, d, 1, 0x80], 4), SectionError::BadCode, "-128 is not used");
    assert_eq!(refusal(Int8, &[2, a, b, c, d, 1, 0x80], 2), SectionError::BadCode, "-128 is not used");
    assert_eq!(refusal(Int8, &[1, 0, a, b, c, d, 1, 0], 4), SectionError::BadCode, "a zero is not sent");
    assert_eq!(refusal(Sign, &[1, 0, a, b, c, d, 1, 0b10], 4), SectionError::BadCode, "padding that is not zero");
    assert_eq!(refusal(Sign, &[1, 0, a, b, c, d, 0b11, 0], 4), SectionError::BadCode, "padding that is not zero");
}
