//! Writes the initial corpora: valid files of every kind. Run it when a format changes:
//! `cargo run --manifest-path fuzz/Cargo.toml --bin seeds` in the repository's root.

use std::fs;
use std::path::Path;

use tributary_fuzz::{data_begins, header, parameters};
use tributary_protocol::body::shrink;
use tributary_protocol::model::Model;
use tributary_protocol::safetensors::model_to_bytes;
use tributary_protocol::seed::Seed;
use tributary_protocol::update::{CodecName, encode};

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let keep = |target: &str, name: &str, bytes: &[u8]| {
        let folder = corpus.join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), bytes)
    };
    let parameters = parameters();
    let deltas = [("zeros", 0.0), ("small", 0.01), ("large", 7.0)].map(|(name, scale)| {
        let mut stream = Seed(5).stream();
        let values: Vec<f32> =
            (0..parameters.total()).map(|_| (stream.uniform(-1.0, 1.0) * scale).clamp(-7.0, 7.0)).collect();
        (name, values)
    });
    for (name, delta) in &deltas {
        let bytes: Vec<u8> = delta.iter().flat_map(|value| value.to_le_bytes()).collect();
        keep("encode", name, &bytes)?;
        let model = Model::new(parameters.clone(), delta.clone()).expect("as many values as parameters");
        keep("safetensors", name, &model_to_bytes(&model, &Default::default()))?;
        for codec in CodecName::ALL {
            let file = encode(delta, &parameters, &header(codec.with_defaults()), 1, Seed(9)).expect("finite");
            keep(&codec.to_string(), name, &file)?;
            // The data alone, after a byte for the size of the pieces.
            let mut data = vec![40];
            data.extend_from_slice(&file[data_begins(codec.with_defaults(), &file)..]);
            keep(&codec.to_string(), &format!("{name}-data"), &data)?;
            keep("body", &format!("{codec}-{name}"), &shrink(file))?;
        }
    }
    Ok(())
}
