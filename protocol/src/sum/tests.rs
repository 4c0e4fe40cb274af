//! Sums from writer to decoder, and hostile ones.

use proptest::prelude::*;

use super::*;
use crate::fixed::{Contribution, SumCaps, Weight, quantise};
use crate::hash::Sha256Hash;
use crate::id::JobId;
use crate::seed::Seed;

const CAPS: SumCaps = SumCaps { weight_max: Weight::examples(10_000), magnitude_max: 32.0, updates_max: 16 };
/// Caps that allow every integer in a sum of three updates.
const WIDE: SumCaps = SumCaps { weight_max: Weight::examples(1), magnitude_max: 1.999_999_9, updates_max: 1 };
const WEIGHT: Weight = Weight::examples(12);

fn job() -> JobId {
    "job_4e719d2adc6dd79b783ad54dd2ddf3d2".parse().unwrap()
}

fn expected(values: usize) -> Expected {
    Expected { tag: tag(&job(), 0, 40), values: values as u32, caps: CAPS, binary_point: 40, updates_max: 16 }
}

/// The same with values of any size.
fn wide(values: usize) -> Expected {
    Expected { caps: WIDE, binary_point: 62, ..expected(values) }
}

fn body_of(contribution: Contribution, values: &[i64]) -> Vec<u8> {
    let mut writer = SumWriter::new(tag(&job(), 0, 40), contribution, values.len() as u32);
    writer.push(values);
    writer.finish().unwrap()
}

fn body(updates: u32, values: &[i64]) -> Vec<u8> {
    body_of(Contribution { weight: WEIGHT, updates }, values)
}

fn read(expected: Expected, body: &[u8], piece: usize) -> Result<(Contribution, Vec<i64>), SumError> {
    let mut decoder = SumDecoder::new(expected);
    let mut values = vec![77; expected.values as usize];
    for piece in body.chunks(piece) {
        if let Err(error) = decoder.read(piece, &mut values) {
            assert_eq!(
                (decoder.read(&[], &mut values), decoder.finish()),
                (Err(error), Err(error)),
                "it stays refused"
            );
            return Err(error);
        }
    }
    decoder.finish().map(|contribution| (contribution, values))
}

/// Values of all sizes, runs of zeros and blocks with common zero bits.
fn values() -> impl Strategy<Value = Vec<i64>> {
    let value = prop_oneof![4 => any::<i64>(), 1 => Just(0), 1 => Just(i64::MIN), 1 => Just(i64::MAX), 1 => -9i64..9];
    let run = (prop::collection::vec(value, 0..400), 0u32..64, 0u32..64, any::<bool>());
    prop::collection::vec(run, 0..5).prop_map(|runs| {
        let run = |(values, narrow, shift, is_zero): (Vec<i64>, u32, u32, bool)| {
            values.into_iter().map(move |value| if is_zero { 0 } else { value >> narrow << shift })
        };
        runs.into_iter().flat_map(run).collect()
    })
}

proptest! {
    #[test]
    fn a_sum_is_read_as_it_was_in_pieces_of_any_size(
        values in values(), push in 1usize..700, piece in 1usize..5000, take in any::<bool>(),
    ) {
        let contribution = Contribution { weight: Weight::of_units(77_777), updates: 3 };
        let mut writer = SumWriter::new(tag(&job(), 0, 40), contribution, values.len() as u32);
        let mut bytes = Vec::new();
        for values in values.chunks(push) {
            writer.push(values);
            if take {
                bytes.append(&mut writer.take());
            }
        }
        bytes.append(&mut writer.finish().unwrap());
        prop_assert_eq!(&bytes, &body_of(contribution, &values));
        prop_assert!(bytes.len() as u64 <= body_bytes_max(values.len() as u32));
        prop_assert_eq!(read(wide(values.len()), &bytes, piece), Ok((contribution, values)));
    }

    #[test]
    fn bytes_that_are_read_are_those_that_would_be_written(
        blocks in prop::collection::vec(any::<u8>(), 0..60), width in 0u8..20, shift in 0u8..50, count in 1usize..20,
    ) {
        let mut bytes = body(3, &vec![0; count]);
        bytes.truncate(24);
        bytes.extend_from_slice(&[width, shift]);
        bytes.extend(blocks.iter().cycle().take((count * usize::from(width)).div_ceil(8)));
        if let Ok((_, values)) = read(wide(count), &bytes, 7) {
            prop_assert_eq!(body(3, &values), bytes);
        }
    }
}

/// Values as hard to guess as those of an update, with a second block that is short.
fn mixed(count: usize) -> Vec<i64> {
    let mut stream = Seed(3).stream();
    (0..count).map(|at| if at < 256 { (stream.next_u64() as i64) >> 24 << 3 } else { at as i64 - 257 }).collect()
}

#[test]
fn no_flipped_bit_gives_a_second_encoding() {
    let mut accepted = 0;
    for values in [mixed(5), mixed(260), vec![0; 3], vec![-8, 0, 24]] {
        let whole = body(3, &values);
        for bit in 0..8 * whole.len() {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok((contribution, values)) = read(expected(values.len()), &bytes, 100) {
                assert_eq!(body_of(contribution, &values), bytes, "bit {bit}");
                accepted += 1;
            }
        }
    }
    assert!(accepted > 1000, "most bits are those of values");
}

#[test]
fn a_sum_ends_where_it_should() {
    let values = mixed(260);
    let whole = body(3, &values);
    for cut in 0..whole.len() {
        assert_eq!(read(expected(260), &whole[..cut], 50), Err(SumError::Truncated(cut as u64)));
    }
    for piece in [1, 50, 5000] {
        assert_eq!(read(expected(260), &[&whole[..], &[0]].concat(), piece), Err(SumError::TooLong));
        assert!(read(expected(260), &whole, piece).is_ok());
    }
    // A model without parameters has a sum too.
    assert!(read(expected(0), &body(3, &[]), 5).unwrap().1.is_empty());
    assert_eq!(body_bytes_max(0), 24);
    assert_eq!((body_bytes_max(256), body_bytes_max(257)), (24 + 2 + 2048, 24 + 4 + 2056));
}

#[test]
fn what_was_not_expected_is_refused_by_name() {
    let values = [5, -3];
    let refused = |change: fn(&mut Expected), updates, weight| {
        let mut expected = expected(2);
        change(&mut expected);
        read(expected, &body_of(Contribution { weight, updates }, &values), 9).map(drop).unwrap_err()
    };
    let same: fn(&mut Expected) = |_| {};
    assert_eq!(refused(|expected| expected.tag = tag(&job(), 1, 40), 3, WEIGHT), SumError::Tag);
    assert_eq!(refused(|expected| expected.tag = tag(&job(), 0, 41), 3, WEIGHT), SumError::Tag);
    assert_eq!(refused(same, 0, WEIGHT), SumError::NoUpdates);
    assert_eq!(refused(same, 17, WEIGHT), SumError::TooManyUpdates { got: 17, updates_max: 16 });
    assert_eq!(refused(same, 3, Weight::of_units(0)), SumError::ZeroWeight);
    let weight_max = Weight::examples(30_000);
    let got = Weight::of_units(weight_max.units() + 1);
    assert_eq!(refused(same, 3, got), SumError::WeightTooLarge { got, weight_max });
    assert!(read(expected(2), &body_of(Contribution { weight: weight_max, updates: 3 }, &values), 9).is_ok());
    assert_eq!(refused(|expected| expected.values = 3, 3, WEIGHT), SumError::Values { got: 2, expected: 3 });
    assert_eq!(refused(|expected| expected.values = 0, 3, WEIGHT), SumError::Values { got: 2, expected: 0 });
}

#[test]
fn no_value_is_beyond_what_its_updates_add_up_to() {
    let value_max = CAPS.value_max(40);
    for updates in [1, 3, 16] {
        let most = value_max * i64::from(updates);
        for values in [[most, 0], [0, -most]] {
            assert_eq!(read(expected(2), &body(updates, &values), 9).unwrap().1, values);
        }
        for got in [most + 1, -most - 1, i64::MAX, i64::MIN] {
            let error = SumError::ValueTooLarge { place: 257, got, magnitude_max: most.unsigned_abs() };
            let mut values = vec![0; 259];
            values[257] = got;
            assert_eq!(read(expected(259), &body(updates, &values), 90), Err(error));
        }
    }
    // Caps whose products are beyond 64 bits limit nothing, and overflow nothing.
    let caps = SumCaps { weight_max: Weight::of_units(u64::MAX), magnitude_max: f32::MAX, updates_max: 1 };
    let unlimited = Expected { caps, updates_max: u32::MAX, ..expected(2) };
    let all = Contribution { weight: Weight::of_units(u64::MAX), updates: u32::MAX };
    assert_eq!(read(unlimited, &body_of(all, &[i64::MIN, i64::MAX]), 9).unwrap().0, all);
}

#[test]
fn a_writer_gets_as_many_values_as_it_was_told() {
    for (announced, pushed) in [(3, 2), (3, 4), (0, 1), (256, 0)] {
        let mut writer = SumWriter::new(tag(&job(), 0, 40), Contribution::of_one(WEIGHT), announced);
        writer.push(&vec![1; pushed]);
        assert_eq!(writer.finish(), Err(SumError::Values { got: pushed as u64, expected: announced }));
    }
}

#[test]
fn the_contribution_is_known_with_the_header() {
    let bytes = body(3, &[1, 2]);
    let mut decoder = SumDecoder::new(expected(2));
    decoder.read(&bytes[..23], &mut vec![0; 2]).unwrap();
    assert_eq!(decoder.contribution(), None);
    // A clone goes on from where it was made.
    let mut clone = decoder.clone();
    clone.read(&bytes[23..24], &mut vec![0; 2]).unwrap();
    assert_eq!(clone.contribution(), Some(Contribution { weight: WEIGHT, updates: 3 }));
    assert_eq!((clone.finish(), decoder.finish()), (Err(SumError::Truncated(24)), Err(SumError::Truncated(23))));
}

/// The bytes were made by a few lines of Python that know only the format's description; `docs/protocol.md` has them.
#[test]
fn a_sum_is_written_as_in_the_vector() {
    let quarters = [6, -5, 0, 28, -1].map(|quarters: i64| quarters << 38);
    let bytes: Vec<u8> = [
        &[0x54, 0x53, 0x7C, 0x3A, 0x3C, 0x11, 0xF3, 0x70][..],
        &[2, 0, 0, 0, 5, 0, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0],
        &[6, 38, 0xC6, 0x0E, 0x70, 0x3F],
    ]
    .concat();
    assert_eq!(body(2, &quarters), bytes);
    assert_eq!(read(expected(5), &bytes, 3).unwrap().1, quarters);
    // Forty blocks of many widths and shifts.
    let blocks: Vec<i64> = (0..10_000u32).map(|at| (i64::from(at) - 5000) << (at / 256)).collect();
    assert_eq!(Sha256Hash::of(&body(2, &blocks)).to_string(), BLOCKS_SHA256);
}

const BLOCKS_SHA256: &str = "13c6ebd70a32f5cfadeafe8684b636523c68d15ba851367e1d228946b811dd52";

/// Normal values (Box and Muller 1958), as f32 or rounded to multiples of a 127th of the largest, as `int8` does.
fn delta(seed: u64, is_int8: bool) -> Vec<f32> {
    let mut stream = Seed(seed).stream();
    let normal = |_| (-2.0 * (1.0 - stream.unit()).ln()).sqrt() * (std::f64::consts::TAU * stream.unit()).cos();
    let values: Vec<f32> = (0..20_000).map(normal).map(|value| (value * 0.01) as f32).collect();
    if !is_int8 {
        return values;
    }
    let round = |block: &[f32]| {
        let scale = block.iter().fold(0.0, |most: f32, value| most.max(value.abs())) / 127.0;
        block.iter().map(|value| (value / scale).round() * scale).collect::<Vec<f32>>()
    };
    values.chunks(64).flat_map(round).collect()
}

/// Goal: the bytes per value that groups plan with. Method: sums of normal deltas with a deviation of 0.01, weights of
/// some hundred examples, the binary point of the usual caps. Every doubling of a weight or of the deviation takes an
/// eighth of a byte more, so for `int8` only the range is checked.
#[test]
fn sums_of_updates_take_some_five_bytes_per_value() {
    let cases = [(false, 2, 4.91..5.43), (false, 4, 5.07..5.61), (true, 2, 4.5..6.0), (true, 4, 4.5..6.0)];
    for (is_int8, members, allowed) in cases {
        let mut sum = vec![0i64; 20_000];
        for member in 0..members {
            let factor = Weight::examples(100 + 100 * member as u32).factor(40);
            for (sum, value) in sum.iter_mut().zip(delta(member, is_int8)) {
                *sum += quantise(f64::from(value) * factor);
            }
        }
        let bytes = body(members as u32, &sum).len() as f64 / sum.len() as f64;
        assert!(allowed.contains(&bytes), "int8 {is_int8}, {members} members: {bytes} bytes per value");
    }
}
