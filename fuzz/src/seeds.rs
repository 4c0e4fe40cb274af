//! Writes the initial corpora: valid files of every kind. Run it when a format changes:
//! `cargo run --manifest-path fuzz/Cargo.toml --bin seeds` in the repository's root.

use std::fs;
use std::path::Path;

use tributary_fuzz::link::{ATTEMPT, VALUES, reduced, sum_frame};
use tributary_fuzz::{data_begins, expected_sum, header, parameters};
use tributary_protocol::body::shrink;
use tributary_protocol::fixed::{Contribution, Weight, quantise};
use tributary_protocol::group::{Abort, AbortReason, FrameHeader, FrameKind};
use tributary_protocol::model::Model;
use tributary_protocol::safetensors::model_to_bytes;
use tributary_protocol::seed::Seed;
use tributary_protocol::sum::{SumWriter, pack_run};
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
        let body = sum(delta);
        // The number of values, a byte for the size of the pieces, and a whole body or its blocks alone.
        let [low, high] = (delta.len() as u16).to_le_bytes();
        keep("sum", name, &[&[low, high, 40], &body[..]].concat())?;
        keep("sum", &format!("{name}-blocks"), &[&[low, high, 40], &body[24..]].concat())?;
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
    // Alive, and all frames of a left neighbour that adds twos; the bodies alone, each after its choice and its length.
    let [mut one, mut three] = [Vec::new(), Vec::new()];
    pack_run(&[2; VALUES / 2], &mut one);
    pack_run(&[3; VALUES / 2], &mut three);
    let alive = FrameHeader::of(FrameKind::Alive, 1, ATTEMPT).encode();
    let frames = [&alive[..], &sum_frame(0, 0, &one), &sum_frame(1, 0, &three)].concat();
    reduced(&frames).expect("these are all frames of the neighbour");
    keep("link", "frames", &frames)?;
    let abort = Abort { rank: 1, step: 1, reason: AbortReason::Closed }.encode();
    keep("link", "bodies", &[&[0, 8], &one[..one.len().min(64)], &[4, 8], &three, &[3, 1], &abort].concat())
}

/// The sum of one update with 40 binary places.
fn sum(delta: &[f32]) -> Vec<u8> {
    let expected = expected_sum(delta.len() as u32);
    let mut writer = SumWriter::new(expected.tag, Contribution::of_one(Weight::examples(1)), expected.values);
    let factor = Weight::examples(1).factor(40);
    writer.push(&delta.iter().map(|value| quantise(f64::from(*value) * factor)).collect::<Vec<i64>>());
    writer.finish().expect("as many values as were announced")
}
