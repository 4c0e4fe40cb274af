//! Speed of encoding and decoding for every codec, in GB/s of f32, compared with the bandwidth of memory:
//! `cargo bench -p tributary-protocol`.
//!
//! Encoding moves the delta (4 bytes per value) and the file. Decoding moves the file; its values stay in the
//! first-level cache. Memory does not limit most codecs; the module of each names its limit.

mod yardstick;

use std::sync::Arc;

use criterion::Criterion;
use tributary_protocol::model::{ParameterList, ParameterSpec};
use tributary_protocol::seed::Seed;
use tributary_protocol::update::{CodecName, DeltaSink, UpdateDecoder, UpdateHeader, UpdateLimits, encode};
use yardstick::{MEASUREMENT, SAMPLES, Table, WARM_UP};

/// Values of the delta: more than the caches hold, and few enough for the slowest codec.
const VALUES: usize = 4_000_000;
/// Size of the pieces in which a coordinator reads a body.
const PIECE_BYTES: usize = 64 << 10;

/// A receiver that does nothing with the values, and keeps the compiler from removing the decoding.
struct Look;

impl DeltaSink for Look {
    fn dense(&mut self, _first: usize, values: &[f32]) {
        std::hint::black_box(values);
    }

    fn sparse(&mut self, _first: usize, indices: &[u32], values: &[f32]) {
        std::hint::black_box((indices, values));
    }
}

fn main() {
    let criterion = Criterion::default().sample_size(SAMPLES).measurement_time(MEASUREMENT).warm_up_time(WARM_UP);
    let mut criterion = criterion.configure_from_args();
    let mut table = Table::default();
    let specs = vec![ParameterSpec::new("w", [VALUES / 1000, 1000])];
    let parameters = Arc::new(ParameterList::new(specs).expect("the list is right"));
    let mut stream = Seed(1).stream();
    // Approximately normal values: sums of four uniform numbers.
    let delta: Vec<f32> = (0..VALUES).map(|_| (0..4).map(|_| stream.uniform(-0.01, 0.01)).sum()).collect();
    for name in CodecName::ALL {
        let header = UpdateHeader { codec: name.with_defaults(), job: "job".into(), base_version: 1 };
        let encoded = || encode(&delta, &parameters, &header, 1, Seed(2)).expect("the delta is finite");
        let file = encoded();
        let (read, written) = (4.0 * VALUES as f64, file.len() as f64);
        let encoding = |_| || drop(std::hint::black_box(encoded()));
        table.measure(&mut criterion, &format!("encode {name}"), 1, (VALUES, read + written), encoding);
        let decoding = |_| {
            || {
                let limits = UpdateLimits::of_magnitude(100.0);
                let mut decoder = UpdateDecoder::new(Arc::clone(&parameters), header.clone(), limits);
                for piece in file.chunks(PIECE_BYTES) {
                    decoder.push(piece, &mut Look).expect("the update is right");
                }
                decoder.finish().expect("the update is whole");
            }
        };
        table.measure(&mut criterion, &format!("decode {name}"), 1, (VALUES, written), decoding);
    }
    criterion.final_summary();
    table.print();
}
