#![no_main]
//! The safetensors reader: whole model files.

use tributary_protocol::safetensors::{model_from_bytes, model_to_bytes};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(model) = model_from_bytes(data) else { return };
    let again = model_from_bytes(&model_to_bytes(&model, &Default::default())).expect("what we write we read");
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(again.values()), bits(model.values()));
});
