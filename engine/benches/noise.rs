//! Noise of a private round on one core, in parameters: `cargo bench -p tributary-engine --bench noise`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tributary_engine::aggregate::NoiseMaker;
use tributary_engine::privacy::{Blt, NOISE_BLOCK, Participation};
use tributary_protocol::seed::Seed;

const VALUES: usize = 16 * NOISE_BLOCK;

fn noise(criterion: &mut Criterion) {
    let blt = Blt::fit(Participation { versions: 100, separation: 25, times: 4 });
    let mut group = criterion.benchmark_group("noise");
    group.throughput(Throughput::Elements(VALUES as u64));
    for (name, blt) in [("independent", None), ("correlated", Some(blt))] {
        let maker = NoiseMaker::new([1; 32], Seed(7), 2, blt);
        let former = maker.make(0..VALUES, &[]).buffers;
        group.bench_function(name, |bencher| bencher.iter(|| maker.make(0..VALUES, &former)));
    }
    group.finish();
}

criterion_group!(benches, noise);
criterion_main!(benches);
