//! How long transactions waited for the database.

use std::sync::Mutex;

use tributary_engine::story::percentile;

use crate::runtime::lock::Locked;

/// Waits that are kept, the newest ones.
const WAITS_MAX: usize = 512;

/// The newest waits, in microseconds.
#[derive(Debug)]
pub(crate) struct Waits {
    newest: Mutex<Ring>,
}

#[derive(Debug)]
struct Ring {
    waits_us: [u32; WAITS_MAX],
    count: usize,
}

impl Waits {
    pub(crate) fn took(&self, wait: std::time::Duration) {
        let mut ring = self.newest.locked();
        let slot = ring.count % WAITS_MAX;
        ring.waits_us[slot] = u32::try_from(wait.as_micros()).unwrap_or(u32::MAX);
        ring.count += 1;
    }

    /// Median and 99th percentile in milliseconds; none before the first wait.
    pub(crate) fn percentiles_ms(&self) -> (Option<f64>, Option<f64>) {
        let ring = self.newest.locked();
        let mut waits_us = ring.waits_us[..ring.count.min(WAITS_MAX)].to_vec();
        drop(ring);
        waits_us.sort_unstable();
        let at = |percent| percentile(&waits_us, percent).map(|wait_us| f64::from(wait_us) / 1000.0);
        (at(50), at(99))
    }
}

impl Default for Waits {
    /// No wait yet.
    fn default() -> Self {
        Self { newest: Mutex::new(Ring { waits_us: [0; WAITS_MAX], count: 0 }) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn percentiles_are_of_the_newest_waits() {
        let waits = Waits::default();
        assert_eq!(waits.percentiles_ms(), (None, None));
        waits.took(Duration::from_secs(1 << 40));
        assert_eq!(waits.percentiles_ms().0, Some(f64::from(u32::MAX) / 1000.0));
        for wait_us in 1..=WAITS_MAX as u64 {
            waits.took(Duration::from_micros(wait_us));
        }
        assert_eq!(waits.percentiles_ms(), (Some(0.256), Some(0.507)));
    }
}
