//! The files in `vectors/`: what this version writes and reads never changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::model::{Model, ParameterList, ParameterSpec};
use tributary_protocol::safetensors::{model_from_bytes, model_from_bytes_expecting, model_to_bytes};
use tributary_protocol::update::{Codec, UpdateDecoder, UpdateHeader, UpdateLimits, encode};

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

fn header() -> UpdateHeader {
    UpdateHeader { codec: Codec::F32, job: "digits".into(), base_version: 3 }
}

#[test]
fn the_golden_model_is_written_and_read_bit_for_bit() {
    let model = Model::new(parameters(), VALUES.to_vec()).unwrap();
    let metadata = BTreeMap::from([("job".into(), "digits".into()), ("version".into(), "3".into())]);
    assert_eq!(model_to_bytes(&model, &metadata), MODEL_FILE);
    let bits = |model: &Model| model.values().iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&model_from_bytes(MODEL_FILE).unwrap()), bits(&model));
    assert_eq!(bits(&model_from_bytes_expecting(MODEL_FILE, &parameters()).unwrap()), bits(&model));
}

#[test]
fn the_golden_update_is_written_and_read_bit_for_bit() {
    assert_eq!(encode(&DELTA, &parameters(), &header()), UPDATE_FILE);
    let mut decoder = UpdateDecoder::new(parameters(), header(), UpdateLimits { magnitude_max: 3.0 });
    let mut delta = [f32::NAN; 11];
    for piece in UPDATE_FILE.chunks(7) {
        decoder.push(piece, &mut |offset, values| delta[offset..][..values.len()].copy_from_slice(values)).unwrap();
    }
    decoder.finish().unwrap();
    assert_eq!(delta, DELTA);
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
    let hashes = [MODEL_FILE, UPDATE_FILE].map(|file| Sha256Hash::of(file).to_string());
    assert_eq!(
        hashes,
        [
            "ad7df30b2f8170fa083bdb5b98e974b6c2c80ab92a11753218c137286b152913",
            "9a4e15b9d16e8afbc25de8cb46defffdbdb0eadbd0adcd22c2400db330fc6512",
        ]
    );
}
