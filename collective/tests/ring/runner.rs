//! Polls futures until some of them end. Nothing else has a say: no thread, no clock.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use tributary_collective::Timer;
use tributary_protocol::seed::Seed;

pub(super) type Task<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// The time of all members. It moves on when all of them wait.
#[derive(Clone, Default)]
pub(super) struct Clock(Arc<Hands>);

#[derive(Default)]
struct Hands {
    now_ms: AtomicU64,
    /// Sleepers by the end of their sleep and a number.
    sleepers: Mutex<BTreeMap<(u64, u64), Option<Waker>>>,
    numbers: AtomicU64,
}

struct Sleep<'a> {
    hands: &'a Hands,
    key: (u64, u64),
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.key.0 <= self.hands.now_ms.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        self.hands.sleepers.lock().unwrap().insert(self.key, Some(context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        self.hands.sleepers.lock().unwrap().remove(&self.key);
    }
}

impl Timer for Clock {
    fn sleep(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let key = (self.now_ms() + ms, self.0.numbers.fetch_add(1, Ordering::Relaxed));
        Box::pin(Sleep { hands: &self.0, key })
    }
}

impl Clock {
    pub(super) fn now_ms(&self) -> u64 {
        self.0.now_ms.load(Ordering::Relaxed)
    }

    /// Moves on to the next end of a sleep. Returns whether there is one.
    fn advance(&self) -> bool {
        let mut sleepers = self.0.sleepers.lock().unwrap();
        let Some(((end_ms, _), _)) = sleepers.first_key_value() else { return false };
        let end_ms = *end_ms;
        self.0.now_ms.store(end_ms, Ordering::Relaxed);
        let due = sleepers.range_mut(..=(end_ms, u64::MAX));
        let wakers: Vec<Waker> = due.filter_map(|(_, waker)| waker.take()).collect();
        // A sleeper that nobody polled again would keep the time still.
        sleepers.retain(|(end, _), _| *end > end_ms);
        drop(sleepers);
        wakers.into_iter().for_each(Waker::wake);
        true
    }
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs all tasks until the first `awaited` of them ended, and returns what those gave. The order in which tasks that
/// can go on are polled follows from the seed.
///
/// It panics when the awaited ones wait for ever.
pub(super) fn run<T>(clock: &Clock, seed: u64, tasks: Vec<Task<'_, T>>, awaited: usize) -> Vec<T> {
    let mut order = Seed(seed).stream();
    let mut tasks: Vec<_> = tasks.into_iter().map(Some).collect();
    let flags: Vec<Arc<Flag>> = tasks.iter().map(|_| Arc::new(Flag(AtomicBool::new(true)))).collect();
    let mut results: Vec<Option<T>> = tasks.iter().map(|_| None).collect();
    while results[..awaited].iter().any(Option::is_none) {
        let is_ready = |at: &usize| tasks[*at].is_some() && flags[*at].0.load(Ordering::Relaxed);
        let ready: Vec<usize> = (0..tasks.len()).filter(is_ready).collect();
        if ready.is_empty() {
            let waiting: Vec<usize> = (0..awaited).filter(|at| results[*at].is_none()).collect();
            assert!(clock.advance(), "{waiting:?} wait for ever");
            assert!(clock.now_ms() < 1_000_000, "{waiting:?} wait too long");
            continue;
        }
        let at = ready[(order.next_u64() % ready.len() as u64) as usize];
        flags[at].0.store(false, Ordering::Relaxed);
        let waker = Waker::from(flags[at].clone());
        let task = tasks[at].as_mut().expect("it is ready");
        if let Poll::Ready(result) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
            results[at] = Some(result);
            tasks[at] = None;
        }
    }
    results.into_iter().take(awaited).flatten().collect()
}
