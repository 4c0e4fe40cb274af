//! How long to wait before a request is repeated.

use std::time::Duration;

use tributary_protocol::seed::Stream;

/// Attempts of one request, the first included.
pub(crate) const ATTEMPTS_MAX: u32 = 6;
/// Mean of the first pause, in milliseconds.
const BASE_MS: u64 = 200;
/// Longest retry window that is believed, in milliseconds: a day. A wrong one must not put a client to sleep for good.
const WINDOW_MAX_MS: u64 = 86_400_000;
/// Longest mean of a pause, in milliseconds.
const CAP_MS: u64 = 30_000;

/// The pause after failed attempt `attempt`, counted from 1. Without a retry window of the coordinator its mean doubles
/// with each attempt, and it is drawn from half to one and a half times the mean: clients that failed together must not
/// return together. A retry window is waited for in full, plus up to half of it.
pub(crate) fn pause(attempt: u32, window_ms: Option<u64>, stream: &mut Stream) -> Duration {
    let pause_ms = match window_ms {
        Some(window_ms) => {
            let window_ms = window_ms.min(WINDOW_MAX_MS);
            window_ms + stream.below(window_ms / 2 + 1)
        }
        None => {
            let mean_ms = (BASE_MS << attempt.saturating_sub(1).min(16)).min(CAP_MS);
            mean_ms / 2 + stream.below(mean_ms)
        }
    };
    Duration::from_millis(pause_ms)
}

#[cfg(test)]
mod tests {
    use tributary_protocol::seed::Seed;

    use super::*;

    #[test]
    fn pauses_double_up_to_a_cap_and_are_spread() {
        let mut stream = Seed(1).stream();
        for (attempt, mean_ms) in [(1, 200), (2, 400), (5, 3_200), (9, 30_000), (40, 30_000)] {
            let pauses: Vec<_> = (0..200).map(|_| pause(attempt, None, &mut stream).as_millis()).collect();
            assert!(pauses.iter().all(|pause| (mean_ms / 2..mean_ms * 3 / 2).contains(pause)), "attempt {attempt}");
            assert!(pauses.iter().min() < pauses.iter().max());
        }
    }

    #[test]
    fn a_retry_window_is_never_cut_short() {
        let mut stream = Seed(1).stream();
        for _ in 0..200 {
            let pause = pause(1, Some(1_000), &mut stream).as_millis();
            assert!((1_000..=1_500).contains(&pause));
        }
        assert_eq!(pause(1, Some(0), &mut stream), Duration::ZERO);
        assert!(pause(1, Some(u64::MAX), &mut stream).as_millis() <= u128::from(WINDOW_MAX_MS * 3 / 2));
    }
}
