//! How often something happens at this coordinator per second, in memory.

use std::sync::Mutex;

use crate::runtime::lock::Locked;

/// Seconds over which a rate is averaged.
const WINDOW_S: usize = 60;

/// What happened in the last minute.
#[derive(Debug)]
pub struct Rate {
    seconds: Mutex<[(i64, u32); WINDOW_S]>,
}

impl Default for Rate {
    fn default() -> Self {
        Self { seconds: Mutex::new([(i64::MIN, 0); WINDOW_S]) }
    }
}

impl Rate {
    /// Counts one.
    pub fn count(&self, now_ms: i64) {
        let second = now_ms.div_euclid(1000);
        let mut seconds = self.seconds.locked();
        let slot = &mut seconds[slot_of(second)];
        if slot.0 != second {
            *slot = (second, 0);
        }
        slot.1 += 1;
    }

    /// The mean of the last 60 whole seconds.
    pub fn per_second(&self, now_ms: i64) -> f64 {
        let second = now_ms.div_euclid(1000);
        let window = WINDOW_S as i64;
        let recent = |&(at, _): &(i64, u32)| at < second && at >= second.saturating_sub(window - 1);
        let counted: u32 = self.seconds.locked().iter().filter(|slot| recent(slot)).map(|slot| slot.1).sum();
        // The running second has taken the slot of the oldest one.
        f64::from(counted) / (window - 1) as f64
    }
}

fn slot_of(second: i64) -> usize {
    usize::try_from(second.rem_euclid(WINDOW_S as i64)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_averaged_over_the_last_minute() {
        let rate = Rate::default();
        assert_eq!(rate.per_second(0), 0.0);
        for at_ms in [0, 10, 999, 1_000] {
            rate.count(at_ms);
        }
        assert_eq!(rate.per_second(500), 0.0, "the running second is not over");
        assert_eq!(rate.per_second(1_500), 3.0 / 59.0);
        assert_eq!(rate.per_second(59_999), 4.0 / 59.0);
        assert_eq!(rate.per_second(60_000), 1.0 / 59.0);
        assert_eq!(rate.per_second(200_000), 0.0);
        for second in 0..300 {
            rate.count(second * 1_000);
        }
        assert_eq!(rate.per_second(300_000), 1.0);
    }
}
