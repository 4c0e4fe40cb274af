//! Token buckets: how often each caller may ask.
//!
//! A bucket is one number (the generic cell rate algorithm): when it would be full again. A caller that asked nothing
//! for a minute has a full bucket, which need not be remembered.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::runtime::lock::Locked;

const MINUTE_MS: i64 = 60_000;
/// Buckets after whose number full ones are looked for and forgotten.
const FORGET_FROM: usize = 1_024;

#[derive(Debug)]
pub(super) struct Buckets<K: Ord> {
    /// Microseconds that one request costs; a bucket holds a minute.
    cost_us: i64,
    state: Mutex<State<K>>,
}

#[derive(Debug)]
struct State<K: Ord> {
    /// When each bucket is full again, in microseconds since 1970.
    full_at_us: BTreeMap<K, i64>,
    /// Number of buckets at which full ones are forgotten next.
    forget_at: usize,
}

impl<K: Ord> Buckets<K> {
    /// Buckets of this many requests, which a minute fills.
    pub(super) fn new(per_minute: u32) -> Self {
        let cost_us = MINUTE_MS * 1_000 / i64::from(per_minute.max(1));
        Self { cost_us, state: Mutex::new(State { full_at_us: BTreeMap::new(), forget_at: FORGET_FROM }) }
    }

    /// Takes one from a caller's bucket. The error is the time in milliseconds until there is one again.
    pub(super) fn take(&self, caller: K, now_ms: i64) -> Result<(), u64> {
        let now_us = now_ms.saturating_mul(1_000);
        let most_us = MINUTE_MS * 1_000;
        let mut state = self.state.locked();
        let full_at_us = state.full_at_us.get(&caller).copied().unwrap_or(now_us).max(now_us);
        // No bucket needs longer than a minute: the clock was set back.
        let full_at_us = if full_at_us - now_us > most_us { now_us } else { full_at_us };
        let after_us = full_at_us.saturating_add(self.cost_us);
        if after_us - now_us > most_us {
            let wait_us = after_us - now_us - most_us;
            return Err(u64::try_from(wait_us).unwrap_or(0).div_ceil(1_000));
        }
        state.full_at_us.insert(caller, after_us);
        if state.full_at_us.len() >= state.forget_at {
            state.full_at_us.retain(|_, full_at_us| *full_at_us > now_us);
            state.forget_at = (2 * state.full_at_us.len()).max(FORGET_FROM);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_000_000;

    fn taken(buckets: &Buckets<u32>, caller: u32, now_ms: i64) -> u32 {
        let mut taken = 0;
        while buckets.take(caller, now_ms).is_ok() {
            taken += 1;
        }
        taken
    }

    #[test]
    fn a_caller_may_save_up_a_minute_and_has_a_steady_rate_after_that() {
        let buckets = Buckets::new(60);
        assert_eq!(taken(&buckets, 1, NOW_MS), 60);
        assert_eq!(buckets.take(1, NOW_MS), Err(1_000));
        assert_eq!(buckets.take(1, NOW_MS + 400), Err(600));
        assert_eq!(taken(&buckets, 1, NOW_MS + 5_000), 5);
        assert_eq!(taken(&buckets, 2, NOW_MS + 5_000), 60, "each has its own");
        assert_eq!(taken(&buckets, 1, NOW_MS + 10 * MINUTE_MS), 60, "no more than a minute is saved up");
    }

    #[test]
    fn a_clock_that_jumps_neither_locks_a_caller_out_nor_lets_it_ask_for_ever() {
        let buckets = Buckets::new(60);
        assert_eq!(taken(&buckets, 1, NOW_MS), 60);
        assert_eq!(taken(&buckets, 1, NOW_MS - 864_000_000), 60);
        assert_eq!(taken(&buckets, 1, NOW_MS + 864_000_000), 60);
    }

    #[test]
    fn full_buckets_are_forgotten() {
        let buckets = Buckets::new(60);
        for caller in 0..FORGET_FROM as u32 - 1 {
            buckets.take(caller, NOW_MS).unwrap();
        }
        buckets.take(1 << 20, NOW_MS + MINUTE_MS).unwrap();
        assert_eq!(buckets.state.lock().unwrap().full_at_us.len(), 1);
    }
}
