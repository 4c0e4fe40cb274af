//! The memory budget of updates in flight.

use std::sync::atomic::{AtomicU64, Ordering};

use metrics::Gauge;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::metrics::UploadMeters;
use crate::runtime::clock::Stopwatch;

/// The unit of the semaphore's permits.
const UNIT_BYTES: usize = 1 << 10;
/// Chunk length of a large body. Each upload holds one chunk, and each chunk is one transaction. SQLite copies the
/// chunk of one upload at a time, PostgreSQL those of as many as there are connections.
const PART_BYTES: usize = 512 << 10;
/// Memory of an upload besides its chunk: the connection's buffer and decoded blocks.
const BESIDES_BYTES: usize = 192 << 10;
/// Memory for unpacking: zstd's window, blocks and tables ([`tributary_protocol::body::WINDOW_LOG_MAX`]).
const UNPACKING_BYTES: usize = 704 << 10;
/// Memory of a small upload: a fixed part instead of the last two, and a factor for each of its bytes.
const SMALL_BYTES: usize = 16 << 10;
const SMALL_BYTES_PER_BYTE: usize = 4;

/// What is known about a body that needs memory.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// Length of the body, if it is known.
    pub bytes: Option<u64>,
    /// Whether the body has to be unpacked.
    pub packed: bool,
    /// Chunk length, if chunks of the body are stored already.
    pub part_bytes: Option<usize>,
}

/// The memory that updates in flight share, counted in bytes. A fixed number of uploads would make small ones queue
/// needlessly.
#[derive(Debug)]
pub struct UploadMemory {
    units: usize,
    free: Semaphore,
    taken: AtomicU64,
    meters: UploadMeters,
}

/// The share of one upload; dropping it frees the memory.
#[derive(Debug)]
pub struct Share<'a> {
    memory: &'a UploadMemory,
    part_bytes: usize,
    stopwatch: Stopwatch,
    _permit: SemaphorePermit<'a>,
    _in_flight: Present,
}

impl UploadMemory {
    pub(crate) fn new(bytes: usize, meters: UploadMeters) -> Self {
        let units = (bytes / UNIT_BYTES).clamp(1, u32::MAX as usize);
        Self { units, free: Semaphore::new(units), taken: AtomicU64::new(0), meters }
    }

    /// Waits for the memory of a body, in the order of arrival.
    ///
    /// # Panics
    /// Never: the semaphore is not closed.
    pub async fn acquire(&self, need: Need) -> Share<'_> {
        let waiting = Present::in_gauge(&self.meters.waiting);
        let body_bytes = need.bytes.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let part_bytes = need.part_bytes.unwrap_or(PART_BYTES);
        let besides = BESIDES_BYTES + if need.packed { UNPACKING_BYTES } else { 0 };
        let besides_small = SMALL_BYTES.saturating_add(body_bytes.saturating_mul(SMALL_BYTES_PER_BYTE));
        let bytes = part_bytes.min(body_bytes) + besides.min(besides_small);
        // A body that needs more than the whole budget may be received alone.
        let units = bytes.div_ceil(UNIT_BYTES).min(self.units) as u32;
        let permit = self.free.acquire_many(units).await.expect("the semaphore is never closed");
        drop(waiting);
        self.taken.fetch_add(1, Ordering::Relaxed);
        let in_flight = Present::in_gauge(&self.meters.in_flight);
        Share { memory: self, part_bytes, stopwatch: Stopwatch::start(), _permit: permit, _in_flight: in_flight }
    }

    /// Number of uploads that have memory.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

impl Share<'_> {
    /// Bytes of the body that may be in memory before they are stored.
    #[must_use]
    pub fn part_bytes(&self) -> usize {
        self.part_bytes
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.memory.taken.fetch_sub(1, Ordering::Relaxed);
        self.memory.meters.seconds.record(self.stopwatch.seconds());
    }
}

/// Counts itself in a gauge until it is dropped.
#[derive(Debug)]
struct Present(Gauge);

impl Present {
    fn in_gauge(gauge: &Gauge) -> Self {
        gauge.increment(1);
        Self(gauge.clone())
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.decrement(1);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::metrics::Registry;

    /// A long body, of unknown length.
    const LARGE: Need = Need { bytes: None, packed: false, part_bytes: None };

    #[tokio::test]
    async fn who_waits_and_who_has_memory_is_counted_and_whoever_gives_up_no_longer() {
        let registry = Registry::new(true);
        let memory = UploadMemory::new(1, UploadMeters::new(&registry));
        let counted = || {
            let text = registry.render().unwrap();
            let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
            [value("tributary_updates_waiting "), value("tributary_updates_in_flight ")]
        };
        // A body that needs more than the whole budget is received alone.
        let first = memory.acquire(LARGE).await;
        let mut second = Box::pin(memory.acquire(Need { bytes: Some(1), ..LARGE }));
        assert!(second.as_mut().now_or_never().is_none());
        assert_eq!(counted(), ["1", "1"]);
        drop(second);
        assert_eq!((counted(), memory.taken()), (["0".into(), "1".into()], 1));
        drop(first);
        assert_eq!((counted(), memory.taken()), (["0".into(), "0".into()], 0));
        assert!(registry.render().unwrap().contains("tributary_update_place_seconds_count 1"));
    }

    #[test]
    fn a_large_body_takes_a_part_and_what_unpacks_it_and_a_small_one_little() {
        let registry = Registry::new(false);
        let memory = UploadMemory::new(12 << 20, UploadMeters::new(&registry));
        let fill = |need| {
            let mut taken = Vec::new();
            while let Some(share) = memory.acquire(need).now_or_never() {
                taken.push(share);
            }
            taken
        };
        let large = fill(LARGE);
        assert!(large.iter().all(|share| share.part_bytes() == PART_BYTES));
        assert_eq!(large.len(), (12 << 20) / (PART_BYTES + BESIDES_BYTES));
        drop(large);
        assert_eq!(fill(Need { packed: true, ..LARGE }).len(), 8);
        assert!(fill(Need { bytes: Some(4_000), packed: true, part_bytes: None }).len() > 260);
        // A resumed upload has stored chunks already.
        let resumed = memory.acquire(Need { part_bytes: Some(2 * PART_BYTES), ..LARGE });
        assert_eq!(resumed.now_or_never().unwrap().part_bytes(), 2 * PART_BYTES);
    }
}
