//! The pace of links that go through the coordinator: how many bytes of a population pass in a second.

use std::collections::HashMap;
use std::sync::Mutex;

use tributary_protocol::id::Name;

use crate::runtime::lock::Locked;

/// Microseconds of bytes that a population may be ahead of its pace: no timer is as fine as a piece on a fast line.
const AHEAD_US: i64 = 20_000;

/// When the bytes of each population that were taken so far have passed. Links share it in the order in which they ask.
#[derive(Debug)]
pub(crate) struct LinkPace {
    bytes_per_second: u64,
    passed_at_us: Mutex<HashMap<Name, i64>>,
}

impl LinkPace {
    pub(super) fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: bytes_per_second.max(1), passed_at_us: Mutex::default() }
    }

    /// Takes so many bytes. They may be sent at the time that is returned, in milliseconds.
    pub(crate) fn take(&self, population: &Name, bytes: usize, now_ms: i64) -> i64 {
        let now_us = now_ms.saturating_mul(1_000);
        let cost_us = i64::try_from(bytes as u128 * 1_000_000 / u128::from(self.bytes_per_second)).unwrap_or(i64::MAX);
        let mut passed = self.passed_at_us.locked();
        let passed_at_us = passed.entry(population.clone()).or_insert(now_us);
        // Bytes that nobody sent in the past are not saved up.
        *passed_at_us = (*passed_at_us).max(now_us).saturating_add(cost_us);
        (*passed_at_us).saturating_sub(AHEAD_US).max(now_us).div_euclid(1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_a_population_share_its_pace() {
        let pace = LinkPace::new(1_000_000);
        let [one, other]: [Name; 2] = ["one", "other"].map(|name| name.parse().unwrap());
        // 100,000 bytes take 100 ms, of which 20 may be ahead.
        let taken: Vec<i64> = (0..4).map(|_| pace.take(&one, 100_000, 5_000)).collect();
        assert_eq!(taken, [5_080, 5_180, 5_280, 5_380]);
        assert_eq!(pace.take(&other, 1_000, 5_000), 5_000, "another population is not held up");
        assert_eq!(pace.take(&one, 1_000, 9_000), 9_000, "what was not sent is not saved up");
        assert_eq!(pace.take(&one, 100_000, 9_000), 9_081);
    }
}
