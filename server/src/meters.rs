//! What a coordinator measures of itself, in memory: check-ins per second, and how long its database takes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tributary_protocol::operator::DbLatency;

use crate::round::percentile;

/// Seconds over which check-ins are averaged.
const WINDOW_S: usize = 60;
/// Waits for the database that are remembered, the newest ones.
const WAITS_MAX: usize = 512;

/// Check-ins of the last minute.
#[derive(Debug)]
pub struct CheckIns {
    seconds: Mutex<[(i64, u32); WINDOW_S]>,
}

impl Default for CheckIns {
    fn default() -> Self {
        Self { seconds: Mutex::new([(i64::MIN, 0); WINDOW_S]) }
    }
}

impl CheckIns {
    /// Counts one.
    pub fn count(&self, now_ms: i64) {
        let second = now_ms.div_euclid(1000);
        let mut seconds = lock(&self.seconds);
        let slot = &mut seconds[slot_of(second)];
        if slot.0 != second {
            *slot = (second, 0);
        }
        slot.1 += 1;
    }

    /// The mean of the last 60 whole seconds.
    #[must_use]
    pub fn per_second(&self, now_ms: i64) -> f64 {
        let second = now_ms.div_euclid(1000);
        let window = WINDOW_S as i64;
        let recent = |&(at, _): &(i64, u32)| at < second && at >= second.saturating_sub(window - 1);
        let counted: u32 = lock(&self.seconds).iter().filter(|slot| recent(slot)).map(|slot| slot.1).sum();
        // The running second has taken the slot of the oldest one.
        f64::from(counted) / (window - 1) as f64
    }
}

fn slot_of(second: i64) -> usize {
    usize::try_from(second.rem_euclid(WINDOW_S as i64)).unwrap_or(0)
}

/// How long the last waits took, in microseconds.
#[derive(Debug)]
pub struct Waits {
    newest: Mutex<Ring>,
}

#[derive(Debug)]
struct Ring {
    waits_us: [u32; WAITS_MAX],
    count: usize,
}

impl Waits {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { newest: Mutex::new(Ring { waits_us: [0; WAITS_MAX], count: 0 }) }
    }

    /// Remembers one.
    pub fn took(&self, wait: std::time::Duration) {
        let mut ring = lock(&self.newest);
        let slot = ring.count % WAITS_MAX;
        ring.waits_us[slot] = u32::try_from(wait.as_micros()).unwrap_or(u32::MAX);
        ring.count += 1;
    }

    /// Median and 99th percentile in milliseconds; none before the first wait.
    #[must_use]
    pub fn percentiles_ms(&self) -> (Option<f64>, Option<f64>) {
        let ring = lock(&self.newest);
        let mut waits_us = ring.waits_us[..ring.count.min(WAITS_MAX)].to_vec();
        drop(ring);
        waits_us.sort_unstable();
        let at = |percent| percentile(&waits_us, percent).map(|wait_us| f64::from(wait_us) / 1000.0);
        (at(50), at(99))
    }
}

impl Default for Waits {
    fn default() -> Self {
        Self::new()
    }
}

/// What operators are told of these waits for the database.
#[must_use]
pub fn latency(reads: &Waits, writes: &Waits) -> DbLatency {
    let ((read_ms_p50, read_ms_p99), (write_ms_p50, write_ms_p99)) = (reads.percentiles_ms(), writes.percentiles_ms());
    DbLatency { read_ms_p50, read_ms_p99, write_ms_p50, write_ms_p99 }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that can panic runs under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn check_ins_are_averaged_over_the_last_minute() {
        let check_ins = CheckIns::default();
        assert_eq!(check_ins.per_second(0), 0.0);
        for at_ms in [0, 10, 999, 1_000] {
            check_ins.count(at_ms);
        }
        assert_eq!(check_ins.per_second(500), 0.0, "the running second is not over");
        assert_eq!(check_ins.per_second(1_500), 3.0 / 59.0);
        assert_eq!(check_ins.per_second(59_999), 4.0 / 59.0);
        assert_eq!(check_ins.per_second(60_000), 1.0 / 59.0);
        assert_eq!(check_ins.per_second(200_000), 0.0);
        for second in 0..300 {
            check_ins.count(second * 1_000);
        }
        assert_eq!(check_ins.per_second(300_000), 1.0);
    }

    #[test]
    fn percentiles_are_of_the_newest_waits() {
        let waits = Waits::new();
        assert_eq!(waits.percentiles_ms(), (None, None));
        waits.took(Duration::from_secs(1 << 40));
        assert_eq!(waits.percentiles_ms().0, Some(f64::from(u32::MAX) / 1000.0));
        for wait_us in 1..=WAITS_MAX as u64 {
            waits.took(Duration::from_micros(wait_us));
        }
        assert_eq!(waits.percentiles_ms(), (Some(0.256), Some(0.507)));
    }
}
