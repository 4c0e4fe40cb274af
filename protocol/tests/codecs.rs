//! The guarantees that all codecs share.

use std::sync::Arc;

use proptest::prelude::*;
use tributary_protocol::body::{UnpackError, shrink};
use tributary_protocol::model::{ParameterList, ParameterSpec};
use tributary_protocol::safetensors::SafetensorsError;
use tributary_protocol::seed::{Seed, Stream};
use tributary_protocol::update::{
    Codec, CodecName, DeltaSink, EncodeError, Ternary, UpdateDecoder, UpdateError, UpdateHeader, UpdateLimits,
    UpdateStatistics, bytes_max, encode,
};

fn codecs() -> impl Iterator<Item = Codec> {
    CodecName::ALL.into_iter().map(CodecName::with_defaults)
}

fn any_codec() -> impl Strategy<Value = Codec> {
    prop::sample::select(codecs().collect::<Vec<_>>())
}

fn header(codec: Codec) -> UpdateHeader {
    UpdateHeader { codec, job: "job_1".into(), base_version: 3 }
}

/// Parameters of one dimension each.
fn list(lengths: &[usize]) -> Arc<ParameterList> {
    let spec = |(index, length): (usize, &usize)| ParameterSpec::new(format!("p{index}"), [*length]);
    Arc::new(ParameterList::new(lengths.iter().enumerate().map(spec).collect()).expect("the list is right"))
}

fn encoded(delta: &[f32], parameters: &ParameterList, codec: Codec, seed: Seed) -> Vec<u8> {
    encode(delta, parameters, &header(codec), 1, seed).expect("the values are finite")
}

/// Collects a delta, and asserts that every value comes at most once and in its place.
struct Once {
    delta: Vec<f32>,
    came: Vec<bool>,
}

impl Once {
    fn put(&mut self, place: usize, value: f32) {
        assert!(!std::mem::replace(&mut self.came[place], true), "value {place} came twice");
        self.delta[place] = value;
    }
}

impl DeltaSink for Once {
    fn dense(&mut self, first: usize, values: &[f32]) {
        values.iter().enumerate().for_each(|(index, value)| self.put(first + index, *value));
    }

    fn sparse(&mut self, first: usize, indices: &[u32], values: &[f32]) {
        assert_eq!(indices.len(), values.len());
        assert!(indices.is_sorted());
        indices.iter().zip(values).for_each(|(index, value)| self.put(first + *index as usize, *value));
    }
}

/// Decodes a body in pieces of these sizes, repeated.
fn decode_pieces(
    body: &[u8],
    parameters: &Arc<ParameterList>,
    codec: Codec,
    pieces: &[usize],
    magnitude_max: f32,
) -> Result<(Vec<f32>, UpdateStatistics), UpdateError> {
    let mut decoder =
        UpdateDecoder::new(Arc::clone(parameters), header(codec), UpdateLimits::of_magnitude(magnitude_max));
    let total = parameters.total();
    let mut sink = Once { delta: vec![0.0; total], came: vec![false; total] };
    let (mut rest, mut sizes) = (body, pieces.iter().cycle());
    while !rest.is_empty() {
        let size = *sizes.next().expect("there is at least one size");
        let (piece, after) = rest.split_at(size.min(rest.len()));
        decoder.push(piece, &mut sink)?;
        rest = after;
    }
    let summary = decoder.finish()?;
    Ok((sink.delta, summary))
}

fn decode(body: &[u8], parameters: &Arc<ParameterList>, codec: Codec) -> Result<Vec<f32>, UpdateError> {
    decode_pieces(body, parameters, codec, &[1 << 16], f32::INFINITY).map(|(delta, _)| delta)
}

/// Approximately normal values: sums of twelve uniform numbers.
fn normal(count: usize, stream: &mut Stream) -> Vec<f32> {
    (0..count).map(|_| ((0..12).map(|_| stream.unit()).sum::<f64>() - 6.0) as f32).collect()
}

fn squares(values: impl Iterator<Item = f32>) -> f64 {
    values.map(|value| f64::from(value) * f64::from(value)).sum()
}

fn relative_error(delta: &[f32], decoded: &[f32]) -> f64 {
    squares(delta.iter().zip(decoded).map(|(value, decoded)| decoded - value)) / squares(delta.iter().copied())
}

/// Kinds of deltas that are difficult for codecs.
fn kinds(count: usize) -> Vec<(&'static str, Vec<f32>)> {
    let mut stream = Seed(count as u64).stream();
    let random = normal(count, &mut stream);
    let mut huge = random.clone();
    huge[count / 2] = 5e4;
    let mut lonely = vec![0.0; count];
    lonely[count - 1] = -0.5;
    vec![
        ("normal", random.clone()),
        ("small", random.iter().map(|value| value * 1e-7).collect()),
        ("zero", vec![0.0; count]),
        ("minus zero", vec![-0.0; count]),
        ("one huge", huge),
        ("one alone", lonely),
        ("constant", vec![0.125; count]),
        ("denormal", random.iter().map(|value| value * 1e-40).collect()),
        ("smallest", vec![f32::from_bits(1); count]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_file_is_never_longer_than_the_longest(
        codec in any_codec(),
        lengths in prop::collection::vec(1usize..300, 1..5),
        seed in any::<u64>(),
        kind in any::<prop::sample::Index>(),
        round in 1u32..20,
    ) {
        let parameters = list(&lengths);
        let kinds = kinds(parameters.total());
        let (_, delta) = &kinds[kind.index(kinds.len())];
        let file = encode(delta, &parameters, &header(codec), round, Seed(seed)).unwrap();
        prop_assert!(file.len() as u64 <= bytes_max(&parameters, codec));
        prop_assert!(decode(&file, &parameters, codec).is_ok());
    }

    #[test]
    fn the_size_of_the_pieces_does_not_matter(
        codec in any_codec(),
        lengths in prop::collection::vec(1usize..300, 1..5),
        pieces in prop::collection::vec(1usize..700, 1..6),
        seed in any::<u64>(),
    ) {
        let parameters = list(&lengths);
        let delta = normal(parameters.total(), &mut Seed(seed).stream());
        let file = encoded(&delta, &parameters, codec, Seed(seed));
        let whole = decode_pieces(&file, &parameters, codec, &[file.len()], f32::INFINITY).unwrap();
        let body = shrink(file.clone());
        for body in [&file, &body] {
            prop_assert_eq!(&decode_pieces(body, &parameters, codec, &pieces, f32::INFINITY).unwrap(), &whole);
        }
        let norm = squares(whole.0.iter().copied()).sqrt();
        prop_assert!((whole.1.norm - norm).abs() <= 1e-9 * norm);
        prop_assert_eq!(whole.1.magnitude_max, whole.0.iter().fold(0.0, |most: f32, value| most.max(value.abs())));
    }

    #[test]
    fn damaged_bytes_are_refused_or_give_a_delta_within_the_cap(
        codec in any_codec(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 0..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
        more in prop::collection::vec(any::<u8>(), 0..3),
        packed in any::<bool>(),
        pieces in prop::collection::vec(1usize..200, 1..4),
    ) {
        let parameters = list(&[150, 1, 7]);
        let delta = normal(158, &mut Seed(1).stream());
        let file = encoded(&delta, &parameters, codec, Seed(1));
        let mut body = if packed { shrink(file) } else { file };
        for (index, flip) in flips {
            let at = index.index(body.len());
            body[at] ^= flip;
        }
        if let Some(cut) = cut {
            body.truncate(cut.index(body.len()));
        }
        body.extend(more);
        if let Ok((delta, summary)) = decode_pieces(&body, &parameters, codec, &pieces, 4.0) {
            prop_assert!(delta.iter().all(|value| value.abs() <= 4.0));
            prop_assert!(summary.norm.is_finite());
        }
    }

    /// Method: the header is intact, so that the damage reaches the codec.
    #[test]
    fn damaged_values_are_refused_or_give_a_delta_within_the_cap(
        codec in any_codec(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        piece in 1usize..200,
    ) {
        let parameters = list(&[150, 1, 7]);
        let delta = normal(158, &mut Seed(1).stream());
        let mut file = encoded(&delta, &parameters, codec, Seed(1));
        let data = data_begins(&file);
        for (index, byte) in flips {
            let at = data + index.index(file.len() - data);
            file[at] = byte;
        }
        if let Ok((delta, _)) = decode_pieces(&file, &parameters, codec, &[piece], 4.0) {
            prop_assert!(delta.iter().all(|value| value.abs() <= 4.0));
        }
    }
}

/// Offset of the data in a file: behind the header of a safetensors file, or behind a tag.
fn data_begins(file: &[u8]) -> usize {
    let (beginning, _) = file.split_first_chunk::<8>().expect("a file has a prefix");
    if is_tagged(file) { 8 } else { 8 + u64::from_le_bytes(*beginning) as usize }
}

fn is_tagged(file: &[u8]) -> bool {
    file.starts_with(b"TU")
}

#[test]
fn every_kind_of_delta_of_every_length_comes_back() {
    for codec in codecs() {
        for count in [1, 2, 7, 8, 9, 63, 64, 65, 127, 128, 129, 511, 512, 513] {
            for (kind, delta) in kinds(count) {
                let parameters = list(&[count]);
                let decoded = decode(&encoded(&delta, &parameters, codec, Seed(1)), &parameters, codec);
                let decoded = decoded.unwrap_or_else(|error| panic!("{codec}, {count} {kind}: {error}"));
                assert!(decoded.iter().all(|value| value.is_finite()), "{codec}, {count} {kind}");
                if kind == "zero" || kind == "minus zero" {
                    assert!(decoded.iter().all(|value| *value == 0.0), "{codec}, {count} {kind}");
                }
            }
        }
    }
}

#[test]
fn a_parameter_of_several_sections_comes_back() {
    const LONG: usize = (1 << 18) + 77;
    let parameters = list(&[3, LONG, 1]);
    let delta = normal(LONG + 4, &mut Seed(6).stream());
    for codec in codecs() {
        let file = encoded(&delta, &parameters, codec, Seed(1));
        assert!(file.len() as u64 <= bytes_max(&parameters, codec), "{codec}");
        let decoded = decode(&file, &parameters, codec).unwrap();
        assert!(decoded[LONG - 70..].iter().any(|value| *value != 0.0), "{codec}");
        assert_eq!(decode_pieces(&file, &parameters, codec, &[4093], f32::INFINITY).unwrap().0, decoded, "{codec}");
    }
}

#[test]
fn bits_and_error_are_at_most_what_is_declared() {
    const COUNT: usize = 1 << 14;
    let parameters = list(&[COUNT]);
    for codec in codecs() {
        let declared = codec.properties();
        for (kind, delta) in kinds(COUNT).into_iter().filter(|(kind, _)| !["denormal", "smallest"].contains(kind)) {
            let file = encoded(&delta, &parameters, codec, Seed(1));
            let bits = 8.0 * (file.len() - data_begins(&file)) as f64 / COUNT as f64;
            assert!(bits <= declared.bits_per_value_max, "{codec}, {kind}: {bits} bits");
            let Some(error_max) = declared.relative_error_max.filter(|_| !kind.contains("zero")) else {
                continue;
            };
            let draw = |seed| decode(&encoded(&delta, &parameters, codec, Seed(seed)), &parameters, codec).unwrap();
            // One value alone is a single draw of chance, so the mean is over many.
            let draws = if kind == "one alone" || kind == "one huge" { 60 } else { 3 };
            let errors: Vec<f64> = (0..draws).map(|seed| relative_error(&delta, &draw(seed))).collect();
            let mean = errors.iter().sum::<f64>() / draws as f64;
            let variance = errors.iter().map(|error| (error - mean) * (error - mean)).sum::<f64>() / draws as f64;
            let standard_error = (variance / draws as f64).sqrt();
            assert!(mean <= error_max + 5.0 * standard_error, "{codec}, {kind}: {mean} of {error_max}");
        }
    }
}

#[test]
fn what_is_unbiased_is_the_delta_on_average() {
    const DRAWS: u32 = 4000;
    let delta: Vec<f32> = [0.9, -0.5, 0.0, 0.01, -0.3, 0.7, 0.002, -1.0, 0.25].into();
    let parameters = list(&[6, 3]);
    for codec in codecs().filter(|codec| codec.properties().unbiased) {
        let norm = squares(delta.iter().copied()).sqrt();
        let known_bias = |value: f32| match codec {
            // What rounds to nearest is off by half a unit in the last place, whatever the draw.
            Codec::F16 => f64::from(value.abs()) / 2048.0,
            Codec::Bf16 => f64::from(value.abs()) / 256.0,
            // A Hadamard matrix turns a few values in a few directions only, where the proof wants all of them.
            Codec::Eden(_) => 0.03 * norm,
            // The smallest values are sent about twice in all draws, too rarely to estimate a standard error: five
            // times the exact one.
            Codec::RandomK(_) if value.abs() < 0.005 => 0.008,
            _ => 1e-6,
        };
        let (mut sums, mut square_sums) = ([0.0; 9], [0.0; 9]);
        for draw in 0..DRAWS {
            let decoded = decode(&encoded(&delta, &parameters, codec, Seed(u64::from(draw))), &parameters, codec);
            for (index, decoded) in decoded.unwrap().into_iter().enumerate() {
                let error = f64::from(decoded) - f64::from(delta[index]);
                sums[index] += error;
                square_sums[index] += error * error;
            }
        }
        for (index, value) in delta.iter().enumerate() {
            let mean: f64 = sums[index] / f64::from(DRAWS);
            let standard_error = (square_sums[index] / f64::from(DRAWS)).sqrt() / f64::from(DRAWS).sqrt();
            let allowed = 5.0 * standard_error + known_bias(*value);
            assert!(mean.abs() <= allowed, "{codec}, {value}: off by {mean}, standard error {standard_error}");
        }
    }
}

#[test]
fn the_same_delta_round_and_seed_give_the_same_bytes() {
    let parameters = list(&[300, 20]);
    let delta = normal(320, &mut Seed(2).stream());
    for codec in codecs() {
        let file = encoded(&delta, &parameters, codec, Seed(5));
        assert_eq!(encoded(&delta, &parameters, codec, Seed(5)), file, "{codec}");
    }
}

#[test]
fn an_update_of_another_codec_is_refused() {
    let parameters = list(&[40]);
    let delta = normal(40, &mut Seed(2).stream());
    for written in codecs() {
        let file = encoded(&delta, &parameters, written, Seed(1));
        for expected in codecs().filter(|codec| *codec != written) {
            let refusal = decode(&file, &parameters, expected).unwrap_err();
            let named = match &refusal {
                UpdateError::WrongCodec { got, .. } => *got == written.to_string(),
                UpdateError::WrongTag { codec, .. } => *codec == expected.to_string(),
                // A tag is no length of a header.
                UpdateError::File(SafetensorsError::HeaderTooLong { .. }) => is_tagged(&file),
                // Frames of a small model are shorter than a header alone.
                UpdateError::Body(UnpackError::TooLong { limit }) => file.len() as u64 > *limit,
                _ => false,
            };
            assert!(named, "{written} as {expected}: {refusal}");
        }
    }
}

#[test]
fn a_frame_for_another_job_or_model_is_refused() {
    let parameters = list(&[40]);
    let codec = CodecName::Ternary.with_defaults();
    let file = encoded(&normal(40, &mut Seed(2).stream()), &parameters, codec, Seed(1));
    let others = [
        UpdateHeader { job: "job_2".into(), ..header(codec) },
        UpdateHeader { base_version: 4, ..header(codec) },
        UpdateHeader { codec: Codec::Ternary(Ternary { scale: 2.0, ..Ternary::default() }), ..header(codec) },
    ];
    for other in others {
        let UpdateHeader { codec, job, base_version } = other.clone();
        for piece_bytes in [1, 3, file.len()] {
            let limits = UpdateLimits::of_magnitude(f32::INFINITY);
            let mut decoder = UpdateDecoder::new(Arc::clone(&parameters), other.clone(), limits);
            let mut sink = Once { delta: vec![0.0; 40], came: vec![false; 40] };
            let refusal = file.chunks(piece_bytes).find_map(|piece| decoder.push(piece, &mut sink).err());
            let job = job.clone();
            assert_eq!(refusal, Some(UpdateError::WrongTag { codec: codec.to_string(), job, base_version }));
            assert!(decoder.push(&file, &mut sink).is_err() && decoder.finish().is_err());
            assert!(!sink.came.contains(&true));
        }
    }
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let parameters = list(&[20, 3]);
    let delta = normal(23, &mut Seed(2).stream());
    for codec in codecs() {
        let file = encoded(&delta, &parameters, codec, Seed(1));
        for length in 0..file.len() {
            assert!(decode(&file[..length], &parameters, codec).is_err(), "{codec}: {length} of {}", file.len());
        }
        assert!(decode(&[&file[..], b"x"].concat(), &parameters, codec).is_err(), "{codec}");
    }
}

#[test]
fn a_value_above_the_cap_is_refused_by_name() {
    let parameters = list(&[9, 70]);
    let mut delta = vec![0.0; 79];
    delta[40] = 8.0;
    for codec in codecs() {
        let file = encoded(&delta, &parameters, codec, Seed(1));
        let largest =
            decode(&file, &parameters, codec).unwrap().into_iter().fold(0.0, |most: f32, value| most.max(value.abs()));
        let decoded = |cap| decode_pieces(&file, &parameters, codec, &[50], cap);
        assert!(decoded(largest).is_ok(), "{codec}");
        if largest > 0.0 {
            let refusal = decoded(largest.next_down()).unwrap_err();
            let named = matches!(&refusal, UpdateError::TooLarge { tensor, .. } if tensor == "p1");
            assert!(named, "{codec}: {refusal}");
        }
    }
}

#[test]
fn a_delta_that_is_not_finite_is_refused_before_it_is_written() {
    let parameters = list(&[3]);
    for codec in codecs() {
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let refusal = encode(&[0.0, 1.0, value], &parameters, &header(codec), 1, Seed(1));
            assert_eq!(refusal, Err(EncodeError::NotFinite { index: 2 }), "{codec}");
        }
        // The largest of all may be beyond what the codec can say; it never becomes infinite.
        if let Ok(file) = encode(&[0.0, 1.0, f32::MAX], &parameters, &header(codec), 1, Seed(1)) {
            assert!(decode(&file, &parameters, codec).is_ok(), "{codec}");
        }
    }
}
