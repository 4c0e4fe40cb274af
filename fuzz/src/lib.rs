//! Shared code of the fuzz targets: an update of arbitrary bytes is refused, or its delta satisfies all guarantees.

pub mod link;

use std::sync::{Arc, LazyLock, OnceLock};

use tributary_protocol::body::{UnpackError, Unpacker};
use tributary_protocol::fixed::{Contribution, SumCaps, Weight};
use tributary_protocol::model::{ParameterList, ParameterSpec};
use tributary_protocol::seed::Seed;
use tributary_protocol::sum::{Expected, SumDecoder, SumError, SumWriter};
use tributary_protocol::update::{
    Codec, CodecName, DeltaSink, EncodeError, UpdateDecoder, UpdateError, UpdateHeader, UpdateLimits, bytes_max, encode,
};

/// Largest allowed magnitude of a value.
const MAGNITUDE_MAX: f32 = 8.0;

/// The parameters of the model.
pub fn parameters() -> Arc<ParameterList> {
    static LIST: LazyLock<Arc<ParameterList>> = LazyLock::new(|| {
        let specs = vec![ParameterSpec::new("w", [37, 9]), ParameterSpec::new("b", [9]), ParameterSpec::new("s", [])];
        Arc::new(ParameterList::new(specs).expect("the list is right"))
    });
    Arc::clone(&LIST)
}

/// The expected metadata of updates.
pub fn header(codec: Codec) -> UpdateHeader {
    UpdateHeader { codec, job: "job".into(), base_version: 3 }
}

/// Decodes `data` as an update in this codec: as a whole file, and as the data after a valid header, since a fuzzer
/// rarely finds a valid header.
pub fn update(name: CodecName, data: &[u8]) {
    let codec = name.with_defaults();
    read(codec, data, data.len().max(1));
    let Some((piece_bytes, data)) = data.split_first() else { return };
    let file = behind_a_header(codec, data);
    let (whole, in_pieces) = (read(codec, &file, file.len()), read(codec, &file, usize::from(*piece_bytes) + 1));
    assert_eq!(whole, in_pieces, "the size of the pieces does not matter");
}

/// Encodes `data` as a delta in all codecs and decodes the files.
pub fn delta(data: &[u8]) {
    let parameters = parameters();
    let mut values: Vec<f32> = data.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    values.resize(parameters.total(), 0.0);
    let is_finite = values.iter().all(|value| value.is_finite());
    for name in CodecName::ALL {
        let codec = name.with_defaults();
        match encode(&values, &parameters, &header(codec), 1, Seed(data.len() as u64)) {
            Ok(file) => {
                assert!(is_finite && file.len() as u64 <= bytes_max(&parameters, codec), "{name}");
                let limits = UpdateLimits::of_magnitude(f32::INFINITY);
                let mut decoder = UpdateDecoder::new(Arc::clone(&parameters), header(codec), limits);
                let mut decoded = vec![0.0; parameters.total()];
                match decoder.push(&file, &mut decoded).and_then(|()| decoder.finish()) {
                    Ok(_) => {}
                    // A decoded magnitude may exceed the largest value by half and overflow; the server refuses it.
                    Err(UpdateError::NotFinite { .. }) => {
                        assert!(values.iter().any(|value| value.abs() > f32::MAX / 1e3), "{name} made an infinity");
                    }
                    Err(error) => panic!("{name} wrote what cannot be read: {error}"),
                }
            }
            Err(EncodeError::NotFinite { index }) => assert!(!values[index].is_finite()),
            Err(EncodeError::TooLarge { index, value }) => assert!(value.is_finite() && value == values[index]),
        }
    }
}

/// Decodes `data` as a compressed body.
pub fn body(data: &[u8]) {
    read(Codec::F32, data, 64);
    let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD];
    frame.extend_from_slice(data);
    read(Codec::F32, &frame, 64);
    // Of a damaged frame without a checksum, the two readers may make different files: the hash of the body tells.
    for unpacker in [Unpacker::new(UNPACKED_MAX), Unpacker::in_rust(UNPACKED_MAX)] {
        unpack(unpacker, &frame);
    }
}

/// What a sum of so many values is expected to be. Every integer is within the caps of three updates.
pub fn expected_sum(values: u32) -> Expected {
    let caps = SumCaps { weight_max: Weight::examples(1), magnitude_max: 1.999_999_9, updates_max: 1 };
    Expected { tag: *b"TSfuzzed", values, caps, binary_point: 62, updates_max: 3 }
}

/// Decodes `data` as a sum: two bytes choose the number of values, one the size of the pieces. The others are a whole
/// body, and the blocks after a valid header, since a fuzzer rarely finds one.
pub fn sum(data: &[u8]) {
    let Some(([low, high, piece_bytes], body)) = data.split_first_chunk() else { return };
    let expected = expected_sum(u32::from(u16::from_le_bytes([*low, *high])) % 1024);
    let mut header =
        SumWriter::new(expected.tag, Contribution { weight: Weight::examples(2), updates: 3 }, expected.values);
    for body in [body.to_vec(), [&header.take(), body].concat()] {
        let whole = read_sum(expected, &body, body.len().max(1));
        let in_pieces = read_sum(expected, &body, usize::from(*piece_bytes) + 1);
        assert_eq!(whole, in_pieces, "the size of the pieces does not matter");
        let Ok((contribution, values)) = whole else { continue };
        let mut writer = SumWriter::new(expected.tag, contribution, expected.values);
        writer.push(&values);
        assert_eq!(writer.finish().as_ref(), Ok(&body), "a sum has one encoding");
    }
}

fn read_sum(expected: Expected, body: &[u8], piece_bytes: usize) -> Result<(Contribution, Vec<i64>), SumError> {
    let mut values = vec![0; expected.values as usize];
    let mut decoder = SumDecoder::new(expected);
    for piece in body.chunks(piece_bytes) {
        if let Err(error) = decoder.read(piece, &mut values) {
            assert_eq!(decoder.finish(), Err(error), "what was refused stays refused");
            return Err(error);
        }
    }
    decoder.finish().map(|contribution| (contribution, values))
}

/// Longest file that bodies unpack to.
const UNPACKED_MAX: u64 = 1 << 20;

fn unpack(mut unpacker: Unpacker, body: &[u8]) -> Option<Vec<u8>> {
    let mut file = Vec::new();
    for piece in body.chunks(64) {
        let unpacked = unpacker.push::<UnpackError>(piece, &mut |bytes| {
            file.extend_from_slice(bytes);
            Ok(())
        });
        assert!(file.len() as u64 <= UNPACKED_MAX);
        unpacked.ok()?;
    }
    unpacker.finish().ok()?;
    Some(file)
}

/// Decodes an update. Returns the bits of its values and of its norm if it is accepted.
fn read(codec: Codec, file: &[u8], piece_bytes: usize) -> Option<(Vec<u32>, u64)> {
    let parameters = parameters();
    let mut seen = Seen(vec![None; parameters.total()]);
    let mut decoder = UpdateDecoder::new(parameters, header(codec), UpdateLimits::of_magnitude(MAGNITUDE_MAX));
    for piece in file.chunks(piece_bytes) {
        if decoder.push(piece, &mut seen).is_err() {
            assert!(decoder.finish().is_err(), "what was refused stays refused");
            return None;
        }
    }
    let summary = decoder.finish().ok()?;
    let values: Vec<f32> = seen.0.into_iter().map(Option::unwrap_or_default).collect();
    let largest = values.iter().fold(0.0, |largest: f32, value| largest.max(value.abs()));
    assert_eq!(summary.magnitude_max, largest);
    let norm = values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    assert!((summary.norm - norm).abs() <= 1e-9 * norm);
    Some((values.into_iter().map(f32::to_bits).collect(), summary.norm.to_bits()))
}

/// The decoded values, each at most once.
struct Seen(Vec<Option<f32>>);

impl DeltaSink for Seen {
    fn dense(&mut self, first: usize, values: &[f32]) {
        for (index, value) in values.iter().enumerate() {
            self.take(first + index, *value);
        }
    }

    fn sparse(&mut self, first: usize, indices: &[u32], values: &[f32]) {
        assert_eq!(indices.len(), values.len());
        for (index, value) in indices.iter().zip(values) {
            self.take(first + *index as usize, *value);
        }
    }
}

impl Seen {
    fn take(&mut self, place: usize, value: f32) {
        assert!(value.abs() <= MAGNITUDE_MAX, "{value} was let through");
        assert!(self.0[place].replace(value).is_none(), "place {place} was handed out twice");
    }
}

/// A file with a valid header for its codec.
fn behind_a_header(codec: Codec, data: &[u8]) -> Vec<u8> {
    // Encoded once: a fuzz target has one codec.
    static EMPTY: OnceLock<(Codec, Vec<u8>)> = OnceLock::new();
    let (of, empty) = EMPTY.get_or_init(|| (codec, empty_update(codec)));
    assert_eq!(*of, codec);
    let data_begins = data_begins(codec, empty);
    if !codec.is_fixed_width() {
        return [&empty[..data_begins], data].concat();
    }
    let mut file = empty.clone();
    for (byte, data) in file[data_begins..].iter_mut().zip(data) {
        *byte = *data;
    }
    file
}

/// Offset of the data in a valid file: behind the header of a safetensors file, or behind the tag before a frame.
pub fn data_begins(codec: Codec, file: &[u8]) -> usize {
    match codec.is_fixed_width() {
        true => 8 + u64::from_le_bytes(file[..8].try_into().expect("eight bytes")) as usize,
        false => 8,
    }
}

fn empty_update(codec: Codec) -> Vec<u8> {
    let parameters = parameters();
    encode(&vec![0.0; parameters.total()], &parameters, &header(codec), 1, Seed(1)).expect("zeros can be written")
}
