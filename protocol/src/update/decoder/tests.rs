use proptest::prelude::*;

use super::*;
#[cfg(feature = "zstd")]
use crate::body::UnpackError;
use crate::model::ParameterSpec;
use crate::safetensors::{Data, Dtype, LayoutError, SafetensorsError, Tensor, write};
use crate::seed::Seed;

const DELTA: [f32; 7] = [0.5, -0.25, 1.0, -2.0, 0.0, 3.0, -0.125];

fn parameters() -> Arc<ParameterList> {
    let specs = vec![ParameterSpec::new("w", [2, 2]), ParameterSpec::new("b", [3])];
    Arc::new(ParameterList::new(specs).expect("the list is right"))
}

fn encode(delta: &[f32]) -> Vec<u8> {
    crate::update::encode(delta, &parameters(), &header(), 1, Seed(1)).expect("the delta is finite")
}

fn header() -> UpdateHeader {
    UpdateHeader { codec: Codec::F32, job: "job_1".into(), base_version: 3 }
}

fn decode(file: &[u8], piece_bytes: usize) -> Result<(Vec<f32>, UpdateStatistics), UpdateError> {
    let mut decoder = UpdateDecoder::new(parameters(), header(), UpdateLimits::of_magnitude(3.0));
    let mut delta = vec![f32::NAN; 7];
    for piece in file.chunks(piece_bytes) {
        decoder.push(piece, &mut delta)?;
    }
    Ok((delta, decoder.finish()?))
}

/// Wants every value once and in order.
#[derive(Default)]
struct InOrder(Vec<f32>);

impl DeltaSink for InOrder {
    fn dense(&mut self, first: usize, values: &[f32]) {
        assert_eq!(first, self.0.len());
        assert!(values.len() <= BLOCK_VALUES_MAX);
        self.0.extend_from_slice(values);
    }

    fn sparse(&mut self, _first: usize, _indices: &[u32], _values: &[f32]) {
        panic!("f32 is dense");
    }
}

/// Wants no value.
struct Nothing;

impl DeltaSink for Nothing {
    fn dense(&mut self, _first: usize, _values: &[f32]) {
        panic!("no value may be handed out");
    }

    fn sparse(&mut self, _first: usize, _indices: &[u32], _values: &[f32]) {
        panic!("no value may be handed out");
    }
}

/// A file of tensors `(name, shape, values)` with the expected metadata.
fn file(tensors: &[(&str, &[usize], &[f32])]) -> Vec<u8> {
    let tensors: Vec<_> =
        tensors.iter().map(|(name, shape, values)| Tensor { name, shape, data: Data::F32(values) }).collect();
    write(&tensors, &header().metadata())
}

proptest! {
    #[test]
    fn the_size_of_the_pieces_does_not_matter(
        delta in prop::collection::vec(-3.0f32..3.0, 7),
        piece_bytes in 1usize..400,
    ) {
        let file = encode(&delta);
        let (read, summary) = decode(&file, piece_bytes).unwrap();
        prop_assert_eq!(&read, &delta);
        prop_assert_eq!(summary, decode(&file, file.len()).unwrap().1);
    }

    #[test]
    fn flipped_bytes_never_panic(flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..4)) {
        let mut file = encode(&DELTA);
        for (index, flip) in flips {
            let at = index.index(file.len());
            file[at] ^= flip;
        }
        if let Ok((delta, _)) = decode(&file, 11) {
            prop_assert!(delta.iter().all(|value| value.abs() <= 3.0));
        }
    }
}

#[test]
fn norm_and_magnitude_are_those_of_the_delta() {
    let (delta, summary) = decode(&encode(&DELTA), 1).unwrap();
    assert_eq!(delta, DELTA);
    assert_eq!(summary, UpdateStatistics { norm: (14.328125f64).sqrt(), magnitude_max: 3.0 });
}

#[test]
fn a_norm_above_the_bound_is_refused_at_the_end_and_rounding_is_allowed_for() {
    let norm = 14.328125f64.sqrt();
    for (norm_max, accepted) in [(norm, true), (norm / 1.009, true), (norm / 1.011, false), (0.0, false)] {
        let limits = UpdateLimits { norm_max, ..UpdateLimits::of_magnitude(3.0) };
        let mut decoder = UpdateDecoder::new(parameters(), header(), limits);
        decoder.push(&encode(&DELTA), &mut InOrder::default()).unwrap();
        match decoder.finish() {
            Ok(summary) => assert!(accepted && summary.norm == norm, "{norm_max}"),
            Err(error) => {
                assert!(!accepted, "{norm_max}");
                assert_eq!(error, UpdateError::NormTooLarge { norm, norm_max });
            }
        }
    }
}

#[test]
fn tensors_in_another_order_reach_their_places() {
    let file = file(&[("b", &[3], &DELTA[4..]), ("w", &[2, 2], &DELTA[..4])]);
    assert_eq!(decode(&file, 5).unwrap().0, DELTA);
}

#[test]
fn a_long_tensor_comes_in_blocks_that_cover_it_once() {
    let parameters = Arc::new(ParameterList::new(vec![ParameterSpec::new("w", [5000])]).unwrap());
    let delta: Vec<f32> = (0u16..5000).map(f32::from).collect();
    let file = crate::update::encode(&delta, &parameters, &header(), 1, Seed(1)).unwrap();
    assert!(file.len() as u64 <= bytes_max(&parameters, Codec::F32));
    let mut decoder = UpdateDecoder::new(parameters, header(), UpdateLimits::of_magnitude(1e4));
    let mut read = InOrder::default();
    decoder.push(&file, &mut read).unwrap();
    decoder.finish().unwrap();
    assert_eq!(read.0, delta);
}

#[test]
fn a_wrong_tensor_is_refused_before_any_value_is_handed_out() {
    let (w, b): ((_, &[usize], _), (_, &[usize], _)) = (("w", &[2, 2], &DELTA[..4]), ("b", &[3], &DELTA[4..]));
    let cases = [
        (file(&[w]), LayoutError::Missing("b".into())),
        (file(&[w, b, ("c", &[1], &[0.0])]), LayoutError::Extra("c".into())),
        (
            file(&[w, ("b", &[3, 1], &DELTA[4..])]),
            LayoutError::Misshapen { tensor: "b".into(), expected: vec![3], got: vec![3, 1] },
        ),
        (
            write(
                &[
                    Tensor { name: "w", shape: &[2, 2], data: Data::F32(&DELTA[..4]) },
                    Tensor { name: "b", shape: &[3], data: Data::Bytes(Dtype::I8, &[1, 2, 3]) },
                ],
                &header().metadata(),
            ),
            LayoutError::WrongDtype { tensor: "b".into(), expected: Dtype::F32, got: Dtype::I8 },
        ),
    ];
    for (file, why) in cases {
        let mut decoder = UpdateDecoder::new(parameters(), header(), UpdateLimits::of_magnitude(3.0));
        let refusal = decoder.push(&file, &mut Nothing);
        assert_eq!(refusal, Err(UpdateError::Tensors(why)));
    }
}

#[test]
fn metadata_of_another_update_is_refused() {
    let changed = |key: &str, value: Option<&str>| {
        let mut metadata = header().metadata();
        match value {
            Some(value) => metadata.insert(key.into(), value.into()),
            None => metadata.remove(key),
        };
        decode(&write(&[], &metadata), 64).unwrap_err()
    };
    let wrong_version = |got: &str| UpdateError::WrongBaseVersion { expected: 3, got: got.into() };
    assert_eq!(changed("base_version", Some("2")), wrong_version("2"));
    assert_eq!(changed("base_version", Some("03")), wrong_version("03"));
    assert_eq!(changed("base_version", None), UpdateError::MissingMetadata("base_version"));
    let wrong_job = UpdateError::WrongJob { expected: "job_1".into(), got: "job_2".into() };
    assert_eq!(changed("job", Some("job_2")), wrong_job);
    let wrong_codec = UpdateError::WrongCodec { expected: "f32".into(), got: "int8".into() };
    assert_eq!(changed("codec", Some("int8")), wrong_codec);
    assert_eq!(changed("format", Some("pt")), UpdateError::WrongFormat("pt".into()));
}

#[test]
fn a_codec_is_compared_by_its_values_and_not_by_how_a_library_writes_them() {
    let ternary: Codec = serde_json::from_str(r#"{"name": "ternary", "clip": 0.0, "scale": 3.0}"#).unwrap();
    let means = |text: &str| is_text_of(text, &ternary);
    assert!(means(&ternary.to_string()) && means(r#"{"scale": 3, "clip": 0, "name": "ternary"}"#));
    for other in ["ternary", r#"{"name":"ternary","clip":0,"scale":2}"#, "{", "null"] {
        assert!(!means(other), "{other}");
    }
    let long = format!("{{{}\"name\":\"ternary\",\"clip\":0,\"scale\":3}}", " ".repeat(CODEC_BYTES_MAX));
    assert!(!means(&long));
}

#[test]
fn a_value_that_cannot_be_added_is_refused_by_tensor_and_index() {
    let with = |index: usize, value: f32| {
        let mut delta = DELTA;
        delta[index] = value;
        decode(&file(&[("w", &[2, 2], &delta[..4]), ("b", &[3], &delta[4..])]), 64).unwrap_err()
    };
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert_eq!(with(6, value), UpdateError::NotFinite { tensor: "b".into(), index: 2 });
    }
    let value = -(3.0f32.next_up());
    assert_eq!(with(1, value), UpdateError::TooLarge { tensor: "w".into(), index: 1, value, magnitude_max: 3.0 });
}

#[test]
fn an_infinite_cap_lets_no_infinity_through() {
    let limits = UpdateLimits::of_magnitude(f32::INFINITY);
    let mut decoder = UpdateDecoder::new(parameters(), header(), limits);
    let file = file(&[("w", &[2, 2], &[f32::INFINITY; 4]), ("b", &[3], &[0.0; 3])]);
    let refusal = decoder.push(&file, &mut Nothing);
    assert_eq!(refusal, Err(UpdateError::NotFinite { tensor: "w".into(), index: 0 }));
}

#[test]
fn a_cap_that_is_no_number_lets_only_zeros_through() {
    for magnitude_max in [f32::NAN, -1.0, 0.0, -0.0] {
        let decoder = || UpdateDecoder::new(parameters(), header(), UpdateLimits::of_magnitude(magnitude_max));
        let mut delta = vec![f32::NAN; 7];
        assert!(decoder().push(&encode(&DELTA), &mut delta).is_err());
        decoder().push(&encode(&[0.0; 7]), &mut delta).unwrap();
        assert_eq!(delta, [0.0; 7]);
    }
}

/// Which sums a section's values go to must not depend on whether the codec lists its zeros.
#[test]
fn a_sparse_section_is_summed_up_like_a_dense_one() {
    let (indices, values) = (vec![1, 4, 6], vec![0.5, -3.0, 0.25]);
    let sparse = Section { indices, values, sparse: true };
    let dense = Section { values: vec![0.0, 0.5, 0.0, 0.0, -3.0, 0.0, 0.25], ..Section::default() };
    let summed = |section: &Section| {
        let mut check = Check::new(parameters(), UpdateLimits::of_magnitude(3.0));
        let mut delta = vec![0.0; 7];
        check.section(0, section, &mut delta).unwrap();
        (delta, check.norm_squared, check.magnitude_bits)
    };
    assert_eq!(summed(&sparse), summed(&dense));
    let mut check = Check::new(parameters(), UpdateLimits::of_magnitude(2.0));
    let refused = UpdateError::TooLarge { tensor: "b".into(), index: 0, value: -3.0, magnitude_max: 2.0 };
    assert_eq!(check.section(0, &sparse, &mut Nothing), Err(refused));
}

#[cfg(feature = "zstd")]
#[test]
fn an_update_may_come_as_a_zstd_frame() {
    let parameters = Arc::new(ParameterList::new(vec![ParameterSpec::new("w", [5000])]).unwrap());
    let file = crate::update::encode(&vec![0.25; 5000], &parameters, &header(), 1, Seed(1)).unwrap();
    let body = crate::body::shrink(file.clone());
    assert!(body.len() < file.len() / 10);
    let new = || UpdateDecoder::new(Arc::clone(&parameters), header(), UpdateLimits::of_magnitude(1.0));
    for piece_bytes in [1, 50, body.len()] {
        let (mut decoder, mut delta) = (new(), vec![0.0; 5000]);
        body.chunks(piece_bytes).for_each(|piece| decoder.push(piece, &mut delta).unwrap());
        assert_eq!(decoder.finish().unwrap(), UpdateStatistics { norm: 312.5f64.sqrt(), magnitude_max: 0.25 });
        assert_eq!(delta, [0.25; 5000]);
    }
    let mut decoder = new();
    decoder.push(&body[..body.len() - 1], &mut vec![0.0; 5000]).unwrap();
    assert!(decoder.finish().is_err());
    let mut decoder = new();
    let longer = [&body[..], b"x"].concat();
    let refusal = decoder.push(&longer, &mut vec![0.0; 5000]);
    assert_eq!(refusal, Err(UpdateError::Body(UnpackError::TrailingBytes)));
}

#[cfg(feature = "zstd")]
#[test]
fn a_bomb_is_refused() {
    let limit = bytes_max(&parameters(), Codec::F32);
    let mut bomb = encode(&DELTA);
    bomb.resize(64 << 20, 0);
    let bomb = crate::body::shrink(bomb);
    let mut decoder = UpdateDecoder::new(parameters(), header(), UpdateLimits::of_magnitude(3.0));
    let refusal = decoder.push(&bomb, &mut vec![0.0; 7]);
    assert_eq!(refusal, Err(UpdateError::Body(UnpackError::TooLong { limit })));
}

#[test]
fn an_update_cut_short_or_drawn_out_is_refused() {
    let mut file = encode(&DELTA);
    for length in 0..file.len() {
        assert!(matches!(decode(&file[..length], 16), Err(UpdateError::File(_))), "{length} bytes");
    }
    file.push(b' ');
    assert_eq!(decode(&file, 16), Err(UpdateError::File(SafetensorsError::TrailingBytes)));
}

#[test]
fn a_header_far_longer_than_the_model_needs_is_refused_unread() {
    let mut file = (1u64 << 20).to_le_bytes().to_vec();
    file.push(b'{');
    assert!(matches!(decode(&file, 16), Err(UpdateError::File(SafetensorsError::HeaderTooLong { .. }))));
}
