//! Pace steering: when a client without work should check in again, so that a fleet neither overloads nor loses its
//! coordinator (Bonawitz et al. 2019, "Towards federated learning at scale", section 2.3).

use tributary_protocol::seed::Stream;

/// Why a client has no work now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryReason {
    /// It has just reported. Its next round can open at any moment.
    Reported,
    /// No assignment came in its waiting time.
    NothingCame,
    /// No job of its population is running, so none is expected soon.
    NoJob,
    /// The coordinator is stopping or cannot reach its database.
    Unavailable,
}

/// The rate of check-ins per second that the coordinator aims at for idle clients.
const CHECKINS_PER_SECOND: u64 = 100;
/// Longest window in milliseconds. Each client checks in about this often at least.
const WINDOW_MS_MAX: u64 = 600_000;

/// Time to wait before the next check-in, in milliseconds. It is uniform between half and one and a half times a centre
/// that grows with the population, so that clients that were answered together do not return together.
#[must_use]
pub fn retry_window_ms(reason: RetryReason, clients: u64, stream: &mut Stream) -> u64 {
    let fleet_ms = clients.saturating_mul(1000) / CHECKINS_PER_SECOND;
    let centre_ms = match reason {
        // A held check-in costs next to nothing, so a client that may be drawn soon returns at once.
        RetryReason::Reported => return 0,
        RetryReason::NothingCame => fleet_ms.clamp(1_000, WINDOW_MS_MAX),
        RetryReason::NoJob => fleet_ms.clamp(5_000, WINDOW_MS_MAX),
        RetryReason::Unavailable => fleet_ms.clamp(2_000, WINDOW_MS_MAX),
    };
    centre_ms / 2 + stream.below(centre_ms)
}

#[cfg(test)]
mod tests {
    use tributary_protocol::seed::Seed;

    use super::*;

    #[test]
    fn windows_are_spread_and_grow_with_the_fleet() {
        let mut stream = Seed(1).stream();
        let mut draw = |reason, clients| retry_window_ms(reason, clients, &mut stream);
        assert_eq!(draw(RetryReason::Reported, 1_000_000), 0);
        for (clients, centre_ms) in [(1, 1_000), (1000, 10_000), (10_000_000, 600_000)] {
            let windows: Vec<_> = (0..1000).map(|_| draw(RetryReason::NothingCame, clients)).collect();
            assert!(windows.iter().all(|window| (centre_ms / 2..centre_ms * 3 / 2).contains(window)));
            let mean = windows.iter().sum::<u64>() / 1000;
            assert!(mean.abs_diff(centre_ms) < centre_ms / 20, "{mean} is not about {centre_ms}");
        }
        assert!(draw(RetryReason::NoJob, 1) >= 2500);
    }
}
