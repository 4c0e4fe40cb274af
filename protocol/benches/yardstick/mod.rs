//! The bandwidth of memory, measured in the same run: a triad as in STREAM (McCalpin 1995), `a[i] = b[i] + s * c[i]`
//! over f64, 24 bytes per element.
//!
//! A [`Table`] keeps the fastest time of each benchmark, and prints at the end which share of the triad's bandwidth the
//! benchmark's own traffic reaches.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode, Throughput};
use tributary_protocol::cpu::Cpu;
use tributary_protocol::for_each_cpu;

/// Elements of each vector of the triad: together 120 MB, more than most caches.
const TRIAD_ELEMENTS: usize = 5_000_000;
/// Samples and times of each benchmark. Criterion's defaults would take a quarter of an hour for the same result.
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

/// The vectors of one thread's triad.
struct Triad([Vec<f64>; 3]);

impl Triad {
    fn new() -> Self {
        Self([0.0, 1.0, 2.0].map(|value| vec![value; TRIAD_ELEMENTS]))
    }

    fn run(&mut self) {
        let [a, b, c] = &mut self.0;
        triad(Cpu::best(), a, b, c, 3.0);
    }
}

/// The results, for the lines at the end.
#[derive(Default)]
pub(crate) struct Table {
    triads: Vec<Triad>,
    lines: Vec<String>,
}

impl Table {
    /// Measures work on `values` f32 that moves `bytes` bytes of memory, on some threads. A triad runs after each
    /// repetition, so that other load on the machine slows down both.
    ///
    /// `make` makes the work of each thread. The fastest repetition counts.
    pub(crate) fn measure<Work: FnMut() + Send>(
        &mut self,
        criterion: &mut Criterion,
        name: &str,
        threads: usize,
        (values, bytes): (usize, f64),
        make: impl Fn(usize) -> Work,
    ) {
        let (mut fastest, mut fastest_triad) = (Duration::MAX, Duration::MAX);
        let values_bytes = (threads * values * size_of::<f32>()) as f64;
        let mut group = criterion.benchmark_group(name);
        // One repetition takes milliseconds, so samples need no growing number of them.
        group.sampling_mode(SamplingMode::Flat);
        group.throughput(Throughput::Bytes(values_bytes as u64));
        group.bench_function(format!("{threads} thread(s)"), |bencher| {
            self.triads.resize_with(self.triads.len().max(threads), Triad::new);
            let mut works: Vec<Work> = (0..threads).map(&make).collect();
            let mut triads: Vec<_> = self.triads[..threads].iter_mut().map(|triad| || triad.run()).collect();
            bencher.iter_custom(|times| {
                let mut total = Duration::ZERO;
                for _ in 0..times {
                    let elapsed = once(&mut works);
                    fastest = fastest.min(elapsed);
                    total += elapsed;
                    fastest_triad = fastest_triad.min(once(&mut triads));
                }
                total
            });
        });
        group.finish();
        if fastest == Duration::MAX {
            // Criterion's filter has excluded it.
            return;
        }
        let of_f32 = values_bytes / fastest.as_secs_f64();
        let moved = threads as f64 * bytes / fastest.as_secs_f64();
        let allowed = (threads * TRIAD_ELEMENTS) as f64 * TRIAD_BYTES_PER_ELEMENT / fastest_triad.as_secs_f64();
        self.lines.push(format!(
            "{name:<20} {threads} {:>8.2} {:>8.2} {:>8.2} {:>6.0} %",
            of_f32 / 1e9,
            moved / 1e9,
            allowed / 1e9,
            100.0 * moved / allowed
        ));
    }

    /// Prints the table.
    pub(crate) fn print(&self) {
        println!("\n{:<18} threads  GB/s f32    moved    triad  of triad", "");
        self.lines.iter().for_each(|line| println!("{line}"));
    }
}

/// Runs all works at once. Returns the time from the first beginning to the last end.
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
