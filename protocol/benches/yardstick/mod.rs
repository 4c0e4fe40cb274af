//! What memory allows, measured in the same run: a triad as in STREAM (McCalpin 1995), `a[i] = b[i] + s * c[i]` over f64,
//! 24 bytes an element.
//!
//! A [`Table`] keeps the fastest time of each benchmark that criterion runs and says at the end how much that is of what
//! the triad's bandwidth allows for the bytes that the benchmark moves.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode, Throughput};
use tributary_protocol::cpu::Cpu;
use tributary_protocol::for_each_cpu;

/// Elements of each of the triad's vectors: together far more than any cache.
const TRIAD_ELEMENTS: usize = 10_000_000;
/// Of each benchmark: a quarter of an hour of criterion's own settings would say no more.
pub(crate) const SAMPLES: usize = 10;
pub(crate) const WARM_UP: Duration = Duration::from_millis(300);
pub(crate) const MEASUREMENT: Duration = Duration::from_secs(1);

const TRIAD_BYTES_PER_ELEMENT: f64 = 24.0;

for_each_cpu! {
    fn triad(a: &mut [f64], b: &[f64], c: &[f64], factor: f64) {
        for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
            *a = *b + factor * *c;
        }
    }
}

/// What was measured, for the lines at the end.
#[derive(Default)]
pub(crate) struct Table {
    /// Bandwidth of the triad in bytes per second, by number of threads.
    triad: Vec<(usize, f64)>,
    lines: Vec<String>,
}

impl Table {
    /// Measures the triad on so many threads, each with vectors of its own.
    pub(crate) fn triad(&mut self, criterion: &mut Criterion, threads: usize) {
        let bytes = TRIAD_BYTES_PER_ELEMENT * TRIAD_ELEMENTS as f64;
        let seconds = fastest(criterion, "triad", threads, bytes, |_| {
            let (mut a, b, c) = (vec![0.0; TRIAD_ELEMENTS], vec![1.0; TRIAD_ELEMENTS], vec![2.0; TRIAD_ELEMENTS]);
            move || triad(Cpu::best(), &mut a, &b, &c, 3.0)
        });
        let bytes_per_s = threads as f64 * bytes / seconds;
        self.triad.push((threads, bytes_per_s));
        self.lines.push(format!("{:<24} {threads} thread(s)  {:>6.1} GB/s", "triad", bytes_per_s / 1e9));
    }

    /// Measures something that handles `values` f32 and moves `bytes` bytes of memory, on so many threads.
    ///
    /// `make` makes for each thread what it repeats.
    pub(crate) fn measure<Work: FnMut() + Send>(
        &mut self,
        criterion: &mut Criterion,
        name: &str,
        threads: usize,
        (values, bytes): (usize, f64),
        make: impl Fn(usize) -> Work,
    ) {
        let seconds = fastest(criterion, name, threads, 4.0 * values as f64, make);
        let of_f32 = threads as f64 * 4.0 * values as f64 / seconds / 1e9;
        let bytes_per_s = threads as f64 * bytes / seconds;
        let triad = self.triad.iter().find(|(of, _)| *of == threads);
        let ratio = triad.map_or(String::new(), |(_, allowed)| {
            format!("  {:>6.1} GB/s moved, {:>3.0} % of the triad", bytes_per_s / 1e9, 100.0 * bytes_per_s / allowed)
        });
        self.lines.push(format!("{name:<24} {threads} thread(s)  {of_f32:>6.2} GB/s of f32{ratio}"));
    }

    /// Prints it.
    pub(crate) fn print(&self) {
        println!();
        self.lines.iter().for_each(|line| println!("{line}"));
    }
}

/// The fastest time in which all threads did their work once, in seconds. A machine that others use too only ever makes
/// it slower. Infinite when criterion's filter leaves it out.
fn fastest<Work: FnMut() + Send>(
    criterion: &mut Criterion,
    name: &str,
    threads: usize,
    bytes: f64,
    make: impl Fn(usize) -> Work,
) -> f64 {
    let mut fastest = Duration::MAX;
    let mut group = criterion.benchmark_group(name);
    // Once is milliseconds: no need to repeat it more and more often.
    group.sampling_mode(SamplingMode::Flat);
    group.throughput(Throughput::Bytes((threads as f64 * bytes) as u64));
    group.bench_function(format!("{threads} thread(s)"), |bencher| {
        let mut works: Vec<Work> = (0..threads).map(&make).collect();
        bencher.iter_custom(|times| {
            let mut total = Duration::ZERO;
            for _ in 0..times {
                let elapsed = once(&mut works);
                fastest = fastest.min(elapsed);
                total += elapsed;
            }
            total
        });
    });
    group.finish();
    fastest.as_secs_f64()
}

/// All at once; the time from the first one's beginning to the last one's end.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn once<Work: FnMut() + Send>(works: &mut [Work]) -> Duration {
    if let [only] = works {
        let began = Instant::now();
        only();
        return began.elapsed();
    }
    let together = Barrier::new(works.len());
    let times: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let timed = |work: &'_ mut Work| {
            together.wait();
            let began = Instant::now();
            work();
            (began, Instant::now())
        };
        let running: Vec<_> = works.iter_mut().map(|work| scope.spawn(move || timed(work))).collect();
        running.into_iter().map(|thread| thread.join().expect("a benchmark does not panic")).collect()
    });
    let began = times.iter().map(|(began, _)| *began).min();
    let ended = times.iter().map(|(_, ended)| *ended).max();
    began.zip(ended).map_or(Duration::ZERO, |(began, ended)| ended - began)
}
