use std::sync::Arc;

use super::encoder::{FRACTION_BITS, RUN, in_steps, round, whole};
use super::layout::{Blocks, data_bytes, from_bf16, levels, scale_for};
use super::reader::{decode_4, decode_8};
use crate::cpu::Cpu;
use crate::model::{ParameterList, ParameterSpec};
use crate::safetensors::{Data, Dtype, Tensor, write};
use crate::seed::Seed;
use crate::update::coding::fields::magnitude_max;
use crate::update::{Codec, EncodeError, UpdateDecoder, UpdateError, UpdateHeader, UpdateLimits};

const BITS: [u32; 2] = [8, 4];

/// Two parameters, so that a block ends at a parameter.
fn parameters(first: usize, second: usize) -> Arc<ParameterList> {
    let specs = vec![ParameterSpec::new("w", [first]), ParameterSpec::new("b", [second])];
    Arc::new(ParameterList::new(specs).unwrap())
}

fn header(bits: u32) -> UpdateHeader {
    let codec = if bits == 8 { Codec::Int8(Blocks::default()) } else { Codec::Int4(Blocks::default()) };
    UpdateHeader { codec, job: "job_1".into(), base_version: 3 }
}

fn encoded(delta: &[f32], parameters: &ParameterList, bits: u32, seed: Seed) -> Vec<u8> {
    crate::update::encode(delta, parameters, &header(bits), 1, seed).unwrap()
}

fn decode(file: &[u8], parameters: &Arc<ParameterList>, bits: u32, piece: usize) -> Result<Vec<f32>, UpdateError> {
    let limits = UpdateLimits::of_magnitude(f32::INFINITY);
    let mut decoder = UpdateDecoder::new(Arc::clone(parameters), header(bits), limits);
    let mut delta = vec![f32::NAN; parameters.total()];
    for piece in file.chunks(piece) {
        decoder.push(piece, &mut delta)?;
    }
    decoder.finish()?;
    Ok(delta)
}

fn round_trip(delta: &[f32], bits: u32, seed: Seed) -> Vec<f32> {
    let parameters = parameters(delta.len() - 1, 1);
    decode(&encoded(delta, &parameters, bits, seed), &parameters, bits, 1 << 16).unwrap()
}

/// About normal: the sum of twelve uniform numbers.
fn normal(count: usize, seed: Seed) -> Vec<f32> {
    let mut stream = seed.stream();
    (0..count).map(|_| ((0..12).map(|_| stream.unit()).sum::<f64>() - 6.0) as f32).collect()
}

fn relative_error(delta: &[f32], decoded: &[f32]) -> f64 {
    let square = |value: f32| f64::from(value) * f64::from(value);
    let error: f64 = delta.iter().zip(decoded).map(|(value, decoded)| square(decoded - value)).sum();
    error / delta.iter().map(|value| square(*value)).sum::<f64>()
}

#[test]
fn a_scale_is_the_smallest_that_clips_nothing() {
    assert_eq!(scale_for(0.0, 127), Some(0));
    assert_eq!(scale_for(127.0, 127), Some(0x3F80));
    assert_eq!(scale_for(127.0f32.next_up(), 127), Some(0x3F81));
    assert_eq!(scale_for(f32::from_bits(1), 127), Some(1));
    assert_eq!(scale_for(f32::MAX, 127), None);
    let mut stream = Seed(1).stream();
    for levels in [127, 7] {
        for _ in 0..10_000 {
            let largest = f32::from_bits((stream.below(0x7F00_0000)) as u32);
            let bits = scale_for(largest, levels).unwrap();
            let reach = |bits| from_bf16(bits) * f32::from(levels);
            assert!(reach(bits) >= largest && (bits == 0 || reach(bits - 1) < largest), "{largest}");
            assert!(largest / from_bf16(bits) <= f32::from(levels) || bits == 0);
        }
    }
}

#[test]
fn values_between_two_numbers_become_one_of_them() {
    for bits in BITS {
        for count in [2, 63, 64, 65, 66, 128, 1000] {
            let delta = normal(count, Seed(count as u64));
            let decoded = round_trip(&delta, bits, Seed(7));
            for (values, decoded) in delta[..count - 1].chunks(64).zip(decoded[..count - 1].chunks(64)) {
                let scale = from_bf16(scale_for(magnitude_max(values), levels(bits)).unwrap());
                for (value, decoded) in values.iter().zip(decoded) {
                    assert!((value - decoded).abs() < scale && (decoded / scale).fract() == 0.0);
                }
            }
        }
    }
}

#[test]
fn every_cpu_writes_and_reads_the_same() {
    let mut draws = [0; RUN];
    let mut stream = Seed(3).stream();
    let bytes: Vec<u8> = (0..1024).map(|_| stream.next_u64() as u8).collect();
    let scales: Vec<u16> = (0..80).map(|_| stream.below(0x7F80) as u16).collect();
    for values in normal(20 * RUN, Seed(2)).chunks(RUN - 1) {
        draws.fill_with(|| stream.next_u64() as u16);
        let written = |cpu| {
            let (fixed, sums, undecided) = in_steps(cpu, values, 0.05, &draws);
            let mut numbers = [0; RUN];
            whole(cpu, values, &sums, &mut numbers);
            (fixed, sums, undecided, numbers)
        };
        Cpu::all().into_iter().for_each(|cpu| assert_eq!(written(cpu), written(Cpu::portable()), "{cpu:?}"));
    }
    for (at, block, count) in [(0, 64, 1024), (1000, 64, 1001), (8, 8, 500), (40, 4096, 1023)] {
        let (portable, mut values) = (Cpu::portable(), vec![0.0; count]);
        for cpu in Cpu::all() {
            let mut expected = vec![0.0; count];
            let good = decode_8(portable, &bytes[..count], &mut expected, at, block, &scales_for(&scales, block));
            assert_eq!(decode_8(cpu, &bytes[..count], &mut values, at, block, &scales_for(&scales, block)), good);
            assert_eq!(values, expected, "{cpu:?}, 8 bits");
            let half = &bytes[..count.div_ceil(2)];
            let good = decode_4(portable, half, &mut expected, at, block, &scales_for(&scales, block));
            assert_eq!(decode_4(cpu, half, &mut values, at, block, &scales_for(&scales, block)), good);
            assert_eq!(values, expected, "{cpu:?}, 4 bits");
        }
    }
}

/// Enough scales for 3,000 values.
fn scales_for(scales: &[u16], block: usize) -> Vec<u16> {
    scales.iter().copied().cycle().take(3000 / block + 1).collect()
}

#[test]
fn on_average_it_is_the_delta() {
    const DRAWS: u32 = 10_000;
    for bits in BITS {
        let delta = normal(70, Seed(5));
        let (mut sums, mut squares) = (vec![0.0; 70], vec![0.0; 70]);
        for draw in 0..DRAWS {
            for (index, decoded) in round_trip(&delta, bits, Seed(u64::from(draw))).into_iter().enumerate() {
                let error = f64::from(decoded) - f64::from(delta[index]);
                sums[index] += error;
                squares[index] += error * error;
            }
        }
        for (sum, square) in sums.iter().zip(&squares) {
            let mean: f64 = sum / f64::from(DRAWS);
            let standard_error = (square / f64::from(DRAWS)).sqrt() / f64::from(DRAWS).sqrt();
            assert!(mean.abs() <= 5.0 * standard_error, "{bits} bits: {mean} of {standard_error}");
        }
    }
}

#[test]
fn fractions_near_nothing_and_near_one_are_not_lost() {
    let step = 1.0 / (1 << FRACTION_BITS) as f32;
    let mut stream = Seed(2).stream();
    let mut numbers = [0; RUN];
    let values: Vec<f32> = (0..RUN).map(|index| [1.0 - step, step, -1.0, 0.0][index % 4]).collect();
    for _ in 0..5000 {
        round(&values, 1.0, &mut stream, &mut numbers);
        assert!(numbers.chunks(4).all(|numbers| numbers == [1, 0, -1, 0]));
    }
}

#[test]
fn the_error_on_normal_data_is_that_of_the_books() {
    let delta = normal(1 << 16, Seed(9));
    // A sixth of a step squared: E max^2 of 64 normal values is 5.7, so 5.7 / 127^2 / 6 and 5.7 / 7^2 / 6, and a
    // little more for the scale's rounding up.
    for (bits, expected) in [(8, 5.9e-5), (4, 0.0195)] {
        let error = relative_error(&delta, &round_trip(&delta, bits, Seed(1)));
        assert!((0.9..1.25).contains(&(error / expected)), "{bits} bits: {error}");
    }
}

#[test]
fn no_block_errs_by_more_than_is_declared() {
    for bits in BITS {
        let declared = Blocks::default().properties(bits).relative_error_max.unwrap();
        let mut worst: f64 = 0.0;
        for fraction in 1..20 {
            let mut delta = [fraction as f32 / 20.0; 65];
            (delta[0], delta[64]) = (f32::from(levels(bits)), 0.0);
            let draws = 400;
            let errors = (0..draws).map(|draw| relative_error(&delta, &round_trip(&delta, bits, Seed(draw))));
            worst = worst.max(errors.sum::<f64>() / draws as f64);
        }
        assert!((0.85..1.0).contains(&(worst / declared)), "{bits} bits: {worst} of {declared}");
    }
}

#[test]
fn zeros_stay_zero_and_a_zero_block_has_no_division() {
    for bits in BITS {
        let mut delta = vec![0.0; 200];
        delta[150] = 3.0;
        delta[151] = -0.0;
        let decoded = round_trip(&delta, bits, Seed(1));
        let zero = |index: usize| decoded[index].to_bits() == 0;
        assert!((0..200).all(|index| index == 150 || zero(index)));
        assert!((decoded[150] - 3.0).abs() < 0.5);
    }
}

#[test]
fn denormal_and_huge_values_are_kept_as_far_as_f32_goes() {
    for bits in BITS {
        let denormal = round_trip(&[1e-40, -1e-42, 0.0, f32::from_bits(1)], bits, Seed(1));
        assert!(denormal.iter().all(|value| value.abs() < 2e-40), "{denormal:?}");
        let huge = round_trip(&[3e38, 1.0, -1e36, 1.0], bits, Seed(1));
        assert!((huge[0] / 3e38 - 1.0).abs() < 0.15 && huge.iter().all(|value| value.is_finite()));
        let refusal = crate::update::encode(&[1.0, -f32::MAX], &parameters(1, 1), &header(bits), 1, Seed(1));
        assert_eq!(refusal, Err(EncodeError::TooLarge { index: 1, value: -f32::MAX }));
    }
}

#[test]
fn the_bytes_of_a_delta_never_change() {
    let delta = [0.5, -0.3, 0.0, 1.0, 1e-3, -0.9, 0.77, 0.1, -0.6];
    let data = |bits| {
        let file = encoded(&delta, &parameters(7, 2), bits, Seed(3));
        file[file.len() - data_bytes(&parameters(7, 2), bits, Blocks::default()) as usize..].to_vec()
    };
    assert_eq!(data(8), GOLDEN_8);
    assert_eq!(data(4), GOLDEN_4);
}

/// Scale and seven numbers, scale and two.
const GOLDEN_8: [u8; 13] = [2, 60, 63, 219, 0, 126, 1, 142, 97, 155, 59, 21, 129];
const GOLDEN_4: [u8; 9] = [19, 62, 228, 112, 160, 5, 176, 61, 145];

/// A file of tensors with the expected metadata.
fn file(bits: u32, tensors: &[(&str, Dtype, &[usize], &[u8])]) -> Vec<u8> {
    let tensors: Vec<_> = tensors
        .iter()
        .map(|(name, dtype, shape, bytes)| Tensor { name, shape, data: Data::Bytes(*dtype, bytes) })
        .collect();
    write(&tensors, &header(bits).metadata())
}

#[test]
fn tensors_may_come_in_any_order_that_has_scales_before_their_values() {
    let (ws, wv) =
        (("w.scales", Dtype::Bf16, &[1][..], &[0x80, 0x3F][..]), ("w.values", Dtype::I8, &[2][..], &[1, 255][..]));
    let (bs, bv) = (("b.scales", Dtype::Bf16, &[1][..], &[0, 0x40][..]), ("b.values", Dtype::I8, &[1][..], &[3][..]));
    for tensors in [[ws, wv, bs, bv], [bs, bv, ws, wv], [ws, bs, wv, bv], [ws, bs, bv, wv]] {
        for piece in [1, 1000] {
            assert_eq!(decode(&file(8, &tensors), &parameters(2, 1), 8, piece), Ok(vec![1.0, -1.0, 6.0]));
        }
    }
    let late = UpdateError::OutOfOrder { tensor: "b.values".into(), after: "b.scales".into() };
    assert_eq!(decode(&file(8, &[ws, wv, bv, bs]), &parameters(2, 1), 8, 1000), Err(late));
}

#[test]
fn scales_and_numbers_that_stand_for_nothing_are_refused() {
    let with = |bits: u32, scale: u16, values: &[u8]| {
        let dtype = if bits == 8 { Dtype::I8 } else { Dtype::U8 };
        let scale = scale.to_le_bytes();
        let w = [("w.scales", Dtype::Bf16, &[1][..], &scale[..]), ("w.values", dtype, &[values.len()][..], values)];
        let one = [("b.scales", Dtype::Bf16, &[1][..], &[0, 0][..]), ("b.values", dtype, &[1][..], &[0][..])];
        decode(&file(bits, &[w[0], w[1], one[0], one[1]]), &parameters(3, 1), bits, 1000)
    };
    assert_eq!(with(8, 0x3F80, &[1, 0x81, 0x7F]), Ok(vec![1.0, -127.0, 127.0, 0.0]));
    assert_eq!(with(4, 0x3F80, &[0x97, 0x01]), Ok(vec![7.0, -7.0, 1.0, 0.0]));
    let bad_code = || Err(UpdateError::BadCode { tensor: "w.values".into() });
    assert_eq!(with(8, 0x3F80, &[1, 0x80, 0]), bad_code());
    for values in [[0x08, 0], [0x80, 0], [0, 0x08], [0, 0x10]] {
        assert_eq!(with(4, 0x3F80, &values), bad_code());
    }
    // Infinity, NaN, -1, minus zero.
    for scale in [0x7F80, 0x7FC0, 0xBF80, 0x8000] {
        let refusal = with(8, scale, &[0; 3]).unwrap_err();
        assert!(matches!(&refusal, UpdateError::BadScale { tensor, .. } if tensor == "w.scales"), "{refusal}");
    }
    // 127 of the largest scale are beyond f32.
    assert!(matches!(with(8, 0x7F7F, &[0, 127, 0]), Err(UpdateError::NotFinite { index: 1, .. })));
}

#[test]
fn any_number_of_bytes_may_come_at_a_time() {
    let parameters = parameters(3001, 77);
    let delta = normal(3078, Seed(4));
    for bits in BITS {
        let file = encoded(&delta, &parameters, bits, Seed(1));
        let whole = decode(&file, &parameters, bits, file.len()).unwrap();
        for piece in [1, 2, 3, 31, 64, 1000] {
            assert_eq!(decode(&file, &parameters, bits, piece).unwrap(), whole);
        }
    }
}

#[test]
fn blocks_have_sensible_lengths() {
    for block in [8, 64, 128, 4096] {
        assert_eq!(Blocks { block }.check(), Ok(()));
    }
    for block in [0, 4, 12, 65, 4104, u16::MAX] {
        assert!(Blocks { block }.check().is_err(), "{block}");
    }
}
