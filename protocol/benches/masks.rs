//! Speed of masks: `cargo bench -p tributary-protocol --bench masks`. Bytes are those of the keystream.

use criterion::{Criterion, Throughput};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::secure::quantise::Quantiser;
use tributary_protocol::secure::{Mask, Masks, SecretBytes, Sign, Words, packed};
use tributary_protocol::seed::SecretStream;

/// Values of the update.
const VALUES: usize = 1_000_000;
/// A member's neighbours in a group of 128, and its own mask.
const MASKS: u8 = 57;

fn main() {
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    let mask = |number: u8| Mask { key: SecretBytes::new([number; 32]), sign: Sign::Plus };
    for (bits, bytes) in [(15, 2), (18, 4), (40, 8)] {
        let masks = Masks { values: (0..MASKS).map(mask).collect(), slots: Vec::new() };
        let mut words = Words::zeros(bits, VALUES);
        let mut group = criterion.benchmark_group("mask");
        group.throughput(Throughput::Bytes((bytes * VALUES * usize::from(MASKS)) as u64));
        group.bench_function(format!("{bits} bits"), |bencher| {
            bencher.iter(|| masks.apply(0, &mut words.as_mut()));
        });
        group.finish();
    }
    let mut group = criterion.benchmark_group("update");
    group.throughput(Throughput::Elements(VALUES as u64));
    let roster = Sha256Hash([7; 32]);
    let quantiser = Quantiser::new(VALUES, 1.0, 8, 1.0).expect("the settings are right");
    let mut random = SecretStream::of([1; 32]);
    let delta: Vec<f32> = (0..VALUES).map(|_| random.unit() as f32 - 0.5).collect();
    group.bench_function("quantise", |bencher| {
        bencher.iter(|| quantiser.quantise(&delta, &roster, &mut random).expect("the delta is finite"));
    });
    let quantised = quantiser.quantise(&delta, &roster, &mut random).expect("the delta is finite").values;
    group.bench_function("restore", |bencher| bencher.iter(|| quantiser.restore(&quantised, &roster)));
    let words = Words::of(15, &quantised);
    group.bench_function("pack 15 bits", |bencher| bencher.iter(|| packed::body(&roster, &words, &[1, 2, 3])));
    let body = packed::body(&roster, &words, &[1, 2, 3]);
    let mut sum = Words::zeros(15, words.len());
    group.bench_function("unpack and add 15 bits", |bencher| {
        bencher.iter(|| {
            let mut unpacker = packed::Unpacker::new(roster, 15, words.len() as u32, 3);
            let mut first = 0;
            for chunk in body.chunks(64 << 10) {
                let add = |values: &[u64]| {
                    sum.add(first, values);
                    first += values.len();
                };
                unpacker.read(chunk, add).expect("the body is right");
            }
            unpacker.finish().expect("the body is whole")
        });
    });
    group.finish();
    criterion.final_summary();
}
