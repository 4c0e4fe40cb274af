//! The golden vectors in `vectors/`: written and read files never change.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::model::{Model, ParameterList, ParameterSpec};
use tributary_protocol::safetensors::{model_from_bytes, model_to_bytes};
use tributary_protocol::seed::Seed;
use tributary_protocol::update::{CodecName, UpdateDecoder, UpdateHeader, UpdateLimits, encode};

const MODEL_FILE: &[u8] = include_bytes!("../vectors/model.safetensors");
const UPDATE_FILE: &[u8] = include_bytes!("../vectors/update-f32.safetensors");

const VALUES: [f32; 11] = [0.5, -1.25, 2.0, 3.0, -0.0, 0.0, 1.0, -1.0, 0.1, -0.2, 1e-40];
const DELTA: [f32; 11] = [0.25, -0.5, 0.0, 1.0, -1.0, 0.125, 0.1, -0.1, 3.0, -2.5, 1e-6];

fn parameters() -> Arc<ParameterList> {
    let specs = vec![
        ParameterSpec::new("layers.0.weight", [2, 3]),
        ParameterSpec::new("layers.0.bias", [2]),
        ParameterSpec::new("layers.2.weight", [1, 2]),
        ParameterSpec::new("layers.2.bias", [1]),
    ];
    Arc::new(ParameterList::new(specs).expect("the list is right"))
}

/// Multiples of a power of two up to 127 times: 8 bits hold them exactly, so rounding never is random.
const DELTA_EIGHTH: [f32; 11] = [
    0.25,
    -0.5,
    0.0,
    127.0 / 128.0,
    -127.0 / 128.0,
    0.125,
    127.0 / 1024.0,
    -1.0 / 1024.0,
    127.0 / 32.0,
    -2.5,
    127.0 / 64.0,
];
/// The same for 7 steps.
const DELTA_FOURTH: [f32; 11] = [0.25, -0.5, 0.0, 0.875, -0.875, 0.125, 7.0 / 64.0, -1.0 / 64.0, 3.5, -2.5, 1.75];

/// Updates of the codecs that write one or two tensors per parameter: codec, file, delta.
const UPDATE_FILES: [(CodecName, &[u8], [f32; 11]); 5] = [
    (CodecName::F32, UPDATE_FILE, DELTA),
    (CodecName::F16, include_bytes!("../vectors/update-f16.safetensors"), DELTA_EIGHTH),
    (CodecName::Bf16, include_bytes!("../vectors/update-bf16.safetensors"), DELTA_EIGHTH),
    (CodecName::Int8, include_bytes!("../vectors/update-int8.safetensors"), DELTA_EIGHTH),
    (CodecName::Int4, include_bytes!("../vectors/update-int4.safetensors"), DELTA_FOURTH),
];

#[test]
fn the_golden_model_is_written_and_read_bit_for_bit() {
    let model = Model::new(parameters(), VALUES.to_vec()).unwrap();
    let metadata = BTreeMap::from([("job".into(), "digits".into()), ("version".into(), "3".into())]);
    assert_eq!(model_to_bytes(&model, &metadata), MODEL_FILE);
    let bits = |model: &Model| model.values().iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&model_from_bytes(MODEL_FILE).unwrap()), bits(&model));
}

#[test]
fn the_golden_updates_are_written_and_read_bit_for_bit() {
    for (codec, file, expected) in UPDATE_FILES {
        let header = UpdateHeader { codec: codec.with_defaults(), job: "digits".into(), base_version: 3 };
        assert_eq!(encode(&expected, &parameters(), &header, 1, Seed(1)).unwrap(), file, "{codec}");
        let mut decoder = UpdateDecoder::new(parameters(), header, UpdateLimits::of_magnitude(4.0));
        let mut delta = vec![f32::NAN; 11];
        for piece in file.chunks(7) {
            decoder.push(piece, &mut delta).unwrap();
        }
        decoder.finish().unwrap();
        assert_eq!(delta, expected, "{codec}");
    }
}

#[test]
fn the_reference_library_reads_the_golden_files() {
    for file in [MODEL_FILE, UPDATE_FILE] {
        let read = safetensors::SafeTensors::deserialize(file).unwrap();
        assert_eq!(read.len(), 4);
        assert_eq!(read.tensor("layers.0.weight").unwrap().shape(), [2, 3]);
    }
}

#[test]
fn the_golden_files_are_those_that_were_released() {
    let updates = UPDATE_FILES.map(|(_, file, _)| file);
    let hashes: Vec<_> = [MODEL_FILE].iter().chain(&updates).map(|file| Sha256Hash::of(file).to_string()).collect();
    assert_eq!(
        hashes,
        [
            "ad7df30b2f8170fa083bdb5b98e974b6c2c80ab92a11753218c137286b152913",
            "9a4e15b9d16e8afbc25de8cb46defffdbdb0eadbd0adcd22c2400db330fc6512",
            "7b779aa69c24753f5d053987cda9cbec02927d32caef7993e89b755598dd138c",
            "063ca27023e4822153cb0c3da4a4eb59d4db49d177154684aab65f3a4dcdd09b",
            "930ab8a26cfcfc6a7bfc5b9fdebf140d28a4f9658de8684250969d793c2769e5",
            "8e93c9d75dc596cec452ab592872fb30fc0e1646ebb766e87a349d5a321a64c0",
        ]
    );
}
