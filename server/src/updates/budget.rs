//! The memory budget of updates in flight, and its queue.
//!
//! Populations share the memory fairly: of those that wait, the one that holds least is served first. Streamed bodies
//! leave a quarter to held ones, so a few large updates on slow lines do not stop small ones. Who is slow while others
//! wait gives its memory back ([`Share::outpaced`]).

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use metrics::Gauge;
use tokio::sync::oneshot;
use tributary_protocol::id::Name;

use crate::metrics::UploadMeters;
use crate::runtime::clock::{Clock, Stopwatch};
use crate::runtime::lock::Locked;

/// Chunk length of a streamed body. Each upload holds one chunk, and each chunk is one transaction. SQLite copies the
/// chunk of one upload at a time, PostgreSQL those of as many as there are connections. It is above 512 KiB, because
/// the coordinator's allocator keeps smaller blocks in areas of 4 MiB for each thread.
const CHUNK_BYTES: usize = 576 << 10;
/// Memory of a streamed body besides its chunk: the connection's buffer and decoded blocks (192 KiB), and zstd's
/// window, blocks and tables ([`tributary_protocol::body::WINDOW_LOG_MAX`]).
const STREAMED_BYTES: usize = (192 + 704) << 10;
/// Memory of a held body besides its bytes. It is decoded when it is whole, at most one per core at a time.
const HELD_BYTES: usize = 16 << 10;
/// The part of the memory that streamed bodies leave to held ones.
const HELD_PART: usize = 4;

/// How often the pace of an upload is looked at while others wait.
const PACE_MS: i64 = 5_000;
/// Bytes that an upload must bring in that time, if others wait all the while: 4 KiB/s, as the SDK expects of a
/// download.
const PACE_BYTES: u64 = 4 * 1024 * PACE_MS as u64 / 1000;
/// For a streamed body, which can resume, it doubles up to 64 KiB/s as long as others wait.
const PACE_BYTES_MAX: u64 = 16 * PACE_BYTES;

/// How a body is received, which decides whether it may wait behind large ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Held,
    Streamed,
}

/// A body that needs memory.
#[derive(Clone, Debug)]
pub struct Need {
    population: Name,
    lane: Lane,
    bytes: usize,
    chunk_bytes: usize,
}

impl Need {
    /// A body of this length that is held in memory.
    pub fn held(population: Name, length: usize) -> Self {
        Self { population, lane: Lane::Held, bytes: length.saturating_add(HELD_BYTES), chunk_bytes: length }
    }

    /// A body that is stored in chunks while it arrives. `length` if it is known; `chunk_bytes` if chunks of it are
    /// stored already.
    pub fn streamed(population: Name, length: Option<u64>, chunk_bytes: Option<usize>) -> Self {
        let length = length.map_or(usize::MAX, |length| usize::try_from(length).unwrap_or(usize::MAX));
        let chunk_bytes = chunk_bytes.unwrap_or(CHUNK_BYTES);
        Self { population, lane: Lane::Streamed, bytes: chunk_bytes.min(length) + STREAMED_BYTES, chunk_bytes }
    }
}

/// The memory that updates in flight share, counted in bytes. A fixed number of uploads would make small ones queue
/// needlessly.
#[derive(Debug)]
pub struct UploadMemory {
    bytes: usize,
    queue: Mutex<Queue>,
    meters: UploadMeters,
}

#[derive(Debug, Default)]
struct Queue {
    /// Bytes in use, by lane and population.
    used: BTreeMap<(Lane, Name), usize>,
    /// Number of uploads that have memory.
    taken: u64,
    /// Those that wait, each lane and population in the order of arrival.
    waiting: BTreeMap<(Lane, Name), VecDeque<Waiter>>,
    arrivals: u64,
    /// Counts the times in which somebody waited; none while nobody does.
    pressure: Option<u64>,
    pressures: u64,
}

#[derive(Debug)]
struct Waiter {
    arrival: u64,
    bytes: usize,
    call: oneshot::Sender<()>,
}

/// The share of one upload; dropping it frees the memory.
#[derive(Debug)]
pub struct Share<'a> {
    ticket: Ticket<'a>,
    chunk_bytes: usize,
    received: AtomicU64,
    stopwatch: Stopwatch,
    _in_flight: Present,
}

/// A place in the queue, and from its turn on the memory. Dropping it gives either back.
#[derive(Debug)]
struct Ticket<'a> {
    memory: &'a UploadMemory,
    place: (Lane, Name),
    arrival: u64,
    bytes: usize,
}

impl UploadMemory {
    pub(crate) fn new(bytes: usize, meters: UploadMeters) -> Self {
        Self { bytes, queue: Mutex::default(), meters }
    }

    /// Waits for the memory of a body. A body that needs more than its lane may have is received alone there.
    pub async fn acquire(&self, need: Need) -> Share<'_> {
        let waiting = Present::in_gauge(&self.meters.waiting);
        let place = (need.lane, need.population);
        let bytes = need.bytes.min(self.limit(place.0));
        let (call, called) = oneshot::channel();
        let arrival = {
            let mut queue = self.lock();
            queue.arrivals += 1;
            let arrival = queue.arrivals;
            queue.waiting.entry(place.clone()).or_default().push_back(Waiter { arrival, bytes, call });
            self.serve(&mut queue);
            arrival
        };
        let ticket = Ticket { memory: self, place, arrival, bytes };
        // The sender is in the queue until it calls.
        let _ = called.await;
        drop(waiting);
        let in_flight = Present::in_gauge(&self.meters.in_flight);
        let (received, stopwatch) = (AtomicU64::new(0), Stopwatch::start());
        Share { ticket, chunk_bytes: need.chunk_bytes, received, stopwatch, _in_flight: in_flight }
    }

    /// Number of uploads that have memory.
    pub fn taken(&self) -> u64 {
        self.lock().taken
    }

    fn limit(&self, lane: Lane) -> usize {
        match lane {
            Lane::Held => self.bytes.div_ceil(HELD_PART).max(1),
            Lane::Streamed => (self.bytes - self.bytes / HELD_PART).max(1),
        }
    }

    /// Calls all who can be served now.
    fn serve(&self, queue: &mut Queue) {
        while let Some((place, bytes)) = self.next(queue) {
            let waiters = queue.waiting.get_mut(&place).expect("it was found there");
            let waiter = waiters.pop_front().expect("it was found there");
            if waiters.is_empty() {
                queue.waiting.remove(&place);
            }
            *queue.used.entry(place.clone()).or_default() += bytes;
            queue.taken += 1;
            // If it gives up at this moment, its ticket frees the memory.
            let _ = waiter.call.send(());
        }
        match (queue.waiting.is_empty(), queue.pressure) {
            (true, _) => queue.pressure = None,
            (false, None) => {
                queue.pressures += 1;
                queue.pressure = Some(queue.pressures);
            }
            (false, Some(_)) => {}
        }
    }

    /// Who is served next, if its memory is free. One that has to wait lets nobody of its lane pass.
    fn next(&self, queue: &Queue) -> Option<((Lane, Name), usize)> {
        let fronts = queue.waiting.iter().filter_map(|(place, waiters)| Some((place, waiters.front()?)));
        let mut fronts: Vec<_> = fronts
            .map(|(place, front)| (queue.used.get(place).copied().unwrap_or(0), front.arrival, place, front.bytes))
            .collect();
        fronts.sort_unstable();
        let in_use: usize = queue.used.values().sum();
        let streamed: usize = queue.used.iter().filter(|((lane, _), _)| *lane == Lane::Streamed).map(|(_, b)| b).sum();
        let mut blocked = [false; 2];
        for (_, _, place, bytes) in fronts {
            let lane = place.0;
            let in_lane = lane == Lane::Held || streamed + bytes <= self.limit(lane);
            if blocked[lane as usize] {
                continue;
            }
            if in_lane && in_use + bytes <= self.bytes.max(1) {
                return Some((place.clone(), bytes));
            }
            blocked[lane as usize] = true;
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.locked()
    }
}

impl Queue {
    fn free(&mut self, place: &(Lane, Name), bytes: usize) {
        self.taken -= 1;
        if let Some(used) = self.used.get_mut(place) {
            *used -= bytes;
            if *used == 0 {
                self.used.remove(place);
            }
        }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut queue = self.memory.lock();
        let queue = &mut *queue;
        let place = queue.waiting.get_mut(&self.place).and_then(|waiters| {
            let place = waiters.binary_search_by_key(&self.arrival, |waiter| waiter.arrival).ok()?;
            waiters.remove(place)
        });
        match place {
            Some(_) => queue.waiting.retain(|_, waiters| !waiters.is_empty()),
            // It was called.
            None => queue.free(&self.place, self.bytes),
        }
        self.memory.serve(queue);
    }
}

impl Share<'_> {
    /// Bytes of the body that may be in memory before they are stored.
    pub fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    /// Counts bytes of the body that have arrived.
    pub fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns when this upload should give its memory to those who wait, because it brings too few bytes.
    pub async fn outpaced(&self, clock: &Clock) {
        let mut wanted = PACE_BYTES;
        loop {
            let (pressure, received) = (self.ticket.memory.lock().pressure, self.received.load(Ordering::Relaxed));
            clock.sleep_until(clock.now_ms() + PACE_MS).await;
            if pressure.is_none() || pressure != self.ticket.memory.lock().pressure {
                wanted = PACE_BYTES;
                continue;
            }
            if self.received.load(Ordering::Relaxed) - received < wanted {
                return;
            }
            if self.ticket.place.0 == Lane::Streamed {
                wanted = (2 * wanted).min(PACE_BYTES_MAX);
            }
        }
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.ticket.memory.meters.seconds.record(self.stopwatch.seconds());
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

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn memory(bytes: usize) -> UploadMemory {
        UploadMemory::new(bytes, UploadMeters::new(&Registry::new(false)))
    }

    /// A long body, of unknown length.
    fn large() -> Need {
        Need::streamed(name("a"), None, None)
    }

    fn fill<'a>(memory: &'a UploadMemory, need: &Need) -> Vec<Share<'a>> {
        std::iter::from_fn(|| memory.acquire(need.clone()).now_or_never()).collect()
    }

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
        let first = memory.acquire(large()).await;
        let mut second = Box::pin(memory.acquire(Need::held(name("b"), 1)));
        assert!(second.as_mut().now_or_never().is_none());
        assert_eq!(counted(), ["1", "1"]);
        drop(second);
        assert_eq!((counted(), memory.taken()), (["0".into(), "1".into()], 1));
        drop(first);
        assert_eq!((counted(), memory.taken()), (["0".into(), "0".into()], 0));
        assert!(registry.render().unwrap().contains("tributary_update_place_seconds_count 1"));
    }

    #[test]
    fn streamed_bodies_leave_a_quarter_to_held_ones() {
        let memory = memory(12 << 20);
        let streamed = fill(&memory, &large());
        assert!(streamed.iter().all(|share| share.chunk_bytes() == CHUNK_BYTES));
        assert_eq!(streamed.len(), (9 << 20) / (CHUNK_BYTES + STREAMED_BYTES));
        assert!(fill(&memory, &Need::held(name("a"), 4_000)).len() > 150);
        drop(streamed);
        assert_eq!(fill(&memory, &Need::held(name("a"), 1 << 20)).len(), 11, "held bodies may use all of it");
        // A resumed upload has stored chunks already.
        let resumed = memory.acquire(Need::streamed(name("a"), None, Some(2 * CHUNK_BYTES)));
        assert_eq!(resumed.now_or_never().unwrap().chunk_bytes(), 2 * CHUNK_BYTES);
    }

    #[tokio::test]
    async fn the_population_that_holds_least_is_served_first_and_each_in_the_order_of_arrival() {
        let memory = memory(8 << 20);
        let mut held = fill(&memory, &large());
        let waiting: Vec<_> = ["a", "a", "b"]
            .into_iter()
            .map(|population| {
                let mut waiting = Box::pin(memory.acquire(Need::streamed(name(population), None, None)));
                assert!(waiting.as_mut().now_or_never().is_none());
                waiting
            })
            .collect();
        let [mut first, mut second, mut other]: [_; 3] = waiting.try_into().ok().unwrap();
        held.pop();
        let other = other.as_mut().now_or_never().expect("another population's upload goes first");
        assert!(first.as_mut().now_or_never().is_none());
        held.pop();
        let first = first.as_mut().now_or_never().unwrap();
        assert!(second.as_mut().now_or_never().is_none());
        drop((first, other));
        assert!(second.as_mut().now_or_never().is_some());
        drop((held, second));
        assert_eq!(memory.taken(), 0);
        assert!(memory.lock().used.is_empty() && memory.lock().waiting.is_empty());
    }

    #[tokio::test]
    async fn one_that_is_called_and_gives_up_at_the_same_time_leaves_nothing() {
        let memory = memory(1);
        let first = memory.acquire(large()).await;
        let mut second = Box::pin(memory.acquire(large()));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        assert_eq!(memory.taken(), 1, "the second is called");
        drop(second);
        assert_eq!(memory.taken(), 0);
    }

    /// Moves the clock by one look at the pace. Returns whether the upload should stop.
    async fn looked(
        outpaced: &mut (impl Future<Output = ()> + Unpin),
        hand: &crate::runtime::clock::ManualClock,
    ) -> bool {
        assert!((&mut *outpaced).now_or_never().is_none());
        hand.advance_ms(PACE_MS);
        outpaced.now_or_never().is_some()
    }

    #[tokio::test]
    async fn a_slow_upload_gives_its_memory_back_only_while_others_wait() {
        let memory = memory(1);
        let (clock, hand) = Clock::manual(0);
        let first = memory.acquire(large()).await;
        let mut outpaced = Box::pin(first.outpaced(&clock));
        assert!(!looked(&mut outpaced, &hand).await, "nobody waits");
        let mut second = Box::pin(memory.acquire(large()));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(!looked(&mut outpaced, &hand).await, "nobody waited all the while");
        for bytes in [PACE_BYTES, 2 * PACE_BYTES] {
            first.received(usize::try_from(bytes).unwrap());
            assert!(!looked(&mut outpaced, &hand).await, "it is fast enough");
        }
        first.received(usize::try_from(2 * PACE_BYTES).unwrap());
        assert!(looked(&mut outpaced, &hand).await, "others have waited long");
    }
}
