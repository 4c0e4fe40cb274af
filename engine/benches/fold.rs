//! Updates into the exact sum as the coordinator folds them, beside what the bandwidth of memory allows:
//! `cargo bench -p tributary-engine`.
//!
//! Each value of a body is read, checked, measured and added: a value's share of the body, and 16 bytes of the sum (8
//! read, 8 written), move; of a sparse update, 16 bytes for each value sent. Two threads fold two bodies into two sums,
//! as two rounds would; into one sum they also share its cache lines.

#[path = "../../protocol/benches/yardstick/mod.rs"]
mod yardstick;

use std::sync::Arc;

use criterion::Criterion;
use tributary_engine::aggregate::{Accumulator, SumCaps};
use tributary_protocol::fixed::Weight;
use tributary_protocol::model::{ParameterList, ParameterSpec};
use tributary_protocol::seed::Seed;
use tributary_protocol::update::{Codec, DeltaSink, TopK, UpdateDecoder, UpdateHeader, UpdateLimits, encode};
use yardstick::{MEASUREMENT, SAMPLES, Table, WARM_UP};

/// Parameters: a sum of 80 MB, more than any cache.
const PARAMETERS: usize = 10_000_000;
/// As the coordinator reads a body.
const PIECE_BYTES: usize = 64 << 10;
const CAPS: SumCaps = SumCaps { weight_max: Weight::examples(10_000), magnitude_max: 100.0, updates_max: 1000 };
const WEIGHT: Weight = Weight::examples(123);
const SUM_BYTES: f64 = 16.0;

struct Add<'a>(&'a Accumulator);

impl DeltaSink for Add<'_> {
    fn dense(&mut self, first: usize, values: &[f32]) {
        self.0.add(first, values, WEIGHT);
    }

    fn sparse(&mut self, first: usize, indices: &[u32], values: &[f32]) {
        self.0.add_sparse(first, indices, values, WEIGHT);
    }
}

fn main() {
    let criterion = Criterion::default().sample_size(SAMPLES).measurement_time(MEASUREMENT).warm_up_time(WARM_UP);
    let mut criterion = criterion.configure_from_args();
    let mut table = Table::default();
    let specs = vec![ParameterSpec::new("w", [PARAMETERS / 1000, 1000])];
    let parameters = Arc::new(ParameterList::new(specs).expect("the list is right"));
    let mut stream = Seed(1).stream();
    let delta: Vec<f32> = (0..PARAMETERS).map(|_| stream.uniform(-0.01, 0.01)).collect();
    let sums = &[0, 1].map(|_| Accumulator::new(PARAMETERS, CAPS).expect("the caps are right"));
    let one_percent = TopK { density: 0.01, ..TopK::default() };
    // The share of the sum's cache lines that an update touches: of 8 sums each.
    let sparse_share = 0.01;
    let cases = [
        (Codec::F32, 1.0),
        (Codec::F16, 1.0),
        (Codec::Bf16, 1.0),
        (Codec::Int8(Default::default()), 1.0),
        (Codec::Int4(Default::default()), 1.0),
        (Codec::TopK(one_percent), sparse_share),
    ];
    for (codec, share) in cases {
        let header = UpdateHeader { codec, job: "job".into(), base_version: 1 };
        let body = encode(&delta, &parameters, &header, 1, Seed(2)).expect("the delta is finite");
        let fold = &|sum: &Accumulator| {
            let limits = UpdateLimits::of_magnitude(CAPS.magnitude_max);
            let mut decoder = UpdateDecoder::new(Arc::clone(&parameters), header.clone(), limits);
            for piece in body.chunks(PIECE_BYTES) {
                decoder.push(piece, &mut Add(sum)).expect("the update is right");
            }
            decoder.finish().expect("the update is whole");
        };
        let bytes = body.len() as f64 + SUM_BYTES * share * PARAMETERS as f64;
        let name = format!("fold {}", codec.name());
        for threads in [1, 2] {
            table.measure(&mut criterion, &name, threads, (PARAMETERS, bytes), |thread| move || fold(&sums[thread]));
        }
        let name = format!("fold {}, one sum", codec.name());
        table.measure(&mut criterion, &name, 2, (PARAMETERS, bytes), |_| || fold(&sums[0]));
    }
    criterion.final_summary();
    table.print();
}
