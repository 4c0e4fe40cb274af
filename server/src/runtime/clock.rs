//! Time as an argument: the system's, or one that a test moves.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

#[derive(Clone, Debug)]
pub enum Clock {
    System,
    /// A clock that stands still until a test moves it.
    Manual(Arc<ManualClock>),
}

#[derive(Debug)]
pub struct ManualClock {
    now_ms: watch::Sender<i64>,
}

/// Measures a duration for metrics. No decision depends on it, so no test needs to move it.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "a measurement of the machine, which decides nothing")]
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    pub fn seconds(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

impl Clock {
    /// A manual clock that shows `now_ms`, in milliseconds since 1970.
    pub fn manual(now_ms: i64) -> (Self, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock { now_ms: watch::Sender::new(now_ms) });
        (Self::Manual(Arc::clone(&clock)), clock)
    }

    /// Milliseconds since 1970 (UTC).
    pub fn now_ms(&self) -> i64 {
        match self {
            Self::System => system_now_ms(),
            Self::Manual(clock) => *clock.now_ms.borrow(),
        }
    }

    /// Returns when the clock shows `at_ms` or later.
    pub async fn sleep_until(&self, at_ms: i64) {
        match self {
            Self::System => {
                let left_ms = u64::try_from(at_ms.saturating_sub(self.now_ms())).unwrap_or(0);
                tokio::time::sleep(Duration::from_millis(left_ms)).await;
            }
            Self::Manual(clock) => {
                let mut now_ms = clock.now_ms.subscribe();
                // The sender lives in `clock`, so waiting cannot fail.
                let _ = now_ms.wait_for(|now_ms| *now_ms >= at_ms).await;
            }
        }
    }
}

impl ManualClock {
    /// Moves the clock on. A negative number moves it back, as a corrected system clock does.
    pub fn advance_ms(&self, by_ms: i64) {
        self.now_ms.send_modify(|now_ms| *now_ms += by_ms);
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that asks the machine")]
fn system_now_ms() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_manual_clock_wakes_sleepers_only_when_their_time_comes() {
        let (clock, hand) = Clock::manual(1_000);
        clock.sleep_until(1_000).await;
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move {
                clock.sleep_until(1_500).await;
                clock.now_ms()
            }
        });
        hand.advance_ms(499);
        hand.advance_ms(1);
        assert_eq!(sleeper.await.unwrap(), 1_500);
    }
}
